"""Values that change whenever an answer about jobs may have changed, for its ETag. Each costs a query or three."""

from __future__ import annotations

from django.db.models import Max

from jobs.models import Attempt, Event, Job, Task
from portal.models import AuditEvent


def of_list() -> tuple[object, ...]:
    """What the job list depends on: the newest Event, as every change of a job writes one, and the newest AuditEvent. A
    purge deletes Events, so the newest id could come back; the deletion before it is an AuditEvent, and those stay."""
    newest = Event.objects.aggregate(last=Max("id"))["last"]
    return newest, AuditEvent.objects.aggregate(last=Max("id"))["last"]


def of_job(job: Job, attempt: Attempt) -> tuple[object, ...]:
    """What the detail of a job depends on. Not for a waiting job: the reason why it waits depends on the whole cluster
    and on the time."""
    tasks = Task.objects.filter(attempt=attempt).aggregate(changed=Max("changed_at"), fact=Max("fact_at"))
    newest = Event.objects.filter(job=job).aggregate(last=Max("id"))["last"]
    return (
        *(job.pk, job.state, job.execution, job.changed_at, job.user_retries, job.platform_retries),
        *(job.resource_retries, job.exit_code, newest, tasks["changed"], tasks["fact"]),
        *(attempt.pk, attempt.launched_at, attempt.decided_at, attempt.completed_at, attempt.exit_code),
    )
