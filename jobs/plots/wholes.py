"""What the pages of a node's plots and of the cluster's show; the latter with the GPUs that nobody uses."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from django.conf import settings
from django.db.models import Sum
from django.utils import timezone

from clusters.models import Node
from jobs import access
from jobs.metrics import idle, places, read
from jobs.metrics.idle import GpuNow
from jobs.pages.rows import job_url
from jobs.plots import draw
from jobs.plots.draw import Grid
from jobs.plots.kinds import CLUSTER_KINDS, NODE_KINDS, Kind, top_of, write
from jobs.plots.page import number_in, ticks
from portal.accounts.viewer import Viewer
from portal.core import words
from portal.core.errors import BadRequest

RANGES = {"1h": ("Last hour", 3600), "6h": ("Last 6 hours", 21_600), "1d": ("Last day", 86_400),
          "7d": ("Last 7 days", 604_800), "90d": ("Last 90 days", 7_776_000)}  # fmt: skip
POINTS, MOST_POINTS = 240, 720
MOST_GPUS = 16  # lines of a plot


@dataclass(frozen=True, slots=True)
class Whole:
    """What is shown: of a node, or of the cluster with the name "". ``files``: {label of a line: its file} of GPUs."""

    name: str
    kinds: Sequence[Kind]
    file: Path
    gpus: Mapping[str, Path]
    limits: Mapping[str, float]  # by key of the kind: what there is
    range: str
    begin: int
    end: int


@dataclass(frozen=True, slots=True)
class Drawn:
    kind: Kind
    now: str
    says: str
    paths: Sequence[str]
    labels: Sequence[str]
    limit: str


def of_node(node: Node, query: Mapping[str, str]) -> Whole:
    gpus = {f"GPU {gpu['id']}": places.of_gpu(node.name, str(gpu["id"])) for gpu in node.gpus[:MOST_GPUS]}
    limits = {"cpu": float(node.cpus), "memory": node.memory_mb * 2.0**20}
    return Whole(node.name, NODE_KINDS, places.of_node(node.name), gpus, limits, *_span(query))


def of_cluster(query: Mapping[str, str]) -> Whole:
    nodes = Node.objects.aggregate(cpus=Sum("cpus"), memory=Sum("memory_mb"))
    gpus = sum(len(gpus) for gpus in Node.objects.values_list("gpus", flat=True))
    limits = {"cpu": float(nodes["cpus"] or 0), "memory": (nodes["memory"] or 0) * 2.0**20, "gpu": float(gpus)}
    return Whole("", CLUSTER_KINDS, places.of_cluster(), {}, limits, *_span(query))


def page(whole: Whole, url: str) -> dict[str, Any]:
    """The context of jobs/_plots.html with its choice of ranges."""
    grid, lines = _lines(whole, POINTS)
    plots = [_drawn(kind, whole, lines[kind.key]) for kind in whole.kinds if lines[kind.key]]
    missing = {kind.why_not: kind for kind in reversed(whole.kinds) if not lines[kind.key] and kind.why_not}
    return {
        "plots": plots,
        "why_not": [(kind.title, why) for why, kind in missing.items() if not kind.of_gpus or whole.gpus],
        "ticks": ticks(grid),
        "step": words.duration(grid.step),
        "ranges": [(key, name, key == whole.range) for key, (name, _) in RANGES.items()],
        "key": [(f"l{at % 4 + 1}", label) for at, label in enumerate(whole.gpus)] if len(whole.gpus) > 1 else [],
        "data": f"{url}/data?range={whole.range}",
        "url": url,
    }


def data(whole: Whole) -> dict[str, Any]:
    """As jobs.plots.page.data."""
    grid, lines = _lines(whole, MOST_POINTS)
    plots = {
        kind.key: {
            "unit": kind.unit,
            "labels": list(lines[kind.key]),
            "lines": [
                [None if one is None else float(f"{one:.5g}") for one in some] for some in lines[kind.key].values()
            ],
            "limit": whole.limits.get(kind.key),
        }
        for kind in whole.kinds
        if lines[kind.key]
    }
    return {"step": grid.step, "times": grid.times, "plots": plots, "from": whole.begin, "to": whole.end}


def idle_rows(viewer: Viewer, node: str = "") -> list[dict[str, Any]]:
    """The idle GPUs, the longest first; where jobs are private, of the viewer's own, and all for admins."""
    found = [gpu for gpu in idle.idle_gpus(node=node) if access.may_read_story(viewer, gpu.username)]
    return [_idle_row(gpu) for gpu in found]


def idle_minutes() -> int:
    return int(settings.GPU_IDLE_AFTER // 60)


def _idle_row(gpu: GpuNow) -> dict[str, Any]:
    since = gpu.idle_since or timezone.now()
    return {
        "gpu": gpu,
        "url": job_url(gpu.username, gpu.job),
        "since": since,
        "for": words.duration((timezone.now() - since).total_seconds()),
        "memory": words.NOTHING if gpu.memory is None else words.size(int(gpu.memory)),
    }


def _span(query: Mapping[str, str]) -> tuple[str, int, int]:
    chosen = query.get("range", "") if query.get("range", "") in RANGES else "1h"
    end = int(time.time())
    begin, end = number_in(query, "from") or end - RANGES[chosen][1], number_in(query, "to") or end
    if end <= begin:
        raise BadRequest("The end is not after the beginning.")
    return chosen, begin, end


def _lines(whole: Whole, points: int) -> tuple[Grid, dict[str, dict[str, list[float | None]]]]:
    """{key of the kind: {label: values}}; of what nobody knows nothing."""
    wide = (whole.end - whole.begin) // points
    own = read.read_series(whole.file, whole.begin, whole.end, wide)
    of_gpus = {label: read.read_series(path, whole.begin, whole.end, wide) for label, path in whole.gpus.items()}
    step = max(one.step for one in (own, *of_gpus.values()))
    grid = draw.grid_of(whole.begin, whole.end, step, points)
    lines: dict[str, dict[str, list[float | None]]] = {}
    for kind in whole.kinds:
        sources = of_gpus if kind.of_gpus else {"all tasks": own}
        found = {
            label: draw.on_grid({at: value for at, value, _ in some}, grid)
            for label, series in sources.items()
            if (some := series.points.get(kind.column))
        }
        lines[kind.key] = {label: some for label, some in found.items() if any(value is not None for value in some)}
    return grid, lines


def _drawn(kind: Kind, whole: Whole, lines: Mapping[str, Sequence[float | None]]) -> Drawn:
    limit = whole.limits.get(kind.key)
    values = [value for some in lines.values() for value in some if value is not None]
    top = top_of(kind, values, limit)
    last = [known[-1] for some in lines.values() if (known := [value for value in some[-6:] if value is not None])]
    now = _now(kind, last, limit)
    return Drawn(
        kind=kind,
        now=now,
        says=f"{kind.title} of {whole.name or 'the cluster'}, {RANGES[whole.range][0].lower()}: {now}",
        paths=[draw.path(some, top) for some in lines.values()],
        labels=[write(kind, part * top) for part in (1.0, 0.5)] + ["0"],
        limit=f"{draw.HIGH - 1 - (draw.HIGH - 2) * limit / top:.3g}" if limit else "",
    )


def _now(kind: Kind, last: Sequence[float], limit: float | None) -> str:
    if not last:
        return words.NOTHING
    value = sum(last) / len(last) if kind.unit in ("percent", "degrees") else sum(last)
    return f"{write(kind, value)} of {write(kind, limit)}" if limit else write(kind, value)
