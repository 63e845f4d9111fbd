"""Shows the home page: the viewer's jobs that failed, wait, run and ended, their share, and what of the cluster is
free; to admins, when they ask for the cluster, what needs them there."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta
from itertools import chain
from typing import Any

from django.db.models import Q
from django.utils import timezone

from base.accounts.viewer import Viewer, reads_all, require_user
from base.core import words
from clusters.placement.fit import NodeView
from jobs import queries, versions
from jobs.metrics.idle import GpuNow, held_gpus
from jobs.planning.lifecycle import JobState
from jobs.queries import JobFilter
from portal.lists.home.share import shares
from portal.nodes import wall
from portal.nodes.rows import lines_of, node_rooms, sums
from portal.shared.jobs.rows import rows_of

MOST = 10  # lines of each part
MOST_NODES = 24
CLUSTER = "cluster"  # ?as=


def home_version(view: str) -> str:
    """Changes whenever the page may look different."""
    return wall.wall_version() if view == CLUSTER else versions.of_pages()


class Total:
    """One resource of the cluster: how much is used of how much, in words, and the percentage for the bar."""

    def __init__(
        self, name: str, used: int, total: int, unit: str = "", shown: Callable[[int], str] = words.number
    ) -> None:
        self.name, self.unit = name, unit
        self.used, self.total = shown(used), shown(total)
        self.percent = min(100.0, round(100 * used / total, 1)) if total else 0.0


def home_context(viewer: Viewer, *, as_cluster: bool = False) -> dict[str, Any]:
    """The context of lists/home.html. A guest sees everybody's jobs, a user their own, an admin those or what needs
    them; about twenty queries."""
    as_cluster = as_cluster and reads_all(viewer)
    shown = wall.cluster_needs(viewer) if as_cluster else _jobs(viewer)
    return {"nav": "home", "as_cluster": as_cluster, "mine": viewer.username, **shown, **cluster(viewer)}


def _jobs(viewer: Viewer) -> dict[str, Any]:
    mine = viewer.username
    # With state="FAILED" SQLite would take the index of states and read every job that ever failed.
    lately = Q(state__iexact=JobState.FAILED, completed_at__gt=timezone.now() - timedelta(hours=24))
    jobs = queries.list_jobs(JobFilter(username=mine))
    ended = jobs.filter(completed_at__isnull=False).order_by("-completed_at", "-id")
    parts = {
        "running": jobs.filter(state=JobState.RUNNING),
        "waiting": jobs.filter(state=JobState.WAITING),
        "failed": ended.filter(lately),
        "done": ended.exclude(lately),
    }
    jobs_of = {name: list(part[:MOST]) for name, part in parts.items()}
    held = held_gpus(username=mine) if mine and any(job["total_gpus"] for job in jobs_of["running"]) else []
    rows = {row.id: row for row in rows_of(list(chain(*jobs_of.values())), viewer)}
    return {
        **{name: [rows[job["id"]] for job in some] for name, some in jobs_of.items()},
        # The database counts only where the list is full: else the list's length is the count.
        "counts": {name: parts[name].count() if len(some) == MOST else len(some) for name, some in jobs_of.items()},
        "is_new": not rows,
        "idle": _idle(held),
    }


def _idle(held: Sequence[GpuNow]) -> list[str]:
    """What to say of the user's GPUs that their tasks do not use, those that are idle the longest first."""
    now = timezone.now()
    idle = sorted((gpu.idle_since, gpu.job, gpu.task, gpu.id, gpu.node) for gpu in held if gpu.idle_since is not None)
    return [
        f"{job}, {task}: GPU {id} of {node} has been idle for {words.duration((now - since).total_seconds())}."
        for since, job, task, id, node in idle[:MOST]
    ]


def cluster(viewer: Viewer) -> dict[str, Any]:
    """{"totals": [Total], "nodes": [ShownNode], "more_nodes": n, "shares": [Share], "free_gpus": n, "out_gpus": n,
    "all_gpus": n, "largest": n}. Only of the nodes that are shown a row is read."""
    held = queries.gpus_held(viewer.username)
    rooms = node_rooms()
    with_gpus = [room for room in rooms if room.view.gpus]
    bad = [room for room in rooms if room.state != "active"]
    shown = [*with_gpus[:MOST_NODES], *bad[:MOST]]
    lines = lines_of(shown, queries.by_node(held))
    return {
        "totals": _totals([room.view for room in rooms]),
        "nodes": lines[: len(with_gpus[:MOST_NODES])],
        "more_nodes": len(with_gpus[MOST_NODES:]),
        "any_nodes": bool(rooms),
        "bad_nodes": lines[len(with_gpus[:MOST_NODES]) :],
        "more_bad_nodes": len(bad[MOST:]),
        "shares": shares(require_user(viewer), rooms, held) if viewer.is_authenticated and with_gpus else [],
        **sums(rooms),
    }


def _totals(nodes: Sequence[NodeView]) -> list[Total]:
    cpus, memory = sum(node.used_cpus for node in nodes), sum(node.used_memory_mb for node in nodes)
    gpus = sum(len(node.used_gpus - node.quarantined[0]) for node in nodes)
    return [
        Total("GPUs", gpus, sum(len(node.gpus) for node in nodes)),
        Total("CPU", cpus, sum(node.cpus for node in nodes), "cores"),
        Total("Memory", memory, sum(node.memory_mb for node in nodes), shown=words.memory),
    ]
