"""The operations of WebHDFS that write, each with the rights of the caller (base.files.store.rules)."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from urllib.parse import quote

from base.accounts import audit
from base.core.errors import BadRequest, Forbidden, NotFound
from base.files.store import rules
from base.files.store.base import PathExists, PathNotFound, find, names_of
from base.files.store_actor import inside
from portal.webhdfs.call import Call
from portal.webhdfs.messages import LENGTH, NO_REDIRECT, Answer, Request, Unsupported, json_answer, redirect
from portal.webhdfs.unpacking import Unpacking


def create(call: Call) -> Answer:
    call.require_write(call.path)
    overwrite, mode = call.request.flag("overwrite"), call.request.mode(0o644)
    there = call.find(call.path)
    if there and there.is_dir:
        raise PathExists(f"{call.path} already exists as a directory.")
    if there and not overwrite:
        raise PathExists(f"{call.path} for client {call.request.address} already exists.")
    if not _has_data(call.request):
        if length := call.request.number(LENGTH):
            call.writes.require_room(call.path, length)
        return redirect(call.request)
    size = call.request.length
    into = call.writes.begin(call.path, owner=call.owner_for(call.path), mode=mode, overwrite=overwrite, size=size)
    return Answer(201, {"Location": f"{call.request.url}"}, into=into)


def append(call: Call) -> Answer:
    call.require_write(call.path)
    if call.store.stat(call.path).is_dir:
        raise PathNotFound(f"{call.path} is a folder.")
    if not _has_data(call.request):
        return redirect(call.request)
    return Answer(into=call.writes.begin_append(call.path, size=call.request.length))


def unpack(call: Call) -> Answer:
    """The body is a tar, whose files go into the folder; ``length`` says how many bytes they have together."""
    call.require_write(inside(call.path, "a"))
    if call.path == "/" or rules.holds_all_users(call.path):
        raise BadRequest(f"{call.path} has folders of several users. Unpack into one of them.")
    into = Unpacking(call, call.request.number(LENGTH, 0) or 0, overwrite=call.request.flag("overwrite"))
    return Answer(into=into, told=into.told)


def _has_data(request: Request) -> bool:
    """Whether the request carries the data. The first step has none yet; the second may have none either, for an empty
    file."""
    return request.is_second_step() or (request.has_body and not request.flag(NO_REDIRECT))


def mkdirs(call: Call) -> Answer:
    call.require_write(call.path)
    call.store.mkdirs(call.path, owner=call.owner_for(call.path), mode=call.request.mode(0o755))
    return json_answer({"boolean": True})


def rename(call: Call) -> Answer:
    """As HDFS does it: into the target if that is a folder; false when it cannot be done."""
    target = _path(call.request.params.get("destination", ""), "destination")
    call.require_remove(call.path)
    call.require_read(target)  # before the store is asked
    there = call.find(target)
    if there and there.is_dir:
        target = f"{target.rstrip('/')}/{names_of(call.path)[-1]}"
    call.require_write(target)
    if names_of(target)[: len(names_of(call.path))] == names_of(call.path):
        return json_answer({"boolean": False})  # onto itself, or into itself
    overwrite = call.request.params.get("renameoptions", "").upper() == "OVERWRITE"
    if overwrite and find(call.store, target):
        call.require_remove(target)
    if rules.is_place(folder := target.rpartition("/")[0], call.name):
        call.store.mkdirs(folder, owner=rules.owner_by_name(folder))
    try:
        call.writes.rename(call.path, target, overwrite=overwrite)
    except (NotFound, PathExists):
        return json_answer({"boolean": False})
    return json_answer({"boolean": True})


def delete(call: Call) -> Answer:
    """What a user deletes is recorded. What a job deletes with its own token is not: it may be thousands of files."""
    call.require_remove(call.path)
    there = find(call.store, call.path) is not None
    call.writes.delete(call.path, recursive=call.request.flag("recursive"))
    if there and not call.rights.app_id:
        audit.record(call.name, "files deleted", call.path, ip=call.request.address or None, way="WebHDFS")
    return json_answer({"boolean": there})


def truncate(call: Call) -> Answer:
    call.require_write(call.path)
    length = call.request.number("newlength")
    if length is None:
        raise BadRequest("The parameter 'newlength' is missing.")
    call.writes.truncate(call.path, length)
    return json_answer({"boolean": True})


def concat(call: Call) -> Answer:
    sources = [_path(each, "sources") for each in call.request.params.get("sources", "").split(",") if each]
    if not sources:
        raise BadRequest("The parameter 'sources' is missing.")
    call.require_write(call.path)
    for source in sources:
        call.require_remove(source)
    call.writes.concat(call.path, sources)
    return Answer()


def set_permission(call: Call) -> Answer:
    """Rights follow the path. Scripts that set the usual mode succeed, with a note; a mode that promises secrecy is
    refused, as it would not be kept."""
    call.require_write(call.path)
    entry, mode = call.store.stat(call.path), call.request.mode(0o755)
    if rules.is_read_by_all(call.path, call.accounts) and not mode & 0o004:
        own = f"/users/{call.name}"
        raise Forbidden(f"Permission denied: everyone reads {call.path}. What only you are to read goes below {own}.")
    call.store.change(call.path, mode=mode)
    holds = rules.shown(replace(entry, mode=mode), call.accounts).mode
    return _done_or_noted(holds == mode, f"Rights follow the path here: {call.path} has {holds:o}, whatever is asked.")


def set_owner(call: Call) -> Answer:
    """Owners follow the path too, except in folders that everyone writes. Who may write a file may ask for what it has
    already, as clients do that copy owners."""
    call.require_write(call.path)
    entry, asked = call.store.stat(call.path), call.request.params.get("owner") or ""
    holds = rules.shown(entry, call.accounts)
    if asked not in ("", holds.owner):
        if not call.is_admin:
            raise Forbidden("Permission denied: only an admin gives a file to somebody else.")
        if not rules.is_written_by_all(call.path):
            told = f"{call.path} is {holds.owner}'s by its path. {asked}'s files go below /{asked}."
            raise Forbidden(f"Permission denied: {told}")
        call.store.change(call.path, owner=asked)
    return _done_or_noted(call.request.params.get("group", "") in ("", holds.group), "Groups decide nothing here.")


def _done_or_noted(is_done: bool, otherwise: str) -> Answer:
    """Success, with a note when the result is not all that was asked for."""
    return Answer(headers={} if is_done else {"X-Warning": quote(otherwise, " :,.'/")})


def set_times(call: Call) -> Answer:
    """The time of the last change; nobody notes when a file was read. A bucket keeps its own times."""
    call.require_write(call.path)
    entry, milliseconds = call.store.stat(call.path), call.request.number("modificationtime")
    if milliseconds is None:
        return _done_or_noted(call.request.number("accesstime") is None, "No times of access are kept here.")
    asked = _moment(milliseconds)
    call.store.change(call.path, modified_at=asked)
    is_set = call.store.stat(entry.path).modified_at == asked
    return _done_or_noted(is_set, f"This store sets the times of its files itself: {call.path} was not changed.")


def _moment(milliseconds: int) -> datetime:
    try:
        return datetime.fromtimestamp(milliseconds / 1000, UTC)
    except (ValueError, OverflowError, OSError):
        raise BadRequest(f"Invalid value for webhdfs parameter 'modificationtime': {milliseconds}.") from None


def set_replication(call: Call) -> Answer:
    """A file counts as one copy here, as listings say. To accept more would keep ``-setrep -w`` waiting for ever."""
    call.require_write(call.path)
    entry, asked = call.store.stat(call.path), call.request.number("replication")
    if asked not in (None, 1):
        raise Unsupported(f"{call.path}: how many copies there are is set for the whole store, by its admin.")
    return json_answer({"boolean": not entry.is_dir})


def _path(text: str, name: str) -> str:
    if not text:
        raise BadRequest(f"The parameter {name!r} is missing.")
    return rules.path_of(text)
