"""Shows the whole cluster on one screen: every node with its GPUs, the virtual clusters, what waits longest, what is
wrong. It is for everybody who may read jobs. What of that needs an admin is told on their home page.

The nodes are drawn in blocks, so that a live page is sent only those that have changed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.db.models import Count, Max

from base.accounts.viewer import Viewer
from base.core import words
from base.wakes import processes
from clusters.models import Allocation, Node
from clusters.vcs.queries import VcView, load_vcs
from jobs import queries, versions
from jobs.planning.lifecycle import JobState
from portal.nodes.rows import NOBODY, ShownNode, lines_of, node_lines, node_rooms
from portal.shared.jobs.rows import JobRow, rows_of

BLOCK = 50  # nodes drawn, and sent again, together
COLOURS = ("v1", "v2", "v3", "v4", "v5", "v6")  # of virtual clusters; the others' GPUs are grey
LONGEST = 5
MOST_VCS = 12
MOST_ALERTS = 6
MOST_NEEDS = 12
SILENT = {
    "scheduler": "The scheduler does not run: jobs neither start nor end.",
    "workers": "The workers do not run: containers neither start nor stop.",
    "sampler": "The sampler does not run: nothing is measured.",
}


@dataclass(frozen=True, slots=True)
class WallNode:
    """``squares``: as those of a ShownNode; one in use also says whose: "busy v1"."""

    line: ShownNode
    squares: tuple[str, ...]

    @property
    def says(self) -> str:
        return self.line.says if self.line.state == "active" else f"{self.line.view.name}: {self.line.state}"

    @property
    def css(self) -> str:
        return {"unreachable": "ls-failed", "draining": "ls-stopping"}.get(self.line.state, "")

    @property
    def cpu_percent(self) -> float:
        view = self.line.view
        return round(100 * view.used_cpus / view.cpus, 1) if view.cpus else 0.0


@dataclass(frozen=True, slots=True)
class WallVc:
    """``percent`` is how much it uses of the cluster's GPUs; without GPUs, of the resource that it uses most of."""

    view: VcView
    colour: str
    percent: float

    @property
    def says(self) -> str:
        return f"{self.view.name}: {self.percent:g} % used, {self.view.guaranteed:g} % guaranteed"


@dataclass(frozen=True, slots=True)
class Need:
    """``state`` of a node, or empty where it only needs a look; ``action`` is a button and where it leads."""

    state: str
    name: str
    says: str
    action: tuple[str, str]


def wall_page(viewer: Viewer) -> dict[str, Any]:
    """The context of nodes/wall.html; some thirty queries, however many nodes there are."""
    vcs = load_vcs()
    colours = dict(zip((vc.name for vc in vcs), COLOURS, strict=False))
    lines = node_lines()
    nodes = _nodes(lines, colours)
    gpus = sum(len(line.view.gpus) for line in lines)
    return {
        "nav": "nodes",
        "blocks": [nodes[start : start + BLOCK] for start in range(0, len(nodes), BLOCK)],
        "size": "few" if len(nodes) <= 12 else "some" if len(nodes) <= BLOCK else "many",
        "free": sum(line.free_gpus for line in lines),
        "out": sum(line.out_gpus for line in lines),
        "gpus": gpus,
        "running": sum(vc.jobs.running for vc in vcs),
        "waiting": sum(vc.jobs.waiting for vc in vcs),
        "lost": sum(line.state == "unreachable" for line in lines),
        "vcs": [WallVc(vc, colours.get(vc.name, ""), _percent(vc, gpus)) for vc in vcs[:MOST_VCS]],
        "more_vcs": max(0, len(vcs) - MOST_VCS),
        "longest": longest_waits(viewer, LONGEST),
        "alerts": _alerts(lines),
    }


def wall_version() -> str:
    """Changes whenever the wall may look different. That a node was seen again changes nothing there."""
    nodes = Node.objects.aggregate(n=Count("id"), changed=Max("updated_at"), last=Max("id"))
    taken = Allocation.objects.aggregate(n=Count("id"), last=Max("id"))
    up = processes.live_processes()
    return ".".join(map(str, (versions.of_pages(), *nodes.values(), *taken.values(), *up.values())))


def _nodes(lines: Sequence[ShownNode], colours: Mapping[str, str]) -> list[WallNode]:
    held: dict[str, dict[str, str]] = {}  # node -> {GPU: colour}
    rows = Allocation.objects.exclude(gpu_ids=[]).values_list("node__name", "vc", "gpu_ids")
    for node, vc, gpu_ids in rows:
        held.setdefault(node, {}).update(dict.fromkeys(map(str, gpu_ids), colours.get(vc, "")))
    return [WallNode(line, _coloured(line, held.get(line.view.name, {}))) for line in lines]


def _coloured(line: ShownNode, held: Mapping[str, str]) -> tuple[str, ...]:
    pairs = zip(line.view.gpus, line.squares, strict=True)
    return tuple(f"{css} {held[id]}" if css == "busy" and held.get(id) else css for (id, _), css in pairs)


def _percent(vc: VcView, gpus: int) -> float:
    return round(100 * vc.used["gpu"] / gpus, 1) if gpus else vc.used_percent


def _alerts(lines: Sequence[ShownNode]) -> list[str]:
    """Return what somebody should look at, the most urgent first."""
    alerts = silent()
    for state, one, several, what in (
        ("unreachable", "node does", "nodes do", " not answer"),
        ("draining", "node drains", "nodes drain", ""),
    ):
        if names := [line.view.name for line in lines if line.state == state]:
            alerts.append(f"{words.count(len(names), one, several)}{what}: {words.listing(names)}.")
    alerts += [mark.sentence for line in lines for mark in line.view.marks]
    return alerts[:MOST_ALERTS]


def cluster_needs(viewer: Viewer) -> dict[str, Any]:
    """The context of lists/_home_needs.html. Rows are read of the nodes alone that need something."""
    troubled = [room for room in node_rooms() if room.state in ("unreachable", "draining") or room.view.marks]
    needs = list(_needs(lines_of(troubled, NOBODY)))
    return {
        "needs": needs[:MOST_NEEDS],
        "more_needs": len(needs[MOST_NEEDS:]),
        "longest": longest_waits(viewer, MOST_NEEDS),
        "waiting": queries.live_jobs().filter(state=JobState.WAITING).count(),
    }


def longest_waits(viewer: Viewer, most: int) -> list[JobRow]:
    waiting = queries.list_jobs(queries.JobFilter(state=JobState.WAITING)).order_by("queued_at", "id")
    return rows_of(list(waiting[:most]), viewer)


def silent() -> list[str]:
    """A sentence for each kind of process that does not run."""
    up = processes.live_processes()
    return [sentence for who, sentence in SILENT.items() if not up[who]]


def _needs(lines: Sequence[ShownNode]) -> Iterator[Need]:
    """What needs an admin, the most urgent first."""
    for sentence in silent():
        yield Need("", "Longshore", sentence, ("Hosts", "/hosts"))
    for line in lines:
        if line.state == "unreachable":
            yield Need(line.state, _title(line), line.reason or "It does not answer.", ("Open", line.url))
    for line in lines:
        for mark in line.view.marks:
            yield Need("", _title(line), mark.sentence, ("Open", line.url))
    for line in lines:
        if line.state == "draining":
            yield Need(
                line.state, _title(line), "It becomes empty, and gets nothing new.", ("See drain", f"{line.url}/drain")
            )


def _title(line: ShownNode) -> str:
    gpus = f", {len(line.view.gpus)} × {line.gpu_types or 'GPU'}" if line.view.gpus else ""
    return f"{line.view.name}{gpus}"
