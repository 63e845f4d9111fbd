"""``/api/v1/notices``: what the user was told, their channels with rules, and deliveries; with ``virtualCluster`` those
of a virtual cluster, for admins."""

from __future__ import annotations

from typing import Annotated, Literal

from drf_spectacular.utils import OpenApiParameter, extend_schema
from pydantic import Field
from rest_framework import status
from rest_framework.request import Request
from rest_framework.response import Response
from typing_extensions import TypedDict

from base.core.errors import NotFound
from base.core.values import V1Answer, absent, called
from jobs.notices import consent, services
from jobs.notices.kinds import RULED
from jobs.notices.post import LONGEST_URL
from jobs.notices.services import ChannelOwner
from portal.notices import page
from portal.shared.api.bodies import SEEN, STORABLE, Flag, V1Body, WholeNumber, read
from portal.shared.api.openapi import Message, errors
from portal.shared.api.v1 import V1View, message_response
from portal.shared.viewer import user_of

_OF_VC = OpenApiParameter("virtualCluster", str, description="Of this virtual cluster; for admins.")
_BEFORE = OpenApiParameter("before", int, description="Older than the one with this id.")
_LIMIT = OpenApiParameter("limit", int, description=f"How many, {page.MOST} at most; {page.SIZE} unless it is given.")
_MOST = (1 << 31) - 1


class NoticePage(TypedDict):
    """Newest first. ``older`` is the ``before`` of the next page; null on the last one. ``unread``: how many of all,
    1,000 at most."""

    notices: list[page.NoticeItem]
    unread: int
    older: int | None


class DeliveryPage(TypedDict):
    """Newest first. ``older`` is the ``before`` of the next page; null on the last one."""

    deliveries: list[page.DeliveryItem]
    older: int | None


class NewChannel(TypedDict):
    """``secret`` signs what a webhook gets, and is shown this once; other kinds have none."""

    name: str
    secret: str | None


class TestSent(TypedDict):
    id: str


class ReadUpTo(V1Body):
    up_to: WholeNumber = Field(ge=0, le=1 << 60, description="The id of a notice: it, and all older ones.")


class ChannelBody(V1Body):
    name: Annotated[str, Field(min_length=1, max_length=services.LONGEST_NAME), STORABLE, SEEN]
    kind: Literal["mail", "slack", "teams", "webhook"]
    target: Annotated[str, Field(min_length=1, max_length=LONGEST_URL), STORABLE]


class RuleBody(V1Body):
    """What is absent is as for a new rule."""

    minutes: WholeNumber = Field(0, ge=0, le=_MOST, description="Only jobs that ran, or waited, for so long.")
    gpus: WholeNumber = Field(0, ge=0, le=_MOST, description="Only jobs with so many GPUs.")
    is_digest: Flag = Field(False, alias="digest", description="Told with others, once a day.")
    is_on: Flag = Field(True, alias="on")


_Minute = Annotated[WholeNumber, Field(ge=0, lt=24 * 60, description="Minutes since midnight.")]


class HoursObject(V1Answer):
    """Minutes count from midnight in ``timeZone``. What is held back comes as one message, but by webhooks."""

    on: bool = called("is_on", description="Whether notices are held back from begin to end.")
    begin: int
    end: int
    weekends: bool = Field(description="All of Saturday and Sunday too.")
    butGpus: int = called("but_gpus", description="Failures of jobs with so many GPUs come all the same; 0: none.")
    digest: int = Field(description="When the digest is sent.")
    timeZone: str = called("zone")


class HoursBody(V1Body):
    """What is absent stays as it is."""

    is_on: Flag = Field(default_factory=absent, alias="on")
    begin: _Minute = Field(default_factory=absent)
    end: _Minute = Field(default_factory=absent)
    weekends: Flag = Field(default_factory=absent)
    but_gpus: WholeNumber = Field(default_factory=absent, ge=0, le=_MOST)
    digest: _Minute = Field(default_factory=absent)
    zone: Annotated[str, Field(max_length=64), STORABLE] = Field(default_factory=absent, alias="timeZone")


def owner_of(request: Request) -> ChannelOwner:
    return services.owner(user_of(request), request.query_params.get("virtualCluster", ""))


class Notices(V1View):
    @extend_schema(summary="What you were told", parameters=[_BEFORE, _LIMIT], responses=NoticePage)
    def get(self, request: Request) -> Response:
        user, asked = user_of(request), request.query_params.dict()
        lines, older = page.notice_lines(user, page.cursor_of(asked), page.size_of(asked))
        items = [page.NoticeItem.of(line) for line in lines]
        return Response({"notices": items, "unread": services.count_unread(user), "older": older})


