"""Answers the requests of WebHDFS: finds out who asks and which operation is meant. ``reads`` and ``changes`` are the
operations; those about delegation tokens (base.files.store.delegation) are here."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from base.accounts import audit
from base.accounts.scopes import Scope
from base.accounts.viewer import require_scope
from base.core.errors import BadRequest, Forbidden, LongshoreError
from base.core.signals import about_jobs
from base.files.store import delegation, open_store
from base.files.store_actor import KnownAccounts
from base.models import User
from portal.webhdfs import changes, reads, shapes
from portal.webhdfs.call import Call, caller
from portal.webhdfs.messages import Answer, Request, Unsupported, json_answer


def respond(request: Request) -> Answer:
    """Answer the request; errors of ours are answers too."""
    try:
        return _respond(request)
    except LongshoreError as error:
        return refused(error)


def refused(error: LongshoreError, told: Callable[[], Mapping[str, Any]] | None = None) -> Answer:
    """The answer to an error of ours. ``told``: what was done nevertheless."""
    body, status = shapes.remote_exception(error)
    headers = {**error.headers, **({"WWW-Authenticate": "Bearer"} if status == 401 else {})}
    return json_answer({**body, **(told() if told else {})}, status, **headers)


def _respond(request: Request) -> Answer:
    request = _completed(request)
    ops = _OPS.get(request.method)
    if ops is None or request.op not in ops:
        raise _unknown(request)
    rights = caller(request)
    name = rights.user.username
    try:
        scope = _scope_of(request)
        require_scope(rights.user, scope, reads=scope == Scope.FILES_READ)
        if not rights.allows(request.op, request.path):
            raise Forbidden("This token was made for something else.")
        call = Call(name, rights.is_admin, KnownAccounts(), open_store(), request=request, rights=rights)
        return ops[request.op](call)
    except Forbidden:
        audit.refused(name, request.path, request.op, ip=request.address or None, way="WebHDFS")
        raise


def _scope_of(request: Request) -> Scope:
    """A token that only reads may be renewed and cancelled by whoever reads."""
    reads = request.method in ("GET", "HEAD") or request.op.endswith("DELEGATIONTOKEN")
    return Scope.FILES_READ if reads else Scope.FILES_WRITE


def _completed(request: Request) -> Request:
    """Add the operation that the token names: an address may have no more than a token for one operation."""
    if request.method == "GET":
        request = replace(request, path=about_jobs().moved_file(request.path))
    if request.op or not (token := request.params.get("delegation")):
        return request
    rights = delegation.read(token)
    if rights is None or len(rights.ops) != 1:
        return request
    return replace(request, params={**request.params, "op": next(iter(rights.ops))})


# What of HDFS is not here, as its operations are named.
_NOT_HERE = (
    ("ACL", "access control lists: rights follow the path"),
    ("XATTR", "extended attributes"),
    ("SNAPSHOT", "snapshots"),
    ("STORAGEPOLIC", "storage policies"),
    ("ECPOLICY", "erasure coding"),
    ("SYMLINK", "symbolic links"),
    ("SETQUOTA", "quotas by WebHDFS: an admin sets them in the portal"),
    ("GET_BLOCK_LOCATIONS", "the addresses of blocks in this form: GETFILEBLOCKLOCATIONS has them"),
)


def _unknown(request: Request) -> BadRequest:
    what = next((what for part, what in _NOT_HERE if part in request.op), "")
    if what:
        return Unsupported(f"{request.op} is not supported here. This file store has no {what}.")
    said = f"{request.op or 'none'} is no {request.method}"
    return BadRequest(f"Invalid value for webhdfs parameter 'op': {said}.")


def _grant(call: Call) -> Answer:
    if call.request.params.get("delegation"):  # as HDFS does: else a token could get successors for ever
        raise Forbidden("A delegation token is given to who signs in, not to who comes with another one.")
    return json_answer({"Token": {"urlString": delegation.grant(call.rights.user)}})


def _renew(call: Call) -> Answer:
    until = delegation.renew(call.request.params.get("token", ""), _owner_of_tokens(call))
    if until is None:
        raise Forbidden("This is no delegation token of yours, or it has ended.")
    return json_answer({"long": int(until.timestamp() * 1000)})


def _cancel(call: Call) -> Answer:
    if not delegation.cancel(call.request.params.get("token", ""), _owner_of_tokens(call)):
        raise Forbidden("This is no delegation token of yours, or it has ended.")
    return Answer()


def _owner_of_tokens(call: Call) -> User:
    if call.rights.path or call.rights.ops or call.rights.app_id:
        raise Forbidden("This token was made for something else.")
    return call.rights.user


_GET: dict[str, Callable[[Call], Answer]] = {
    "OPEN": reads.download,
    "GETFILESTATUS": reads.status,
    "LISTSTATUS": reads.listing,
    "LISTSTATUS_BATCH": reads.listing_in_parts,
    "GETCONTENTSUMMARY": lambda call: json_answer(shapes.content_summary(reads.usage(call))),
    "GETQUOTAUSAGE": lambda call: json_answer(shapes.quota_usage(reads.usage(call))),
    "GETFILEBLOCKLOCATIONS": reads.block_locations,
    "GETSERVERDEFAULTS": lambda call: json_answer(shapes.server_defaults()),
    "GETTRASHROOT": lambda call: json_answer({"Path": f"/user/{call.name}/.Trash"}),
    "GETHOMEDIRECTORY": lambda call: json_answer({"Path": f"/user/{call.name}"}),
    "GETDELEGATIONTOKEN": _grant,
    "GETFILECHECKSUM": reads.file_checksum,
    "PACK": reads.pack,
    "CHECKACCESS": reads.check_access,
}
_OPS: dict[str, dict[str, Callable[[Call], Answer]]] = {
    "GET": _GET,
    "HEAD": {"OPEN": reads.download, "GETFILESTATUS": reads.status},
    "PUT": {
        "CREATE": changes.create,
        "UNPACK": changes.unpack,
        "MKDIRS": changes.mkdirs,
        "RENAME": changes.rename,
        "SETPERMISSION": changes.set_permission,
        "SETOWNER": changes.set_owner,
        "SETTIMES": changes.set_times,
        "SETREPLICATION": changes.set_replication,
        "RENEWDELEGATIONTOKEN": _renew,
        "CANCELDELEGATIONTOKEN": _cancel,
    },
    "POST": {"APPEND": changes.append, "TRUNCATE": changes.truncate, "CONCAT": changes.concat},
    "DELETE": {"DELETE": changes.delete},
}
