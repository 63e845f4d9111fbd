"""The operations of WebHDFS that change nothing, each with the rights of the caller (portal.files.store.rules)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import BinaryIO
from urllib.parse import quote

from portal.core.errors import BadRequest, Forbidden
from portal.files.store import rules
from portal.files.store.base import Entry, PathNotFound
from portal.files.webhdfs import checksum, shapes
from portal.files.webhdfs.call import NEVER, Call
from portal.files.webhdfs.messages import NO_REDIRECT, Answer, Request, json_answer, redirect

PIECE = 1 << 19  # bytes of a download that wait for their client in memory; each costs two changes of threads
_EXACT = 200  # entries: of a longer list a store may tell the usual owners, modes and times
_RANGE = re.compile(r"bytes=(\d{1,18})-(\d{0,18})")
_DOWNLOAD = {
    "Content-Type": "application/octet-stream",
    "X-Content-Type-Options": "nosniff",
    "Content-Security-Policy": "default-src 'none'; sandbox",
    "Cache-Control": "private, no-store",
}


def status(call: Call) -> Answer:
    call.may_read(call.path)
    return json_answer({"FileStatus": call.shown(call.stat(call.path))})


def listing(call: Call) -> Answer:
    call.may_read(call.path)
    entry = call.stat(call.path)
    if entry.is_dir:
        inside = call.store.list(call.path) if entry.modified_at != NEVER else []
        found = rules.visible(inside, call.user.username, call.rights.is_admin, call.accounts)
        found = call.store.exact(found) if len(found) <= _EXACT else found
        rows = [call.shown(each, each.name) for each in found]
    else:
        rows = [call.shown(entry)]
    return json_answer({"FileStatuses": {"FileStatus": rows}})


def summary(call: Call) -> Answer:
    call.may_read(call.path)
    if not call.rights.is_admin and (call.path == "/" or rules.holds_all_users(call.path)):
        raise Forbidden(f"Permission denied: user={call.user.username}, path={call.path}: others' files are below it.")
    return json_answer(shapes.content_summary(call.store.usage(call.path)))


def home(call: Call) -> Answer:
    return json_answer({"Path": f"/user/{call.user.username}"})


def download(call: Call) -> Answer:
    entry = _file(call)
    if _is_first_step(call.request):
        return redirect(call.request)
    start, end, partial = _span(call.request, entry.size)
    name = quote(entry.name)
    headers = {**_DOWNLOAD, "Content-Length": str(end - start), "Accept-Ranges": "bytes"}
    headers["Content-Disposition"] = f"attachment; filename*=UTF-8''{name}"
    if partial:
        headers["Content-Range"] = f"bytes {start}-{end - 1}/{entry.size}"
    if start == end or call.request.method == "HEAD":
        return Answer(206 if partial else 200, headers)
    return Answer(206 if partial else 200, headers, _pieces(call.store.open_read(call.path, start, entry), end - start))


def _is_first_step(request: Request) -> bool:
    """Whether to answer a read with a redirect, as a NameNode always does; some clients take anything else for an
    error. A client that proves who asks is no client of a NameNode's and is spared the second request, unless it asks
    for the address."""
    if request.is_second_step() or request.method == "HEAD":
        return False
    return request.flag(NO_REDIRECT) or not request.has_credentials()


def file_checksum(call: Call) -> Answer:
    entry = _file(call)
    if _is_first_step(call.request):
        return redirect(call.request)
    with call.store.open_read(call.path, known=entry) as file:
        return json_answer({"FileChecksum": checksum.of_file(file, entry.size)})


def _file(call: Call) -> Entry:
    """The file that is asked for. Raises Forbidden, and PathNotFound for a folder, as a NameNode does."""
    call.may_read(call.path)
    entry = call.store.stat(call.path)
    if entry.is_dir:
        raise PathNotFound(f"{call.path} is a folder.")
    return entry


def _span(request: Request, size: int) -> tuple[int, int, bool]:
    """(first byte, byte after the last, whether a Range header asked for it)."""
    asked = _RANGE.fullmatch(request.headers.get("range", "").strip())
    if asked and "offset" not in request.params and int(asked[1]) < size:
        end = min(size, int(asked[2]) + 1) if asked[2] else size
        if end > int(asked[1]):
            return int(asked[1]), end, True
    start = request.number("offset", 0) or 0
    if start > size:
        raise BadRequest(f"Offset={start} out of the range [0, {size}].")
    length = request.number("length")
    return start, size if length is None else min(size, start + length), False


def _pieces(file: BinaryIO, left: int) -> Iterator[bytes]:
    with file:
        while left > 0 and (data := file.read(min(PIECE, left))):
            left -= len(data)
            yield data


def check_access(call: Call) -> Answer:
    call.may_read(call.path)  # before the store is asked, so that nobody learns which paths of others exist
    if "w" in call.request.params.get("fsaction", "r--"):
        call.may_write(call.path)
    call.stat(call.path)
    return Answer()
