"""What the earlier attempts of jobs say about the next one: which nodes it had better not try, how long it waits for a
diagnosis, and how many in a row ended in one way."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db.models import F

from jobs.models import Attempt, Task
from jobs.planning.streak import End, Streak, streak

DIAGNOSIS_WAIT = timedelta(seconds=2)  # a retry waits so long for the diagnosis, which may tell it to avoid a node
LOOKED_BACK = 10  # attempts
LONG = timedelta(days=1)  # after an attempt that ran for so long, the next failure is none that repeats itself


@dataclass(frozen=True, slots=True)
class Earlier:
    """``avoid`` are nodes. ``until`` is set while a diagnosis is worth waiting for."""

    avoid: frozenset[str] = frozenset()
    until: datetime | None = None
    streak: Streak | None = None


NOTHING_EARLIER = Earlier()
_CURRENT = F("job__attempt_number")


def of(ids: Sequence[int]) -> dict[int, Earlier]:
    """Return, by job, how its earlier attempts ended, for those that had an attempt before the current one."""
    if not ids:
        return {}
    refused = _refused(ids)
    attempts = Attempt.objects.filter(job__in=ids, number__lt=_CURRENT, number__gte=_CURRENT - LOOKED_BACK)
    rows = attempts.order_by("-number").values_list(
        *("job_id", "number", "exit_code", "exit", "launched_at", "decided_at", "diagnosis_due", "diagnosis__suspects")
    )
    ends: dict[int, list[End]] = {}
    last: dict[int, tuple[datetime | None, list[str] | None]] = {}
    in_a_row: dict[int, int] = {}  # how many there are since one that ran for long
    for job, number, code, kept, began, ended, due, suspects in rows:
        if began is not None and ended is not None and ended - began >= LONG:
            in_a_row.setdefault(job, len(ends.get(job, ())))
        ends.setdefault(job, []).append((number, code, kept))
        last.setdefault(job, (due, suspects))
    return {job: _earlier(ends[job], in_a_row.get(job), refused.get(job, {}), *last[job]) for job in ends}


def to_avoid(refused: Iterable[set[str]]) -> frozenset[str]:
    """The nodes that the next attempt leaves to the last, by those that refused each of the earlier ones, the oldest
    first. A job goes round: once it is back at a node that had refused it there is no other, and it begins anew."""
    round_: set[str] = set()
    for nodes in refused:
        round_ = round_ | nodes if nodes and not round_ & nodes else nodes
    return frozenset(round_)


def _earlier(
    ends: list[End],
    in_a_row: int | None,
    refused: Mapping[int, set[str]],
    due: datetime | None,
    suspects: list[str] | None,
) -> Earlier:
    """Only a task that ran can have shown that its node is at fault, so that the diagnosis is waited for."""
    exit_ = ends[0][2].get("exit") or {}
    return Earlier(
        avoid=to_avoid(refused.get(number, set()) for number, *_ in reversed(ends)) | frozenset(suspects or ()),
        until=due + DIAGNOSIS_WAIT if due and exit_.get("raw_code") is not None else None,
        streak=streak(ends[:in_a_row], 0),
    )


def _refused(ids: Sequence[int]) -> dict[int, dict[int, set[str]]]:
    """The nodes that refused to start a task, by job and attempt."""
    number, job_number = F("attempt__number"), F("job__attempt_number")
    rows = Task.objects.filter(job__in=ids, fault__isnull=False).annotate(back=job_number - number)
    refused: dict[int, dict[int, set[str]]] = {}
    for job, nth, node in rows.filter(back__range=(1, LOOKED_BACK)).values_list("job_id", "attempt__number", "node"):
        refused.setdefault(job, {}).setdefault(nth, set()).add(node)
    return refused
