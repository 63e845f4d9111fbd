"""Reads users and what they may use. Grants are rows of this app, users are rows of ``portal``."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from base.core import words
from base.core.errors import NotFound
from base.core.signals import NO_JOBS, LiveJobs, about_jobs
from base.models import User
from clusters.models import Group, GroupMember
from clusters.vcs import grants
from clusters.vcs.grants import in_order, vc_names
from clusters.vcs.rules import ADMIN_GROUP, DEFAULT_VC


@dataclass(frozen=True, slots=True)
class UserRecord:
    """``vcs``: where the user may submit, ``default`` first. ``is_granted``: an admin has set their virtual clusters
    (v1 left the key out before that). ``groups`` holds the virtual clusters too, as each of them is a group. ``jobs``
    are those that have not ended. ``priorities``: how far up they may set them, where their grants say it."""

    user: User
    vcs: tuple[str, ...]
    groups: tuple[str, ...]
    is_granted: bool
    jobs: LiveJobs
    priorities: Mapping[str, int]


def load_users() -> list[UserRecord]:
    """All users, by name. Six queries, however many there are."""
    return _records(User.objects.order_by("username"))


def load_user(username: str) -> UserRecord | None:
    records = _records(User.objects.filter(username=username)) if "\x00" not in username else []
    return records[0] if records else None


def find_service_account(username: str) -> User:
    """Raises NotFound, also for the name of somebody with a password."""
    if (user := User.objects.filter(username=username.replace("\x00", "")).exclude(owner="").first()) is None:
        raise NotFound(f"There is no service account {words.visible(username[:64])}.")
    return user


def _records(users: Iterable[User]) -> list[UserRecord]:
    rows: Sequence[User] = list(users)
    if not rows:
        return []
    names = [user.username for user in rows]
    only = {"username__in": names} if len(names) == 1 else {}  # a long list of names is dearer than all rows
    granted, joined = grants.grants_of(names if only else None), defaultdict(set)
    for name, group in GroupMember.objects.filter(**only).values_list("username", "group__name"):
        joined[name].add(group)
    vcs, groups = vc_names(), list(Group.objects.filter(vc=None).order_by("name").values_list("name", flat=True))
    live = about_jobs().live("username", names)
    return [_record(user, granted.get(user.username), joined[user.username], vcs, groups, live) for user in rows]


def _record(
    user: User,
    granted: Mapping[str, int | None] | None,
    joined: set[str],
    vcs: list[str],
    groups: list[str],
    live: dict[str, LiveJobs],
) -> UserRecord:
    mine = vcs if user.is_admin else in_order({DEFAULT_VC, *(granted or ())})
    also = [*groups, ADMIN_GROUP] if user.is_admin else sorted(joined)
    jobs = live.get(user.username, NO_JOBS)
    most = {vc: priority for vc, priority in (granted or {}).items() if priority is not None}
    return UserRecord(user, tuple(mine), (*mine, *also), user.is_admin or granted is not None, jobs, most)
