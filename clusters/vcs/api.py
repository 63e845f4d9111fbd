"""``/virtual-clusters`` (v1 contract, 3.11): everybody who may read jobs may read, admins may write.

As in v1 the name is checked before the token, the token before the body, and the body before the role.
"""

from __future__ import annotations

from typing import Annotated, Any

from drf_spectacular.utils import extend_schema
from pydantic import BaseModel, Field
from rest_framework.request import Request
from rest_framework.response import Response
from typing_extensions import TypedDict  # pydantic reads no other before Python 3.12

from clusters.nodes.serializers import Resources
from clusters.vcs import services as vc_services
from clusters.vcs.queries import Amount, VcView, load_vcs
from portal.accounts.audit import ip_of
from portal.accounts.auth import require_user
from portal.accounts.viewer import may_read_jobs, viewer_of
from portal.core.errors import NoVirtualCluster
from portal.web.api.openapi import Message, errors
from portal.web.api.v1 import V1View, fields, number_of, plain, quota_of, refuse_others, text_of, wrong

_TEXTS = {"description": "description", "externalName": "external_name"}
_LONGEST = 255  # signs of a text
_STATUSES = ("stopped", "running")
_PROFILES = ("default", "pai")
_QUOTA = "Bytes that the files of each of its users may take in the store; -1: no limit; null: it says nothing."


class VirtualCluster(TypedDict):
    """Capacities are percent of the whole cluster."""

    capacity: float
    maxCapacity: float
    usedCapacity: float
    numActiveJobs: int
    numJobs: int
    numPendingJobs: int
    resourcesUsed: Resources
    resourcesTotal: Resources
    status: str
    dedicated: bool
    nodeList: list[str]
    profile: str
    rdma: bool
    storeQuota: Annotated[int | None, Field(description=_QUOTA)]


class VcRequest(BaseModel):
    vcCapacity: float = Field(ge=0, le=100)
    vcMaxCapacity: float | None = Field(None, ge=0, le=100, description="At least vcCapacity, which is the default.")
    description: str = ""
    externalName: str = ""
    profile: str | None = Field(None, pattern="^(default|pai)$", description="pai: containers may mount file systems.")
    rdma: bool | None = Field(None, description="Its jobs may ask for InfiniBand (jobEnvs.paiAzRDMA).")
    storeQuota: int | str | None = Field(None, description=f"{_QUOTA} A text such as 100g will do.")


class VcStatusRequest(BaseModel):
    vcStatus: str = Field(pattern="^(stopped|running)$")


class VirtualClusters(V1View):
    @extend_schema(summary="Virtual clusters by name", responses=dict[str, VirtualCluster])
    def get(self, request: Request) -> Response:
        _require_reader(request)
        return Response({vc.name: vc_object(vc) for vc in load_vcs()})


class OneVirtualCluster(V1View):
    @extend_schema(summary="One virtual cluster", responses={200: VirtualCluster, **errors(400)})
    def get(self, request: Request, vc: str) -> Response:
        _require_reader(request)
        vc_services.require_name(vc, write=False)
        found = next((each for each in load_vcs() if each.name == vc), None)
        if found is None:
            raise NoVirtualCluster(f"Vc {vc} not found")
        return Response(vc_object(found))

    @extend_schema(
        summary="Create or resize a virtual cluster",
        request=VcRequest,
        responses={201: Message, **errors(409)},
    )
    def put(self, request: Request, vc: str) -> Response:
        vc_services.require_name(vc)
        user = require_user(request)
        capacity, most, more = _new(fields(request))
        _, created = vc_services.create_or_resize_vc(user, vc, capacity, most, **more, ip=ip_of(request))
        did = "create" if created else "update"
        return _done(f"{did} vc: {vc} to capacity: {plain(capacity)} successfully")

    @extend_schema(summary="Delete a virtual cluster without jobs", responses={201: Message, **errors(400)})
    def delete(self, request: Request, vc: str) -> Response:
        vc_services.require_name(vc)
        vc_services.delete_vc(require_user(request), vc, ip=ip_of(request))
        return _done(f"Remove vc: {vc} successfully")


class VirtualClusterStatus(V1View):
    @extend_schema(
        summary="Stop or activate a virtual cluster",
        request=VcStatusRequest,
        responses={201: Message},
    )
    def put(self, request: Request, vc: str) -> Response:
        vc_services.require_name(vc)
        user = require_user(request)
        status = _status(fields(request))
        vc_services.set_vc_status(user, vc, status, ip=ip_of(request))
        return _done(f"{'stop' if status == 'stopped' else 'active'} vc {vc} successfully")


def vc_object(vc: VcView) -> VirtualCluster:
    return {
        "capacity": plain(vc.capacity),
        "maxCapacity": plain(vc.max_capacity),
        "usedCapacity": vc.used_percent,
        "numActiveJobs": vc.jobs.running,
        "numJobs": vc.jobs.all,
        "numPendingJobs": vc.jobs.waiting,
        "resourcesUsed": _amount(vc.used),
        "resourcesTotal": _amount(vc.total),
        "status": vc.status,
        "dedicated": False,
        "nodeList": list(vc.nodes),
        "profile": vc.profile,
        "rdma": vc.rdma,
        "storeQuota": vc.store_quota,
    }


def _amount(amount: Amount) -> Resources:
    return {"memory": amount.memory_mb, "vCores": amount.cpus, "GPUs": amount.gpus}


def _new(data: dict[str, Any]) -> tuple[float, float | None, dict[str, Any]]:
    capacity = number_of(data, "vcCapacity", 0, 100)
    most = number_of(data, "vcMaxCapacity", capacity, 100) if "vcMaxCapacity" in data else None
    texts = {field: text_of(data, name, empty=True)[:_LONGEST] for name, field in _TEXTS.items() if name in data}
    refuse_others(data, ("vcCapacity", "vcMaxCapacity", *_TEXTS, "profile", "rdma", "storeQuota"))
    quota = {"store_quota": quota_of(data, "storeQuota")} if "storeQuota" in data else {}
    return capacity, most, {**texts, **quota, "profile": _profile(data), "rdma": _rdma(data)}


def _profile(data: dict[str, Any]) -> str | None:
    profile = text_of(data, "profile") if "profile" in data else None
    if profile not in (None, *_PROFILES):
        raise wrong("profile", f"must be one of [{', '.join(_PROFILES)}]")
    return profile


def _rdma(data: dict[str, Any]) -> bool | None:
    rdma = data.get("rdma")
    if "rdma" in data and not isinstance(rdma, bool):
        raise wrong("rdma", "must be a boolean")
    return rdma


def _status(data: dict[str, Any]) -> str:
    status = text_of(data, "vcStatus")
    if status not in _STATUSES:
        raise wrong("vcStatus", f"must be one of [{', '.join(_STATUSES)}]")
    refuse_others(data, ("vcStatus",))
    return status


def _done(message: str) -> Response:
    return Response({"message": message}, status=201)


def _require_reader(request: Request) -> None:
    if not may_read_jobs(viewer_of(request)):
        require_user(request)
