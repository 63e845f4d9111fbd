"""Changes the place of a waiting job in the queue of its virtual cluster: its priority, or before which job it starts.

An admin may do both with any job, a manager with those of their virtual cluster; an owner may lower the priority of
theirs, and raise it as far as they may set it.
Whose turn it is then, jobs/planning/turns.py decides. Each change is an Event.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from django.db import transaction
from django.db.models import F, Q
from django.db.models.functions import Coalesce
from django.utils import timezone

from base.accounts import audit
from base.accounts.viewer import Viewer, may, require
from base.core.errors import BadRequest, Conflict
from base.models import User
from base.roles import Permission
from base.wakes import wake
from clusters.vcs.rules import MOST_PRIORITY
from jobs import queries
from jobs.access import may_write, require_write
from jobs.admission import require_priority
from jobs.models import Event, Job
from jobs.planning.lifecycle import JobState

_TICK = timedelta(microseconds=1)
_ROOM = timedelta(minutes=1)


def may_prioritize(viewer: Viewer, job: Job) -> bool:
    """Whether to offer it: the place of a job that does not wait cannot be changed."""
    return _waits(job) and (may_write(viewer, job) or may_order(viewer, job))


def may_order(viewer: Viewer, job: Job) -> bool:
    return may(viewer, Permission.ORDER_JOBS, vc=job.vc)


def set_priority(actor: User, job: Job, value: int) -> bool:
    """Give the job this priority; False when it has it. Raises Unauthorized, Forbidden, NotGiven, BadRequest,
    Conflict."""
    if not may_order(actor, job):
        require_write(actor, job, "prioritize")
    if not -MOST_PRIORITY <= value <= MOST_PRIORITY:
        raise BadRequest(f"A priority is a whole number from -{MOST_PRIORITY} to {MOST_PRIORITY}.")
    with transaction.atomic():
        row = _lock(job)
        if value > row.priority:
            require_priority(actor, row.vc, value)
        if value == row.priority:
            return False
        reason = f"{actor.username} changed its priority from {row.priority} to {value}."
        # A job that kept its turn at another priority keeps none at this one, or some could be kept in turn.
        _write(row, actor, "job.priority", reason, priority=value, keeps_turn=False)
    return True


def move_before(actor: User, job: Job, other: Job) -> bool:
    """Let the job start before another one of its virtual cluster. It gets that one's priority if its own is lower.
    False when it is ahead already. Raises Unauthorized, Forbidden, BadRequest, Conflict."""
    refusal = "Only an admin, or the manager of the virtual cluster, changes the order in which jobs start."
    require(actor, Permission.ORDER_JOBS, refusal, vc=job.vc)
    if job.pk == other.pk or job.vc != other.vc:
        both = f"{job} and {other}"
        raise BadRequest(f"{both} must be two jobs of one virtual cluster, for each has a queue of its own.")
    with transaction.atomic():
        row, before = _lock(job), _lock(other)
        line = before.place_of or before.username
        is_beside = row.keeps_turn or (row.place_of or row.username) == line
        if _rank(row) < _rank(before) or (_rank(row) == _rank(before) and is_beside and _key(row) < _key(before)):
            return False
        moment = _moment_before(before, without=row.pk)
        reason = f"{actor.username} moved it before {before}."
        priority = max(row.priority, before.priority)
        place_of = "" if line == row.username else line
        keeps = row.keeps_turn or before.keeps_turn
        place = {"priority": priority, "place_of": place_of, "keeps_turn": keeps}
        _write(row, actor, "job.moved", reason, queue_time=moment, **place)
    return True


def _rank(job: Job) -> tuple[int, bool]:
    """Return what comes before the share of its user."""
    return -job.priority, not job.keeps_turn


def _key(job: Job) -> tuple[int, datetime, int]:
    """Return what jobs/planning/turns.py sorts the jobs of one user in a virtual cluster by."""
    return -job.priority, job.queue_time or job.created_at, job.pk


def _moment_before(other: Job, without: int) -> datetime:
    """Return a moment between those of ``other`` and of the job right ahead of it."""
    alike = queries.live_jobs().filter(state=JobState.WAITING, vc=other.vc, priority=other.priority)
    alike = alike.annotate(since=Coalesce("queue_time", "created_at"))
    moment = other.queue_time or other.created_at
    ahead = alike.filter(Q(since__lt=moment) | Q(since=moment, id__lt=other.pk)).exclude(pk=without)
    last: datetime | None = ahead.order_by("-since").values_list("since", flat=True).first()
    if last is None:
        return moment - _ROOM
    if moment - last < 2 * _TICK:
        ahead.update(queue_time=F("since") - _ROOM, changed_at=timezone.now())
        last -= _ROOM
    return last + (moment - last) / 2


def _lock(job: Job) -> Job:
    """The job, locked until the transaction ends. Raises Conflict when it does not wait."""
    row = Job.objects.select_for_update(no_key=True).filter(pk=job.pk).defer("config", "spec").first()
    if row is None or not _waits(row):
        raise Conflict(f"Job {job.name} does not wait any more, so it has no place in the queue.")
    return row


def _waits(job: Job) -> bool:
    return job.state == JobState.WAITING and job.execution == Job.Execution.START and job.deleted_at is None


def _write(job: Job, actor: User, kind: str, reason: str, **values: Any) -> None:
    now = timezone.now()
    queries.visible_jobs().filter(pk=job.pk).update(changed_at=now, **values)
    data = {name: value if isinstance(value, int | str) else value.isoformat() for name, value in values.items()}
    audit.record(actor.username, "place in the queue changed", str(job), data={"reason": reason})
    Event.objects.create(job=job, at=now, kind=kind, actor=actor.username, reason=reason, data=data)
    wake.notify("scheduler", "pages")
