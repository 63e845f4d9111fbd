"""What is read of a job's or task's row: a view's fields name their columns, so that each column is listed once."""

from __future__ import annotations

from dataclasses import fields

from django.db.models import Q, TextField
from django.db.models.functions import Cast, Coalesce

from jobs.models import Job
from jobs.planning.queue.scene import Waiting
from jobs.planning.world import JobView, TaskView

# Fields that are no column, but follow from one.
ASKED = {
    "stopping": Q(execution=Job.Execution.STOP),
    "deleted": Q(deleted_at__isnull=False),
    "since": Cast(Coalesce("queue_time", "created_at"), TextField()),
}
_COLUMNS = {column.name for column in Job._meta.concrete_fields} - {"spec"}  # the spec is read once: it never changes


def _named(view: type[Waiting]) -> tuple[str, ...]:
    return tuple(each.name for each in fields(view) if each.name in _COLUMNS or each.name in ASKED)


QUEUE = _named(Waiting)  # in the order of its fields
JOB = _named(JobView)
TASK = tuple(each.name for each in fields(TaskView))