class NoticesRead(V1View):
    @extend_schema(summary="Mark notices as read", request=ReadUpTo, responses={200: Message})
    def put(self, request: Request) -> Response:
        user = user_of(request)
        number = services.mark_read(user, read(ReadUpTo, request).up_to)
        return message_response(f"{number} notices were marked as read.", status.HTTP_200_OK)


class NoticeHours(V1View):
    @extend_schema(summary="When notices are held back", responses=HoursObject)
    def get(self, request: Request) -> Response:
        return Response(HoursObject.of(services.hours(user_of(request))))

    @extend_schema(summary="Hold notices back", request=HoursBody, responses={200: HoursObject})
    def put(self, request: Request) -> Response:
        user = user_of(request)
        asked = read(HoursBody, request).model_dump(exclude_unset=True)
        return Response(HoursObject.of(services.set_hours(user, asked)))


class Channels(V1View):
    @extend_schema(
        summary="Channels with their rules",
        parameters=[_OF_VC],
        responses={200: list[page.ChannelItem], **errors(403, 404)},
    )
    def get(self, request: Request) -> Response:
        return Response([page.ChannelItem.of(line) for line in page.channel_lines(owner_of(request))])

    @extend_schema(
        summary="Make a channel",
        parameters=[_OF_VC],
        request=ChannelBody,
        responses={201: NewChannel, **errors(404, 409)},
    )
    def post(self, request: Request) -> Response:
        owner, asked = owner_of(request), read(ChannelBody, request)
        row, secret = services.add_channel(owner, asked.name, asked.kind, asked.target)
        return Response({"name": row.name, "secret": secret or None}, status=status.HTTP_201_CREATED)


class OneChannel(V1View):
    @extend_schema(summary="Delete a channel with its rules", parameters=[_OF_VC], responses={200: Message})
    def delete(self, request: Request, channel: str) -> Response:
        services.delete_channel(owner_of(request), channel)
        return message_response("The channel was deleted.", status.HTTP_200_OK)


class ChannelTest(V1View):
    @extend_schema(
        summary="Send a test by a channel; to an address that is not confirmed, the mail that asks for it",
        parameters=[_OF_VC],
        request=None,
        responses={202: TestSent, **errors(409)},
    )
    def post(self, request: Request, channel: str) -> Response:
        delivery = services.test_channel(owner_of(request), channel)
        return Response({"id": delivery.uid}, status=status.HTTP_202_ACCEPTED)


class ChannelRule(V1View):
    @extend_schema(
        summary="Send notices of a kind by a channel",
        parameters=[_OF_VC],
        request=RuleBody,
        responses={200: page.RuleItem},
    )
    def put(self, request: Request, channel: str, kind: str) -> Response:
        owner = owner_of(request)
        rule = services.set_rule(owner, channel, kind, read(RuleBody, request).model_dump())
        return Response(page.RuleItem.of(rule))

    @extend_schema(summary="Do not send them any more", parameters=[_OF_VC], responses={200: Message})
    def delete(self, request: Request, channel: str, kind: str) -> Response:
        services.delete_rule(owner_of(request), channel, kind)
        return message_response("The rule was deleted.", status.HTTP_200_OK)


class Deliveries(V1View):
    @extend_schema(
        summary="What became of notices that were sent",
        parameters=[
            _OF_VC,
            OpenApiParameter("channel", str),
            OpenApiParameter("state", str, enum=list(page.STATES)),
            OpenApiParameter("kind", str, enum=[*RULED, "test", "digest", "unreachable", consent.KIND]),
            _BEFORE,
            _LIMIT,
        ],
        responses={200: DeliveryPage, **errors(403, 404)},
    )
    def get(self, request: Request) -> Response:
        asked = request.query_params.dict()
        filters = [asked.get(name, "") for name in ("channel", "state", "kind")]
        rows = page.deliveries_of(owner_of(request), *filters)
        found, older = page.page_of(rows, page.cursor_of(asked), page.size_of(asked))
        return Response({"deliveries": [page.delivery_item(row) for row in found], "older": older})


class OneDelivery(V1View):
    @extend_schema(
        summary="What was sent and answered", parameters=[_OF_VC], responses={200: page.DeliveryDetail, **errors(403)}
    )
    def get(self, request: Request, delivery: str) -> Response:
        row = page.deliveries_of(owner_of(request)).filter(uid=delivery).first()
        if row is None:
            raise NotFound("There is no such delivery.")
        return Response(page.delivery_item(row, page.DeliveryDetail))


class DeliveryAgain(V1View):
    @extend_schema(
        summary="Send it once more, with the same id",
        parameters=[_OF_VC],
        request=None,
        responses={202: Message, **errors(409)},
    )
    def post(self, request: Request, delivery: str) -> Response:
        services.send_again(owner_of(request), delivery)
        return message_response("It is sent once more, with the same id.", status.HTTP_202_ACCEPTED)
