"""The operations of WebHDFS that change nothing, each with the rights of the caller (base.files.store.rules)."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from typing import Any, BinaryIO
from urllib.parse import quote, urlsplit

from base.accounts import budget
from base.core.errors import BadRequest, Forbidden
from base.files.store import rules
from base.files.store.base import Entry, PathNotFound, TreeUsage, names_of
from portal.files.tars import FolderTar, require_tar
from portal.webhdfs import shapes
from portal.webhdfs.call import Call
from portal.webhdfs.messages import NO_REDIRECT, Answer, Request, json_answer, redirect

PIECE = 1 << 19  # bytes of a download that wait for their client in memory; each costs two changes of threads
_PART = 1000  # entries of one part of a listing, as HDFS has them
_EXACT = 200  # entries: of a longer list a store may tell the usual owners, modes and times
_RANGE = re.compile(r"bytes=(\d{1,18})-(\d{0,18})")
_DOWNLOAD = {
    "Content-Type": "application/octet-stream",
    "X-Content-Type-Options": "nosniff",
    "Content-Security-Policy": "default-src 'none'; sandbox",
    "Cache-Control": "private, no-store",
}


def status(call: Call) -> Answer:
    call.require_read(call.path)
    return json_answer({"FileStatus": call.shown(call.stat(call.path))})


def listing(call: Call) -> Answer:
    return json_answer({"FileStatuses": {"FileStatus": _rows(call)[0]}})


def listing_in_parts(call: Call) -> Answer:
    """Hadoop 3 asks for a folder in parts, each behind the name ``startAfter``, until nothing is left."""
    rows, left = _rows(call, call.request.params.get("startafter", ""), _PART)
    part = {"FileStatuses": {"FileStatus": rows}}
    return json_answer({"DirectoryListing": {"partialListing": part, "remainingEntries": left}})


def _rows(call: Call, after: str = "", most: int | None = None) -> tuple[list[dict[str, Any]], int]:
    """The first ``most`` entries behind the name ``after``, and how many more there are."""
    call.require_read(call.path)
    entry, left = call.stat(call.path), 0
    if not entry.is_dir:
        return ([] if after else [call.shown(entry)]), 0

    def pick(names: Sequence[str]) -> Sequence[str]:
        nonlocal left
        behind = names[bisect_right(names, after) :]
        seen = call.visible_names(call.path, behind)
        left = len(seen[most:]) if most else 0
        return seen[:most]

    try:
        entries = call.store.list(call.path, pick)
    except PathNotFound:  # a place of the user's that nobody has made yet
        entries = []
    entries = call.store.exact(entries) if len(entries) <= _EXACT else entries
    return [call.shown(each, each.name) for each in entries], left


def usage(call: Call) -> TreeUsage:
    call.require_read(call.path)
    if not call.is_admin and (call.path == "/" or rules.holds_all_users(call.path)):
        raise Forbidden(f"Permission denied: user={call.name}, path={call.path}: others' files are below it.")
    return call.store.usage(call.path)


def block_locations(call: Call) -> Answer:
    host = urlsplit(call.request.url).hostname or "localhost"
    return json_answer(shapes.block_locations(_file(call).size, host))


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


def pack(call: Call) -> Answer:
    """The folder with all that is in it as one tar."""
    call.require_read(call.path)
    require_tar(call, call.path)
    headers = {**_DOWNLOAD, "Content-Type": "application/x-tar"}
    headers["Content-Disposition"] = f"attachment; filename*=UTF-8''{quote(names_of(call.path)[-1])}.tar"
    return Answer(200, headers, FolderTar(call, call.path))


def file_checksum(call: Call) -> Answer:
    entry = _file(call)
    if _is_first_step(call.request):
        return redirect(call.request)
    spender = f"{call.name}: checksums"  # apart from the pages: a job that sums up files slows down no typing
    with budget.question(spender), call.store.open_read(call.path, known=entry) as file:
        return json_answer(shapes.file_checksum(file, entry.size))


def _file(call: Call) -> Entry:
    """The file that is asked for. Raises Forbidden, and PathNotFound for a folder, as a NameNode does."""
    call.require_read(call.path)
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
    if request.params.get("offset") == "-1":  # other numbers leave it to the server so
        raise BadRequest("Offset=-1 is before the first byte of the file. Name one from 0 on.")
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
    call.require_read(call.path)  # before the store is asked, so that nobody learns which paths of others exist
    if "w" in call.request.params.get("fsaction", "r--"):
        call.require_write(call.path)
    call.stat(call.path)
    return Answer()
