"""``GET /usage``: who used what, as JSON or CSV."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta

from django.http import HttpResponseBase
from django.utils import timezone
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.request import Request
from rest_framework.response import Response
from typing_extensions import TypedDict

from jobs.history import usage, window
from jobs.history.usage import HOUR, Filter, Line
from jobs.reports.csv_text import csv_answer
from portal.accounts.viewer import require_user, viewer_of
from portal.core.errors import BadRequest
from portal.web.api.openapi import errors
from portal.web.api.v1 import V1View

SPAN, LONGEST = timedelta(days=30), timedelta(days=3 * 366)
_TIME = "Milliseconds since 1970, `2026-11-20`, ISO 8601, or a span before now: `24h`, `7d`."
_FORMATS = ("json", "csv")
_HEAD = (
    *("gpu_hours", "cpu_hours", "jobs", "waited_mean_s", "waited_p95_s"),
    *("wasted_failed_gpu_hours", "wasted_evicted_gpu_hours", "wasted_lost_gpu_hours"),
)


class Waited(TypedDict):
    """Milliseconds from when an attempt could start until it was placed."""

    mean: int | None
    p95: int | None


class Wasted(TypedDict):
    """GPU-hours: of jobs that failed by their own fault, that were evicted, or that the cluster lost."""

    failed: float
    evicted: float
    lost: float


class UsageLine(TypedDict):
    """``key`` is the user, virtual cluster, state or day (its date); null is the sum of all other users."""

    key: str | None
    gpuHours: float
    cpuHours: float
    jobs: int
    waited: Waited
    wasted: Wasted


UsageAnswer = TypedDict("UsageAnswer", {"from": int, "to": int, "by": str, "rows": list[UsageLine], "total": UsageLine})


class Usage(V1View):
    @extend_schema(
        summary="Who used how much, waited how long, and what was for nothing",
        parameters=[
            OpenApiParameter("from", str, description=f"{_TIME} 30 days before `to` without it."),
            OpenApiParameter("to", str, description=f"{_TIME} A day means its end; now without it."),
            OpenApiParameter("by", str, enum=list(usage.BY)),
            *(OpenApiParameter(name, str) for name in ("vc", "username")),
            OpenApiParameter("format", str, enum=list(_FORMATS)),
        ],
        responses={(200, "application/json"): UsageAnswer, (200, "text/csv"): OpenApiTypes.STR, **errors(401, 403)},
    )
    def get(self, request: Request) -> HttpResponseBase:
        viewer = require_user(viewer_of(request))
        which, by = read(request.query_params)
        shape = one_of(request.query_params, "format", _FORMATS)
        lines, sums = usage.report(which, by, viewer)
        if shape == "csv":
            return csv_answer(f"usage-by-{by}", (by, *_HEAD), (_cells(line, by, which) for line in lines))
        begin, end = which.window.begin, which.window.end
        rows = [_shown(line, by, which) for line in lines]
        return Response({"from": begin, "to": end, "by": by, "rows": rows, "total": _shown(sums, "", which)})


def read(query: Mapping[str, str]) -> tuple[Filter, str]:
    """What a query asks for, and by what it is summed. Raises BadRequest with a sentence."""
    texts = {name: str(query.get(name, "")) for name in ("from", "to", "vc", "username")}
    now = timezone.localtime()
    span = window.read(texts["from"], texts["to"], now, span=SPAN, longest=LONGEST)
    return Filter(span, texts["vc"], texts["username"]), one_of(query, "by", usage.BY)


def one_of(query: Mapping[str, str], name: str, known: tuple[str, ...]) -> str:
    """The value of a parameter, the first known one without it. Raises BadRequest."""
    value = str(query.get(name, known[0]))
    if value not in known:
        raise BadRequest(f"{name} must be {', '.join(known[:-1])} or {known[-1]}.")
    return value


def day_of(line: Line, which: Filter) -> str:
    return f"{window.at(int(line.key), which.window.zone):%Y-%m-%d}"


def hours(time: int) -> float:
    return round(time / HOUR, 6)


def _shown(line: Line, by: str, which: Filter) -> UsageLine:
    return {
        "key": (day_of(line, which) if by == "day" else line.key) or None,
        "gpuHours": hours(line.gpu_time),
        "cpuHours": hours(line.cpu_time),
        "jobs": line.jobs,
        "waited": {"mean": None if line.waited_mean is None else round(line.waited_mean), "p95": line.waited_p95},
        "wasted": {
            "failed": hours(line.wasted["FAILED"]),
            "evicted": hours(line.wasted["EVICTED"]),
            "lost": hours(line.wasted["LOST"]),
        },
    }


def _cells(line: Line, by: str, which: Filter) -> tuple[str | float | None, ...]:
    shown = _shown(line, by, which)
    waits = [None if each is None else each / 1000 for each in (shown["waited"]["mean"], shown["waited"]["p95"])]
    key = shown["key"] if shown["key"] is not None else "(others)"
    return (key, shown["gpuHours"], shown["cpuHours"], line.jobs, *waits, *shown["wasted"].values())  # type: ignore[arg-type]
