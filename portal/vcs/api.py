"""``/virtual-clusters`` (v1 contract, 3.11): everybody who may read jobs may read, admins may write.

As in v1 a write checks the name before the token, the token before the body, and the body before the role. A read asks
first who may.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from drf_spectacular.utils import extend_schema
from pydantic import BeforeValidator, Field, PlainSerializer, ValidationInfo, field_validator
from pydantic_core import PydanticKnownError
from rest_framework.request import Request
from rest_framework.response import Response

from base.accounts.viewer import may
from base.core.errors import LongshoreError, NoVirtualCluster
from base.core.values import V1Answer, absent, called
from base.roles import Permission
from clusters.nodes.serializers import Resources
from clusters.vcs import rules, services
from clusters.vcs.queries import VcView, load_vcs
from portal.shared.api.bodies import Flag, Number, Quota, ShortText, V1Body, WholeNumber, invalid_value, read
from portal.shared.api.openapi import Message, errors
from portal.shared.api.v1 import V1View, fields, message_response, plain
from portal.shared.viewer import reader_of, user_of, viewer_of

_QUOTA = "Bytes that the files of each of its users may take in the store; -1: no limit; null: it says nothing."
_GUARANTEE = "GPUs of the pool that it is guaranteed; null: vcCapacity percent of them."
_CEILING = "GPUs of the pool that it may use at most; null: vcMaxCapacity percent of them."
_PRIORITY = "How far up its users may set the priority of a job; an admin may let one user go farther."
_HALF_LIFE = (
    "Hours after which what a user used counts half as much for whose job is next; 0: only what they hold counts."
)
_GRACE = "The most seconds that its jobs may ask for, from the notice of their end on (extras.graceSeconds)."
_NOTEBOOK = "Minutes without use after which a notebook in it is saved and ends."
_MIN_RUN = (
    "Minutes that a job which borrows runs before it is evicted for an owner, who waits so long; 0: none. Guests, and "
    "jobs that say extras.preemptible, leave at any moment."
)
_NODES = "Names of the nodes that are its own; all others are the pool, which all virtual clusters share."
MOST = 2**31 - 1


class UserCaps(V1Answer):
    """What one user may hold at once; null: no limit."""

    gpus: int | None = called("user_gpus")
    jobs: int | None = called("user_jobs")


class LogRetention(V1Answer):
    """How many days, and gigabytes of, the logs of ended jobs are kept; null: no limit."""

    days: int | None = called("log_days")
    gigabytes: int | None = called("log_gigabytes")


def _resources(amount: Mapping[str, int]) -> Resources:
    return {"memory": amount["memory"], "vCores": amount["cpu"], "GPUs": amount["gpu"]}


_Percent = Annotated[float, PlainSerializer(plain, float)]
_Amount = Annotated[Resources, BeforeValidator(_resources)]


class VcObject(V1Answer):
    """Capacities are percent of the whole cluster."""

    capacity: _Percent = called("row.capacity")
    maxCapacity: _Percent = called("row.max_capacity")
    usedCapacity: float = called("used_percent")
    numActiveJobs: int = called("jobs.running")
    numJobs: int = called("jobs.all")
    numPendingJobs: int = called("jobs.waiting")
    resourcesUsed: _Amount = called("used")
    resourcesTotal: _Amount = called("total")
    status: str = called("row.status")
    dedicated: bool = False
    nodeList: list[str] = called("nodes")
    profile: str = called("row.profile")
    rdma: bool = called("row.rdma")
    storeQuota: int | None = called("row.store_quota", description=f"{_QUOTA} Guests get null.")
    gpuGuarantee: int | None = called("row.gpu_guarantee", description=_GUARANTEE)
    gpuCeiling: int | None = called("row.gpu_ceiling", description=_CEILING)
    dedicatedNodes: list[str] = called("own", description=_NODES)
    userCaps: UserCaps = called("row")
    userPriority: int = called("row.user_priority", description=_PRIORITY)
    shareHalfLifeHours: int = called("row.share_half_life", description=_HALF_LIFE)
    graceSeconds: int = called("row.grace", description=_GRACE)
    minRunMinutes: int = called("row.min_run", description=_MIN_RUN)
    notebookMinutes: int = called("row.notebook_minutes", description=_NOTEBOOK)
    logRetention: LogRetention = called("row")


def _node_names(value: Any) -> list[str]:
    if not isinstance(value, list) or not all(isinstance(each, str) and "\x00" not in each for each in value):
        raise invalid_value("must be an array of names")
    return sorted(set(value))


class CapsChange(V1Body):
    """What is absent stays as it is; null: no limit."""

    user_gpus: WholeNumber | None = Field(None, alias="gpus", ge=0, le=MOST)
    user_jobs: WholeNumber | None = Field(None, alias="jobs", ge=1, le=MOST)


class RetentionChange(V1Body):
    """What is absent stays as it is; null: no limit."""

    log_days: WholeNumber | None = Field(None, alias="days", ge=1, le=MOST)
    log_gigabytes: WholeNumber | None = Field(None, alias="gigabytes", ge=1, le=MOST)


class VcLimits(V1Body):
    """What may be changed of every virtual cluster, ``default`` too."""

    store_quota: Quota = Field(None, description=f"{_QUOTA} A text such as 100g will do.")
    user_caps: CapsChange = Field(default_factory=absent, description="Of one user at once.")
    user_priority: WholeNumber = Field(default_factory=absent, ge=0, le=rules.MOST_PRIORITY, description=_PRIORITY)
    share_half_life: WholeNumber = Field(
        default_factory=absent, ge=0, le=rules.MOST_HALF_LIFE, alias="shareHalfLifeHours", description=_HALF_LIFE
    )
    grace: WholeNumber = Field(
        default_factory=absent, ge=0, le=rules.MOST_GRACE, alias="graceSeconds", description=_GRACE
    )
    min_run: WholeNumber = Field(
        default_factory=absent, ge=0, le=rules.MOST_MIN_RUN, alias="minRunMinutes", description=_MIN_RUN
    )
    notebook_minutes: WholeNumber = Field(
        default_factory=absent, ge=1, le=rules.MOST_NOTEBOOK_MINUTES, description=_NOTEBOOK
    )
    log_retention: RetentionChange = Field(default_factory=absent, description="Of logs that stay.")

    def settings(self) -> dict[str, Any]:
        """{column: value} of what the body gives."""
        given: dict[str, Any] = self.model_dump(exclude_unset=True, exclude=set(_Shares.model_fields))
        caps, retention = given.pop("user_caps", {}), given.pop("log_retention", {})
        return {**given, **caps, **retention}


class _Shares(V1Body):
    vc_capacity: Number = Field(ge=0, le=100)
    vc_max_capacity: Number = Field(
        default_factory=absent, ge=0, le=100, description="At least vcCapacity, which is the default."
    )
    description: ShortText = ""
    external_name: ShortText = ""

    @field_validator("vc_max_capacity")
    @classmethod
    def _not_below_the_guarantee(cls, value: float, info: ValidationInfo) -> float:
        if value < (least := info.data.get("vc_capacity", 0)):
            raise PydanticKnownError("greater_than_equal", {"ge": least})
        return value


class VcSettings(VcLimits):
    profile: Literal["default", "pai"] = Field(
        default_factory=absent, description="pai: containers may mount file systems."
    )
    rdma: Flag = Field(default_factory=absent, description="Its jobs may ask for InfiniBand (jobEnvs.paiAzRDMA).")
    gpu_guarantee: WholeNumber | None = Field(None, ge=0, le=MOST, description=_GUARANTEE)
    gpu_ceiling: WholeNumber | None = Field(None, ge=0, le=MOST, description=_CEILING)
    dedicated_nodes: Annotated[list[str], BeforeValidator(_node_names)] = Field(
        default_factory=absent, description=_NODES
    )


class VcRequest(VcSettings, _Shares):
    """What is absent stays as it is, but for vcMaxCapacity."""


class VcStatusRequest(V1Body):
    vc_status: Literal["stopped", "running"]


class VirtualClusters(V1View):
    @extend_schema(summary="Virtual clusters by name", responses=dict[str, VcObject])
    def get(self, request: Request) -> Response:
        reader_of(request)
        is_guest = not viewer_of(request).is_authenticated
        return Response({vc.name: vc_object(vc, is_guest=is_guest) for vc in load_vcs()})


class OneVirtualCluster(V1View):
    @extend_schema(summary="One virtual cluster", responses={200: VcObject, **errors(400)})
    def get(self, request: Request, vc: str) -> Response:
        reader_of(request)
        services.require_name(vc, write=False)
        found = next((each for each in load_vcs() if each.name == vc), None)
        if found is None:
            raise NoVirtualCluster(f"Vc {vc} not found")
        return Response(vc_object(found, is_guest=not viewer_of(request).is_authenticated))

    @extend_schema(
        summary="Create or resize a virtual cluster", request=VcRequest, responses={201: Message, **errors(409)}
    )
    def put(self, request: Request, vc: str) -> Response:
        """What the body does not name stays. A body of nothing but `storeQuota`, `userCaps`, `userPriority`,
        `shareHalfLifeHours`, `graceSeconds`, `minRunMinutes`, `notebookMinutes` and `logRetention` may also go to the
        virtual cluster `default`; a manager sends no other, without `storeQuota`, `graceSeconds`, `minRunMinutes`."""
        user = viewer_of(request)
        is_manager = not user.is_admin and may(user, Permission.SET_VC, vc=vc)
        if (vc == rules.DEFAULT_VC or is_manager) and _is_of_default(request):
            user = user_of(request)
            services.change_settings(user, vc, read(VcLimits, request).settings())
            return message_response(f"update vc: {vc} successfully")
        services.require_name(vc)
        user = user_of(request)
        asked = read(VcRequest, request)
        _, created = services.create_or_resize_vc(
            user,
            vc,
            asked.vc_capacity,
            asked.vc_max_capacity,
            description=asked.description,
            external_name=asked.external_name,
            settings=asked.settings(),
        )
        did = "create" if created else "update"
        return message_response(f"{did} vc: {vc} to capacity: {plain(asked.vc_capacity)} successfully")

    @extend_schema(summary="Delete a virtual cluster without jobs", responses={201: Message, **errors(400)})
    def delete(self, request: Request, vc: str) -> Response:
        services.require_name(vc)
        services.delete_vc(user_of(request), vc)
        return message_response(f"Remove vc: {vc} successfully")


class VirtualClusterStatus(V1View):
    @extend_schema(summary="Stop or activate a virtual cluster", request=VcStatusRequest, responses={201: Message})
    def put(self, request: Request, vc: str) -> Response:
        services.require_name(vc)
        user = user_of(request)
        status = read(VcStatusRequest, request).vc_status
        services.set_vc_status(user, vc, status)
        return message_response(f"{'stop' if status == 'stopped' else 'active'} vc {vc} successfully")


def vc_object(vc: VcView, *, is_guest: bool) -> dict[str, Any]:
    """Return a VcObject."""
    shown = VcObject.of(vc)
    return {**shown, "storeQuota": None} if is_guest else shown


def _is_of_default(request: Request) -> bool:
    """Whether the body changes what may be changed of ``default``. Anything else v1 refuses before it reads."""
    try:
        data = fields(request)
    except LongshoreError:
        return False
    return bool(data) and data.keys() <= {field.alias for field in VcLimits.model_fields.values()}
