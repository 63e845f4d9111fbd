"""Routes about the web pages of a job: which there are, a ticket that opens one, and with whom it is shared."""

from __future__ import annotations

from datetime import timedelta

from django.utils import timezone
from drf_spectacular.utils import extend_schema
from pydantic import Field
from rest_framework.request import Request
from rest_framework.response import Response
from typing_extensions import TypedDict

from base.core.values import Moment, V1Answer, called, milliseconds
from jobs import access
from jobs.web_pages import rights, shown, tensorboard
from jobs.web_pages.visits import TICKET_SECONDS
from portal.shared.api.bodies import FilledText, V1Body, WholeNumber, read
from portal.shared.api.openapi import Message, errors
from portal.shared.api.v1 import V1View, message_response
from portal.shared.jobs.base import find_job
from portal.shared.jobs.rows import job_url
from portal.shared.viewer import user_of
from portal.web_pages import opening

_LONGEST = 366 * 86_400  # seconds of a share


class SharedWith(V1Answer):
    """``expires`` in ms since 1970; null: until it is taken back."""

    kind: str
    name: str
    expires: Moment | None = called("expires_at")


class PageLinkAnswer(TypedDict):
    """``url`` opens the page without signing in, until ``expires`` (ms since 1970); ``name`` is that of the share."""

    url: str
    name: str
    expires: int


class Service(V1Answer):
    """``state`` is answers, refused (nothing listens), silent, other (no web page), away (the node does not answer) or
    unplaced; ``status`` and ``milliseconds`` are of its answer. ``url`` leads to it, for who is signed in on the
    pages. ``shares`` is empty for those who may not change them."""

    role: str = called("page.role")
    index: int = called("page.index")
    label: str = called("page.label")
    title: str = called("page.title")
    node: str
    port: int = called("page.port")
    state: str = called("state.is_")
    status: int = called("state.status")
    milliseconds: int = called("state.milliseconds")
    mayOpen: bool = called("may_open")
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


class ShareAsked(V1Body, extra="ignore"):
    seconds: WholeNumber = Field(0, ge=0, le=_LONGEST, description="That it lasts; 0 as without it.")


class TensorBoardAsked(V1Body, extra="ignore"):
    folder: FilledText = ""
    image: FilledText = ""


class Services(V1View):
    @extend_schema(summary="The web pages of a job", responses=ServicesAnswer)
    def get(self, request: Request, job: str, username: str = "") -> Response:
        row = find_job(request, username, job)
        viewer = user_of(request)
        access.require_details(viewer, row)
        rows = shown.listed(row, viewer, job_url(row.username, row.name))
        return Response({"services": [Service.of(listed) for listed in rows]})


class OpenTicket(V1View):
    """The ticket is good as long as the token or session that asks for it."""

    @extend_schema(
        summary="An address that opens a web page of a task once", request=None, responses={201: PageTicketAnswer}
    )
    def post(self, request: Request, job: str, role: str, index: int, label: str, username: str = "") -> Response:
        row = find_job(request, username, job)
        url = opening.address(request, user_of(request), row, role, index, label)
        return Response({"url": url, "expires": int(timezone.now().timestamp() + TICKET_SECONDS) * 1000}, status=201)


class Link(V1View):
    """What the link opens nobody else sees in it: it holds a signature, and no name of user or job."""

    @extend_schema(
        summary="A link that opens a web page without signing in, for a time",
        request=ShareAsked,
        responses={201: PageLinkAnswer},
    )
    def post(self, request: Request, job: str, role: str, index: int, label: str, username: str = "") -> Response:
        row, user = find_job(request, username, job), user_of(request)
        page = shown.find(row, role, index, label)
        share = opening.make_link(request, user, row, page, read(ShareAsked, request).seconds or opening.USUAL)
        url = request.build_absolute_uri(opening.path_of_link(share))
        return Response({"url": url, "name": share.name, "expires": milliseconds(share.expires_at)}, status=201)


class Share(V1View):
    """``kind`` is user or vc; to end a share, also link."""

    @extend_schema(summary="Let somebody open a web page", request=ShareAsked, responses={201: Message})
    def put(
        self, request: Request, job: str, role: str, index: int, label: str, kind: str, name: str, username: str = ""
    ) -> Response:
        row, user = find_job(request, username, job), user_of(request)
        page = shown.find(row, role, index, label)
        seconds = read(ShareAsked, request).seconds
        until = timezone.now() + timedelta(seconds=seconds) if seconds else None
        rights.share(user, row, page, kind, name, until)
        return message_response(f"{page.title} is shared with {name}.")

    @extend_schema(summary="End a share of a web page", responses={200: Message})
    def delete(
        self, request: Request, job: str, role: str, index: int, label: str, kind: str, name: str, username: str = ""
    ) -> Response:
        row, user = find_job(request, username, job), user_of(request)
        page = shown.find(row, role, index, label)
        rights.unshare(user, row, page, kind, name)
        return message_response(f"{page.title} is not shared with {name} any more.", 200)


class ServeTensorBoard(V1View):
    @extend_schema(
        summary="Submit the small job that serves the event files of this job",
        request=TensorBoardAsked,
        responses={201: Serving, **errors(409)},
    )
    def post(self, request: Request, job: str, username: str = "") -> Response:
        row = find_job(request, username, job)
        user = user_of(request)
        access.require_config(user, row)
        asked = read(TensorBoardAsked, request)
        return Response({"name": tensorboard.serve(user, row, asked.folder, asked.image).name}, status=201)
