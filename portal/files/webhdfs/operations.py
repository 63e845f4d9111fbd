"""The operations of WebHDFS, each with the rights of the caller (portal.files.store.rules)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import BinaryIO
from urllib.parse import quote

from portal.core.errors import BadRequest, Forbidden, LongshoreError, NotFound
from portal.files.store import delegation, open_store, rules
from portal.files.store.base import PathExists, PathNotFound, find, names_of
from portal.files.webhdfs import addresses, checksum, shapes, who
from portal.files.webhdfs.call import NEVER, Call
from portal.files.webhdfs.messages import NO_REDIRECT, Answer, Request, json_answer
from portal.models import User

PIECE = 1 << 18  # bytes of a download that wait for their client in memory
_RANGE = re.compile(r"bytes=(\d{1,18})-(\d{0,18})")
_DOWNLOAD = {
    "Content-Type": "application/octet-stream",
    "X-Content-Type-Options": "nosniff",
    "Content-Security-Policy": "default-src 'none'; sandbox",
    "Cache-Control": "private, no-store",
}


def respond(request: Request) -> Answer:
    """Answer the request; errors of ours are answers too."""
    try:
        return _respond(request)
    except LongshoreError as error:
        return refused(error)


def refused(error: LongshoreError) -> Answer:
    """The answer to an error of ours."""
    body, status = shapes.remote_exception(error)
    return json_answer(body, status, **({"WWW-Authenticate": "Bearer"} if status == 401 else {}))


def _respond(request: Request) -> Answer:
    request = addresses.completed(request)
    ops = _OPS.get(request.method)
    if ops is None or request.op not in ops:
        raise BadRequest(f"Invalid value for webhdfs parameter 'op': {request.op or 'none'} is no {request.method}.")
    rights = who.caller(request)
    if not rights.allows(request.op, request.path):
        raise Forbidden("This token was made for something else.")
    return ops[request.op](Call(request, rights, open_store()))


# --- reading ---------------------------------------------------------------------------------------------------------


def _status(call: Call) -> Answer:
    call.may_read(call.path)
    return json_answer({"FileStatus": call.shown(call.stat(call.path))})


def _list(call: Call) -> Answer:
    call.may_read(call.path)
    entry = call.stat(call.path)
    if entry.is_dir:
        inside = call.store.list(call.path) if entry.modified_at != NEVER else []
        found = rules.visible(inside, call.user.username, call.rights.is_admin, call.accounts)
        rows = [call.shown(each, each.name) for each in found]
    else:
        rows = [call.shown(entry)]
    return json_answer({"FileStatuses": {"FileStatus": rows}})


def _summary(call: Call) -> Answer:
    call.may_read(call.path)
    if not call.rights.is_admin and (call.path == "/" or rules.holds_all_users(call.path)):
        raise Forbidden(f"Permission denied: user={call.user.username}, path={call.path}: others' files are below it.")
    return json_answer(shapes.content_summary(call.store.usage(call.path)))


def _home(call: Call) -> Answer:
    return json_answer({"Path": f"/user/{call.user.username}"})


def _open(call: Call) -> Answer:
    call.may_read(call.path)
    entry = call.store.stat(call.path)
    if entry.is_dir:
        raise PathNotFound(f"{call.path} is a folder.")
    if _is_first_step(call.request):
        return _redirect(call.request)
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


def _checksum(call: Call) -> Answer:
    call.may_read(call.path)
    entry = call.store.stat(call.path)
    if entry.is_dir:
        raise PathNotFound(f"{call.path} is a folder.")
    if _is_first_step(call.request):
        return _redirect(call.request)
    with call.store.open_read(call.path, known=entry) as file:
        return json_answer({"FileChecksum": checksum.of_file(file, entry.size)})


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


def _check_access(call: Call) -> Answer:
    call.may_read(call.path)  # before the store is asked, so that nobody learns which paths of others exist
    if "w" in call.request.params.get("fsaction", "r--"):
        call.may_write(call.path)
    call.stat(call.path)
    return Answer()


def _token(call: Call) -> Answer:
    if call.request.params.get("delegation"):  # as HDFS does: else a token could get successors for ever
        raise Forbidden("A delegation token is given to who signs in, not to who comes with another one.")
    return json_answer({"Token": {"urlString": delegation.grant(call.user)}})


def _renew_token(call: Call) -> Answer:
    until = delegation.renew(call.request.params.get("token", ""), _owner_of_tokens(call))
    if until is None:
        raise Forbidden("This is no delegation token of yours, or it has ended.")
    return json_answer({"long": int(until.timestamp() * 1000)})


def _cancel_token(call: Call) -> Answer:
    if not delegation.cancel(call.request.params.get("token", ""), _owner_of_tokens(call)):
        raise Forbidden("This is no delegation token of yours, or it has ended.")
    return Answer()


def _owner_of_tokens(call: Call) -> User:
    if call.rights.path or call.rights.ops or call.rights.app_id:
        raise Forbidden("This token was made for something else.")
    return call.user


# --- writing ---------------------------------------------------------------------------------------------------------


def _create(call: Call) -> Answer:
    call.may_write(call.path)
    overwrite, mode = call.request.flag("overwrite"), call.request.mode(0o644)
    there = call.find(call.path)
    if there and there.is_dir:
        raise PathExists(f"{call.path} already exists as a directory.")
    if there and not overwrite:
        raise PathExists(f"{call.path} for client {call.request.address} already exists.")
    if not _has_data(call.request):
        return _redirect(call.request)
    size = call.request.length
    into = call.writes.begin(call.path, owner=call.owner, mode=mode, overwrite=overwrite, size=size)
    return Answer(201, {"Location": f"{call.request.url}"}, into=into)


def _append(call: Call) -> Answer:
    call.may_write(call.path)
    if call.store.stat(call.path).is_dir:
        raise PathNotFound(f"{call.path} is a folder.")
    if not _has_data(call.request):
        return _redirect(call.request)
    return Answer(into=call.writes.begin_append(call.path, size=call.request.length))


def _has_data(request: Request) -> bool:
    """Whether the request carries the data. The first step has none yet; the second may have none either, for an empty
    file."""
    return request.is_second_step() or (request.has_body and not request.flag(NO_REDIRECT))


def _redirect(request: Request) -> Answer:
    if request.flag(NO_REDIRECT):
        return json_answer({"Location": request.second_step()})
    return Answer(307, {"Location": request.second_step(), "Content-Type": "application/octet-stream"})


def _mkdirs(call: Call) -> Answer:
    call.may_write(call.path)
    call.store.mkdirs(call.path, owner=call.owner, mode=call.request.mode(0o755))
    return json_answer({"boolean": True})


def _rename(call: Call) -> Answer:
    """As HDFS does it: into the target if that is a folder; false when it cannot be done."""
    target = _path(call.request.params.get("destination", ""), "destination")
    call.may_remove(call.path)
    call.may_read(target)  # before the store is asked
    there = call.find(target)
    if there and there.is_dir:
        target = f"{target.rstrip('/')}/{names_of(call.path)[-1]}"
    call.may_write(target)
    if names_of(target)[: len(names_of(call.path))] == names_of(call.path):
        return json_answer({"boolean": False})  # onto itself, or into itself
    overwrite = call.request.params.get("renameoptions", "").upper() == "OVERWRITE"
    if overwrite and find(call.store, target):
        call.may_remove(target)
    if rules.is_place(folder := target.rpartition("/")[0], call.user.username):
        call.store.mkdirs(folder, owner=rules.owner_by_name(folder))
    try:
        call.writes.rename(call.path, target, overwrite=overwrite)
    except (NotFound, PathExists):
        return json_answer({"boolean": False})
    return json_answer({"boolean": True})


def _delete(call: Call) -> Answer:
    call.may_remove(call.path)
    there = find(call.store, call.path) is not None
    call.writes.delete(call.path, recursive=call.request.flag("recursive"))
    return json_answer({"boolean": there})


def _truncate(call: Call) -> Answer:
    call.may_write(call.path)
    length = call.request.number("newlength")
    if length is None:
        raise BadRequest("The parameter 'newlength' is missing.")
    call.writes.truncate(call.path, length)
    return json_answer({"boolean": True})


def _concat(call: Call) -> Answer:
    sources = [_path(each, "sources") for each in call.request.params.get("sources", "").split(",") if each]
    if not sources:
        raise BadRequest("The parameter 'sources' is missing.")
    call.may_write(call.path)
    for source in sources:
        call.may_remove(source)
    call.writes.concat(call.path, sources)
    return Answer()


def _set_permission(call: Call) -> Answer:
    """Rights follow the path. Scripts that set the usual mode succeed, with a note; a mode that promises secrecy is
    refused, as it would not be kept."""
    call.may_write(call.path)
    entry, mode = call.store.stat(call.path), call.request.mode(0o755)
    if rules.is_read_by_all(call.path, call.accounts) and not mode & 0o004:
        own = f"/users/{call.user.username}"
        raise Forbidden(f"Permission denied: everyone reads {call.path}. What only you are to read goes below {own}.")
    call.store.change(call.path, mode=mode)
    holds = rules.shown(replace(entry, mode=mode), call.accounts).mode
    return _done_or_noted(holds == mode, f"Rights follow the path here: {call.path} has {holds:o}, whatever is asked.")


def _set_owner(call: Call) -> Answer:
    """Owners follow the path too, except in folders that everyone writes."""
    if not call.rights.is_admin:
        raise Forbidden("Permission denied: only an admin gives a file to somebody else.")
    entry, asked = call.store.stat(call.path), call.request.params.get("owner") or ""
    if asked and not rules.is_written_by_all(call.path) and asked != (holds := rules.shown(entry, call.accounts).owner):
        raise Forbidden(f"Permission denied: {call.path} is {holds}'s by its path. {asked}'s files go below /{asked}.")
    if asked:
        call.store.change(call.path, owner=asked)
    return _done_or_noted(not call.request.params.get("group"), "Groups of files decide nothing here.")


def _done_or_noted(is_done: bool, otherwise: str) -> Answer:
    """Success, with a note when the result is not all that was asked for."""
    return Answer(headers={} if is_done else {"X-Warning": quote(otherwise, " :,.'/")})


def _set_nothing(call: Call) -> Answer:
    """Times and replication are the store's business: accepted and ignored, as clients that copy set them."""
    call.may_write(call.path)
    call.store.stat(call.path)
    return json_answer({"boolean": True}) if call.request.op == "SETREPLICATION" else Answer()


