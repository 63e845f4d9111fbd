"""GET ``/virtual-clusters`` and ``/virtual-clusters/:vc`` (v1 contract, 3.11). Here, since it counts jobs."""

from __future__ import annotations

import re
from typing import Any

from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from clusters.vc_queries import Amount, VcView, load_vcs
from jobs import queries
from jobs.api.base import JobApi, require_reader
from jobs.lifecycle import JobState
from portal.errors import BadRequest, NoVirtualCluster

_NAME = re.compile(r"[A-Za-z0-9_]+")


class VirtualClusters(JobApi):
    @extend_schema(summary="Virtual clusters by name", responses=OpenApiTypes.OBJECT)
    def get(self, request: Request) -> Response:
        require_reader(request)
        return Response(_objects())


class OneVirtualCluster(JobApi):
    @extend_schema(summary="One virtual cluster", responses=OpenApiTypes.OBJECT)
    def get(self, request: Request, vc: str) -> Response:
        require_reader(request)
        if not _NAME.fullmatch(vc):
            raise BadRequest("VC name should only contain alpha-numeric and underscore characters")
        found = _objects().get(vc)
        if found is None:
            raise NoVirtualCluster(f"Vc {vc} not found")
        return Response(found)


def _objects() -> dict[str, dict[str, Any]]:
    counts = queries.count_by_vc()
    return {vc.name: _object(vc, counts.get(vc.name, {})) for vc in load_vcs()}


def _object(vc: VcView, jobs: dict[str, int]) -> dict[str, Any]:
    running, waiting = jobs.get(JobState.RUNNING, 0), jobs.get(JobState.WAITING, 0)
    return {
        "capacity": vc.capacity,
        "maxCapacity": vc.max_capacity,
        "usedCapacity": vc.used_percent,
        "numActiveJobs": running,
        "numJobs": running + waiting,
        "numPendingJobs": waiting,
        "resourcesUsed": _amount(vc.used),
        "resourcesTotal": _amount(vc.total),
        "status": vc.status,
        "dedicated": False,
        "nodeList": list(vc.nodes),
    }


def _amount(amount: Amount) -> dict[str, int]:
    return {"memory": amount.memory_mb, "vCores": amount.cpus, "GPUs": amount.gpus}
