"""Every write to virtual clusters: the rules of v1 (7.3), the row, its audit record, and the wake-up that follows.

``default`` has what the others leave of 100 percent; its row is changed along with theirs and by nobody directly.
"""

from __future__ import annotations

from typing import Any, Literal

from django.db import transaction

from clusters.models import Group, VirtualCluster
from clusters.vcs import rules
from clusters.vcs.rules import ADMIN_GROUP, DEFAULT
from portal.accounts import audit
from portal.accounts.viewer import Viewer, require_admin
from portal.core.bulk import take_turns
from portal.core.errors import BadRequest, ConflictVc, Forbidden, NoEnoughQuota, NoVirtualCluster, RemoveRunningVc
from portal.core.signals import NO_JOBS, about_jobs
from portal.wakes import wake

_BAD_NAME = "VC name should only contain alpha-numeric and underscore characters"


def require_name(name: str, *, write: bool = True) -> None:
    """BadRequest for what cannot be a name; with ``write`` Forbidden for ``default``, which nobody changes."""
    if not rules.is_name(name):
        raise BadRequest(_BAD_NAME)
    if write and not rules.is_changeable(name):
        raise Forbidden("Update operation to default vc isn't allowed")


def available_for(name: str) -> float:
    """The largest percentage that a virtual cluster of this name could be given now."""
    return rules.room_for(name, dict(VirtualCluster.objects.values_list("name", "capacity")))


def create_or_resize_vc(
    actor: Viewer,
    name: str,
    capacity: float,
    max_capacity: float | None = None,
    *,
    description: str = "",
    external_name: str = "",
    profile: str | None = None,
    rdma: bool | None = None,
    store_quota: int | Literal["as it was"] | None = "as it was",
    ip: str | None = None,
) -> tuple[VirtualCluster, bool]:
    """Give the row and whether it is new. ``capacity`` is a percentage of the cluster, taken from ``default``;
    ``max_capacity`` (``capacity`` if not given) is the most that it may borrow up to. The two texts describe the group
    of a new one; later the group is changed instead. ``profile`` and ``rdma`` say what its containers may do; not given
    they stay as they are.

    Raises Unauthorized, Forbidden, BadRequest, ConflictVc, NoEnoughQuota.
    """
    require_name(name)
    who = require_admin(actor).username
    most = capacity if max_capacity is None else max_capacity
    if mistake := rules.find_mistake(capacity, most):
        raise BadRequest(f"{mistake.field}: {mistake.sentence}")
    with transaction.atomic():
        take_turns(VirtualCluster)
        if name == ADMIN_GROUP or Group.objects.filter(name=name, vc=None).exists():
            raise ConflictVc(f"Group name {name} already exists.")
        if not rules.fits(capacity, available_for(name)):
            raise NoEnoughQuota
        wanted = {"capacity": capacity, "max_capacity": most, "profile": profile, "rdma": rdma}
        given: dict[str, Any] = {key: value for key, value in wanted.items() if value is not None}
        if store_quota != "as it was":
            given["store_quota"] = store_quota
        before = VirtualCluster.objects.filter(name=name).values(*given).first()
        vc, created = VirtualCluster.objects.update_or_create(name=name, defaults=given)
        if created and (description or external_name):
            Group.objects.create(name=name, vc=vc, description=description, external_name=external_name)
        _give_default_the_rest()
        change = {"from": before, "to": given}
        _record(who, "virtual cluster created" if created else "virtual cluster resized", name, ip, change)
    return vc, created


def delete_vc(actor: Viewer, name: str, *, ip: str | None = None) -> None:
    """Delete it and end its grants. Raises Unauthorized, Forbidden, BadRequest, NoVirtualCluster, RemoveRunningVc."""
    require_name(name)
    who = require_admin(actor).username
    if name == ADMIN_GROUP:
        raise Forbidden(f"The name '{name}' is occupied by admin group.")
    with transaction.atomic():
        take_turns(VirtualCluster)
        vc = VirtualCluster.objects.filter(name=name).first()
        if vc is None:
            raise NoVirtualCluster(f"Can't delete a nonexistent vc {name}")
        grants = sorted(vc.grants.values_list("username", flat=True))
        vc.delete()  # first: a submission that comes now finds none
        if jobs := about_jobs().live("vc", [name]).get(name, NO_JOBS).all:
            raise RemoveRunningVc(f"Can't delete vc {name}, {jobs} jobs are running, stop them before delete vc")
        _give_default_the_rest()
        _record(who, "virtual cluster deleted", name, ip, {"capacity": vc.capacity, "grants": grants})


def set_vc_status(actor: Viewer, name: str, status: str, *, ip: str | None = None) -> VirtualCluster:
    """``stopped``: its waiting jobs stay waiting, what runs goes on. ``running`` reverses it.

    Raises Unauthorized, Forbidden, BadRequest, NoVirtualCluster.
    """
    require_name(name)
    who = require_admin(actor).username
    if status not in ("stopped", "running"):
        raise BadRequest('child "vcStatus" fails because ["vcStatus" must be one of [stopped, running]]')
    with transaction.atomic():
        take_turns(VirtualCluster)
        vc = VirtualCluster.objects.filter(name=name).first()
        if vc is None:
            raise NoVirtualCluster(f"Vc {name} not found, can't {'stop' if status == 'stopped' else 'active'}")
        before, vc.status = vc.status, VirtualCluster.Status(status.upper())
        vc.save(update_fields=["status"])
        _record(who, "virtual cluster status set", name, ip, {"from": before, "to": vc.status})
    return vc


def _give_default_the_rest() -> None:
    VirtualCluster.objects.update_or_create(
        name=DEFAULT, defaults={"capacity": available_for(DEFAULT)}, create_defaults=_new_default()
    )


def _new_default() -> dict[str, Any]:
    return {"capacity": available_for(DEFAULT), "max_capacity": 100}


def _record(who: str, action: str, name: str, ip: str | None, data: dict[str, Any]) -> None:
    audit.record(who, action, name, ip, data)
    wake.notify("scheduler")
    wake.notify("pages")
