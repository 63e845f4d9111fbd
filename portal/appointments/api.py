"""``/api/v1/appointments``: nodes that are given to somebody for a time. Every user reads those that concern them;
admins read and write all."""

from __future__ import annotations

from datetime import UTC
from typing import Annotated, Any

from django.utils import timezone
from drf_spectacular.utils import extend_schema
from pydantic import Field
from rest_framework import status
from rest_framework.request import Request
from rest_framework.response import Response
from typing_extensions import TypedDict

from base.accounts.viewer import reads_all
from base.core.values import absent, local_time, milliseconds
from base.models import User
from clusters.appointments import services
from clusters.appointments.queries import as_value, rows
from clusters.models import Appointment
from clusters.vcs.grants import usable_by
from portal.shared.api.bodies import SEEN, STORABLE, Flag, ShortText, V1Body, WholeNumber, read
from portal.shared.api.openapi import Message, errors
from portal.shared.api.v1 import V1View, message_response
from portal.shared.viewer import user_of

_NODES = "Names of its nodes. Where gpus is given in their place, these are chosen: whole nodes, by name."
_MOST = (1 << 31) - 1

Moment = Annotated[WholeNumber, Field(ge=0, le=1 << 46, description="Milliseconds since 1970.")]
Title = Annotated[str, Field(min_length=1, max_length=100), STORABLE, SEEN]


class AppointmentObject(TypedDict):
    """``begin`` and ``end`` are its first time; ``next`` is the one that runs or comes."""

    id: int
    title: str
    nodes: list[str]
    virtualCluster: str
    username: str
    job: str
    begin: int
    end: int
    weekly: bool
    timeZone: str
    nextBegin: int | None
    nextEnd: int | None
    madeBy: str


class AppointmentChange(V1Body):
    """What is absent stays as it is."""

    title: Title = Field(default_factory=absent)
    nodes: list[ShortText] = Field(default_factory=absent, description=_NODES, max_length=1_000)
    gpus: WholeNumber | None = Field(None, ge=1, le=_MOST)
    gpu_type: Annotated[str, Field(max_length=63), STORABLE] = Field(default_factory=absent, description='"": any.')
    virtual_cluster: ShortText = Field(default_factory=absent, description='"": of any one.')
    username: Annotated[str, Field(max_length=64), STORABLE] = Field(default_factory=absent)
    job: ShortText = Field(default_factory=absent, description="user~job. Without any of these three: maintenance.")
    begin: Moment = Field(default_factory=absent)
    end: Moment = Field(default_factory=absent)
    weekly: Flag = Field(default_factory=absent)
    time_zone: Annotated[str, Field(max_length=64), STORABLE] = Field(
        default_factory=absent, description="In which a weekly one keeps its hours, such as Europe/Berlin."
    )

    def columns(self) -> dict[str, Any]:
        given: dict[str, Any] = self.model_dump(exclude_unset=True)
        names = {"virtual_cluster": "vc", "time_zone": "zone"}
        moments = {name: local_time(given[name], UTC) for name in ("begin", "end") if name in given}
        return {names.get(name, name): value for name, value in (given | moments).items()}


class NewAppointment(AppointmentChange):
    title: Title
    begin: Moment
    end: Moment


def concerning(user: User) -> list[Appointment]:
    """Those that are not over and that the user may read: who reads all every one, others their own, those of the
    virtual clusters that they may use, and maintenance."""
    vcs = {"", *usable_by(user.username, is_admin=user.is_admin).values_list("name", flat=True)}
    return [row for row in rows(timezone.now()) if reads_all(user) or _is_read_by(row, user.username, vcs)]


def _is_read_by(row: Appointment, username: str, vcs: set[str]) -> bool:
    if row.username or row.job:
        return username in (row.username, row.job.split("~", 1)[0])
    return (row.vc.name if row.vc else "") in vcs


class Appointments(V1View):
    @extend_schema(summary="Appointments that are not over", responses=list[AppointmentObject])
    def get(self, request: Request) -> Response:
        return Response([appointment_object(row) for row in concerning(user_of(request))])

    @extend_schema(
        summary="Make an appointment", request=NewAppointment, responses={201: AppointmentObject, **errors(409)}
    )
    def post(self, request: Request) -> Response:
        row = services.write(user_of(request), read(NewAppointment, request).columns())
        return Response(appointment_object(row), status=status.HTTP_201_CREATED)


class OneAppointment(V1View):
    @extend_schema(
        summary="Change what the body names",
        request=AppointmentChange,
        responses={200: AppointmentObject, **errors(409)},
    )
    def put(self, request: Request, id: int) -> Response:
        user = user_of(request)
        return Response(appointment_object(services.write(user, read(AppointmentChange, request).columns(), id)))

    @extend_schema(summary="Delete an appointment", responses={200: Message})
    def delete(self, request: Request, id: int) -> Response:
        services.delete(user_of(request), id)
        return message_response("The appointment was deleted.", status.HTTP_200_OK)


def appointment_object(row: Appointment) -> AppointmentObject:
    span = as_value(row).span(timezone.now())
    return {
        "id": row.pk,
        "title": row.title,
        "nodes": row.nodes,
        "virtualCluster": row.vc.name if row.vc else "",
        "username": row.username,
        "job": row.job,
        "begin": milliseconds(row.begin),
        "end": milliseconds(row.end),
        "weekly": row.weekly,
        "timeZone": row.zone,
        "nextBegin": milliseconds(span.begin if span else None),
        "nextEnd": milliseconds(span.end if span else None),
        "madeBy": row.made_by,
    }
