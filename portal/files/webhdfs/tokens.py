"""The operations of WebHDFS about delegation tokens (portal.files.store.delegation)."""

from __future__ import annotations

from portal.core.errors import Forbidden
from portal.files.store import delegation
from portal.files.webhdfs.call import Call
from portal.files.webhdfs.messages import Answer, json_answer
from portal.models import User


def grant(call: Call) -> Answer:
    if call.request.params.get("delegation"):  # as HDFS does: else a token could get successors for ever
        raise Forbidden("A delegation token is given to who signs in, not to who comes with another one.")
    return json_answer({"Token": {"urlString": delegation.grant(call.user)}})


def renew(call: Call) -> Answer:
    until = delegation.renew(call.request.params.get("token", ""), _owner_of_tokens(call))
    if until is None:
        raise Forbidden("This is no delegation token of yours, or it has ended.")
    return json_answer({"long": int(until.timestamp() * 1000)})


def cancel(call: Call) -> Answer:
    if not delegation.cancel(call.request.params.get("token", ""), _owner_of_tokens(call)):
        raise Forbidden("This is no delegation token of yours, or it has ended.")
    return Answer()


def _owner_of_tokens(call: Call) -> User:
    if call.rights.path or call.rights.ops or call.rights.app_id:
        raise Forbidden("This token was made for something else.")
    return call.user
