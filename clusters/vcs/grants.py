"""Who may use which virtual cluster: everybody ``default``, admins all of them, others those that an admin granted."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable

from django.db.models import Q, QuerySet

from clusters.models import VcGrant, VirtualCluster
from clusters.vcs.rules import DEFAULT_VC


def usable_by(username: str, *, is_admin: bool) -> QuerySet[VirtualCluster]:
    """Returns the virtual clusters to which the user may submit."""
    every = VirtualCluster.objects.all()
    return every if is_admin else every.filter(Q(name=DEFAULT_VC) | Q(grants__username=username)).distinct()


def may_use(username: str, vc: str, *, is_admin: bool) -> bool:
    return usable_by(username, is_admin=is_admin).filter(name=vc).exists()


def granted(usernames: Collection[str] | None = None) -> dict[str, set[str]]:
    """Returns the virtual clusters that were granted to each of these users, or to all (None)."""
    rows = VcGrant.objects.all() if usernames is None else VcGrant.objects.filter(username__in=set(usernames))
    vcs: dict[str, set[str]] = defaultdict(set)
    for username, vc in rows.values_list("username", "vc__name"):
        vcs[username].add(vc)
    return vcs


def vc_names() -> list[str]:
    """Returns the names of all virtual clusters, ``default`` first."""
    return in_order(VirtualCluster.objects.values_list("name", flat=True))


def in_order(names: Iterable[str]) -> list[str]:
    return sorted(names, key=lambda name: (name != DEFAULT_VC, name))
