"""Routes about what the tasks of a job used: one task's series, and the peaks and means of all. v1 has neither."""

from __future__ import annotations

import time
from typing import Annotated

from drf_spectacular.utils import OpenApiParameter, extend_schema
from pydantic import BeforeValidator, Field
from rest_framework.request import Request
from rest_framework.response import Response
from typing_extensions import TypedDict

from base.core.values import V1Answer, called
from jobs import queries
from jobs.config.spec import JobSpec
from jobs.metrics import read
from jobs.models import Task
from portal.shared.api.v1 import V1View
from portal.shared.jobs.base import find_job_for_details, query_number

_MOST_TIME = 9_999_999_999_999
_MOST_TASKS = 1_000  # of one answer
_TIME = "Milliseconds since 1970."
_ATTEMPT = OpenApiParameter("attempt", int, description="The newest without it.")

# Series by name: cpu (cores), memory and shared (bytes), pids, networkIn, networkOut, diskRead and diskWritten (bytes a
# second), and for each GPU such as 0: gpu0Util (percent), gpu0Memory (bytes), gpu0Power (watts). A point is
# [ms, mean of the step]; ``peaks`` has the greatest value of each step longer than ten seconds. What nobody can measure
# is left out.
MetricsAnswer = TypedDict(
    "MetricsAnswer",
    {
        "step": int,
        "from": int,
        "to": int,
        "series": dict[str, list[list[float]]],
        "peaks": dict[str, list[list[float]]],
    },
)


class MetricsFigure(V1Answer):
    last: float | None
    peak: float | None
    mean: float | None
    asked: float | None


_Measured = Annotated[int | None, BeforeValidator(lambda seconds: 1000 * seconds or None)]


class MetricsTask(V1Answer):
    """``from`` and ``to``: when it was first and last measured, in milliseconds; null: never."""

    role: str = called("task.role")
    index: int = called("task.index")
    began: _Measured = Field(serialization_alias="from")
    to: _Measured = called("at")
    metrics: dict[str, MetricsFigure] = called("figures")


class MetricsSummary(TypedDict):
    attempt: int
    tasks: list[MetricsTask]
    next: int | None


class TaskMetrics(V1View):
    @extend_schema(
        summary="What a task used",
        parameters=[
            _ATTEMPT,
            OpenApiParameter("from", int, description=f"{_TIME} The attempt's start without it."),
            OpenApiParameter("to", int, description=f"{_TIME} The attempt's end, or now, without it."),
            OpenApiParameter("step", int, description="Seconds at least: points are 10, 60 or 900 s apart."),
        ],
        responses=MetricsAnswer,
    )
    def get(self, request: Request, job: str, role: str, index: int, username: str = "") -> Response:
        row = find_job_for_details(request, username, job)
        attempt = queries.get_attempt(row, query_number(request, "attempt", 0) or row.attempt_number)
        task = read.task_of(attempt, role, index)
        first, last = read.span_of(attempt, time.time())
        begin = query_number(request, "from", 1000 * first, most=_MOST_TIME)
        end = query_number(request, "to", 1000 * last, most=_MOST_TIME)
        series = read.series(attempt, task, begin // 1000, -(-end // 1000), query_number(request, "step", 0))
        means = {name: [[1000 * at, mean] for at, mean, _ in points] for name, points in series.points.items()}
        peaks = {name: [[1000 * at, most] for at, _, most in points] for name, points in series.points.items()}
        peaks = peaks if series.step > 10 else {}
        return Response({"step": series.step, "from": begin, "to": end, "series": means, "peaks": peaks})


class Summary(V1View):
    @extend_schema(
        summary="Peaks and means of what the tasks of a job used, beside what they asked for; go on with after=next",
        parameters=[_ATTEMPT, OpenApiParameter("after", int)],
        responses=MetricsSummary,
    )
    def get(self, request: Request, job: str, username: str = "") -> Response:
        row = find_job_for_details(request, username, job)
        attempt = queries.get_attempt(row, query_number(request, "attempt", 0) or row.attempt_number)
        rows = Task.objects.filter(attempt=attempt, id__gt=query_number(request, "after", 0)).order_by("id")
        tasks = list(rows[: _MOST_TASKS + 1])
        more, tasks = len(tasks) > _MOST_TASKS, tasks[:_MOST_TASKS]
        items = [MetricsTask.of(used) for used in read.figures(attempt, tasks, JobSpec.from_json(row.spec))]
        return Response({"attempt": attempt.number, "tasks": items, "next": tasks[-1].pk if more else None})
