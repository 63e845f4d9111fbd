"""``/virtual-clusters`` (v1 contract, 3.11): everybody who may read jobs may read, admins may write.

As in v1 the name is checked before the token, the token before the body, and the body before the role.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, Any

from drf_spectacular.utils import extend_schema
from pydantic import BaseModel, Field
from rest_framework.request import Request
from rest_framework.response import Response
from typing_extensions import TypedDict  # pydantic reads no other before Python 3.12

from clusters.nodes.serializers import Resources
from clusters.vcs import services as vc_services
from clusters.vcs.queries import Amount, VcView, load_vcs
from clusters.vcs.rules import DEFAULT
from portal.accounts.audit import ip_of
from portal.accounts.auth import require_user
from portal.accounts.viewer import may_read_jobs, viewer_of
from portal.core.errors import LongshoreError, NoVirtualCluster
from portal.web.api.openapi import Message, errors
from portal.web.api.v1 import V1View, fields, number_of, plain, quota_of, refuse_others, text_of, whole_of, wrong

_TEXTS = {"description": "description", "externalName": "external_name"}
_LONGEST = 255  # signs of a text
_STATUSES = ("stopped", "running")
_PROFILES = ("default", "pai")
_QUOTA = "Bytes that the files of each of its users may take in the store; -1: no limit; null: it says nothing."
_GUARANTEE = "GPUs of the pool that it is guaranteed; null: vcCapacity percent of them."
_CEILING = "GPUs of the pool that it may use at most; null: vcMaxCapacity percent of them."
_NODES = "Names of the nodes that are its own; all others are the pool, which all virtual clusters share."
_MOST = 2**31 - 1


class UserCaps(TypedDict):
    """What one user may hold at once; null: no limit."""

    gpus: int | None
    jobs: int | None


class LogRetention(TypedDict, total=False):
    """How many days, and gigabytes of, the logs of ended jobs are kept; null: no limit."""

    days: int | None
    gigabytes: int | None


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
    storeQuota: Annotated[int | None, Field(description=f"{_QUOTA} Guests get null.")]
    gpuGuarantee: Annotated[int | None, Field(description=_GUARANTEE)]
    gpuCeiling: Annotated[int | None, Field(description=_CEILING)]
    dedicatedNodes: Annotated[list[str], Field(description=_NODES)]
    userCaps: UserCaps
    logRetention: LogRetention


class VcRequest(BaseModel):
    vcCapacity: float = Field(ge=0, le=100)
    vcMaxCapacity: float | None = Field(None, ge=0, le=100, description="At least vcCapacity, which is the default.")
    description: str = ""
    externalName: str = ""
    profile: str | None = Field(None, pattern="^(default|pai)$", description="pai: containers may mount file systems.")
    rdma: bool | None = Field(None, description="Its jobs may ask for InfiniBand (jobEnvs.paiAzRDMA).")
    storeQuota: int | str | None = Field(None, description=f"{_QUOTA} A text such as 100g will do.")
    gpuGuarantee: int | None = Field(None, ge=0, description=_GUARANTEE)
    gpuCeiling: int | None = Field(None, ge=0, description=_CEILING)
    dedicatedNodes: list[str] | None = Field(None, description=_NODES)
    userCaps: dict[str, int | None] | None = Field(None, description='`{"gpus", "jobs"}` of one user at once.')
    logRetention: dict[str, int | None] | None = Field(None, description='`{"days", "gigabytes"}` of logs that stay.')


class VcStatusRequest(BaseModel):
    vcStatus: str = Field(pattern="^(stopped|running)$")


class VirtualClusters(V1View):
    @extend_schema(summary="Virtual clusters by name", responses=dict[str, VirtualCluster])
    def get(self, request: Request) -> Response:
        _require_reader(request)
        is_guest = not viewer_of(request).is_authenticated
        return Response({vc.name: vc_object(vc, is_guest=is_guest) for vc in load_vcs()})


class OneVirtualCluster(V1View):
    @extend_schema(summary="One virtual cluster", responses={200: VirtualCluster, **errors(400)})
    def get(self, request: Request, vc: str) -> Response:
        _require_reader(request)
        vc_services.require_name(vc, write=False)
        found = next((each for each in load_vcs() if each.name == vc), None)
        if found is None:
            raise NoVirtualCluster(f"Vc {vc} not found")
        return Response(vc_object(found, is_guest=not viewer_of(request).is_authenticated))

    @extend_schema(
        summary="Create or resize a virtual cluster",
        request=VcRequest,
        responses={201: Message, **errors(409)},
    )
    def put(self, request: Request, vc: str) -> Response:
        """What the body does not name stays. A body of nothing but `storeQuota` and `userCaps` may also go to the
        virtual cluster `default`."""
        if vc == DEFAULT and _is_of_default(request):
            user = require_user(request)
            vc_services.change_settings(user, vc, read_settings(fields(request)), ip=ip_of(request))
            return _done(f"update vc: {vc} successfully")
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


def vc_object(vc: VcView, *, is_guest: bool = False) -> VirtualCluster:
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
        "profile": vc.row.profile,
        "rdma": vc.row.rdma,
        "storeQuota": None if is_guest else vc.row.store_quota,
        "gpuGuarantee": vc.row.gpu_guarantee,
        "gpuCeiling": vc.row.gpu_ceiling,
        "dedicatedNodes": list(vc.own),
        "userCaps": {"gpus": vc.row.user_gpus, "jobs": vc.row.user_jobs},
        "logRetention": {"days": vc.row.log_days, "gigabytes": vc.row.log_gigabytes},
    }


def _amount(amount: Amount) -> Resources:
    return {"memory": amount.memory_mb, "vCores": amount.cpus, "GPUs": amount.gpus}


def _new(data: dict[str, Any]) -> tuple[float, float | None, dict[str, Any]]:
    capacity = number_of(data, "vcCapacity", 0, 100)
    most = number_of(data, "vcMaxCapacity", capacity, 100) if "vcMaxCapacity" in data else None
    texts = {field: text_of(data, name, empty=True)[:_LONGEST] for name, field in _TEXTS.items() if name in data}
    refuse_others(data, ("vcCapacity", "vcMaxCapacity", *_TEXTS, *_SETTINGS))
    return capacity, most, {**texts, "settings": read_settings(data)}


def read_settings(data: Mapping[str, Any]) -> dict[str, Any]:
    """The columns that the body gives. Raises BadRequest."""
    found: dict[str, Any] = {}
    for name, read in _SETTINGS.items():
        if name in data:
            found |= read(data, name)
    return found


def _profile(data: Mapping[str, Any], name: str) -> dict[str, Any]:
    profile = text_of(data, name)
    if profile not in _PROFILES:
        raise wrong(name, f"must be one of [{', '.join(_PROFILES)}]")
    return {"profile": profile}


def _rdma(data: Mapping[str, Any], name: str) -> dict[str, Any]:
    if not isinstance(data[name], bool):
        raise wrong(name, "must be a boolean")
    return {"rdma": data[name]}


def _quota(data: Mapping[str, Any], name: str) -> dict[str, Any]:
    return {"store_quota": quota_of(data, name)}


def _number(column: str, least: int = 0) -> Callable[[Mapping[str, Any], str], dict[str, Any]]:
    """Reads a whole number, or null."""

    def read(data: Mapping[str, Any], name: str) -> dict[str, Any]:
        return {column: None if data[name] is None else whole_of(data, name, least, _MOST)}

    return read


def _nodes(data: Mapping[str, Any], name: str) -> dict[str, Any]:
    names = data[name]
    if not isinstance(names, list) or not all(isinstance(each, str) and "\x00" not in each for each in names):
        raise wrong(name, "must be an array of names")
    return {"dedicated_nodes": sorted(set(names))}


def _caps(data: Mapping[str, Any], name: str) -> dict[str, Any]:
    caps = data[name]
    if not isinstance(caps, dict):
        raise wrong(name, "must be an object")
    refuse_others(caps, ("gpus", "jobs"))
    readers = {"gpus": _number("user_gpus"), "jobs": _number("user_jobs", 1)}
    return {column: value for key in caps for column, value in readers[key](caps, key).items()}


def _retention(data: Mapping[str, Any], name: str) -> dict[str, Any]:
    kept = data[name]
    if not isinstance(kept, dict):
        raise wrong(name, "must be an object")
    refuse_others(kept, ("days", "gigabytes"))
    readers = {"days": _number("log_days", 1), "gigabytes": _number("log_gigabytes", 1)}
    return {column: value for key in kept for column, value in readers[key](kept, key).items()}


_SETTINGS: dict[str, Callable[[Mapping[str, Any], str], dict[str, Any]]] = {
    "profile": _profile,
    "rdma": _rdma,
    "storeQuota": _quota,
    "gpuGuarantee": _number("gpu_guarantee"),
    "gpuCeiling": _number("gpu_ceiling"),
    "dedicatedNodes": _nodes,
    "userCaps": _caps,
    "logRetention": _retention,
}
_OF_DEFAULT = frozenset({"storeQuota", "userCaps", "logRetention"})


def _is_of_default(request: Request) -> bool:
    """Whether the body changes what may be changed of ``default``. Anything else v1 refuses before it reads."""
    try:
        data = fields(request)
    except LongshoreError:
        return False
    return bool(data) and data.keys() <= _OF_DEFAULT


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
