"""Views of the log page, of the lines that its script asks for, of its live stream and of its search."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Any

from asgiref.sync import sync_to_async
from django.contrib.auth.views import redirect_to_login
from django.http import HttpRequest, HttpResponse, HttpResponseBase, JsonResponse, StreamingHttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from base.accounts.viewer import Viewer, require_reader
from base.core.errors import BadRequest, LongshoreError, NoLog, Unauthorized
from base.core.words import whole
from base.serving import guest_slots
from jobs import access, queries
from jobs.logs.together.after import with_what_follows
from jobs.logs.together.download import as_text, as_zip
from jobs.logs.together.expression import Expression
from jobs.logs.together.hunt import hunt_events
from jobs.logs.together.live import WatchedLog, live_events
from jobs.logs.together.search import grep
from jobs.logs.together.sources import MergedLogs, open_together
from jobs.models import Job
from jobs.planning.lifecycle import TASK_LIVE_STATES, TaskState
from portal.logs.choice import SHOWN_LINES, LogChoice, choose_all, choose_one, lines_of
from portal.logs.page import context
from portal.shared.error_pages import error_answer
from portal.shared.guard import for_scripts
from portal.shared.live.stream_access import while_allowed
from portal.shared.viewer import viewer_of

_SEARCH_SECONDS = 2.0
_MATCHES = 100  # on the page without a script
_MOST_ROWS = 2000
_REMEMBERED = 1.0  # seconds that somebody's right to read a job's logs is known
_allowed: dict[tuple[str, str, str, str], float] = {}
_PLACES = re.compile(r"(?:(?:\d{1,6}:)?\d{1,15}(?:-(?!\Z)|\Z)){0,1000}\Z", re.ASCII)


@never_cache
@require_safe
def log_page(request: HttpRequest, username: str, name: str) -> HttpResponse:
    """Query: as the head of portal/logs/page.py says; from (the place of a line), q, only=1 (what is around
    matches). It shows and searches also without a script."""
    try:
        choice = _choice(request, username, name)
    except Unauthorized:
        return redirect_to_login(request.get_full_path(), "/login")
    first, problem = _number(request, "from"), ""
    matches: list[dict[str, Any]] = []
    try:
        expression = _expression(request)
    except BadRequest as wrong:
        expression, problem = None, wrong.message
    shown = lines_of(choice, first, expression=expression)
    if expression:
        matches = _matches(choice, shown.together, expression)
        if matches and first is None:
            shown = lines_of(choice, max(1, matches[0]["place"] - 10), expression=expression)
    more = {
        "q": request.GET.get("q", ""),
        "matches": matches,
        "searched": expression is not None,
        "problem": problem,
        "moved": first is not None,
        "only": request.GET.get("only") == "1",
    }
    return render(request, "logs/log.html", {**context(choice, shown), **more})


@never_cache
@require_safe
@for_scripts
def log_rows(request: HttpRequest, username: str, name: str) -> JsonResponse:
    """Query: from (the place of a line, from 1; without it the last lines), or at (source.line), or time (ms); count;
    q. {"rows": [...], "from", "total", "size", "counts", "live", "note"}; with ``at`` and ``time`` also "place", and
    the lines begin some before it."""
    choice = _choice(request, username, name)
    count = max(1, min(_number(request, "count") or SHOWN_LINES, _MOST_ROWS))
    first, expression = _number(request, "from"), _expression(request)
    place = None
    if first is None and (request.GET.get("at") or request.GET.get("time")):
        place = _place_of(request, lines_of(choice, 1, 0).together)
        first = max(1, place - count // 2)
    shown = lines_of(choice, first, count, expression)
    answer = {
        "rows": [row.as_json() for row in shown.rows],
        "from": shown.first,
        "total": shown.together.total,
        "size": shown.together.size,
        "counts": {log.source.number: log.times.count for log in shown.together.logs},
        "next": shown.next,
        "live": shown.live,
        "note": shown.note,
    }
    return JsonResponse(answer if place is None else {**answer, "place": place})


@never_cache
@require_safe
def download_log(request: HttpRequest, username: str, name: str) -> HttpResponseBase:
    """Query: as the page's; since and until (ms, or a local time such as 2026-11-20T14:28:00); first and last (lines,
    as source.line); form=zip for each log as it was written, else one text in the order of times."""
    choice = _choice(request, username, name)
    together = open_together(choice.shown)
    named = f"{choice.job.name}-{choice.task.label}" if choice.task else choice.job.name
    if request.GET.get("form") == "zip":
        return _saved(as_zip(together), f"{named}.zip", "application/zip")
    pieces = as_text(together, *_ranks(request, together))
    return _saved(pieces, f"{named}.txt", "text/plain; charset=utf-8")


@require_safe
async def log_stream(request: HttpRequest, username: str, name: str) -> HttpResponseBase:
    """Query: as the page's; from (log:line, joined by "-") or offset (log:byte); of the first log its number may be
    left out. The header Last-Event-ID is as offset, and wins over both. With then=1 it goes on behind the end until the
    job has another attempt, or has ended."""

    def begin() -> Any:
        choice, expression = _choice(request, username, name), _expression(request)
        waiting = [] if choice.task else choice.waiting()
        events = live_events(_watched(request, choice), expression, waiting)
        then = request.GET.get("then") == "1"
        return with_what_follows(events, choice.job.pk, choice.newest) if then else events

    return await _events(request, username, name, begin)


@require_safe
async def search_log(request: HttpRequest, username: str, name: str) -> HttpResponseBase:
    """Query: as the page's; q. Events of jobs/logs/together/hunt.py."""

    def begin() -> Any:
        choice, expression = _choice(request, username, name), _expression(request)
        if expression is None:
            raise BadRequest("Say in q what to look for.")
        return hunt_events(choice.shown, expression, request.user.pk or 0)

    return await _events(request, username, name, begin)


