"""Every write to virtual clusters: the rules of v1 (7.3), the row, its audit record, and the wake-up that follows.

``default`` has what the others leave of 100 percent; its row is changed along with theirs and by nobody directly.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from django.db import transaction

from base.accounts import audit
from base.accounts.viewer import Viewer, require, require_admin
from base.core import words
from base.core.bulk import lock_table
from base.core.errors import BadRequest, ConflictVc, Forbidden, NoEnoughQuota, NoVirtualCluster, RemoveRunningVc
from base.core.signals import NO_JOBS, LiveJobs, about_jobs
from base.roles import Permission
from clusters.models import Group, Node, VirtualCluster
from clusters.vcs import rules
from clusters.vcs.rules import ADMIN_GROUP, DEFAULT_VC

NO_SETTINGS: Mapping[str, Any] = {}
OF_DEFAULT = frozenset(
    {"store_quota", "user_gpus", "user_jobs", "user_priority", "share_half_life", "grace", "min_run"}
    | {"notebook_minutes", "log_days", "log_gigabytes"}
)
OF_MANAGERS = OF_DEFAULT - {"store_quota", "grace", "min_run"}  # for what others neither wait nor have less
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
    settings: Mapping[str, Any] = NO_SETTINGS,
) -> tuple[VirtualCluster, bool]:
    """Give the row and whether it is new. ``capacity`` is a percentage of the cluster, taken from ``default``;
    ``max_capacity`` (``capacity`` if not given) is the most that it may borrow up to. The two texts describe the group
    of a new one; later the group is changed instead. ``settings`` are those of ``change_settings``.

    Raises Unauthorized, Forbidden, BadRequest, ConflictVc, NoEnoughQuota.
    """
    require_name(name)
    who = require_admin(actor).username
    most = capacity if max_capacity is None else max_capacity
    if mistake := rules.find_mistake(capacity, most):
        raise BadRequest(f"{mistake.field}: {mistake.sentence}")
    with transaction.atomic():
        lock_table(VirtualCluster)
        if name == ADMIN_GROUP or Group.objects.filter(name=name, vc=None).exists():
            raise ConflictVc(f"Group name {name} already exists.")
        if not rules.fits(capacity, available_for(name)):
            raise NoEnoughQuota
        shares = {"capacity": capacity, "max_capacity": most}
        vc, created = VirtualCluster.objects.get_or_create(name=name)
        before = _write(vc, {**shares, **settings})
        if created and (description or external_name):
            Group.objects.create(name=name, vc=vc, description=description, external_name=external_name)
        _give_default_the_rest()
        change = {"from": None if created else before, "to": {**shares, **settings}}
        audit.changed(who, "virtual cluster created" if created else "virtual cluster resized", name, change)
    return vc, created


def change_settings(actor: Viewer, name: str, settings: Mapping[str, Any]) -> VirtualCluster:
    """Change columns of a virtual cluster beside its shares; what is not given stays as it is. ``dedicated_nodes`` are
    the names of all nodes that are its own. Of ``default`` only OF_DEFAULT can be changed, and a manager changes only
    OF_MANAGERS.

    Raises Unauthorized, Forbidden, BadRequest, ConflictVc, NoEnoughQuota, NoVirtualCluster.
    """
    is_small = settings.keys() <= OF_MANAGERS
    who = require(actor, Permission.SET_VC if is_small else Permission.ADMINISTER, vc=name).username
    if name == DEFAULT_VC and settings.keys() - OF_DEFAULT:
        require_name(name)
    with transaction.atomic():
        lock_table(VirtualCluster)
        if name == DEFAULT_VC:
            _give_default_the_rest()
        vc = _found(name, f"Vc {name} not found")
        change = {"from": _write(vc, settings), "to": dict(settings)}
        audit.changed(who, "virtual cluster settings changed", name, change)
    return vc


def _write(vc: VirtualCluster, values: Mapping[str, Any]) -> dict[str, Any]:
    """Write these values if the rules allow it, and return those that they replace."""
    columns = {name: value for name, value in values.items() if name != "dedicated_nodes"}
    before = {name: getattr(vc, name) for name in columns}
    for name, value in columns.items():
        setattr(vc, name, value)
    vc.save(update_fields=[*columns])
    if "dedicated_nodes" in values:
        before["dedicated_nodes"] = sorted(vc.dedicated_nodes.values_list("name", flat=True))
        _dedicate(vc, values["dedicated_nodes"])
    if values.keys() & {"capacity", "gpu_guarantee", "gpu_ceiling", "dedicated_nodes"}:
        _require_gpus(vc)
    return before


def _dedicate(vc: VirtualCluster, names: Collection[str]) -> None:
    nodes = {node.name: node for node in Node.objects.filter(name__in=names).select_related("dedicated_to")}
    for name in names:
        if name not in nodes:
            raise BadRequest(f"There is no node {name}.")
        if (owner := nodes[name].dedicated_to) not in (None, vc):
            raise ConflictVc(f"Node {name} is dedicated to {owner}; take it from there first.")
    vc.dedicated_nodes.exclude(name__in=names).update(dedicated_to=None)
    Node.objects.filter(name__in=names).update(dedicated_to=vc)


def _require_gpus(vc: VirtualCluster) -> None:
    """Raise NoEnoughQuota when all together would be guaranteed more GPUs than the pool has. Without a number of GPUs
    anywhere the percentages see to that."""
    rows = VirtualCluster.objects.exclude(name=DEFAULT_VC).values_list("name", "capacity", "gpu_guarantee")
    shares = {name: rules.Gpus(capacity, number) for name, capacity, number in rows}
    if vc.gpu_ceiling is None and all(one.number is None for one in shares.values()):
        return
    mine = shares.pop(vc.name)
    pool = sum(len(gpus) for gpus in Node.objects.filter(dedicated_to=None).values_list("gpus", flat=True))
    if mistake := rules.find_gpu_mistake(mine, vc.gpu_ceiling, shares.values(), pool):
        raise NoEnoughQuota(mistake.sentence)


def delete_vc(actor: Viewer, name: str) -> None:
    """Delete it and end its grants. Raises Unauthorized, Forbidden, BadRequest, NoVirtualCluster, RemoveRunningVc."""
    require_name(name)
    who = require_admin(actor).username
    if name == ADMIN_GROUP:
        raise Forbidden(f"The name '{name}' is occupied by admin group.")
    with transaction.atomic():
        lock_table(VirtualCluster)
        vc = _found(name, f"Can't delete a nonexistent vc {name}")
        grants = sorted(vc.grants.values_list("username", flat=True))
        nodes = sorted(vc.dedicated_nodes.values_list("name", flat=True))
        vc.delete()  # first: a submission that comes now finds none
        if (jobs := about_jobs().live("vc", [name]).get(name, NO_JOBS)).all:
            raise RemoveRunningVc(f"Can't delete vc {name}, {_alive(jobs)}, stop them before delete vc")
        _give_default_the_rest()
        audit.changed(who, "virtual cluster deleted", name, {"capacity": vc.capacity, "grants": grants, "nodes": nodes})


def _alive(jobs: LiveJobs) -> str:
    """v1's words, ``3 jobs are running``, and those that wait, of which it knew none."""
    counts = [(jobs.running, "running"), (jobs.waiting, "waiting")]
    return " and ".join(f"{words.count(many, 'job is', 'jobs are')} {state}" for many, state in counts if many)


