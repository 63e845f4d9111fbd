"""Reads appointments."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from django.db.models import QuerySet

from base.core.bulk import all_values
from clusters.appointments.rules import AppointmentView, Holder, Span, next_spans
from clusters.models import Appointment


def rows(now: datetime) -> QuerySet[Appointment]:
    """Those that are not over, the elder first."""
    return Appointment.objects.exclude(weekly=False, end__lte=now).select_related("vc").order_by("id")


def load_appointments(now: datetime) -> list[AppointmentView]:
    """The same as values. One query, which each pass asks: its SQL is written out."""
    return all_values(Appointment, _value, _ROWS, now)


_ROWS = """
    SELECT a.id, a.title, v.name AS of_vc, a.username, a.job, a.nodes, a."begin", a."end", a.is_within,
        a.zone, a.weekly
    FROM clusters_appointment a LEFT JOIN clusters_virtualcluster v ON v.id = a.vc_id
    WHERE a.weekly OR a."end" > %s ORDER BY a.id
"""


def _value(
    id: int,
    title: str,
    vc: str | None,
    username: str,
    job: str,
    nodes: Sequence[str],
    begin: datetime,
    end: datetime,
    is_within: bool,
    *when: Any,
) -> AppointmentView:
    holder = Holder(vc or "", username, job)
    return AppointmentView(id, title, holder, frozenset(nodes), begin, end, not is_within, *when)


def spans(now: datetime) -> tuple[Span, ...]:
    """The time of each that runs or comes next. One query."""
    return tuple(next_spans(load_appointments(now), now))


def as_value(row: Appointment) -> AppointmentView:
    vc, when = row.vc.name if row.vc else "", (row.begin, row.end, row.is_within, row.zone, row.weekly)
    return _value(row.pk or 0, row.title, vc, row.username, row.job, row.nodes, *when)
