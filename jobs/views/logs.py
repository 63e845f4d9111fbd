"""Views of the log page, of the lines and matches that its script asks for, and of its live stream."""

from __future__ import annotations

import time
from typing import Any

from asgiref.sync import sync_to_async
from django.contrib.auth.views import redirect_to_login
from django.http import HttpRequest, HttpResponse, HttpResponseBase, JsonResponse, StreamingHttpResponse
from django.shortcuts import render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from jobs import access, queries
from jobs.logs import live as log_live
from jobs.logs import read as logs
from jobs.logs import search as log_search
from jobs.models import Job
from jobs.pages import log as log_page
from jobs.pages.log import SHOWN_LINES, Choice
from jobs.views.welcome import while_welcome
from portal.accounts.viewer import Viewer, may_read_jobs, viewer_of
from portal.core.errors import BadRequest, LongshoreError, Unauthorized
from portal.web.error_pages import error_answer
from portal.web.serving import seats

_SEARCH_SECONDS = 2.0
_LONGEST_TEXT = 200


@never_cache
@require_safe
def page(request: HttpRequest, username: str, name: str) -> HttpResponse:
    """Query: task, attempt, stream, from (line), q. It shows and searches also without a script."""
    try:
        choice = _choice(request, username, name)
    except Unauthorized:
        return redirect_to_login(request.get_full_path(), "/login")
    text = _text(request)
    matches = _search(choice, text, 0) if text else None
    first = _number(request, "from") or (matches["lines"][0] if matches and matches["lines"] else None)
    shown = log_page.shown(choice, first)
    more = {"q": text, "found": matches, "moved": first is not None}
    return render(request, "jobs/log.html", {**log_page.context(choice, shown), **more})


@never_cache
@require_safe
def lines(request: HttpRequest, username: str, name: str) -> JsonResponse:
    """Query: from (line; without it the last lines), count. {"lines": [...], "total", "size", "live", "note"}"""
    choice = _choice(request, username, name)
    count = max(1, min(_number(request, "count") or SHOWN_LINES, 2000))
    shown = log_page.shown(choice, _number(request, "from"), count)
    answer = {"lines": [line.as_json() for line in shown.lines], "total": shown.total, "size": shown.size}
    return JsonResponse({**answer, "live": shown.live, "note": shown.note})


@never_cache
@require_safe
def search(request: HttpRequest, username: str, name: str) -> JsonResponse:
    """Query: q, cursor. {"lines": [numbers], "cursor": offset or null, "total": lines searched in}"""
    choice = _choice(request, username, name)
    text = _text(request)
    if not text:
        raise BadRequest("Say in q what to look for.")
    return JsonResponse(_search(choice, text, _number(request, "cursor") or 0))


@require_safe
async def stream(request: HttpRequest, username: str, name: str) -> HttpResponseBase:
    """Query: task, attempt, stream, from (line) or offset (byte). The header Last-Event-ID wins over both."""
    try:
        choice = await sync_to_async(_choice)(request, username, name)
        offset = _place(request)
        line = _number(request, "from")
        if not request.user.is_authenticated:
            seats.take(request)
    except LongshoreError as error:
        return await sync_to_async(error_answer)(request, error)
    events = while_welcome(
        request,
        lambda user: _require(user, username, name),
        log_live.events(choice.task.pk, choice.stream, line=line, offset=offset),
    )
    response = StreamingHttpResponse(events, content_type="text/event-stream")
    response["Cache-Control"] = "no-cache, no-transform"
    response["X-Accel-Buffering"] = "no"
    return response


def _choice(request: HttpRequest, username: str, name: str) -> Choice:
    job = _require(viewer_of(request), username, name)
    given = request.GET.get
    return log_page.choose(job, given("task", ""), _number(request, "attempt") or 0, given("stream", "stdout"))


def _require(viewer: Viewer, username: str, name: str) -> Job:
    if not may_read_jobs(viewer):
        raise Unauthorized
    job = queries.get_job(username, name)
    access.require_logs(viewer, job)
    return job


def _search(choice: Choice, text: str, start: int) -> dict[str, Any]:
    log = logs.open_log(choice.task, choice.stream, stale=True)
    until = time.monotonic() + _SEARCH_SECONDS
    matches = log_search.search(log.view, text, start=start, out_of_time=lambda: time.monotonic() > until)
    return {"lines": matches.lines, "cursor": matches.cursor, "total": log.view.line_count()}


def _text(request: HttpRequest) -> str:
    text = request.GET.get("q", "").strip("\r\n")
    if len(text) > _LONGEST_TEXT or "\n" in text:
        raise BadRequest(f"Look for at most {_LONGEST_TEXT} signs of one line.")
    return text


def _number(request: HttpRequest, name: str) -> int | None:
    value = request.GET.get(name, "")
    if not value:
        return None
    if not (value.isascii() and value.isdecimal() and len(value) <= 12):
        raise BadRequest(f"{name} must be a number from 0 on.")
    return int(value)


def _place(request: HttpRequest) -> int | None:
    value = request.headers.get("Last-Event-ID", "")
    if value.isascii() and value.isdecimal() and len(value) <= 15:
        return int(value)
    return _number(request, "offset")
