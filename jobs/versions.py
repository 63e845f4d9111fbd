"""Versions: values that differ whenever an answer about jobs, or a page of them, may differ.

Each takes a query or two, much less than the answer. REST sends them as ETags, live pages compare them before they are
drawn again. Every change of a job writes an Event, so most go by the newest one.
"""

from __future__ import annotations

from functools import cache

from django.db import connection
from django.db.models import Max

from base.core.bulk import as_text
from base.core.values import milliseconds
from jobs.models import Event, Job, Task
from jobs.planning.lifecycle import JobState, TaskState

_DETAIL = """
    j.state, j.id, j.execution, j.changed_at, j.user_retries, j.platform_retries, j.resource_retries, j.exit_code,
    a.id, a.launched_at, a.decided_at, a.completed_at, a.exit_code,
    (SELECT max(id) FROM jobs_event WHERE job_id = j.id),
    (SELECT max(changed_at) FROM jobs_task WHERE attempt_id = a.id),
    (SELECT max(fact_at) FROM jobs_task WHERE attempt_id = a.id)
"""
# Rows of a transaction that is still open may appear later with lower ids than rows that are seen now. While there is
# such a transaction a version has its number, so that it is another one as soon as the transaction has ended.
_OPEN_WRITES = """(
    SELECT CASE WHEN pg_snapshot_xmin(s) <> pg_snapshot_xmax(s) THEN s::text END FROM pg_current_snapshot() AS s
)"""
_OF_DETAIL = """
    FROM jobs_job j JOIN jobs_attempt a ON a.job_id = j.id AND a.number = j.attempt_number
    WHERE j.username = %s AND j.name = %s AND j.deleted_at IS NULL
"""


@cache
def of_list() -> str:
    """SQL of that of the list that REST answers, a text: the newest Event and the newest AuditEvent. A purge deletes
    Events, so the newest id could come back; the deletion before it is an AuditEvent, and those stay."""
    return f"SELECT {_text('(SELECT max(id) FROM jobs_event), (SELECT max(id) FROM portal_auditevent)')}"  # noqa: S608


@cache
def of_detail() -> str:
    """SQL of that of a job that REST answers, by its user and name: a text. There is none where there is no job, nor
    for a waiting one: the reason why it waits depends on the whole cluster and on the time."""
    return f"SELECT {_text(_DETAIL)} {_OF_DETAIL} AND j.state <> '{JobState.WAITING}'"


def _text(columns: str) -> str:
    return as_text(columns if connection.vendor == "sqlite" else f"{columns}, {_OPEN_WRITES}")


def of_pages() -> str:
    """Return that of the home page and the list: it differs after every event of the ledger and every progress of a
    start."""
    last = Event.objects.aggregate(last=Max("id"))["last"] or 0
    # One index leads to the running jobs, which are few, and another one from them to their tasks.
    running = Job.objects.filter(state=JobState.RUNNING, deleted_at__isnull=True).values("id")
    progress = Task.objects.filter(job__in=running, state=TaskState.STARTING).aggregate(last=Max("fact_at"))["last"]
    return f"{last}.{milliseconds(progress)}"


def of_job_page(job: Job) -> str:
    """Return that of a job's page. Of a waiting job it changes with all of the cluster, which may let it start."""
    last = Event.objects.filter(job=job).aggregate(last=Max("id"))["last"] or 0
    tasks = Task.objects.filter(job=job).aggregate(changed=Max("changed_at"), fact=Max("fact_at"))
    own = f"{last}.{milliseconds(tasks['changed'])}.{milliseconds(tasks['fact'])}.{job.attempt_number}"
    return f"{own}-{of_pages()}" if job.state == JobState.WAITING else own