def _path(text: str, name: str) -> str:
    if not text:
        raise BadRequest(f"The parameter {name!r} is missing.")
    return rules.path_of(text)


_GET: dict[str, Callable[[Call], Answer]] = {
    "OPEN": _open,
    "GETFILESTATUS": _status,
    "LISTSTATUS": _list,
    "GETCONTENTSUMMARY": _summary,
    "GETHOMEDIRECTORY": _home,
    "GETDELEGATIONTOKEN": _token,
    "GETFILECHECKSUM": _checksum,
    "CHECKACCESS": _check_access,
}
_OPS: dict[str, dict[str, Callable[[Call], Answer]]] = {
    "GET": _GET,
    "HEAD": {"OPEN": _open, "GETFILESTATUS": _status},
    "PUT": {
        "CREATE": _create,
        "MKDIRS": _mkdirs,
        "RENAME": _rename,
        "SETPERMISSION": _set_permission,
        "SETOWNER": _set_owner,
        "SETTIMES": _set_nothing,
        "SETREPLICATION": _set_nothing,
        "RENEWDELEGATIONTOKEN": _renew_token,
        "CANCELDELEGATIONTOKEN": _cancel_token,
    },
    "POST": {"APPEND": _append, "TRUNCATE": _truncate, "CONCAT": _concat},
    "DELETE": {"DELETE": _delete},
}
