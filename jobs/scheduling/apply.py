"""Carries out a Plan: one transaction, each job whole or not at all.

A row that has moved since the picture was taken is left to the next pass: a task's state never comes back, a job's does
with another attempt, so state and attempt are compared. The lease is compared first: a scheduler that slept while
another one acted writes nothing. Orders are rows of the same transaction; engines are never called from here.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import structlog
from django.db import InterfaceError, OperationalError, transaction

from base.core.bulk import chunks, insert_values
from base.wakes import wake
from base.wakes.lease import Lease
from clusters.models import Node
from jobs.containers import discard
from jobs.models import Event, Job, Task
from jobs.planning.lifecycle import JobState
from jobs.planning.world import PARK_FOR, JobPlan, Plan
from jobs.scheduling import orders, remembered
from jobs.scheduling.events import NewEvent, job_event
from jobs.scheduling.writes import Stale, ToWrite, write

log = structlog.get_logger()

MOST_PURGED = 2_000  # rows of tasks and events in one transaction: nobody else writes to SQLite meanwhile


def apply(plan: Plan, now: datetime, lease: Lease) -> int:
    """Write the plan and return how many jobs changed. Raises Fenced and what the database raises."""
    if plan.is_empty:
        return 0  # no lock of the database for nothing
    with lease.writing():
        writing, changed = _write_jobs(plan.jobs, now)
        for name, (gpus, ports) in plan.to_write.items():
            held = {"gpus": sorted(gpus), "ports": sorted(ports)} if gpus or ports else {}
            Node.objects.filter(name=name).update(held=held, updated_at=now)
        for ids in chunks(plan.collected):
            Task.objects.filter(id__in=ids).update(collected=True)
        for some in chunks(plan.keeps):
            Job.objects.filter(id__in=some, state=JobState.WAITING).update(keeps_turn=True, changed_at=now)
        if plan.idlings is not None:
            remembered.write_idlings(plan.idlings, now)
        if plan.purge:
            _purge(plan.purge)
        insert_values(Event, NewEvent._fields, writing.events)
        orders.send([*writing.orders, *plan.orders], now, writing.starts)
        if changed or plan.purge or plan.idlings is not None:
            wake.notify("pages")
    return changed


def _write_jobs(plans: Sequence[JobPlan], now: datetime) -> tuple[ToWrite, int]:
    """Write all jobs with a handful of statements, or, if one of them cannot be written, each by itself."""
    writing = ToWrite(now)
    try:
        with transaction.atomic():
            _write(plans, writing)
        return writing, len(plans)
    except InterfaceError:  # the connection is gone
        raise
    except Exception as error:
        log.info("each job is written by itself", jobs=len(plans), exc_info=not isinstance(error, Stale))
    writing, changed = ToWrite(now), 0
    for job_plan in plans:
        changed += _write_one(job_plan, writing)
    return writing, changed


def _write_one(job_plan: JobPlan, writing: ToWrite) -> bool:
    """Write one job in a savepoint, and return whether anything was written. A job that cannot be written is parked,
    unless its rows have only moved on."""
    own = ToWrite(writing.now)
    try:
        with transaction.atomic():
            _write([job_plan], own)
    except Stale as stale:
        log.info("left to the next pass", job=job_plan.job.title, reason=str(stale))
        return False
    except InterfaceError:
        raise
    except OperationalError as error:  # the database's trouble; a lost connection raises again at the next statement
        log.warning("left to the next pass", job=job_plan.job.title, exc_info=error)
        return False
    except Exception as error:
        own = ToWrite(writing.now)
        _park(job_plan, error, own)
    writing.events += own.events
    writing.orders += own.orders
    writing.starts += own.starts
    return True


def _write(plans: Sequence[JobPlan], writing: ToWrite) -> None:
    for job_plan in plans:
        if job_plan.parked:
            _park(job_plan, job_plan.parked, writing)
    write([job_plan for job_plan in plans if not job_plan.parked], writing)


def _park(job_plan: JobPlan, error: Exception, writing: ToWrite) -> None:
    log.error("parked", job=job_plan.job.title, exc_info=error)
    Job.objects.filter(id=job_plan.job.id).update(parked_until=writing.now + PARK_FOR)
    text = "Longshore could not plan this job and looks at it again in a minute. Please report it."
    reason = f"{type(error).__name__}: {error}"
    writing.events.append(job_event(job_plan, writing.now, "job.parked", None, text, error=reason[:500]))


def _purge(ids: Sequence[int]) -> None:
    """Delete the next piece of the rows of these deleted jobs, of which nothing runs any more. Where it is the last
    one, the jobs go with it, and what is to be done about their files is written down. A job of which some rows are
    gone is as deleted as before, so nobody sees it, and the next pass, which follows at once, goes on with it."""
    left = MOST_PURGED
    for model in (Task, Event):
        piece = model._default_manager.filter(job__in=ids).values_list("id", flat=True)[:left]
        left -= model._default_manager.filter(id__in=piece).delete()[0]
        if left <= 0:
            return
    discard.note(ids)
    Job.objects.filter(id__in=ids).delete()
