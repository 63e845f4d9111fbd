"""Cheap values that change whenever a page may have to be drawn again, and the address of a page's live stream."""

from __future__ import annotations

from datetime import datetime
from urllib.parse import urlencode

from django.db.models import Max

from jobs.models import Event, Job, Task
from jobs.planning.lifecycle import JobState, TaskState


def address(page: str, /, **params: object) -> str:
    """The address of a page's live stream. ``params`` has ``v``, the version from which the page was drawn, and the
    page's own query; a ``page`` in that query is left out."""
    given = {name: value for name, value in params.items() if name != "page" and value not in (None, "")}
    return f"/stream/page?{urlencode({'page': page, **given})}"


def home_version() -> str:
    """Changes with every event of the ledger and every progress of a start."""
    last = Event.objects.aggregate(last=Max("id"))["last"] or 0
    # One index leads to the running jobs, which are few, and another one from them to their tasks.
    running = Job.objects.filter(state=JobState.RUNNING, deleted_at__isnull=True).values("id")
    progress = Task.objects.filter(job__in=running, state=TaskState.STARTING).aggregate(last=Max("fact_at"))["last"]
    return f"{last}.{_stamp(progress)}"


list_version = home_version


def job_version(job: Job) -> str:
    """Changes with the job. That of a waiting job changes with everything in the cluster, which may let it start."""
    last = Event.objects.filter(job=job).aggregate(last=Max("id"))["last"] or 0
    tasks = Task.objects.filter(job=job).aggregate(changed=Max("changed_at"), fact=Max("fact_at"))
    own = f"{last}.{_stamp(tasks['changed'])}.{_stamp(tasks['fact'])}.{job.attempt_number}"
    return f"{own}-{home_version()}" if job.state == JobState.WAITING else own


def _stamp(moment: datetime | None) -> str:
    return str(int(moment.timestamp() * 1000)) if moment else ""
