"""``GET /hosts``: the hosts of this portal and their processes, for admins."""

from __future__ import annotations

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response
from typing_extensions import TypedDict

from base.core.values import Moment, V1Answer, called
from portal.hosts.hosts import hosts, warnings
from portal.shared.api.openapi import errors
from portal.shared.api.v1 import V1View
from portal.shared.viewer import all_reader_of


class HostProcess(V1Answer):
    """Times are milliseconds since 1970. ``epoch``: that of the lease by which it acts, of a scheduler or sampler."""

    name: str
    pid: int
    alive: bool = called("lives")
    release: str
    since: Moment
    lastSeen: Moment = called("at")
    epoch: int | None


class HostItem(V1Answer):
    """``clockAhead`` is in seconds; disk figures are bytes of the disk of LONGSHORE_HOME."""

    id: str
    name: str
    bind: str
    alive: bool = called("lives")
    lastSeen: Moment = called("at")
    clockAhead: float | None = called("skew")
    diskFree: int | None = called("free")
    diskTotal: int | None = called("total")
    processes: list[HostProcess]


class HostsAnswer(TypedDict):
    hosts: list[HostItem]
    warnings: list[str]


class Hosts(V1View):
    @extend_schema(
        summary="The hosts of this portal, their processes, and which of them act",
        responses={200: HostsAnswer, **errors(403)},
    )
    def get(self, request: Request) -> Response:
        all_reader_of(request)
        lines = hosts()
        return Response({"hosts": [HostItem.of(host) for host in lines], "warnings": warnings(lines)})
