"""Reads nodes and what is taken on them."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from threading import Lock
from typing import Any

from django.conf import settings
from django.db import connection
from django.db.models import F, QuerySet
from django.utils import timezone

from base.core import words
from base.core.bulk import all_values, one_row, text_of
from clusters.models import Allocation, Node
from clusters.nodes.refusals import marks_of, refused_ports_of
from clusters.placement.fit import OWN_LABEL, NodeView, in_force
from clusters.placement.shares import Amount, Hold, add, of_gpus, pool_totals
from clusters.taken import taken_by_others, taken_on


def load_nodes() -> list[NodeView]:
    """All nodes by name. Allocations and what quarantine holds count as taken, and only marks in force are there."""
    return in_force(take_stock().nodes, timezone.now())


@dataclass(frozen=True, slots=True)
class Stock:
    """All nodes by name, and what is taken on them, as a Ledger has it."""

    nodes: Sequence[NodeView]
    holds: Mapping[str, Hold]
    use: Mapping[str, Amount]
    totals: tuple[Amount, Mapping[str, Amount]]


def take_stock() -> Stock:
    """What there is now. Two queries where nothing has changed since this process did so last."""
    with _lock:
        nodes = _ledger.nodes()
        return Stock(nodes, _ledger.holds(), _ledger.use(), _ledger.pool_totals())


def registered_nodes() -> list[Node]:
    """All nodes by name, with the columns that a NodeView depends on. One query where none has changed."""
    with _lock:
        return list(_ledger.registered())


def load_idle_nodes() -> list[NodeView]:
    """All nodes by name as if nothing ran on them: what a job could get at best. They say no images. One query, and
    another one where nodes have changed."""
    with _lock:
        return list(_ledger.idle())


def forget() -> None:
    """Drop the nodes that are remembered for that. For tests, whose databases begin anew."""
    global _ledger
    _ledger = Ledger()


_IDLE: Mapping[str, Any] = {
    "used_cpus": 0,
    "used_memory_mb": 0,
    **dict.fromkeys(("used_gpus", "images"), frozenset()),
}


def views_of(nodes: Sequence[Node]) -> list[NodeView]:
    """These nodes as pages show them: as in ``load_nodes``, but without the ports that are taken, and at the same cost
    however many tasks run."""
    taken = taken_on(nodes)
    views = [
        _and_held(_view(node, [taken[node.pk]], node.dedicated_to.name if node.dedicated_to else ""), node)
        for node in nodes
    ]
    return in_force(views, timezone.now())


# A field of NodeView that has the name of a column is that column; these are converted by ``_view``.
_CONVERTED = ("gpus", "fixed_ports", "held", "images", "marks", "refused_ports", "labels", "dedicated_to")
_TAKEN_OVER = sorted(
    {field.name for field in fields(NodeView)} & {field.name for field in Node._meta.concrete_fields} - {*_CONVERTED}
)
# All that a NodeView depends on. The scheduler compares these as the database has them, 1,000 rows in a few
# milliseconds, and only a node that differs is read and decoded again (``images_at`` stands for the long ``images``).
_NODE = (
    *("id", *_TAKEN_OVER, "gpus", "fixed_ports", "held", "images_at", "marks", "refused_ports", "labels"),
    *("others", "closed"),
    *("endpoint", "tls_dir", "status", "health", "unreachable_since", "gone_at", "dedicated_to_id"),
)
# Moments as texts: nobody reads them here, and to make datetimes of a thousand takes a millisecond.
_MOMENTS = ("images_at", "unreachable_since", "gone_at")
_RAW = ", ".join(f"CAST({each} AS TEXT)" if each in _MOMENTS else each for each in _NODE)
_RAW_NODES = f"SELECT {_RAW} FROM {Node._meta.db_table} ORDER BY name"  # noqa: S608 - names of our own
_ALLOCATIONS = """
    SELECT id, node_id, owner, vc, cpus, memory_mb, gpu_ids, ports FROM clusters_allocation WHERE id >= %s
