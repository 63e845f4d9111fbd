"""Routes of ``containerLog`` (v1 contract, 5.10): logs as HTML pages that old portals parse, and the list of them.

An old portal appends a file's name to ``containerLog``. In the page it looks for an element of class ``content``, in
that for the first ``<pre>``, which is the text, and before it for an element with one link, which leads to the whole
log.
"""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from urllib.parse import quote

from django.http import HttpResponseBase, StreamingHttpResponse
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.request import Request

from base.core.errors import BadRequest
from base.core.words import whole
from jobs import access
from jobs.logs.read import Log, find_task, open_log
from jobs.models import Job, Task
from portal.logs.api import AS_TEXT_OR_PAGE, STREAM_NAMES, TaskLog, output_of
from portal.shared.api.openapi import errors
from portal.shared.api.v1 import V1View
from portal.shared.jobs import serializers
from portal.shared.jobs.base import find_job
from portal.shared.viewer import viewer_of

_SHOWN = 4096  # bytes
_LONGEST_NUMBER = 15  # digits
_ESCAPES = ((b"&", b"&amp;"), (b"<", b"&lt;"), (b">", b"&gt;"))
_MIDDLES = bytes(range(0x80, 0xC0))  # bytes inside a character of UTF-8
_HTML = "text/html; charset=utf-8"
_OURS = frozenset({"tail", "offset", "download"})  # parameters of clients that want plain text
_HEAD = (
    '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><title>{title}</title></head>\n'
    '<body><div class="content">\n'
)
_TAIL = "</div></body></html>\n"


class ContainerLog(TaskLog):
    @extend_schema(
        summary="The log of a task in one attempt, as a page",
        parameters=[OpenApiParameter("start", int, description="from this byte on; negative: so many before the end")],
        responses={**AS_TEXT_OR_PAGE, **errors(503)},
    )
    def get(
        self, request: Request, job: str, role: str, index: int, stream: str, username: str = "", attempt: int = 0
    ) -> HttpResponseBase:
        if _OURS & request.query_params.keys() or request.headers.get("Accept", "").startswith("text/plain"):
            return super().get(request, job, role, index, stream, username, attempt)
        task = _readable_task(request, username, job, role, index, attempt)
        output, start = output_of(stream), _start(request)
        log = open_log(task, output)
        size = log.view.size
        first = min(size, start) if start >= 0 else max(0, size + start)
        says = f"Showing {size - first} bytes of {size} total."
        return _answer(_page(f"{task.label} {stream}", says, f"{_folder(task)}{quote(stream)}?start=0", log, first))


class ContainerLogs(V1View):
    """The page at the address ``containerLog`` itself."""

    @extend_schema(summary="The logs of a task in one attempt", responses={(200, _HTML): OpenApiTypes.STR})
    def get(
        self, request: Request, job: str, role: str, index: int, attempt: int, username: str = ""
    ) -> HttpResponseBase:
        task = _readable_task(request, username, job, role, index, attempt)
        folder = _folder(task)
        links = "".join(f'<li><a href="{escape(folder + name)}">{name}</a></li>\n' for name in STREAM_NAMES)
        title = escape(f"Logs of {task.label}")
        return _answer(iter([f"{_HEAD.format(title=title)}<p>{title}</p>\n<ul>\n{links}</ul>\n{_TAIL}".encode()]))


def _readable_task(request: Request, username: str, job: str, role: str, index: int, attempt: int) -> Task:
    row: Job = find_job(request, username, job)
    access.require_logs(viewer_of(request), row)
    return find_task(row, role, index, attempt or None)


def _folder(task: Task) -> str:
    return f"/api/v1{serializers.log_path(task.job, task.role, task.index, task.attempt.number)}"


def _start(request: Request) -> int:
    text = request.query_params.get("start", str(-_SHOWN))
    if whole(text.removeprefix("-"), _LONGEST_NUMBER) is None:
        raise BadRequest('child "start" fails because ["start" must be a number]')
    return int(text)


def _page(title: str, says: str, whole: str, log: Log, first: int) -> Iterator[bytes]:
    link = f'<p>{says} Click <a href="{escape(whole)}">here</a> for the full log.</p>\n'
    yield f"{_HEAD.format(title=escape(title))}{link}<pre>".encode()
    pieces = _whole_characters(log, first)
    opening = next(pieces, b"")
    yield (b"\n" if opening.startswith(b"\n") else b"") + opening  # a browser drops a newline right behind <pre>
    yield from pieces
    yield f"</pre>\n{_TAIL}".encode()


def _whole_characters(log: Log, first: int) -> Iterator[bytes]:
    """The log from byte ``first`` on as HTML text, without the rest of a character that is cut there."""
    is_cut = first > 0
    for piece in log.view.pieces(first):
        if is_cut:
            piece, is_cut = piece[:3].lstrip(_MIDDLES) + piece[3:], False
        for sign, name in _ESCAPES:
            piece = piece.replace(sign, name)
        yield piece


def _answer(pieces: Iterator[bytes]) -> StreamingHttpResponse:
    return StreamingHttpResponse(pieces, content_type=_HTML, headers={"Cache-Control": "no-store"})
