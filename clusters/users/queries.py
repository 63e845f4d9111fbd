"""Reads users and what they may use. Grants are rows of this app, users are rows of ``portal``."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from clusters.models import Group, GroupMember, VcGrant, VirtualCluster
from clusters.vcs.rules import ADMIN_GROUP, DEFAULT
from portal.core.signals import NO_JOBS, LiveJobs, about_jobs
from portal.models import User


@dataclass(frozen=True, slots=True)
class UserRecord:
    """``vcs``: where the user may submit, ``default`` first. ``is_granted``: an admin has set their virtual clusters
    (v1 left the key out before that). ``groups`` holds the virtual clusters too, as each of them is a group."""

    username: str
    email: str
    admin: bool
    vcs: tuple[str, ...]
    created_at: datetime
    jobs_live: int = 0
    groups: tuple[str, ...] = ()
    is_granted: bool = False
    is_active: bool = True
    has_github_pat: bool = False
    extension: dict[str, Any] = field(default_factory=dict)
    store_quota: int | None = None


def load_users() -> list[UserRecord]:
    """All users, by name. Six queries, however many there are."""
    return _records(User.objects.order_by("username"))


def load_user(username: str) -> UserRecord | None:
    found = _records(User.objects.filter(username=username)) if "\x00" not in username else []
    return found[0] if found else None


def vc_names() -> list[str]:
    """``default`` first, then by name."""
    return in_order(VirtualCluster.objects.values_list("name", flat=True))


def in_order(names: Iterable[str]) -> list[str]:
    return sorted(names, key=lambda name: (name != DEFAULT, name))


def _records(users: Iterable[User]) -> list[UserRecord]:
    rows: Sequence[User] = list(users)
    if not rows:
        return []
    names = [user.username for user in rows]
    only = {"username__in": names} if len(names) == 1 else {}  # a long list of names is dearer than all rows
    granted, joined = defaultdict(set), defaultdict(set)
    for name, vc in VcGrant.objects.filter(**only).values_list("username", "vc__name"):
        granted[name].add(vc)
    for name, group in GroupMember.objects.filter(**only).values_list("username", "group__name"):
        joined[name].add(group)
    vcs, groups = vc_names(), list(Group.objects.filter(vc=None).order_by("name").values_list("name", flat=True))
    live = about_jobs().live("username", names)
    return [_record(user, granted.get(user.username), joined[user.username], vcs, groups, live) for user in rows]


def _record(
    user: User, granted: set[str] | None, joined: set[str], vcs: list[str], groups: list[str], live: dict[str, LiveJobs]
) -> UserRecord:
    mine = vcs if user.is_admin else in_order({DEFAULT, *(granted or ())})
    also = [*groups, ADMIN_GROUP] if user.is_admin else sorted(joined)
    return UserRecord(
        user.username,
        user.email,
        user.is_admin,
        tuple(mine),
        user.created_at,
        live.get(user.username, NO_JOBS).all,
        (*mine, *also),
        user.is_admin or granted is not None,
        user.is_active,
        user.has_github_pat,
        user.extension,
        user.store_quota,
    )
