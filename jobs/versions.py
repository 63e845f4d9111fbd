"""Versions: values that differ whenever an answer about jobs, or a page of them, may differ.

Each takes a query or two, much less than the answer. REST sends them as ETags, live pages compare them before they are
drawn again. Every change of a job writes an Event, so most go by the newest one.
"""

from __future__ import annotations

from django.db.models import Max

from base.core.bulk import first_row, one_row
from base.core.values import milliseconds
from jobs.models import Event, Job, Task
from jobs.planning.lifecycle import JobState, TaskState

_PARTS = (
    *("j.state", "j.id", "j.execution", "j.changed_at", "j.user_retries", "j.platform_retries", "j.resource_retries"),
    *("j.exit_code", "a.id", "a.launched_at", "a.decided_at", "a.completed_at", "a.exit_code"),
    *("(SELECT max(id) FROM jobs_event WHERE job_id = j.id)", "max(t.changed_at)", "max(t.fact_at)"),
)
_NAMES = tuple(f"version_{at}" for at in range(len(_PARTS)))
_OF_DETAIL = """
    FROM jobs_job j JOIN jobs_attempt a ON a.job_id = j.id AND a.number = j.attempt_number
        LEFT JOIN jobs_task t ON t.attempt_id = a.id
    WHERE j.username = %s AND j.name = %s AND j.deleted_at IS NULL
    GROUP BY j.id, a.id
"""
_VERSION = f"SELECT {', '.join(_PARTS)} {_OF_DETAIL}"
_JOB = f"SELECT j.*, {', '.join(f'{part} AS {name}' for part, name in zip(_PARTS, _NAMES, strict=True))} {_OF_DETAIL}"


def of_list() -> tuple[object, ...]:
    """Return that of the list that REST answers: the newest Event and the newest AuditEvent. A purge deletes Events, so
    the newest id could come back; the deletion before it is an AuditEvent, and those stay."""
    return one_row("SELECT (SELECT max(id) FROM jobs_event), (SELECT max(id) FROM portal_auditevent)")


def of_detail(username: str, name: str) -> tuple[object, ...]:
    """Return that of a job that REST answers. It is empty where there is none, and for a waiting job: the reason why it
    waits depends on the whole cluster and on the time."""
    return _known(one_row(_VERSION, username, name))


def job_and_version(username: str, name: str) -> tuple[Job | None, tuple[object, ...]]:
    """The job with that of its detail, by one query; None where there is none."""
    job = first_row(Job, _JOB, username, name)
    return job, () if job is None else _known(tuple(getattr(job, each) for each in _NAMES))


def _known(found: tuple[object, ...]) -> tuple[object, ...]:
    return () if found[:1] == (JobState.WAITING,) else found


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
