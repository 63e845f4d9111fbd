"""Shows one node: its GPUs and who has them, what runs there, what it cannot do, its images and its last events."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from django.conf import settings
from django.db.models import Max
from django.utils import timezone

from clusters.models import Node
from clusters.nodes import services
from clusters.nodes.pages import NodeLine, line_of, nodes_version
from jobs import access
from jobs.metrics.read import NodeGpu, gpus_now, node_now
from jobs.models import Event, Task
from jobs.pages.detail import EventLine
from jobs.pages.nodes.reserved import reserved
from jobs.pages.rows import Named, job_url
from jobs.planning.lifecycle import TASK_LIVE
from portal.accounts.viewer import Viewer
from portal.core import words

MOST_EVENTS = 20
LOOKED_AT = 20_000  # the last events of the whole cluster, among which those of the node are looked for
MOST_IMAGES = 200
MOST_TASKS = 500


@dataclass(frozen=True, slots=True)
class RunningTask(Named):
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

    @property
    def log_url(self) -> str:
        return f"{self.url}/logs?task={self.label}&attempt={self.attempt}"


@dataclass(frozen=True, slots=True)
class Tile:
    """One GPU; ``css`` as in clusters.nodes.pages.squares."""

    id: str
    kind: str
    css: str
    task: RunningTask | None = None
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
    """The context of jobs/node.html; six queries, however much runs there, while nobody waits. Raises NoNode."""
    node = services.find_node(name)
    tasks = running_on(name, viewer)
    line = line_of(node, {name: {gpu for task in tasks if task.username == viewer.username for gpu in task.gpu_ids}})
    tiles = _tiles(line, tasks, gpus_now(name, [id for id, _ in line.view.gpus]))
    images = node.images if settings.JOB_PRIVACY == "open" or viewer.is_admin else []
    return {
        "nav": "nodes",
        "node": node,
        "line": line,
        "tiles": tiles,
        "free": sum(tile.css == "free" for tile in tiles),
        "tasks": tasks,
        "reserved": reserved(viewer, name),
        "cells": [*_cells(line, node_now(name)), *_disk(node)],
        "images": images[:MOST_IMAGES],
        "more_images": max(0, len(images) - MOST_IMAGES),
        "events": _events(name, viewer),
        "is_admin": viewer.is_admin,
    }


def version(name: str) -> str:
    last = Event.objects.aggregate(last=Max("id"))["last"] or 0
    return f"{nodes_version()}.{last}"


def running_on(name: str, viewer: Viewer) -> list[RunningTask]:
    """The tasks that hold something on the node, by job. Everybody who sees nodes may know that a job exists."""
    tasks = Task.objects.filter(node=name, state__in=TASK_LIVE).select_related("job", "attempt")
    found = tasks.order_by("job__username", "job__name", "role", "index")[:MOST_TASKS]
    return [_running(task, viewer) for task in found]


def _running(task: Task, viewer: Viewer) -> RunningTask:
    job = task.job
    return RunningTask(
        job_id=job.pk,
        username=job.username,
        name=job.name,
        vc=job.vc,
        label=task.label,
        state=task.state,
        since=task.container_started_at or task.changed_at,
        gpu_ids=tuple(map(str, task.gpu_ids)),
        doing=task.progress if access.may_read_story(viewer, job.username) else "",
        attempt=task.attempt.number,
        has_log=access.may_read_logs(viewer, job),
    )


def _tiles(line: NodeLine, tasks: Sequence[RunningTask], now: Mapping[str, NodeGpu]) -> list[Tile]:
    by_gpu = {gpu: task for task in tasks for gpu in task.gpu_ids}
    squares = zip(line.view.gpus, line.squares, strict=True)
    tiles = []
    for (id, kind), square in squares:
        task = by_gpu.get(id)
        idle = now[id].idle_for(task.since) if task is not None else ""
        tiles.append(Tile(id, kind, square, task, now[id].says(held=task is not None), idle))
    return tiles


def _cells(line: NodeLine, now: Mapping[str, float]) -> list[dict[str, Any]]:
    view = line.view
    ports = view.port_to - view.port_from + 1
    cores = words.count(view.cpus, "core")
    return [
        {
            **_cell("CPU taken", view.used_cpus, view.cpus, f"{view.used_cpus:,}", f"of {cores}"),
            "small": f"{now['cpu']:,.1f} busy now" if "cpu" in now else "",
        },
        {
            **_cell(
                "Memory taken",
                view.used_memory_mb,
                view.memory_mb,
                words.memory(view.used_memory_mb),
                f"of {words.memory(view.memory_mb)}",
            ),
            "small": f"{words.size(int(now['memory']))} used now" if "memory" in now else "",
        },
        {
            **_cell("Ports taken", len(view.used_ports), ports, f"{len(view.used_ports):,}", f"of {ports:,}"),
            "small": f"{view.port_from}–{view.port_to}",
        },
    ]


def _disk(node: Node) -> list[dict[str, Any]]:
    """As of the last survey: nothing is asked of the node now."""
    if not node.disk:
        return []
    used, total = int(node.disk["used"]), node.disk["total"]
    at = datetime.fromtimestamp(node.disk["at"] / 1000, UTC)
    ago = words.ago((timezone.now() - at).total_seconds())
    if not total:
        return [{"name": "Disk taken", "value": words.size(used), "small": f"by images and containers, {ago}"}]
    return [{**_cell("Disk taken", used, total, words.size(used), f"of {words.size(total)}"), "small": ago}]


def _cell(name: str, used: float, total: float, value: str, of: str) -> dict[str, Any]:
    percent = min(100.0, round(100 * used / total, 1)) if total else 0.0
    return {"name": name, "value": value, "of": of, "percent": percent, "label": f"{name}: {percent:g} %"}


def _events(name: str, viewer: Viewer) -> list[NodeEvent]:
    """Those of jobs whose story the viewer may not read are left out."""
    last = Event.objects.aggregate(last=Max("id"))["last"] or 0
    rows = Event.objects.filter(id__gt=last - LOOKED_AT, node=name).select_related("job").order_by("-id")
    found = []
    for event in rows[: 5 * MOST_EVENTS]:
        job = event.job
        if job is None or access.may_read_story(viewer, job.username):
            full = f"{job.username}/{job.name}" if job and not job.deleted_at else ""
            found.append(NodeEvent(EventLine(event), full, job_url(job.username, job.name) if job and full else ""))
    return found[:MOST_EVENTS]


def of_node(node: Node) -> str:
    """``8 × A100``; "no GPU"."""
    kinds = sorted({str(gpu.get("type", "")) for gpu in node.gpus} - {""})
    return f"{len(node.gpus)} × {', '.join(kinds) or 'GPU'}" if node.gpus else "no GPU"