"""


def _line(*values: Any) -> tuple[Any, ...]:
    return values


class Ledger:
    """Nodes and what is taken on them, remembered from pass to pass. Allocation rows never change, so a pass reads only
    their ids and the rows that it has not seen yet."""

    def __init__(self) -> None:
        self._text, self._raw = "", dict[int, tuple[object, ...]]()  # of all nodes, and of each
        self._nodes: dict[int, Node] = {}  # by id, in order of their names
        self.known: list[Node] = []  # the same, as they were read last; another list when one of them has changed
        self.views: list[NodeView] = []  # as of the last ``nodes``
        self._rows: dict[int, tuple[int, str, Hold]] = {}  # by id: its node, its owner, what it holds
        self._holds: dict[str, Hold] = {}
        self._use: dict[str, dict[str, float]] = {}
        self._wholes: tuple[Amount, Mapping[str, Amount]] | None = None
        self._of_node: dict[int, set[int]] = {}  # ids of rows
        self._known: tuple[object, ...] = ()  # count, last id and sum of the ids
        self._views: dict[int, NodeView] = {}  # dropped when the node or what is taken on it has changed
        self._idle: tuple[list[Node], list[NodeView]] = [], []  # these nodes as if nothing ran on them

    def registered(self) -> list[Node]:
        """All nodes by name, as they are now, with the columns that a NodeView depends on. The list is the same as the
        last time when none of them has changed."""
        if (text := text_of(_RAW, f"FROM {Node._meta.db_table}")) == self._text:
            return self.known
        with connection.cursor() as cursor:
            cursor.execute(_RAW_NODES)
            raw = {row[0]: row for row in cursor.fetchall()}
        changed = [id for id, row in raw.items() if self._raw.get(id) != row]
        for start in range(0, len(changed), 500):
            for node in _read("images").filter(id__in=changed[start : start + 500]):
                self._nodes[node.pk] = node
        gone = self._raw.keys() - raw.keys()
        for id in [*changed, *gone]:
            self._views.pop(id, None)
        if changed or gone:
            self._wholes, self._use = None, {}
            self._raw = {id: row for id, row in raw.items() if id in self._nodes}
            self._nodes = {id: self._nodes[id] for id in self._raw}
            self.known = list(self._nodes.values())
        self._text = text
        return self.known

    def nodes(self, *, with_held: bool = True, again: bool = True) -> list[NodeView]:
        """``with_held``: what quarantine held when the scheduler last wrote it down counts as taken too. Not ``again``:
        the nodes are those that ``registered`` has just read."""
        nodes = self.registered() if again else self.known
        self._refresh()
        for node in nodes:
            if node.pk not in self._views:
                holds = [self._rows[id][2] for id in self._of_node.get(node.pk, ())]
                self._views[node.pk] = _view(node, holds, owner_of(node))
        views = self.views = [self._views[node.pk] for node in nodes]
        return [_and_held(view, node) for view, node in zip(views, nodes, strict=True)] if with_held else views

    def idle(self) -> list[NodeView]:
        """All nodes as if nothing ran on them, without images."""
        if (nodes := self.registered()) is not self._idle[0]:
            self._idle = nodes, [replace(_view(node, [], owner_of(node)), **_IDLE) for node in nodes]
        return self._idle[1]

    def holds(self) -> Mapping[str, Hold]:
        """What each owner holds, as of the last ``nodes``."""
        return self._holds

    def use(self) -> Mapping[str, Amount]:
        """What each virtual cluster uses, as of the last ``nodes``."""
        if not self._use:
            for node_id, _, hold in self._rows.values():
                self._count(node_id, hold)
        return self._use

    def pool_totals(self) -> tuple[Amount, Mapping[str, Amount]]:
        """What the pool has, and the nodes dedicated to each virtual cluster, as of the last ``nodes``."""
        if self._wholes is None:
            self._wholes = pool_totals(self._views.values())
        return self._wholes

    def _refresh(self) -> None:
        """Ids only grow, so another set of rows has another count, sum or last id."""
        if not self._rows:  # all of them at once
            before, self._holds, self._use = self._holds, {}, {}
            self._learn(0)
            if self._holds == before:
                self._holds = before  # the same object, as nothing has changed
            self._known = len(self._rows), max(self._rows, default=None), sum(self._rows) or None
            return
        number, _, total = seen = one_row("SELECT count(*), max(id), sum(id) FROM clusters_allocation")
        if seen == self._known:
            return
        self._known = seen
        # What was handed out stays as it is: it may be compared with what is handed out later.
        self._holds, self._use = dict(self._holds), {vc: dict(use) for vc, use in self._use.items()}
        self._learn(max(self._rows) + 1)
        if (len(self._rows), sum(self._rows)) == (number, total):
            return  # some have come, and none has gone
        ids = set(Allocation.objects.values_list("id", flat=True))
        for id in self._rows.keys() - ids:
            self._forget(id)
        if missing := sorted(ids - self._rows.keys()):
            self._learn(missing[0])

    def _learn(self, first: int) -> None:
        """Those that are not known, from this id on."""
        for id, node_id, owner, vc, *what in all_values(Allocation, _line, _ALLOCATIONS, first):
            if id not in self._rows:
                self._remember(id, node_id, owner, vc, what)

    def _remember(self, id: int, node_id: int, owner: str, vc: str, what: list[Any]) -> None:
        cpus, memory_mb, gpus, ports = what
        name = self._nodes[node_id].name if node_id in self._nodes else ""
        hold = Hold(vc, name, cpus, memory_mb, tuple(gpus), tuple(ports))
        self._rows[id], self._holds[owner] = (node_id, owner, hold), hold
        self._of_node.setdefault(node_id, set()).add(id)
        self._views.pop(node_id, None)
        if self._use:
            self._count(node_id, hold)

    def _forget(self, id: int) -> None:
        node_id, owner, hold = self._rows.pop(id)
        if self._holds.get(owner) is hold:  # else it has another row by now
            del self._holds[owner]
        self._of_node[node_id].discard(id)
        self._views.pop(node_id, None)
        if self._use:
            self._count(node_id, hold, -1)

    def _count(self, node_id: int, hold: Hold, times: int = 1) -> None:
        gpus = self._nodes[node_id].gpus if node_id in self._nodes and hold.gpu_ids else ()
        kinds = {gpu["id"]: gpu.get("type", "") for gpu in gpus}
        taken = {"cpu": hold.cpus, "memory": hold.memory_mb, **of_gpus(kinds.get(id, "") for id in hold.gpu_ids)}
        add(self._use.setdefault(hold.vc, {}), taken, times)


def _read(*more: str) -> QuerySet[Node]:
    """Rows with the columns that a NodeView depends on."""
    return Node.objects.only(*_NODE, *more).annotate(dedicated_name=F("dedicated_to__name"))


def _and_held(view: NodeView, node: Node) -> NodeView:
    if not node.held:
        return view
    gpus, ports = node.held.get("gpus", ()), node.held.get("ports", ())
    return replace(view, used_gpus=view.used_gpus.union(gpus), used_ports=view.used_ports.union(ports))


_ledger, _lock = Ledger(), Lock()  # of all that is asked of this process


def owner_of(node: Node) -> str:
    """The virtual cluster that has this node of ``registered_nodes`` alone; empty for one of the pool."""
    return str(getattr(node, "dedicated_name", None) or "")


def _view(node: Node, holds: Sequence[Hold], dedicated_to: str) -> NodeView:
    why_not = _why_not(node)
    others = node.others or {}
    ours = frozenset(gpu for hold in holds for gpu in hold.gpu_ids)
    return NodeView(
        **{name: getattr(node, name) for name in _TAKEN_OVER},
        gpus=tuple((gpu["id"], gpu.get("type", "")) for gpu in node.gpus),
        fixed_ports=(*((first, last) for first, last in node.fixed_ports), *settings.FIXED_PORTS),
        offered=not why_not,
        why_not=why_not,
        dedicated_to=dedicated_to,
        draining=node.status == Node.Status.DRAINING,
        gone=node.gone_at is not None,
        used_cpus=sum(hold.cpus for hold in holds) + others.get("cpus", 0),
        used_memory_mb=sum(hold.memory_mb for hold in holds) + others.get("memory_mb", 0),
        used_gpus=ours | taken_by_others(node.gpus, ours, others.get("gpus", 0)),
        used_ports=frozenset(port for hold in holds for port in hold.ports),
        quarantined=(frozenset(node.held.get("gpus", ())), frozenset(node.held.get("ports", ()))),
        images=frozenset(map(sys.intern, node.images)),
        marks=marks_of(node.marks),
        refused_ports=refused_ports_of(node.refused_ports),
        labels=frozenset({**node.labels, OWN_LABEL: node.name}.items()),
    )


def _why_not(node: Node) -> str:
    if node.health != Node.Health.READY:
        since = node.unreachable_since
        return f"unreachable since {words.clock(since, timezone.localtime())}" if since else "unreachable"
    return node.closed if node.status == Node.Status.ACTIVE else str(node.status)