async def _events(request: HttpRequest, username: str, name: str, begin: Callable[[], Any]) -> HttpResponseBase:
    try:
        events = await sync_to_async(begin)()
        if not request.user.is_authenticated:
            guest_slots.take(getattr(request, "scope", {}))
    except LongshoreError as error:
        return await sync_to_async(error_answer)(request, error)
    welcome = while_allowed(request, lambda user: _still_may(user, username, name), events)
    headers = {"Cache-Control": "no-cache, no-transform", "X-Accel-Buffering": "no"}
    return StreamingHttpResponse(welcome, content_type="text/event-stream", headers=headers)


def _choice(request: HttpRequest, username: str, name: str) -> LogChoice:
    job = _require(viewer_of(request), username, name)
    query = request.GET.get
    hidden = [text for text in query("hide", "").split(",") if text]
    if any(whole(text, 5) is None for text in hidden):
        raise BadRequest("hide has numbers of logs, with commas between them.")
    attempt, stream, hide = _number(request, "attempt") or 0, query("stream", ""), frozenset(map(int, hidden))
    if not (tasks := query("tasks", "")):
        return choose_one(job, query("task", ""), attempt=attempt, stream=stream, hide=hide)
    if tasks != "all":
        raise BadRequest("tasks is all.")
    return choose_all(job, attempt=attempt, role=query("role", ""), stream=stream, hide=hide)


def _require(viewer: Viewer, username: str, name: str) -> Job:
    require_reader(viewer)
    job = queries.get_job(username, name)
    access.require_logs(viewer, job)
    return job


def _matches(choice: LogChoice, together: MergedLogs, expression: Expression) -> list[dict[str, Any]]:
    until = time.monotonic() + _SEARCH_SECONDS
    rows, _ = grep(together, expression, 0, together.total, _MATCHES, lambda: time.monotonic() > until)
    return [
        {
            "place": (together.rank_of(row.source, row.line.number) or 0) + 1,
            "row": row,
            "source": choice.sources[row.source],
        }
        for row in rows
    ]


