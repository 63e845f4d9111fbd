"""``/usage`` (who used what, as JSON or CSV), ``/cluster/timeline`` (what was held in a window, task by task) and
``/cluster/forecasts`` (how good the forecasts of starts were)."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Annotated
from urllib.parse import quote

from django.http import HttpResponseBase
from django.utils import timezone
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from pydantic import BeforeValidator, Field
from rest_framework.request import Request
from rest_framework.response import Response
from typing_extensions import TypedDict

from base.core.errors import BadRequest
from base.core.values import OrNull, V1Answer, called, local_time
from jobs.forecast import scores
from jobs.forecast.errors import AIM
from jobs.history import timeline, usage, window
from jobs.history.usage import HOUR, Filter, UsageSum
from portal.reports.timeline_page import read_window
from portal.shared.api.openapi import errors
from portal.shared.api.v1 import V1View
from portal.shared.jobs.base import query_number, query_text
from portal.shared.sheets import saved, sheet
from portal.shared.viewer import reader_of, user_of

SPAN, LONGEST = timedelta(days=30), timedelta(days=3 * 366)
_TIME = "Milliseconds since 1970, `2026-11-20`, ISO 8601, or a span before now: `12h`, `7d`."
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
        responses={(200, "application/json"): UsageAnswer, (200, "text/csv"): OpenApiTypes.STR, **errors(403)},
    )
    def get(self, request: Request) -> HttpResponseBase:
        viewer = user_of(request)
        which, by = read(request.query_params)
        shape = one_of(request.query_params, "format", _FORMATS)
        lines, sums = usage.report(which, by, viewer)
        if shape == "csv":
            return saved(sheet([(by, *_HEAD), *(_cells(line, by, which) for line in lines)]), f"usage-by-{by}")
        begin, end = which.window.begin, which.window.end
        rows = [_shown(line, by, which) for line in lines]
        return Response({"from": begin, "to": end, "by": by, "rows": rows, "total": _shown(sums, "", which)})


def read(query: Mapping[str, str]) -> tuple[Filter, str]:
    """What a query asks for, and by what it is summed. Raises BadRequest with a sentence."""
    texts = {name: str(query.get(name, "")) for name in ("from", "to", "vc", "username")}
    now = timezone.localtime()
    span = window.read_window(texts["from"], texts["to"], now, span=SPAN, longest=LONGEST)
    return Filter(span, texts["vc"], texts["username"]), one_of(query, "by", usage.BY)


def one_of(query: Mapping[str, str], name: str, known: tuple[str, ...]) -> str:
    """Return the value of a parameter, the first known one without it. Raises BadRequest."""
    value = str(query.get(name, known[0]))
    if value not in known:
        raise BadRequest(f"{name} must be {', '.join(known[:-1])} or {known[-1]}.")
    return value


def day_of(line: UsageSum, which: Filter) -> str:
    return f"{local_time(int(line.key), which.window.zone):%Y-%m-%d}"


def hours(time: int) -> float:
    return round(time / HOUR, 6)


def _shown(line: UsageSum, by: str, which: Filter) -> UsageLine:
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


def _cells(line: UsageSum, by: str, which: Filter) -> tuple[str | float | None, ...]:
    shown = _shown(line, by, which)
    waits = [None if each is None else each / 1000 for each in (shown["waited"]["mean"], shown["waited"]["p95"])]
    key = shown["key"] if shown["key"] is not None else "(others)"
    return (key, shown["gpuHours"], shown["cpuHours"], line.jobs, *waits, *shown["wasted"].values())  # type: ignore[arg-type]


_LIMIT, _MOST = 1_000, 10_000  # rows of the timeline


def _events_of(job: str) -> str:
    return "/api/v1/user/{}/jobs/{}/events".format(*map(quote, job.split("/", 1)))


class HeldItem(V1Answer):
    """``from`` and ``to`` are milliseconds; ``to`` is null while it runs. ``outcome``: SUCCEEDED, FAILED, STOPPED,
    EVICTED or LOST. ``events`` is the address of the decisions behind it, while the job is there."""

    job: Annotated[str, BeforeValidator(lambda job: job.replace("/", "~", 1))]
    vc: str
    attempt: int
    task: str
    node: str
    gpus: list[str]
    gpuType: str = called("gpu_type")
    cpus: int
    memoryMB: int = called("memory_mb")
    guest: bool
    began: int = Field(serialization_alias="from")
    ended: int | None = Field(serialization_alias="to")
    outcome: OrNull
    events: Annotated[str, BeforeValidator(_events_of)] = called("job")


TimelineAnswer = TypedDict("TimelineAnswer", {"from": int, "to": int, "held": list[HeldItem], "next": int | None})


class Timeline(V1View):
    @extend_schema(
        summary="Which job held which GPU, when; go on with after=next",
        parameters=[
            OpenApiParameter("from", str, description=f"{_TIME} 12 hours before `to` without it."),
            OpenApiParameter("to", str, description=f"{_TIME} Now without it."),
            *(OpenApiParameter(name, str) for name in ("node", "vc")),
            *(OpenApiParameter(name, int) for name in ("after", "limit")),
        ],
        responses=TimelineAnswer,
    )
    def get(self, request: Request) -> Response:
        viewer = reader_of(request)
        texts = {name: query_text(request, name) for name in ("from", "to", "node", "vc")}
        window = read_window(texts)
        after, limit = query_number(request, "after", 0), query_number(request, "limit", _LIMIT, most=_MOST)
        held = timeline.spans(window, viewer, node=texts["node"], vc=texts["vc"], after=after, most=limit + 1)
        more, held = len(held) > limit > 0, held[:limit]
        following = held[-1].id if more else None
        items = [HeldItem.of(one) for one in held]
        return Response({"from": window.begin, "to": window.end, "held": items, "next": following})


_Whole = Annotated[int | None, BeforeValidator(lambda time: None if time is None else round(time))]


class AccuracyAnswer(V1Answer):
    """``within`` is the part of the starts between p10 and p90, of which ``aim`` should be; ``early`` and ``late`` are
    the rest, and ``withinUncorrected`` is what it would be without what earlier errors have shown. Errors are
    milliseconds: that of p50, of the guess that a job waits as long as the last one, and of the guess that all jobs run
    for as long as they may (a day, where they do not say)."""

    scored: int
    aim: float = AIM
    within: float | None
    withinUncorrected: float | None = called("within_as_played")
    early: float | None
    late: float | None
    medianError: _Whole = called("median_error")
    medianErrorOfGuess: _Whole = called("median_error_of_guess")
    medianErrorByLimits: _Whole = called("median_error_by_limit")


class Forecasts(V1View):
    @extend_schema(summary="How many starts came when they were forecast", responses=AccuracyAnswer)
    def get(self, request: Request) -> Response:
        user_of(request)
        return Response(AccuracyAnswer.of(scores.accuracy()))
