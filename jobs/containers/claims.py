"""Claims of tasks: who works on one, for how long, and what they write about it. The only writes of workers to a task.

A claim is a short lease, which progress renews. What somebody writes who has lost the claim is dropped. A claim begins
with the mark of its portal on its machine, which has one process that works: when that starts, all earlier claims with
the mark are those of a process that has ended.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any
from uuid import uuid4

import structlog
from django.db import DatabaseError, close_old_connections
from django.utils import timezone

from base.core.bulk import update_where
from base.hosts import this_host
from base.wakes import wake
from clusters.engines.runtime import FaultReason, Progress, RuntimeFault
from jobs.models import Task
from jobs.planning.lifecycle import TaskState
from jobs.planning.settle import LEASE

log = structlog.get_logger()

COLLECT_LEASE = timedelta(seconds=150)  # longer than an engine or a store may pause in the middle of a log
RENEW_EVERY = 10.0  # seconds
FACT_RETRIES = 60.0  # seconds for which a fact is tried again while the database is away
FACT_PAUSE = 0.5  # seconds between two tries
_MARK = 8  # characters
_MINE = "id = %s AND claim = %s"


def take(id: int, wanted: str, lease: timedelta = LEASE) -> str | None:
    """Claim the task if it meets ``wanted``, an SQL condition, and nobody has claimed it. Returns the claim, or None.
    It is one conditional UPDATE: of two workers that try, one succeeds."""
    now, claim = timezone.now(), mark() + uuid4().hex[_MARK:]
    free = f"id = %s AND {wanted} AND (claimed_until IS NULL OR claimed_until <= %s)"
    return claim if update_where(Task, {"claim": claim, "claimed_until": now + lease}, free, id, now) else None


def drop_earlier(**_: object) -> None:
    """Drop them when the process that works begins: nobody waits for the claims of the one before, which may have been
    killed in the middle of a start or of a log. Is also called where django-q2 replaces its process."""
    try:
        lost = list(Task.objects.filter(claim__startswith=mark()).values_list("id", flat=True))
        Task.objects.filter(id__in=lost, claim__startswith=mark()).update(claim="", claimed_until=None)
    except DatabaseError as error:
        log.warning("the claims of an earlier worker lapse by themselves", reason=str(error))
    else:
        if lost:
            wake.notify("scheduler")


def mark() -> str:
    """The portal on this machine."""
    return this_host.host_id()[:_MARK]


def renewing(id: int, claim: str) -> Callable[[], None]:
    """A function to call all the time while a log is archived: it renews the claim, so that no other worker begins with
    it. It raises WITHDRAWN when another worker has the claim by now."""
    renewed = time.monotonic()

    def renew() -> None:
        nonlocal renewed
        if time.monotonic() - renewed < RENEW_EVERY:
            return
        renewed = time.monotonic()
        if not update_where(Task, {"claimed_until": timezone.now() + COLLECT_LEASE}, _MINE, id, claim):
            raise RuntimeFault("Another worker keeps the log.", reason=FaultReason.WITHDRAWN)

    return renew


def is_wanted(id: int, claim: str, **values: str) -> bool:
    """Whether the start is still wanted; also renews the claim. Called after the pull, and right before the container
    is created and started."""
    starts = f"{_MINE} AND state = '{TaskState.STARTING}'"
    return bool(update_where(Task, {"claimed_until": timezone.now() + LEASE, **values}, starts, id, claim))


def note(id: int, claim: str, progress: Progress) -> None:
    """Write how far a start is, which renews the claim. Raises RuntimeFault (WITHDRAWN) when it is no longer wanted."""
    if not is_wanted(id, claim, progress=progress.text[:120]):
        raise RuntimeFault("It is no longer wanted.", reason=FaultReason.WITHDRAWN)
    wake.notify("pages")


def close(id: int, claim: str, **values: Any) -> None:
    """Write what the worker has done or learnt (columns of Task), and give the claim back. Waits up to a minute for a
    database that is away."""
    deadline = time.monotonic() + FACT_RETRIES
    while True:
        try:
            facts = {"progress": "", **values, "claimed_until": None, "claim": "", "fact_at": timezone.now()}
            update_where(Task, facts, _MINE, id, claim)
            wake.notify("scheduler")
            return
        except DatabaseError:
            if time.monotonic() > deadline:
                raise
            log.warning("a fact could not be written and is tried again", task=id)
            close_old_connections()
            time.sleep(FACT_PAUSE)
