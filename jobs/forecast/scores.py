"""Keeps the score of forecasts: what was shown, and what came true."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass

from django.db.models import BigIntegerField, Count, ExpressionWrapper, F, Q

from jobs.models import Holding, Job, Prediction
from jobs.planning.forecast.corrections import WINDOW, Corrections, Seen
from jobs.planning.forecast.score import Accuracy, Shown, score
from jobs.planning.lifecycle import JobState
from portal.core.bulk import update_rows

MINUTE, DAY = 60_000, 86_400_000  # milliseconds
WEEK = 7 * DAY
_MONDAY = 4 * DAY  # 1970 began on a Thursday
_SCORED = 10_000  # predictions, the newest
_EVERY = 60.0  # seconds for which what was learnt of errors holds for those who ask again and again
_learnt: tuple[float, Corrections] | None = None
_WAITS = (0, 10 * MINUTE, 60 * MINUTE, 6 * 60 * MINUTE)


@dataclass(frozen=True, slots=True)
class Week:
    """The starts of which the forecast was shown in the week that begins with this Monday (UTC, milliseconds)."""

    monday: int
    starts: int
    within: int


def note() -> None:
    """Note when the jobs started of which a forecast was shown. What will never start is forgotten."""
    open_ = Prediction.objects.filter(started=None)
    pairs = set(open_.values_list("job_id", "attempt"))
    ids = sorted({id for id, _ in pairs})
    began: dict[tuple[int, int], int] = {}
    waits: set[tuple[int, int]] = set()
    for at in range(0, len(ids), 500):
        some = ids[at : at + 500]
        rows = Holding.objects.filter(job_id__in=some, waited__isnull=False)
        began |= {(job, attempt): at for job, attempt, at in rows.values_list("job_id", "attempt", "began")}
        jobs = Job.objects.filter(id__in=some, state=JobState.WAITING)
        waits |= set(jobs.values_list("id", "attempt_number"))
    came = [(began[pair], *pair) for pair in pairs if pair in began]
    update_rows(Prediction, ["started"], ["job_id", "attempt"], came)
    for job, attempt in pairs - began.keys() - waits:
        open_.filter(job_id=job, attempt=attempt).delete()


def corrections(now: int) -> Corrections:
    """What the newest forecasts have shown by ``now`` (milliseconds). One query."""
    rows = Prediction.objects.filter(played__isnull=False).order_by("-made", "-id")
    found = rows.values_list("vc", "made", "played", "started")[:WINDOW]
    return Corrections((Seen(vc, made, (p[0], p[1], p[2]), started) for vc, made, p, started in found if p), now)


def recent_corrections(now: int) -> Corrections:
    """As of the last minute, in this process."""
    global _learnt
    if _learnt is None or time.monotonic() - _learnt[0] > _EVERY:
        _learnt = time.monotonic(), corrections(now)
    return _learnt[1]


def forget() -> None:
    global _learnt
    _learnt = None


def accuracy() -> Accuracy:
    """Of the newest predictions that came true."""
    return score(newest())


def newest() -> list[Shown]:
    """The predictions that came true, the one shown last first. One query."""
    rows = Prediction.objects.filter(started__isnull=False).order_by("-made", "-id")
    return [Shown(*values) for values in rows.values_list(*Shown._fields)[:_SCORED]]


def by_wait(seen: Iterable[Shown]) -> list[tuple[int, int | None, list[Shown]]]:
    """(from, to, those) by the length of the wait that was shown, in milliseconds; the last one has no end."""
    parts: list[list[Shown]] = [[] for _ in _WAITS]
    for one in seen:
        parts[sum(one.p50 - one.made >= least for least in _WAITS[1:])].append(one)
    return list(zip(_WAITS, (*_WAITS[1:], None), parts, strict=True))


def weeks(since: int) -> list[Week]:
    """The weeks since that moment with a start, the oldest first. One query."""
    week = ExpressionWrapper((F("made") - _MONDAY) / WEEK, BigIntegerField())
    rows = Prediction.objects.filter(started__isnull=False, made__gte=since).annotate(week=week).values("week")
    within = Count("id", filter=Q(started__gte=F("p10"), started__lte=F("p90")))
    found = rows.annotate(starts=Count("id"), within=within).order_by("week")
    return [Week(row["week"] * WEEK + _MONDAY, row["starts"], row["within"]) for row in found]