def set_vc_status(actor: Viewer, name: str, status: str) -> VirtualCluster:
    """``stopped``: its waiting jobs stay waiting, what runs goes on. ``running`` reverses it.

    Raises Unauthorized, Forbidden, BadRequest, NoVirtualCluster.
    """
    require_name(name)
    who = require(actor, Permission.SET_VC, vc=name).username
    if status not in ("stopped", "running"):
        raise BadRequest('child "vcStatus" fails because ["vcStatus" must be one of [stopped, running]]')
    with transaction.atomic():
        lock_table(VirtualCluster)
        vc = _found(name, f"Vc {name} not found, can't {'stop' if status == 'stopped' else 'active'}")
        before, vc.status = vc.status, VirtualCluster.Status(status.upper())
        vc.save(update_fields=["status"])
        audit.changed(who, "virtual cluster status set", name, {"from": before, "to": vc.status})
    return vc


def _found(name: str, otherwise: str) -> VirtualCluster:
    """Return the row, or NoVirtualCluster with the sentence ``otherwise``."""
    vc = VirtualCluster.objects.filter(name=name).first()
    if vc is None:
        raise NoVirtualCluster(otherwise)
    return vc


def _give_default_the_rest() -> None:
    rest = {"capacity": available_for(DEFAULT_VC)}
    VirtualCluster.objects.update_or_create(
        name=DEFAULT_VC, defaults=rest, create_defaults={**rest, "max_capacity": 100}
    )
