"""The route by which a program gets a terminal: the address of a WebSocket and a ticket for it. v1 has none."""

from __future__ import annotations

from urllib.parse import quote, urlencode

from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.request import Request
from rest_framework.response import Response
from typing_extensions import TypedDict

from base.accounts import callers
from jobs.terminal import place
from portal.shared.api.openapi import errors
from portal.shared.api.v1 import V1View
from portal.shared.callers import credential_of
from portal.shared.jobs.base import find_job, query_number
from portal.shared.viewer import user_of


class TerminalAnswer(TypedDict):
    address: str
    expiresIn: int


class TerminalTicket(V1View):
    """The ``address`` opens one WebSocket within ``expiresIn`` seconds, without a token: a shell in the running task.
    Binary messages are the bytes of the terminal, a text ``{"resize": [columns, rows]}`` sets its size. Who can send
    ``Authorization`` with a WebSocket needs no ticket: the address is the same without it."""

    @extend_schema(
        summary="A ticket for a terminal in a running task",
        parameters=[OpenApiParameter("attempt", int, description="the newest by default")],
        request=None,
        responses={201: TerminalAnswer, **errors(409)},
    )
    def post(self, request: Request, job: str, role: str, index: int, username: str = "") -> Response:
        user = user_of(request)
        row = find_job(request, username, job)
        task = place.find(user, row.username, row.name, role, index, query_number(request, "attempt", 0))
        path = f"/terminal/{row.username}/{row.name}/{role}/{index}"
        ticket = callers.issue_ticket(credential_of(request._request), path)
        query = urlencode({"attempt": task.attempt.number, "ticket": ticket})
        return Response({"address": f"{quote(path)}?{query}", "expiresIn": callers.TICKET_SECONDS}, status=201)
