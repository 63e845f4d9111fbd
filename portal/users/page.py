"""What the pages of users show."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from urllib.parse import quote, urlencode

from django.db.models import Count, Max, Q, QuerySet

from base.accounts.services import live_tokens
from base.core import words
from base.core.errors import MissingUser
from base.core.signals import NO_JOBS, LiveJobs, about_jobs
from base.models import ApiToken, User
from base.roles import ROLES, Role
from clusters.models import VcGrant, VirtualCluster
from clusters.users.queries import load_user
from clusters.vcs.grants import grants_of, in_order, vc_names
from clusters.vcs.rules import DEFAULT_VC

SIZE = 50
MOST_SEARCHED = 200  # characters: no name or address is longer, and SQLite searches for no more than 50,000


@dataclass(frozen=True, slots=True)
class UserQuery:
    """The address of the list. ``after`` and ``before`` are names: the list is in order of names."""

    q: str = ""
    vc: str = ""
    after: str = ""
    before: str = ""

    @classmethod
    def read(cls, params: Mapping[str, str]) -> UserQuery:
        texts = {name: params.get(name, "").replace("\x00", "").strip() for name in ("q", "vc", "after", "before")}
        return cls(**texts)

    def address(self, **changes: str) -> str:
        values = {"q": self.q, "vc": self.vc, **changes}
        filters = {name: value for name, value in values.items() if value}
        return f"/users?{urlencode(filters)}" if filters else "/users"


@dataclass(frozen=True, slots=True)
class UserRow:
    """One user in the list. ``vcs`` are what a user who is no admin may use, ``jobs`` those that have not ended."""

    user: User
    vcs: list[str]
    jobs: LiveJobs
    seen_at: datetime | None

    @property
    def url(self) -> str:
        return user_url(self.user.username)


@dataclass(frozen=True, slots=True)
class UserForm:
    """What somebody has typed, without the passwords, and what is wrong with it."""

    username: str = ""
    email: str = ""
    role: str = Role.USER
    owner: str = ""  # of a service account
    active: bool = True
    vcs: tuple[str, ...] = (DEFAULT_VC,)
    priorities: Mapping[str, str] = field(default_factory=dict)  # by virtual cluster; empty: as all its users
    quota: str = ""  # of the store, as words.quota_in reads it; empty: none of their own
    error: str = ""


@dataclass(frozen=True, slots=True)
class Edited:
    """One user as their page shows them. ``tokens``: how many a new password would end."""

    row: UserRow
    jobs_ended: int
    tokens: int
    groups: tuple[str, ...]
    priorities: Mapping[str, int]

    @property
    def quota(self) -> str:
        return words.quota_text(self.row.user.store_quota)


def users_page(query: UserQuery, me: User, **more: Any) -> dict[str, Any]:
    """The context of users/users.html. Eleven queries, however many users there are."""
    users = _filtered(query)
    shown, newer, older = _slice(users, query)
    rows = _rows(shown)
    total = users.count()
    first = users.filter(username__lt=shown[0].username).count() + 1 if rows else 0
    return {
        "nav": "users",
        "me": me.username,
        "query": query,
        "rows": rows,
        "total": total,
        "first": first,
        "last": first + len(rows) - 1,
        "newer": query.address(before=shown[0].username) if newer and rows else "",
        "older": query.address(after=shown[-1].username) if older and rows else "",
        "all_vcs": vc_names(),
        "facts": _facts(),
        "form": UserForm(),
        "roles": ROLES,
        **more,
    }


def edited(username: str) -> Edited:
    """Raises MissingUser."""
    record = load_user(username)
    if record is None:
        raise MissingUser(f"There is no user {username}.")
    tokens = live_tokens(record.user).count()
    groups = tuple(name for name in record.groups if name not in record.vcs)
    return Edited(_rows([record.user])[0], about_jobs().count_ended(username), tokens, groups, record.priorities)


def priority_fields(shown: Edited, form: UserForm) -> list[tuple[str, str, int]]:
    """Each virtual cluster that the user may use, what is typed for it, and what all its users may."""
    every = dict(VirtualCluster.objects.values_list("name", "user_priority"))
    return [(vc, form.priorities.get(vc, ""), every.get(vc, 0)) for vc in shown.row.vcs]


def user_url(username: str) -> str:
    return f"/users/{quote(username)}"


def _filtered(query: UserQuery) -> QuerySet[User]:
    users = User.objects.all()
    if query.q:
        text = query.q[:MOST_SEARCHED]
        users = users.filter(Q(username__icontains=text) | Q(email__icontains=text))
    if query.vc and query.vc != DEFAULT_VC:
        people = VcGrant.objects.filter(vc__name=query.vc).values("username")
        users = users.filter(Q(is_admin=True) | Q(username__in=people))
    return users


def _slice(users: QuerySet[User], query: UserQuery) -> tuple[list[User], bool, bool]:
    """Users in order of names, whether there are some before them, and whether some after."""
    if query.before:
        rows = list(users.filter(username__lt=query.before).order_by("-username")[: SIZE + 1])
        return rows[:SIZE][::-1], len(rows) > SIZE, True
    if query.after:
        users = users.filter(username__gt=query.after)
    rows = list(users.order_by("username")[: SIZE + 1])
    return rows[:SIZE], bool(query.after), len(rows) > SIZE


def _rows(users: list[User]) -> list[UserRow]:
    names = [user.username for user in users]
    vcs, jobs = grants_of(names), about_jobs().live("username", names)
    used = dict(ApiToken.objects.filter(user__in=users).order_by().values_list("user_id").annotate(Max("last_used_at")))
    return [_row(user, vcs[user.username], jobs, used.get(user.pk)) for user in users]


def _row(user: User, also: Iterable[str], jobs: Mapping[str, LiveJobs], used: datetime | None) -> UserRow:
    seen = max((at for at in (user.last_login, used) if at), default=None)
    return UserRow(user, in_order({DEFAULT_VC, *also}), jobs.get(user.username, NO_JOBS), seen)


def _facts() -> dict[str, int]:
    people = User.objects.aggregate(people=Count("id", filter=Q(owner="")), admins=Count("id", filter=Q(is_admin=True)))
    return {**people, "now": about_jobs().count_users_running()}
