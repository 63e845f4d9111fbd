"""Diagnoses attempts that failed, in a worker, once the last lines of their logs are archived.

The scheduler makes a diagnosis due (``Attempt.diagnosis_due``) in the transaction that ends the attempt. Whoever
archives its last log carries it out, or the worker that gets the scheduler's order; both may come, and the second finds
nothing to do. What stays due, since a worker died or a node is away, the scheduler orders again.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict
from datetime import datetime, timedelta

import structlog
from django.core.cache import cache
from django.db import DatabaseError, transaction
from django.utils import timezone

from base.core import words
from base.core.bulk import one_row
from base.wakes import wake
from jobs.diagnosis import book
from jobs.diagnosis.evidence import UNKNOWN, Diagnosis
from jobs.diagnosis.gather import evidence_of
from jobs.diagnosis.judge import judge
from jobs.models import Attempt, Event, Job, Task
from jobs.planning import exits
from jobs.planning.lifecycle import TASK_END_STATES, TaskState

PATIENCE = timedelta(seconds=30)  # for the logs; after it what is there is enough
BUDGET = 5.0  # seconds of comparing
TRY_OUT_EVERY = 600  # seconds between two trials of a node for what logs say
_DUE = """
    SELECT a.app_id FROM jobs_task t JOIN jobs_attempt a ON a.id = t.attempt_id
    WHERE t.id = %s AND a.diagnosis_due IS NOT NULL"""
log = structlog.get_logger()


def diagnose(app_id: str) -> Sequence[str]:
    """Diagnose the attempt with this application id, if that is due and its logs are there. Returns the nodes that are
    to be tried out now: what a log says of them is no proof, since anybody can print it."""
    attempt = Attempt.objects.select_related("job").filter(app_id=app_id, diagnosis_due__isnull=False).first()
    if attempt is None or attempt.completed_at is None:
        return ()
    is_late = timezone.now() - attempt.completed_at > PATIENCE
    if not is_late and _awaits_logs(attempt):
        return ()
    diagnosis = _judged(attempt)
    is_new = _write(attempt, diagnosis)
    return [node for node in diagnosis.suspects if is_new and cache.add(f"tried-out:{node}", 1, TRY_OUT_EVERY)]


def diagnose_task(task_id: int) -> Sequence[str]:
    """Diagnose the attempt of a task whose log has just been archived, if it was the last. Returns what ``diagnose``
    does."""
    return [node for app_id in one_row(_DUE, task_id) for node in diagnose(app_id)]


def _judged(attempt: Attempt) -> Diagnosis:
    """What the rules say; "unknown" where that cannot be worked out, so that nobody tries it for ever."""
    try:
        evidence, rules = evidence_of(attempt), book.rules()  # on a worker that has just started this takes its time
        until = time.monotonic() + BUDGET
        return judge(evidence, rules, lambda: time.monotonic() > until)
    except DatabaseError:
        raise
    except Exception:
        log.exception("an attempt cannot be diagnosed", job=str(attempt.job), attempt=attempt.number)
        return UNKNOWN


def _awaits_logs(attempt: Attempt) -> bool:
    """Whether a log is still to be archived. Nobody waits for that of a node that is lost."""
    ended = Task.objects.filter(attempt=attempt, state__in=sorted(TASK_END_STATES), collected=False)
    return ended.exclude(state=TaskState.FAILED, exit_code=exits.NODE_LOST).exclude(container_name="").exists()


def _write(attempt: Attempt, diagnosis: Diagnosis) -> bool:
    """Write it once, and let the planner and the pages read the job again. False where another worker was quicker."""
    now = timezone.now()
    with transaction.atomic():
        due = Attempt.objects.filter(pk=attempt.pk, diagnosis_due__isnull=False)
        if not due.update(diagnosis={"version": 1, **asdict(diagnosis)}, diagnosis_due=None):
            return False
        Job.objects.filter(pk=attempt.job_id).update(changed_at=now)
        if diagnosis.rule:
            _note(attempt, diagnosis, now)
        wake.notify("scheduler", "pages")
    log.info(
        "diagnosed", job=str(attempt.job), attempt=attempt.number, cause=diagnosis.cause, certainty=diagnosis.certainty
    )
    return True


def _note(attempt: Attempt, diagnosis: Diagnosis, now: datetime) -> None:
    """The Event. It has nothing out of a log."""
    reason = f"{diagnosis.name}{f' in {diagnosis.task}' if diagnosis.task else ''}: {diagnosis.certainty}."
    if diagnosis.suspects:
        reason += f" The next attempt avoids {words.listing(diagnosis.suspects)}."
    Event.objects.create(
        at=now,
        kind="attempt.diagnosed",
        job_id=attempt.job_id,
        attempt=attempt.number,
        task=diagnosis.task,
        node=diagnosis.suspects[0] if diagnosis.suspects else "",
        actor="diagnosis",
        reason=reason,
        data={"cause": diagnosis.cause, "whose": diagnosis.whose, "suspects": list(diagnosis.suspects)},
    )