def _still_may(user: Viewer, username: str, name: str) -> bool:
    """As ``_require``, which is asked once a second for all streams of one reader and job."""
    key = (user.username, user.role, username, name)
    if time.monotonic() - _allowed.get(key, -_REMEMBERED) < _REMEMBERED:
        return True
    _require(user, username, name)
    if len(_allowed) >= 10_000:
        _allowed.clear()
    _allowed[key] = time.monotonic()
    return True


def _saved(pieces: Iterator[bytes], name: str, kind: str) -> StreamingHttpResponse:
    headers = {"Content-Disposition": f'attachment; filename="{name}"', "X-Content-Type-Options": "nosniff"}
    return StreamingHttpResponse(pieces, content_type=kind, headers=headers)


def _ranks(request: HttpRequest, together: MergedLogs) -> tuple[int, int]:
    """The rank of the first line that the query asks for, and the one behind the last."""
    order = together.order
    since, until = _moment(request, "since"), _moment(request, "until")
    begin = 0 if since is None else order.at(since)
    stop = order.total if until is None else order.at(until + 1)
    if first := request.GET.get("first"):
        begin = max(begin, _rank_of(first, together))
    if last := request.GET.get("last"):
        stop = min(stop, _rank_of(last, together) + 1)
    return begin, stop


def _moment(request: HttpRequest, name: str) -> int | None:
    """A time of the query in nanoseconds; of a local time that is given to the second the first or last of it."""
    value = request.GET.get(name, "")
    if not value or value.isdecimal():
        number = _number(request, name)
        return None if number is None else number * 1_000_000
    try:
        moment = datetime.fromisoformat(value)
        moment = moment if moment.tzinfo else timezone.make_aware(moment)
        seconds = int(moment.timestamp())
    except (ValueError, OverflowError):
        raise BadRequest(f"{name} is a time such as 2026-11-20T14:28:00.") from None
    return max(0, seconds * 10**9 + (10**9 - 1 if name == "until" else 0))


def _place_of(request: HttpRequest, together: MergedLogs) -> int:
    """The place of the line that ``at`` names, or of the first one that is not before ``time``."""
    if text := request.GET.get("at"):
        return _rank_of(text, together) + 1
    return together.order.at((_number(request, "time") or 0) * 1_000_000) + 1


def _rank_of(text: str, together: MergedLogs) -> int:
    source, _, line = text.partition(".")
    if not re.fullmatch(r"\d{1,6}\.\d{1,12}", text, re.ASCII):
        raise BadRequest("A line is the number of its log and its own, with a dot between them.")
    rank = together.rank_of(int(source), int(line))
    if rank is None:
        raise NoLog(f"There is no line {line}.")
    return rank


def _watched(request: HttpRequest, choice: LogChoice) -> list[WatchedLog]:
    asked = request.headers.get("Last-Event-ID", "")
    by_offset = bool(asked) and _PLACES.match(asked) is not None
    if not by_offset:
        by_offset = bool(request.GET.get("offset"))
        asked = request.GET.get("offset", "") or request.GET.get("from", "")
        if not _PLACES.match(asked):
            raise BadRequest("from and offset are numbers, with - between them.")
    places = {}
    for text in filter(None, asked.split("-")):
        number, _, place = text.rpartition(":")
        places[int(number or 0)] = int(place)
    watched = [source for source in choice.shown if choice.task or source.task.state != TaskState.WAITING]
    return [
        WatchedLog(
            source.number,
            source.task.pk,
            source.stream,
            line=None if by_offset else places.get(source.number),
            offset=places.get(source.number) if by_offset else None,
            node=source.task.node if source.task.state in TASK_LIVE_STATES else "",
        )
        for source in watched
    ]


def _expression(request: HttpRequest) -> Expression | None:
    text = request.GET.get("q", "").strip("\r\n")
    return Expression(text) if text else None


def _number(request: HttpRequest, name: str) -> int | None:
    value = request.GET.get(name, "")
    if not value:
        return None
    if (number := whole(value, 15)) is None:
        raise BadRequest(f"{name} must be a number from 0 on.")
    return number
