"""What the pages of a node's plots and of the cluster's show; the latter with the GPUs that nobody uses."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from pathlib import Path
from typing import Any

from django.conf import settings
from django.db.models import Sum
from django.utils import timezone

from base.accounts.viewer import Viewer
from base.core import words
from clusters.models import Node
from jobs import access
from jobs.metrics import places, read
from jobs.metrics.idle import held_gpus
from portal.metrics import draw
from portal.metrics.draw import Grid
from portal.metrics.kinds import CLUSTER_KINDS, NODE_KINDS, PlotKind, write
from portal.metrics.page import Lines, Plot, as_data, is_known, plot, span_in, ticks
from portal.shared.jobs.rows import job_url

RANGES = {"1h": ("Last hour", 3600), "6h": ("Last 6 hours", 21_600), "1d": ("Last day", 86_400),
          "7d": ("Last 7 days", 604_800), "90d": ("Last 90 days", 7_776_000)}  # fmt: skip
POINTS, MOST_POINTS = 240, 720
MOST_GPUS = 16  # lines of a plot


@dataclass(frozen=True, slots=True)
class OverviewPlot:
    """What is shown: of a node, or of the cluster with the name "". ``files``: {label of a line: its file} of GPUs."""

    name: str
    kinds: Sequence[PlotKind]
    file: Path
    gpus: Mapping[str, Path]
    limits: Mapping[str, float]  # by key of the kind: what there is
    range: str
    begin: int
    end: int


def of_node(node: Node, query: Mapping[str, str]) -> OverviewPlot:
    gpus = {f"GPU {gpu['id']}": places.of_gpu(node.name, str(gpu["id"])) for gpu in node.gpus[:MOST_GPUS]}
    limits = {"cpu": float(node.cpus), "memory": node.memory_mb * 2.0**20}
    return OverviewPlot(node.name, NODE_KINDS, places.of_node(node.name), gpus, limits, *_span(query))


def of_cluster(query: Mapping[str, str]) -> OverviewPlot:
    nodes = Node.objects.aggregate(cpus=Sum("cpus"), memory=Sum("memory_mb"))
    gpus = sum(len(gpus) for gpus in Node.objects.values_list("gpus", flat=True))
    limits = {"cpu": float(nodes["cpus"] or 0), "memory": (nodes["memory"] or 0) * 2.0**20, "gpu": float(gpus)}
    return OverviewPlot("", CLUSTER_KINDS, places.of_cluster(), {}, limits, *_span(query))


def page(whole: OverviewPlot, url: str) -> dict[str, Any]:
    """The context of metrics/_plots.html with its choice of ranges."""
    grid, lines = _lines(whole, POINTS)
    plots = [_plot(kind, whole, lines[kind.key]) for kind in whole.kinds if lines[kind.key]]
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


def data(whole: OverviewPlot) -> dict[str, Any]:
    """What the script gets, as portal.metrics.page.data says."""
    return as_data(*_lines(whole, MOST_POINTS), whole.kinds, whole.limits, whole.begin, whole.end)


def idle_rows(viewer: Viewer, node: str = "") -> list[dict[str, Any]]:
    """The idle GPUs, the longest first; where jobs are private, of the viewer's own, and all for admins."""
    held = [gpu for gpu in held_gpus(node=node) if access.may_read_details(viewer, gpu.username)]
    idle = [(gpu.idle_since, gpu) for gpu in held if gpu.idle_since is not None]
    return [
        {
            "gpu": gpu,
            "url": job_url(gpu.username, gpu.job),
            "for": words.duration((timezone.now() - since).total_seconds()),
            "memory": words.NOTHING if gpu.memory is None else words.size(int(gpu.memory)),
        }
        for since, gpu in sorted(idle, key=itemgetter(0))
    ]


def idle_minutes() -> int:
    return int(settings.GPU_IDLE_AFTER // 60)


def _span(query: Mapping[str, str]) -> tuple[str, int, int]:
    chosen = query.get("range", "") if query.get("range", "") in RANGES else "1h"
    now = int(time.time())
    return chosen, *span_in(query, now - RANGES[chosen][1], now)


def _lines(whole: OverviewPlot, points: int) -> tuple[Grid, Lines]:
    """{key of the kind: {label: values}}; of what nobody knows nothing."""
    wide = (whole.end - whole.begin) // points
    own = read.read_series(whole.file, whole.begin, whole.end, wide)
    of_gpus = {label: read.read_series(path, whole.begin, whole.end, wide) for label, path in whole.gpus.items()}
    step = max(series.step for series in (own, *of_gpus.values()))
    grid = draw.grid_of(whole.begin, whole.end, step, points)
    lines: dict[str, dict[str, list[float | None]]] = {}
    for kind in whole.kinds:
        sources = of_gpus if kind.of_gpus else {"all tasks": own}
        values = {label: draw.on_grid(series.points.get(kind.column, ()), grid) for label, series in sources.items()}
        lines[kind.key] = {label: some for label, some in values.items() if is_known({label: some})}
    return grid, lines


def _plot(kind: PlotKind, whole: OverviewPlot, lines: Mapping[str, Sequence[float | None]]) -> Plot:
    limit = whole.limits.get(kind.key)
    last = [known[-1] for some in lines.values() if (known := [value for value in some[-6:] if value is not None])]
    now = _now(kind, last, limit)
    says = f"{kind.title} of {whole.name or 'the cluster'}, {RANGES[whole.range][0].lower()}: {now}"
    return plot(kind, lines, limit, now, says)


def _now(kind: PlotKind, last: Sequence[float], limit: float | None) -> str:
    if not last:
        return words.NOTHING
    value = sum(last) / len(last) if kind.unit in ("percent", "degrees") else sum(last)
    return f"{write(kind, value)} of {write(kind, limit)}" if limit else write(kind, value)
