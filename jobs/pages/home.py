"""Shows the home page: the viewer's jobs that failed, wait, run and ended, and what of the cluster is free."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from itertools import chain
from typing import Any

from django.db.models import Q, Sum
from django.utils import timezone

from clusters.models import Allocation, Node
from clusters.nodes.pages import squares, state_of
from jobs import queries
from jobs.metrics.idle import GpuNow, held_gpus
from jobs.pages.rows import rows_of, with_gpu_type
from jobs.planning.lifecycle import JobState
from jobs.queries import JobFilter
from portal.accounts.viewer import Viewer
from portal.core import words

MOST = 10  # lines of each part
MOST_NODES = 24


@dataclass(frozen=True, slots=True)
class Total:
    """One resource of the cluster: how much is used of how much, in words, and the percentage for the bar."""

    name: str
    used: str
    total: str
    unit: str
    percent: float


@dataclass(frozen=True, slots=True)
class NodeLine:
    name: str
    gpu_type: str
    squares: tuple[str, ...]  # see clusters.nodes.pages.squares
    free: int
    state: str  # "" when nothing is wrong with it
    reason: str

    @property
    def says(self) -> str:
        return f"{self.name}: {self.free} of {len(self.squares)} GPUs free"


def home(viewer: Viewer) -> dict[str, Any]:
    """The context of jobs/home.html. A guest sees everybody's jobs, a user their own; sixteen queries at most."""
    mine = viewer.username
    # With state="FAILED" SQLite would take the index of states and read every job that ever failed.
    lately = Q(state__iexact=JobState.FAILED, completed_at__gt=timezone.now() - timedelta(hours=24))
    jobs = with_gpu_type(queries.list_jobs(JobFilter(username=mine)))
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
        "nav": "home",
        "mine": mine,
        **{name: [rows[job["id"]] for job in some] for name, some in jobs_of.items()},
        # The database counts only where the list is full: else the list's length is the count.
        "counts": {name: parts[name].count() if len(some) == MOST else len(some) for name, some in jobs_of.items()},
        "is_new": not rows,
        "idle": _idle(held),
        "gpu_use": _gpu_use(held),
        **cluster(mine),
    }


def _idle(held: Sequence[GpuNow]) -> list[str]:
    """What to say of the user's GPUs that their tasks do not use, those that are idle the longest first."""
    now = timezone.now()
    found = sorted((gpu.idle_since, gpu.job, gpu.task, gpu.id, gpu.node) for gpu in held if gpu.idle_since is not None)
    return [
        f"{job}, {task}: GPU {id} of {node} has been idle for {words.duration((now - since).total_seconds())}."
        for since, job, task, id, node in found[:MOST]
    ]


def _gpu_use(held: Sequence[GpuNow]) -> dict[int, str]:
    """{job id: how busy its GPUs are now, on average} of the jobs whose GPUs are measured."""
    known: dict[int, list[float]] = {}
    for gpu in held:
        if gpu.util is not None:
            known.setdefault(gpu.job_id, []).append(gpu.util)
    return {job: f"{sum(utils) / len(utils):.0f} %" for job, utils in known.items()}


def cluster(mine: str) -> dict[str, Any]:
    """{"totals": [Total], "nodes": [NodeLine], "more_nodes": n, "free_gpus": n, "all_gpus": n, "largest": n}"""
    nodes = list(Node.objects.order_by("name"))
    taken = _taken()
    own = queries.gpus_of(mine)
    lines = [node_line(node, taken.get(node.pk, set()), own.get(node.name, set())) for node in nodes]
    with_gpus = [line for line in lines if line.squares]
    return {
        "totals": _totals(nodes, sum(map(len, taken.values()))),
        "nodes": with_gpus[:MOST_NODES],
        "more_nodes": len(with_gpus[MOST_NODES:]),
        "any_nodes": bool(nodes),
        "bad_nodes": [line for line in lines if line.state],
        "free_gpus": sum(line.free for line in lines),
        "all_gpus": sum(len(line.squares) for line in lines),
        "largest": max((line.free for line in lines), default=0),
    }


def node_line(node: Node, taken: set[str], own: set[str]) -> NodeLine:
    state = state_of(node.status, node.health)
    out = {str(gpu) for gpu in node.held.get("gpus", ())}
    shown = squares((str(gpu["id"]) for gpu in node.gpus), state, out=out, own=own, taken=taken)
    types = sorted({str(gpu.get("type", "")) for gpu in node.gpus} - {""})
    wrong = "" if state == Node.Status.ACTIVE else state
    return NodeLine(node.name, ", ".join(types), shown, shown.count("free"), wrong, node.health_reason)


def _taken() -> dict[int, set[str]]:
    taken: dict[int, set[str]] = {}
    for node, gpus in Allocation.objects.exclude(gpu_ids=[]).values_list("node_id", "gpu_ids"):
        taken.setdefault(node, set()).update(map(str, gpus))
    return taken


def _totals(nodes: list[Node], gpus: int) -> list[Total]:
    used = Allocation.objects.aggregate(cpus=Sum("cpus"), memory=Sum("memory_mb"))
    cpus, memory = used["cpus"] or 0, used["memory"] or 0
    all_cpus, all_memory = sum(node.cpus for node in nodes), sum(node.memory_mb for node in nodes)
    all_gpus = sum(len(node.gpus) for node in nodes)
    return [
        Total("GPUs", f"{gpus:,}", f"{all_gpus:,}", "", _percent(gpus, all_gpus)),
        Total("CPU", f"{cpus:,}", f"{all_cpus:,}", "cores", _percent(cpus, all_cpus)),
        Total("Memory", words.memory(memory), words.memory(all_memory), "", _percent(memory, all_memory)),
    ]


def _percent(part: float, whole: float) -> float:
    return min(100.0, round(100 * part / whole, 1)) if whole else 0.0
