"""Routes of logs: ``.../jobs/:job/taskRoles/:role/:index/logs/stdout|stderr``, one as plain text, all of it or its end,
and ``.../jobs/:job/logs``, the lines of all tasks and attempts in the order of their times."""

from __future__ import annotations

import time

from django.http import HttpResponseBase, StreamingHttpResponse
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from base.core.errors import BadRequest, NoLog
from clusters.engines.runtime import Stream
from jobs import access
from jobs.logs.read import Log, find_task, open_log
from jobs.logs.together.expression import Expression
from jobs.logs.together.search import grep
from jobs.logs.together.sources import LogRow, MergedLogs, open_together
from portal.logs.choice import OUTPUTS, LogChoice, choose_all
from portal.shared.api.openapi import errors
from portal.shared.api.v1 import V1View
from portal.shared.jobs import shapes
from portal.shared.jobs.base import find_job, query_number
from portal.shared.viewer import viewer_of

_MOST = 9_999_999_999
_LATEST = 9_000_000_000_000  # ms; in nanoseconds it still has 64 bits
_LINES, _MOST_LINES = 500, 2000
_SECONDS = 2.0  # that one request searches
# The names that v1 clients append to containerLog. From v0.13 on the user's output had names of its own.
STREAM_NAMES: dict[str, Stream] = {
    "stdout": "stdout",
    "stderr": "stderr",
    "user.pai.stdout": "stdout",
    "user.pai.stderr": "stderr",
}


# A number in the place of the stream is an attempt: its answer is a page. A log of an attempt is a page or plain text.
AS_TEXT_OR_PAGE = {(200, f"text/{kind}; charset=utf-8"): OpenApiTypes.STR for kind in ("plain", "html")}


class TaskLog(V1View):
    """The query has ``attempt`` (a number; the newest by default) and either ``offset`` (the log from that byte on) or
    ``tail`` (its last so many lines; text behind the last newline counts as a line). ``download=1`` makes browsers save
    it.

    The answer has the bytes as they were written, up to the size at the time of the request. ``X-Log-Size`` is that
    size (the ``offset`` for the next request), ``X-Log-Complete`` is false while more may follow.
    """

    @extend_schema(
        summary="The log of a task",
        parameters=[
            OpenApiParameter("attempt", int),
            OpenApiParameter("tail", int, description="the last so many lines"),
            OpenApiParameter("offset", int, description="from this byte on"),
            OpenApiParameter("download", bool),
        ],
        responses={**AS_TEXT_OR_PAGE, **errors(503)},
    )
    def get(
        self, request: Request, job: str, role: str, index: int, stream: str, username: str = "", attempt: int = 0
    ) -> HttpResponseBase:
        row = find_job(request, username, job)
        access.require_logs(viewer_of(request), row)
        output = output_of(stream)
        attempt = attempt or query_number(request, "attempt", 0)  # containerLog has it in the path
        offset = query_number(request, "offset", 0, most=_MOST)
        lines = query_number(request, "tail", -1, most=_MOST)
        if lines >= 0 and offset:
            raise BadRequest("Ask for tail or for offset, not for both.")
        task = find_task(row, role, index, attempt or None)
        log = open_log(task, output)
        start = log.start_of_tail(lines) if lines >= 0 else min(offset, log.view.size)
        return _answer(request, log, start, f"{row.name}-{task.attempt.number}-{task.label}.{output}.txt")


class JobLogs(V1View):
    """Lines of all tasks and attempts, or of those of a ``role``, an ``attempt``, a ``stream``, by time.

    With ``grep`` only lines that match this regular expression (RE2; without capital letters in any case). An answer is
    bounded in time and size: go on with ``after=next`` until ``next`` is null.
    """

    @extend_schema(
        summary="The lines of a job's logs, by time; go on with after=next",
        parameters=[
            OpenApiParameter("grep", str, description="a regular expression"),
            OpenApiParameter("role", str),
            OpenApiParameter("attempt", int),
            OpenApiParameter("stream", str, enum=OUTPUTS),
            OpenApiParameter("from", int, description="lines from this moment on (ms)"),
            OpenApiParameter("to", int, description="lines before this moment (ms)"),
            OpenApiParameter("after", int),
            OpenApiParameter("limit", int),
        ],
        responses=shapes.LogLines,
    )
    def get(self, request: Request, job: str, username: str = "") -> Response:
        row = find_job(request, username, job)
        access.require_logs(viewer_of(request), row)
        text = request.query_params.get("grep", "")
        expression = Expression(text) if text else None
        stream, role = request.query_params.get("stream", ""), request.query_params.get("role", "")
        attempt = query_number(request, "attempt", 0, most=_MOST)
        choice = choose_all(row, role=role, stream=stream, attempt=attempt)
        together = open_together(choice.shown)
        first, stop = query_number(request, "after", 0), together.total
        if "from" in request.query_params:
            first = max(first, together.order.at(_nanoseconds(request, "from")))
        if "to" in request.query_params:
            stop = min(stop, together.order.at(_nanoseconds(request, "to")))
        limit = max(1, query_number(request, "limit", _LINES, most=_MOST_LINES))
        rows, after = _lines(together, expression, first, stop, limit)
        answer: shapes.LogLines = {"lines": [_line(choice, shown) for shown in rows], "next": after}
        return Response(answer)


def output_of(stream: str) -> Stream:
    """The output that is called so. Raises NoLog."""
    if stream not in STREAM_NAMES:
        raise NoLog(f"There is no log {stream}: it is stdout or stderr.")
    return STREAM_NAMES[stream]


def _lines(
    together: MergedLogs, expression: Expression | None, first: int, stop: int, limit: int
) -> tuple[list[LogRow], int | None]:
    if first >= stop:
        return [], None
    if expression is not None:
        until = time.monotonic() + _SECONDS
        return grep(together, expression, first, stop, limit, lambda: time.monotonic() > until)
    rows = together.rows(first, min(limit, stop - first))
    after = first + len(rows)
    return rows, after if rows and after < stop else None


def _line(choice: LogChoice, row: LogRow) -> shapes.LogLine:
    source = choice.sources[row.source]
    return {
        "task": source.task.label,
        "attempt": source.task.attempt.number,
        "stream": source.stream,
        "number": row.line.number,
        "time": row.at // 1_000_000,
        "text": row.line.text,
    }


def _nanoseconds(request: Request, name: str) -> int:
    return query_number(request, name, 0, most=_LATEST) * 1_000_000


def _answer(request: Request, log: Log, start: int, name: str) -> StreamingHttpResponse:
    response = StreamingHttpResponse(log.view.pieces(start), content_type="text/plain; charset=utf-8")
    response["Content-Length"] = str(log.view.size - start)
    response["X-Content-Type-Options"] = "nosniff"
    response["X-Log-Size"] = str(log.view.size)
    response["X-Log-Complete"] = "true" if log.ended else "false"
    response["Cache-Control"] = "no-store"
    if request.query_params.get("download") not in (None, "", "0"):
        response["Content-Disposition"] = f'attachment; filename="{name}"'
    return response
