"""Every write to appointments: the rules, the row, its audit record, and the wake-up that follows. For admins,
and for managers within the guarantee of their virtual cluster."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any
from zoneinfo import available_timezones

from django.conf import settings
from django.db import transaction
from django.utils import timezone

from base.accounts import audit
from base.accounts.viewer import Viewer, may, require, require_user
from base.core.bulk import lock_table
from base.core.errors import BadRequest, Conflict, Forbidden, NotFound, UnknownVirtualCluster
from base.models import User
from base.roles import Permission
from clusters.appointments import rules
from clusters.appointments.queries import as_value, load_appointments
from clusters.models import Appointment, Node, VirtualCluster
from clusters.nodes.queries import views_of
from clusters.placement.fit import gpus_out
from clusters.vcs.queries import guaranteed

_UNITS = {"gpu": "GPUs", "cpu": "cores", "memory": "MB of memory"}


def write(actor: Viewer, values: Mapping[str, Any], id: int | None = None) -> Appointment:
    """Make an appointment of these columns, or change them of the one with this ``id``, also while it runs: who is in
    its way from then on leaves. ``vc`` is a name. Where ``gpus`` are given in place of ``nodes``, whole nodes with so
    many of ``gpu_type`` are chosen that no other appointment has then; GPUs that nobody gets now do not count.

    Raises Unauthorized, Forbidden, BadRequest, UnknownVirtualCluster, Conflict, NotFound.
    """
    who = require_user(actor).username
    if id is None:
        require(actor, Permission.APPOINT, vc=str(values.get("vc") or ""))
    with transaction.atomic():
        lock_table(Appointment)
        others = [other for other in load_appointments(timezone.now()) if other.id != id]
        if len(others) >= rules.MOST:
            raise Conflict(f"There are {rules.MOST} appointments, which is the most; delete one first.")
        row = Appointment(made_by=who, zone=settings.TIME_ZONE) if id is None else find(id)
        before = None if id is None else as_value(row)
        if before:
            _require(actor, before)
        is_admin = may(actor, Permission.ADMINISTER)
        _fill(row, dict(values), before, others, names=is_admin)
        _require(actor, as_value(row))
        row.is_within = not is_admin
        if row.is_within:
            _require_guaranteed(as_value(row), others)
        row.save()
        change = {"from": before.said if before else None, "to": as_value(row).said}
        audit.changed(who, "appointment changed" if before else "appointment made", row.title, change)
    return row


def delete(actor: Viewer, id: int) -> None:
    """Delete it: its nodes are everybody's again. Raises Unauthorized, Forbidden, NotFound."""
    who = require_user(actor).username
    with transaction.atomic():
        row = find(id)
        _require(actor, as_value(row))
        audit.changed(who, "appointment deleted", row.title, {"from": as_value(row).said})
        row.delete()


def find(id: int) -> Appointment:
    row = Appointment.objects.select_related("vc").filter(pk=id).first()
    if row is None:
        raise NotFound(f"There is no appointment {id}.")
    return row


def _require(actor: Viewer, view: rules.AppointmentView) -> None:
    """Raise Forbidden for who may not make appointments for those whose this one is."""
    require(actor, Permission.APPOINT, vc=view.holder.vc)


def _require_guaranteed(view: rules.AppointmentView, others: list[rules.AppointmentView]) -> None:
    """Raise Forbidden where its virtual cluster would have more by appointments than it is guaranteed, or nodes of
    another one."""
    vc = view.holder.vc
    names = rules.most_together(view, [view, *(other for other in others if other.holder.vc == vc)], timezone.now())
    rows = list(Node.objects.filter(name__in=names).values_list("dedicated_to__name", "gpus", "cpus", "memory_mb"))
    if any(owner not in (None, vc) for owner, *_ in rows):
        raise Forbidden("A node of it belongs to another virtual cluster.")
    asked = (sum(len(gpus) for _, gpus, _, _ in rows), sum(row[2] for row in rows), sum(row[3] for row in rows))
    given = guaranteed(vc)
    for what, number in zip(("gpu", "cpu", "memory"), asked, strict=True):
        if number > given.get(what, 0):
            raise Forbidden(
                f"Virtual cluster {vc} would have {number:,} {_UNITS[what]} by appointments then, and is guaranteed "
                f"{given.get(what, 0):,.0f}. An admin may give it more."
            )


def _fill(
    row: Appointment,
    values: dict[str, Any],
    before: rules.AppointmentView | None,
    others: list[rules.AppointmentView],
    *,
    names: bool,
) -> None:
    """Write the values into the row. Raises what is wrong with it then; with ``names`` also whose is in its way."""
    gpus, gpu_type, vc = values.pop("gpus", None), values.pop("gpu_type", ""), values.pop("vc", None)
    if vc is not None:
        row.vc = VirtualCluster.objects.filter(name=vc).first()
    if vc and row.vc is None:
        raise UnknownVirtualCluster(f"There is no virtual cluster {vc}.")
    for name, value in values.items():
        setattr(row, name, value)
    if row.username and not User.objects.filter(username=row.username).exists():
        raise BadRequest(f"There is no user {row.username}.")
    if row.job and ("~" not in row.job or row.username not in ("", row.job.split("~", 1)[0])):
        raise BadRequest("job: name it user~job.")
    if row.zone not in available_timezones():
        raise BadRequest(f"There is no time zone {row.zone}; an example is Europe/Berlin.")
    now, known = timezone.now(), dict(Node.objects.values_list("name", "gpus"))
    if gpus:
        row.nodes = _chosen(as_value(row), row.vc_id, gpus, gpu_type, others)
    if unknown := sorted({*row.nodes} - known.keys() - (before.nodes if before else set())):
        raise BadRequest(f"There is no node {unknown[0]}.")
    if mistake := rules.find_mistake(as_value(row), now, before):
        raise BadRequest(mistake)
    if taken := rules.conflict(as_value(row), others, now, names=names):
        raise Conflict(taken)


def _chosen(
    asked: rules.AppointmentView, vc: int | None, gpus: int, gpu_type: str, others: list[rules.AppointmentView]
) -> list[str]:
    rows = list(Node.objects.filter(status=Node.Status.ACTIVE).select_related("dedicated_to"))
    now, free = timezone.now(), dict[str, list[str]]()
    for row, node in zip(rows, views_of(rows), strict=True):
        is_open = node.offered and row.dedicated_to_id in (None, vc)
        if is_open and not rules.conflict(replace(asked, nodes=frozenset((node.name,))), others, now):
            free[node.name] = [kind for id, kind in node.gpus if id not in gpus_out(node)]
    chosen = rules.choose(gpus, gpu_type, free)
    if chosen is None:
        kind = f" {gpu_type}" if gpu_type else ""
        raise Conflict(f"There are not {gpus:,}{kind} GPUs then on nodes without another appointment.")
    return chosen
