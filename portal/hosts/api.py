"""``GET /hosts``: the hosts of this portal and their processes, for admins."""

from __future__ import annotations

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response
from typing_extensions import TypedDict

from base.accounts.viewer import require_admin
from base.core.values import milliseconds
from portal.hosts.hosts import HostLine, ProcessLine, hosts, warnings
from portal.shared.api.openapi import errors
from portal.shared.api.v1 import V1View
from portal.shared.viewer import viewer_of


class HostProcess(TypedDict):
    """Times are milliseconds since 1970. ``epoch``: that of the lease by which it acts, of a scheduler or sampler."""

    name: str
    pid: int
    alive: bool
    release: str
    since: int
    lastSeen: int
    epoch: int | None


class HostItem(TypedDict):
    """``clockAhead`` is in seconds; disk figures are bytes of the disk of LONGSHORE_HOME."""

    id: str
    name: str
    bind: str
    alive: bool
    lastSeen: int
    clockAhead: float | None
    diskFree: int | None
    diskTotal: int | None
    processes: list[HostProcess]


class HostsAnswer(TypedDict):
    hosts: list[HostItem]
    warnings: list[str]


class Hosts(V1View):
    @extend_schema(
        summary="The hosts of this portal, their processes, and which of them act",
        responses={200: HostsAnswer, **errors(401, 403)},
    )
    def get(self, request: Request) -> Response:
        require_admin(viewer_of(request))
        lines = hosts()
        answer: HostsAnswer = {"hosts": [_host(host) for host in lines], "warnings": warnings(lines)}
        return Response(answer)


def _host(host: HostLine) -> HostItem:
    return {
        "id": host.id,
        "name": host.name,
        "bind": host.bind,
        "alive": host.lives,
        "lastSeen": milliseconds(host.at),
        "clockAhead": host.skew,
        "diskFree": host.free,
        "diskTotal": host.total,
        "processes": [_process(process) for process in host.processes],
    }


def _process(process: ProcessLine) -> HostProcess:
    return {
        "name": process.name,
        "pid": process.pid,
        "alive": process.lives,
        "release": process.release,
        "since": milliseconds(process.since),
        "lastSeen": milliseconds(process.at),
        "epoch": process.epoch,
    }
