"""Answers the requests of WebHDFS: finds out who asks and which operation is meant. ``reads``, ``changes`` and
``tokens`` are the operations."""

from __future__ import annotations

from collections.abc import Callable

from portal.core.errors import BadRequest, Forbidden, LongshoreError
from portal.files.store import open_store
from portal.files.webhdfs import addresses, changes, reads, shapes, tokens, who
from portal.files.webhdfs.call import Call
from portal.files.webhdfs.messages import Answer, Request, json_answer


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


_GET: dict[str, Callable[[Call], Answer]] = {
    "OPEN": reads.download,
    "GETFILESTATUS": reads.status,
    "LISTSTATUS": reads.listing,
    "GETCONTENTSUMMARY": reads.summary,
    "GETHOMEDIRECTORY": reads.home,
    "GETDELEGATIONTOKEN": tokens.grant,
    "GETFILECHECKSUM": reads.file_checksum,
    "CHECKACCESS": reads.check_access,
}
_OPS: dict[str, dict[str, Callable[[Call], Answer]]] = {
    "GET": _GET,
    "HEAD": {"OPEN": reads.download, "GETFILESTATUS": reads.status},
    "PUT": {
        "CREATE": changes.create,
        "MKDIRS": changes.mkdirs,
        "RENAME": changes.rename,
        "SETPERMISSION": changes.set_permission,
        "SETOWNER": changes.set_owner,
        "SETTIMES": changes.set_nothing,
        "SETREPLICATION": changes.set_nothing,
        "RENEWDELEGATIONTOKEN": tokens.renew,
        "CANCELDELEGATIONTOKEN": tokens.cancel,
    },
    "POST": {"APPEND": changes.append, "TRUNCATE": changes.truncate, "CONCAT": changes.concat},
    "DELETE": {"DELETE": changes.delete},
}
