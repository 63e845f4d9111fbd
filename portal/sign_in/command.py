"""``longshore login`` by the browser: who is signed in there lets the command of their own machine have a token.

As in RFC 8252 and 7636. The command listens on 127.0.0.1 and opens the page with its port and the hash of a secret that
it has made. Who says yes there sends it a code, which opens once, within TICKET_SECONDS, and with that secret alone. So
the link of somebody else gives them nothing, since the code goes to the machine of who says yes; and who sees a code
cannot use it. For a link of who shares that machine, page and command show the same sign. A code leads to the path that
only the command and the page know, so no other page of the browser can answer in its place.
"""

from __future__ import annotations

import hashlib
import re
from typing import Annotated

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from drf_spectacular.utils import extend_schema
from pydantic import Field
from rest_framework.request import Request
from rest_framework.response import Response

from base.accounts.callers import issue_ticket, take_ticket, user_by
from base.core.errors import BadRequest
from base.core.words import whole
from portal.shared.api.bodies import V1Body, read
from portal.shared.api.v1 import V1View
from portal.shared.confirm import ask_to_confirm, question
from portal.shared.guard import own_form
from portal.shared.middleware import allow_form_to
from portal.shared.viewer import user_of
from portal.sign_in.api import TokenAnswer, told
from portal.sign_in.passwords import issue_token

SECONDS = 604_800  # that the token is valid
SIGNS = 6  # of the challenge, for comparing
_CHALLENGE = re.compile(r"[0-9a-f]{64}")


class CodeRequest(V1Body):
    code: Annotated[str, Field(min_length=1, max_length=100)]
    verifier: Annotated[str, Field(min_length=43, max_length=128, description="The secret of the command.")]


@own_form
def let_in(request: HttpRequest) -> HttpResponse:
    """Fields, of the address too: port, challenge (the SHA-256 of the secret, in hex)."""
    asked = request.POST if request.method == "POST" else request.GET
    port, challenge = whole(asked.get("port", ""), 5) or 0, asked.get("challenge", "")
    if not (1024 <= port < 1 << 16 and _CHALLENGE.fullmatch(challenge)):
        raise BadRequest("This page is opened by longshore login. Begin it again there.")
    listens = f"http://127.0.0.1:{port}"
    if request.method == "POST":
        # Not by a token that the request may show as well: it may have fewer scopes, or a shorter life.
        code = issue_ticket(f"session:{request.session.session_key}", _opens(challenge))
        return redirect(f"{listens}/{challenge}?code={code}")
    title = f"Sign in longshore on this machine as {user_of(request).username}?"
    effect = (
        "It gets a token for 7 days that may do all that you may. Say yes only if you have just begun longshore login, "
        f"and it shows {challenge[:SIGNS]}."
    )
    fields = {"port": str(port), "challenge": challenge}
    answer = ask_to_confirm(
        request, "/", nav="account", **question(title, effect, "Sign in", "check", "No", "btn-primary", **fields)
    )
    allow_form_to(answer, listens)
    return answer


class TokenOfCode(V1View):
    """How ``longshore login`` gets its token."""

    authentication_classes = ()

    @extend_schema(
        summary="A code of the page that longshore login opens, for a bearer token",
        request=CodeRequest,
        responses={200: TokenAnswer},
    )
    def post(self, request: Request) -> Response:
        body = read(CodeRequest, request)
        challenge = hashlib.sha256(body.verifier.encode()).hexdigest()
        user = user_by(take_ticket(body.code, _opens(challenge)))
        if user is None:
            raise BadRequest("This code has been used, or is too old. Begin longshore login again.")
        return Response(told(user, issue_token(request._request, user, SECONDS)))


def _opens(challenge: str) -> str:
    """What the code is a ticket for."""
    return f"/token/code/{challenge}"
