"""Shows one node: its GPUs and who has them, what runs there, what it cannot do, its images and its last events."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from django.conf import settings
from django.db.models import Max, QuerySet
from django.utils import timezone

from base.accounts.viewer import Viewer, reads_all
from base.core import words
from clusters.models import Node
from clusters.nodes import services
from clusters.taken import ports_taken
from jobs import access
from jobs.history.ledger import as_read
from jobs.metrics.read import GpuFigures, gpus_now, node_now
from jobs.models import Event, Task
from portal.job.page import EventLine
from portal.nodes.rows import ShownNode, line_of, reserved, seen_version
from portal.shared.jobs.rows import Named, job_url
from portal.shared.look.strip import StripFigure

MOST_EVENTS = 20
LOOKED_AT = 20_000  # the last events of the whole cluster, among which those of the node are looked for
MOST_IMAGES = 200
MOST_TASKS = 500
LISTED = 100  # of them on the node's own page


@dataclass(frozen=True, slots=True)
class NodeTask(Named):
    """A task that holds something on the node."""

    job_id: int
    username: str
    name: str
    vc: str
    label: str
    state: str
    since: datetime | None
    gpu_ids: tuple[str, ...]
    doing: str
    attempt: int
    has_log: bool
    is_kept: bool  # for debugging: its command has failed

    @property
    def log_url(self) -> str:
        return f"{self.url}/logs?task={self.label}&attempt={self.attempt}"


@dataclass(frozen=True, slots=True)
class Tile:
    """One GPU; ``css`` as in portal.nodes.rows."""

    id: str
    kind: str
    css: str
    task: NodeTask | None = None
    use: str = ""  # "97 % busy, 71.0 GB", "34 °C"
    idle: str = ""  # "2 h 10 min"

    @property
    def says(self) -> str:
        return {"free": "free", "held": "not offered", "out": "out of service"}.get(self.css, "in use")


@dataclass(frozen=True, slots=True)
class NodeEvent:
    line: EventLine
    job: str
    url: str


def node_page(name: str, viewer: Viewer) -> dict[str, Any]:
    """The context of nodes/node.html; nine queries, however much runs there, while nobody waits. Raises NoNode."""
    node = services.find_node(name)
    tasks = running_on(name, viewer)
    number = len(tasks) if len(tasks) < MOST_TASKS else _live_on(name).count()
    line = line_of(node, {name: {gpu for task in tasks if task.username == viewer.username for gpu in task.gpu_ids}})
    tiles = _tiles(line, tasks, gpus_now(name, [id for id, _ in line.view.gpus]))
    images = node.images if settings.JOB_PRIVACY == "open" or reads_all(viewer) else []
    return {
        "nav": "nodes",
        "node": node,
        "line": line,
        "tiles": tiles,
        "number": number,
        "tasks": tasks[:LISTED],
        "more_tasks": max(0, number - LISTED),
        "reserved": reserved(viewer, name),
        "cells": [*_cells(line, ports_taken(node) + len(line.view.quarantined[1]), node_now(name)), *_disk(node)],
        "images": images[:MOST_IMAGES],
        "more_images": max(0, len(images) - MOST_IMAGES),
        "events": _events(name, viewer),
        "is_admin": viewer.is_admin,
    }


def node_version(name: str) -> str:
    last = Event.objects.aggregate(last=Max("id"))["last"] or 0
    return f"{seen_version()}.{last}"


def running_on(name: str, viewer: Viewer) -> list[NodeTask]:
    """The tasks that hold something on the node, by job. Everybody who sees nodes may know that a job exists."""
    tasks = _live_on(name).select_related("job", "attempt")
    first = tasks.order_by("job__username", "job__name", "role", "index")[:MOST_TASKS]
    return [_running(task, viewer) for task in first]


def _live_on(name: str) -> QuerySet[Task]:
    return Task.live().filter(node=name)


def _running(task: Task, viewer: Viewer) -> NodeTask:
    job = task.job
    return NodeTask(
        job_id=job.pk,
        username=job.username,
        name=job.name,
        vc=job.vc,
        label=f"{access.role_as_read(viewer, job.username, task.role)}-{task.index}",
        state=task.state,
        since=task.container_started_at or task.changed_at,
        gpu_ids=tuple(map(str, task.gpu_ids)),
        doing=task.progress if access.may_read_details(viewer, job.username) else "",
        attempt=task.attempt.number,
        has_log=access.may_read_logs(viewer, job.username),
        is_kept=task.held_at is not None,
    )


def _tiles(line: ShownNode, tasks: Sequence[NodeTask], now: Mapping[str, GpuFigures]) -> list[Tile]:
    by_gpu = {gpu: task for task in tasks for gpu in task.gpu_ids}
    squares = zip(line.view.gpus, line.squares, strict=True)
    tiles = []
    for (id, kind), square in squares:
        task = by_gpu.get(id)
        idle = now[id].idle_for(task.since) if task is not None else ""
        tiles.append(Tile(id, kind, square, task, now[id].says(held=task is not None), idle))
    return tiles


def _cells(line: ShownNode, taken: int, now: Mapping[str, float]) -> list[StripFigure]:
    """What is taken of the node; ``taken`` is the number of its ports."""
    view = line.view
    ports = view.port_to - view.port_from + 1
    cores, memory = words.count(view.cpus, "core"), words.memory(view.memory_mb)
    busy = f"{now['cpu']:,.1f} busy now" if "cpu" in now else ""
    used = f"{words.size(int(now['memory']))} used now" if "memory" in now else ""
    span = f"{view.port_from}–{view.port_to}"
    return [
        _cell("CPU taken", view.used_cpus, view.cpus, f"{view.used_cpus:,}", f"of {cores}", busy),
        _cell(
            "Memory taken", view.used_memory_mb, view.memory_mb, words.memory(view.used_memory_mb), f"of {memory}", used
        ),
        _cell("Ports taken", taken, ports, f"{taken:,}", f"of {ports:,}", span),
    ]


def _disk(node: Node) -> list[StripFigure]:
    """What the last survey saw of its disk: nothing is asked of the node now."""
    if not node.disk:
        return []
    used, total = int(node.disk["used"]), node.disk["total"]
    at = datetime.fromtimestamp(node.disk["at"] / 1000, UTC)
    ago = words.ago((timezone.now() - at).total_seconds())
    if not total:
        return [StripFigure("Disk taken", words.size(used), small=f"by images and containers, {ago}")]
    return [_cell("Disk taken", used, total, words.size(used), f"of {words.size(total)}", ago)]


def _cell(name: str, used: float, total: float, value: str, of: str, small: str) -> StripFigure:
    percent = min(100.0, round(100 * used / total, 1)) if total else 0.0
    return StripFigure(name, value, of, percent, f"{name}: {percent:g} %", small)


def _events(name: str, viewer: Viewer) -> list[NodeEvent]:
    """The last events of the node, without those of jobs whose details the viewer may not read."""
    last = Event.objects.aggregate(last=Max("id"))["last"] or 0
    rows = Event.objects.filter(id__gt=last - LOOKED_AT, node=name).select_related("job").order_by("-id")
    events = []
    for event in as_read(rows[: 5 * MOST_EVENTS], viewer):
        job = event.job
        if job is None or access.may_read_details(viewer, job.username):
            full = f"{job.username}/{job.name}" if job and not job.deleted_at else ""
            events.append(NodeEvent(EventLine(event), full, job_url(job.username, job.name) if job and full else ""))
    return events[:MOST_EVENTS]
