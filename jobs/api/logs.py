"""The route ``.../jobs/:job/taskRoles/:role/:index/logs/stdout|stderr``: a log as plain text, all of it or its end."""

from __future__ import annotations

from typing import cast

from django.http import HttpResponseBase, StreamingHttpResponse
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.request import Request

from clusters.engines.runtime import Stream
from jobs import access
from jobs.api.base import find_job, query_number
from jobs.logs import read as logs
from portal.accounts.viewer import viewer_of
from portal.core.errors import BadRequest, NoLog
from portal.web.api.openapi import errors
from portal.web.api.v1 import V1View

_MOST = 9_999_999_999
# The names that v1 clients append to containerLog. From v0.13 on the user's output had names of its own.
STREAM_NAMES = {
    "stdout": "stdout",
    "stderr": "stderr",
    "user.pai.stdout": "stdout",
    "user.pai.stderr": "stderr",
}


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
        responses={(200, "text/plain; charset=utf-8"): OpenApiTypes.STR, **errors(503)},
    )
    def get(
        self, request: Request, job: str, role: str, index: int, stream: str, username: str = "", attempt: int = 0
    ) -> HttpResponseBase:
        row = find_job(request, username, job)
        access.require_logs(viewer_of(request), row)
        if stream not in STREAM_NAMES:
            raise NoLog(f"There is no log {stream}: it is stdout or stderr.")
        attempt = attempt or query_number(request, "attempt", 0)  # containerLog has it in the path
        offset = query_number(request, "offset", 0, most=_MOST)
        lines = query_number(request, "tail", -1, most=_MOST)
        if lines >= 0 and offset:
            raise BadRequest("Ask for tail or for offset, not for both.")
        task = logs.find_task(row, role, index, attempt or None)
        output = cast(Stream, STREAM_NAMES[stream])
        log = logs.open_log(task, output)
        start = log.start_of_tail(lines) if lines >= 0 else min(offset, log.view.size)
        return _answer(request, log, start, f"{row.name}-{task.attempt.number}-{task.label}.{output}.txt")


def _answer(request: Request, log: logs.Log, start: int, name: str) -> StreamingHttpResponse:
    response = StreamingHttpResponse(log.pieces(start), content_type="text/plain; charset=utf-8")
    response["Content-Length"] = str(log.view.size - start)
    response["X-Content-Type-Options"] = "nosniff"
    response["X-Log-Size"] = str(log.view.size)
    response["X-Log-Complete"] = "true" if log.ended else "false"
    response["Cache-Control"] = "no-store"
    if request.query_params.get("download") not in (None, "", "0"):
        response["Content-Disposition"] = f'attachment; filename="{name}"'
    return response
