"""Routes about the web pages of a job: which there are, a ticket that opens one, and with whom it is shared."""

from __future__ import annotations

from datetime import timedelta

from django.utils import timezone
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response
from typing_extensions import TypedDict

from jobs import access
from jobs.api.base import find_job
from jobs.pages.rows import job_url
from jobs.web_apps import opening, rights, shown, tensorboard
from jobs.web_apps.visits import TICKET_SECONDS
from portal.accounts.audit import ip_of
from portal.accounts.auth import require_user
from portal.core.errors import BadRequest
from portal.web.api.openapi import Message, errors
from portal.web.api.v1 import V1View, fields, said, text_of
from portal.web.api.values import milliseconds

_LONGEST = 366 * 86_400  # seconds of a share


class SharedWith(TypedDict):
    """``expires`` in ms since 1970; null: until it is taken back."""

    kind: str
    name: str
    expires: int | None


class PageLinkAnswer(TypedDict):
    """``url`` opens the page without signing in, until ``expires`` (ms since 1970); ``name`` is that of the share."""

    url: str
    name: str
    expires: int


class Service(TypedDict):
    """``state`` is answers, refused (nothing listens), silent, other (no web page), away (the node does not answer) or
    unplaced; ``status`` and ``milliseconds`` are of its answer. ``url`` leads to it, for who is signed in on the
    pages. ``shares`` is empty for those who may not change them."""

    role: str
    index: int
    label: str
    title: str
    node: str
    port: int
    state: str
    status: int
    milliseconds: int
    mayOpen: bool
    url: str
    shares: list[SharedWith]


class ServicesAnswer(TypedDict):
    services: list[Service]


class PageTicketAnswer(TypedDict):
    """``url`` opens the page once, until ``expires`` (ms since 1970)."""

    url: str
    expires: int


class Serving(TypedDict):
    """The job that was submitted."""

    name: str


class Services(V1View):
    @extend_schema(summary="The web pages of a job", responses={200: ServicesAnswer, **errors(401, 403)})
    def get(self, request: Request, job: str, username: str = "") -> Response:
        row = find_job(request, username, job)
        viewer = require_user(request)
        access.require_story(viewer, row)
        rows = shown.listed(row, viewer, job_url(row.username, row.name))
        return Response({"services": [_service(one) for one in rows]})


class Ticket(V1View):
    """The ticket is good as long as the token or session that asks for it."""

    @extend_schema(
        summary="An address that opens a web page of a task once",
        request=None,
        responses={201: PageTicketAnswer, **errors(401, 403)},
    )
    def post(self, request: Request, job: str, role: str, index: int, label: str, username: str = "") -> Response:
        row = find_job(request, username, job)
        url = opening.address(request, require_user(request), row, role, index, label)
        return Response({"url": url, "expires": int(timezone.now().timestamp() + TICKET_SECONDS) * 1000}, status=201)


class Link(V1View):
    """What the link opens nobody else sees in it: it holds a signature, and no name of user or job."""

    @extend_schema(
        summary="A link that opens a web page without signing in, for a time",
        request={"application/json": {"type": "object", "properties": {"seconds": {"type": "integer"}}}},
        responses={201: PageLinkAnswer, **errors(401, 403)},
    )
    def post(self, request: Request, job: str, role: str, index: int, label: str, username: str = "") -> Response:
        row = find_job(request, username, job)
        user = require_user(request)
        page = shown.find(row, role, index, label)
        share = opening.make_link(request, user, row, page, _seconds(request) or opening.USUAL)
        url = request.build_absolute_uri(opening.path_of_link(share))
        return Response({"url": url, "name": share.name, "expires": milliseconds(share.expires_at)}, status=201)


class Share(V1View):
    """``kind`` is user or vc; to end a share, also link."""

    @extend_schema(
        summary="Let somebody open a web page",
        request={"application/json": {"type": "object", "properties": {"seconds": {"type": "integer"}}}},
        responses={201: Message, **errors(401, 403)},
    )
    def put(
        self, request: Request, job: str, role: str, index: int, label: str, kind: str, name: str, username: str = ""
    ) -> Response:
        row = find_job(request, username, job)
        user = require_user(request)
        page = shown.find(row, role, index, label)
        seconds = _seconds(request)
        until = timezone.now() + timedelta(seconds=seconds) if seconds else None
        rights.share(user, row, page, kind, name, ip_of(request), until)
        return said(f"{page.title} is shared with {name}.")

    @extend_schema(summary="End a share of a web page", responses={200: Message, **errors(401, 403)})
    def delete(
        self, request: Request, job: str, role: str, index: int, label: str, kind: str, name: str, username: str = ""
    ) -> Response:
        row = find_job(request, username, job)
        user = require_user(request)
        page = shown.find(row, role, index, label)
        rights.unshare(user, row, page, kind, name, ip_of(request))
        return said(f"{page.title} is not shared with {name} any more.", 200)


class ServeTensorBoard(V1View):
    @extend_schema(
        summary="Submit the small job that serves the event files of this job",
        request={"application/json": {"type": "object", "properties": {"folder": {"type": "string"}}}},
        responses={201: Serving, **errors(401, 403)},
    )
    def post(self, request: Request, job: str, username: str = "") -> Response:
        row = find_job(request, username, job)
        user = require_user(request)
        access.require_config(user, row)
        given = fields(request)
        folder, image = (text_of(given, name) if name in given else "" for name in ("folder", "image"))
        return Response({"name": tensorboard.serve(user, row, folder, image).name}, status=201)


def _service(one: shown.Listed) -> Service:
    return {
        "role": one.page.role,
        "index": one.page.index,
        "label": one.page.label,
        "title": one.page.title,
        "node": one.node,
        "port": one.page.port,
        "state": one.state.is_,
        "status": one.state.status,
        "milliseconds": one.state.milliseconds,
        "mayOpen": one.may_open,
        "url": one.url,
        "shares": [
            {"kind": share.kind, "name": share.name, "expires": milliseconds(share.expires_at)} for share in one.shares
        ],
    }


def _seconds(request: Request) -> int:
    """How long a share is to last; 0 where nobody says so. Raises BadRequest."""
    asked = fields(request).get("seconds", 0)
    if isinstance(asked, bool) or not isinstance(asked, int) or not 0 <= asked <= _LONGEST:
        raise BadRequest(f'"seconds" must be a whole number from 1 to {_LONGEST}.')
    return asked
