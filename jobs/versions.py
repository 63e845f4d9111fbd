"""Versions: values that differ whenever an answer about jobs, or a page of them, may differ.

Each takes a query or two, much less than the answer. REST sends them as ETags, live pages compare them before they are
drawn again. Every change of a job writes an Event, so most go by the newest one.
"""

from __future__ import annotations

from datetime import datetime

from django.db.models import Max

from jobs.models import Attempt, Event, Job, Task
from jobs.planning.lifecycle import JobState, TaskState
from portal.core.bulk import one_row

_OF_DETAIL = """
    SELECT (SELECT max(id) FROM jobs_event WHERE job_id = %s), max(changed_at), max(fact_at)
    FROM jobs_task WHERE attempt_id = %s
"""


def of_list() -> tuple[object, ...]:
    """Of the list that REST answers: the newest Event and the newest AuditEvent. A purge deletes Events, so the newest
    id could come back; the deletion before it is an AuditEvent, and those stay."""
    return one_row("SELECT (SELECT max(id) FROM jobs_event), (SELECT max(id) FROM portal_auditevent)")


def of_detail(job: Job, attempt: Attempt) -> tuple[object, ...]:
    """Of a job that REST answers. Not for a waiting job: the reason why it waits depends on the whole cluster and on
    the time."""
    return (
        *(job.pk, job.state, job.execution, job.changed_at, job.user_retries, job.platform_retries),
        *(job.resource_retries, job.exit_code, *one_row(_OF_DETAIL, job.pk, attempt.pk)),
        *(attempt.pk, attempt.launched_at, attempt.decided_at, attempt.completed_at, attempt.exit_code),
    )


def of_pages() -> str:
    """Of the home page and the list: differs after every event of the ledger and every progress of a start."""
    last = Event.objects.aggregate(last=Max("id"))["last"] or 0
    # One index leads to the running jobs, which are few, and another one from them to their tasks.
    running = Job.objects.filter(state=JobState.RUNNING, deleted_at__isnull=True).values("id")
    progress = Task.objects.filter(job__in=running, state=TaskState.STARTING).aggregate(last=Max("fact_at"))["last"]
    return f"{last}.{_milliseconds(progress)}"


def of_job_page(job: Job) -> str:
    """Of a job's page. That of a waiting job changes with everything in the cluster, which may let it start."""
    last = Event.objects.filter(job=job).aggregate(last=Max("id"))["last"] or 0
    tasks = Task.objects.filter(job=job).aggregate(changed=Max("changed_at"), fact=Max("fact_at"))
    own = f"{last}.{_milliseconds(tasks['changed'])}.{_milliseconds(tasks['fact'])}.{job.attempt_number}"
    return f"{own}-{of_pages()}" if job.state == JobState.WAITING else own


def _milliseconds(moment: datetime | None) -> str:
    return str(int(moment.timestamp() * 1000)) if moment else ""
