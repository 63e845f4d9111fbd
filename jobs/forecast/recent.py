"""The jobs that came lately, from which it is drawn what comes next."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import accumulate

from base.core.bulk import chunks, with_ids
from base.core.clock import Remembered
from clusters.placement.fit import Demand
from jobs.config.spec import JobSpec
from jobs.forecast.arrivals import DAY, DAYS, Arrivals
from jobs.models import Job
from jobs.waiting.queue import WaitingJob, unsent

_READ, _TASKS = 3_000, 20_000  # jobs that are read, the newest, and tasks that they have together
_AT_ONCE = 100  # specs that are read together, as some are large
_EVERY = 600.0  # seconds for which what was read holds
_SPAN = timedelta(seconds=DAYS * DAY + _EVERY)


def read_arrivals(now: datetime) -> Arrivals[WaitingJob]:
    """The jobs of the last days, each as it would be if it came again, in seconds since 1970."""
    newest = Job.objects.filter(created_at__gt=now - _SPAN).order_by("-created_at", "-id")
    sizes = newest.values_list("id", "total_tasks")[:_READ]
    together = accumulate(tasks for _, tasks in sizes)
    ids = [id for (id, _), tasks in zip(sizes, together, strict=True) if tasks <= _TASKS]
    came, shapes = list[tuple[float, WaitingJob]](), dict[tuple[Demand, ...], tuple[Demand, ...]]()
    for some in chunks(ids, _AT_ONCE):
        rows = with_ids(Job.objects.all(), some).values_list("created_at", "username", "vc", "priority", "spec")
        for created, username, vc, priority, spec in rows:
            with suppress(Exception):  # its own page says what is wrong with it
                job = unsent(JobSpec.from_json(spec), (), username)
                shape = shapes.setdefault(job.demands, job.demands)
                came.append((created.timestamp(), replace(job, vc=vc, priority=priority, demands=shape)))
    return Arrivals(came)


recent_arrivals = Remembered(read_arrivals, _EVERY)
