"""Shows a user's share of the GPUs: what is theirs in each virtual cluster, what of it is used and borrowed, and how
many more they could have now."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from math import inf

from base.models import User
from clusters.placement.shares import Quota, quotas
from clusters.taken import sums
from clusters.vcs.queries import load_rights
from jobs.submitting.choices import vcs_of
from portal.nodes.rows import NodeRoom

MOST = 8  # virtual clusters


class VcShare:
    """What a user has in one virtual cluster: ``mine`` are the user's GPUs, ``used`` everybody's, ``free`` how many
    more the user could have now, as far as guarantee, ceiling and cap decide."""

    def __init__(self, vc: str, right: Quota, mine: int, used: int, nodes: Iterable[NodeRoom]) -> None:
        self.vc, self.mine, self.used = vc, mine, used
        self.guaranteed = int(right.guarantee.get("gpu", 0))
        self.borrowed = max(0, used - self.guaranteed)
        free = sum(node.free_gpus for node in nodes if node.view.serves(vc))
        cap = inf if right.user_gpus is None else right.user_gpus - mine
        most = 0 if right.stopped else min(free, right.ceiling.get("gpu", inf) - used, cap)
        self.free = max(0, int(most))


def shares(user: User, nodes: Sequence[NodeRoom], held: Iterable[tuple[str, str, Collection[str]]]) -> list[VcShare]:
    """The shares in the virtual clusters that the user may use, those first in which they have GPUs. ``held`` has the
    virtual cluster, node and GPUs of each of the user's tasks. Three queries."""
    mine = Counter[str]()
    for vc, _, gpus in held:
        mine[vc] += len(gpus)
    used = {vc: gpus or 0 for vc, _, _, gpus in sums("vc")}
    rights = _rights(nodes)
    names = list(dict.fromkeys([*sorted(mine), *vcs_of(user)]))[:MOST]
    return [VcShare(vc, rights.get(vc, Quota()), mine[vc], used.get(vc, 0), nodes) for vc in names]


def _rights(nodes: Sequence[NodeRoom]) -> Mapping[str, Quota]:
    whole: dict[str, dict[str, float]] = {"": {"gpu": 0}}
    for node in nodes:
        part = whole.setdefault(node.view.dedicated_to, {"gpu": 0})
        part["gpu"] += len(node.view.gpus)
    return quotas(load_rights(), whole.pop(""), whole)
