"""Reads appointments."""

from __future__ import annotations

from datetime import datetime

from django.db.models import QuerySet

from clusters.appointments.rules import AppointmentView, Holder, Span, next_spans
from clusters.models import Appointment


def rows(now: datetime) -> QuerySet[Appointment]:
    """Those that are not over, the elder first."""
    return Appointment.objects.exclude(weekly=False, end__lte=now).select_related("vc").order_by("id")


def load_appointments(now: datetime) -> list[AppointmentView]:
    """The same as values. One query."""
    return [as_value(row) for row in rows(now)]


def spans(now: datetime) -> tuple[Span, ...]:
    """The time of each that runs or comes next. One query."""
    return tuple(next_spans(load_appointments(now), now))


def as_value(row: Appointment) -> AppointmentView:
    holder = Holder(row.vc.name if row.vc else "", row.username, row.job)
    when = row.begin, row.end, not row.is_within, row.zone, row.weekly
    return AppointmentView(row.pk or 0, row.title, holder, frozenset(row.nodes), *when)
