"""Who may use which virtual cluster, and how far up they may set the priority of a job in it: everybody ``default``,
admins all of them and to the top, its managers to the top, others what was granted."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable

from django.db.models import Case, FilteredRelation, IntegerField, Q, QuerySet, Value, When
from django.db.models.functions import Coalesce

from clusters.models import VcGrant, VirtualCluster
from clusters.vcs.rules import DEFAULT_VC, MOST_PRIORITY


def usable_by(username: str, *, is_admin: bool) -> QuerySet[VirtualCluster]:
    """Returns the virtual clusters to which the user may submit."""
    mine = FilteredRelation("grants", condition=Q(grants__username=username))  # one at most
    every = VirtualCluster.objects.annotate(mine=mine)
    return every if is_admin else every.filter(Q(name=DEFAULT_VC) | Q(mine__isnull=False))


def may_use(username: str, vc: str, *, is_admin: bool) -> bool:
    return usable_by(username, is_admin=is_admin).filter(name=vc).exists()


def manages(username: str, vc: str) -> bool:
    """Answers base.core.signals."""
    return VcGrant.objects.filter(username=username, vc__name=vc, manages=True).exists()


def managed_by(username: str) -> list[str]:
    """Returns the names of the virtual clusters that the user manages."""
    return in_order(VcGrant.objects.filter(username=username, manages=True).values_list("vc__name", flat=True))


def priorities(username: str, *, is_admin: bool) -> dict[str, int]:
    """Returns how far up the user may set the priority of a job, by each virtual cluster that they may use: as far as
    their grant says, or else as all its users."""
    top = Value(MOST_PRIORITY)
    often = Coalesce("mine__priority", "user_priority")
    granted = Case(When(mine__manages=True, then=top), default=often, output_field=IntegerField())
    most = top if is_admin else granted
    rows = {DEFAULT_VC: 0, **dict(usable_by(username, is_admin=is_admin).values_list("name", most))}
    return {name: rows[name] for name in in_order(rows)}


def most_priority(username: str, vc: str, *, is_admin: bool) -> int:
    return priorities(username, is_admin=is_admin).get(vc, 0)


def grants_of(usernames: Collection[str] | None = None) -> dict[str, dict[str, int | None]]:
    """Returns the virtual clusters that were granted to each of these users, or to all (None), with how far up they may
    set the priority of a job there where the grant says it."""
    rows = VcGrant.objects.all() if usernames is None else VcGrant.objects.filter(username__in=set(usernames))
    vcs: dict[str, dict[str, int | None]] = defaultdict(dict)
    for username, vc, priority in rows.values_list("username", "vc__name", "priority"):
        vcs[username][vc] = priority
    return vcs


def vc_names() -> list[str]:
    """Returns the names of all virtual clusters, ``default`` first."""
    return in_order(VirtualCluster.objects.values_list("name", flat=True))


def in_order(names: Iterable[str]) -> list[str]:
    return sorted(names, key=lambda name: (name != DEFAULT_VC, name))
