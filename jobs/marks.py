"""What an answer about jobs depends on, in a query or two: another value, and the answer may be another."""

from __future__ import annotations

from django.db.models import Max

from jobs.models import Attempt, Event, Job, Task
from portal.models import AuditEvent


def of_list() -> tuple[object, ...]:
    """Every change of a job writes an Event. A purge takes Events away, so the newest of them alone could come back:
    the deletion that led to it is an AuditEvent, which stays."""
    newest = Event.objects.aggregate(last=Max("id"))["last"]
    return newest, AuditEvent.objects.aggregate(last=Max("id"))["last"]


def of_job(job: Job, attempt: Attempt) -> tuple[object, ...]:
    """Not for one that waits: why it does depends on the whole cluster and the clock."""
    tasks = Task.objects.filter(attempt=attempt).aggregate(changed=Max("changed_at"), fact=Max("fact_at"))
    newest = Event.objects.filter(job=job).aggregate(last=Max("id"))["last"]
    return (
        *(job.pk, job.state, job.execution, job.changed_at, job.user_retries, job.platform_retries),
        *(job.resource_retries, job.exit_code, newest, tasks["changed"], tasks["fact"]),
        *(attempt.pk, attempt.launched_at, attempt.decided_at, attempt.completed_at, attempt.exit_code),
    )
