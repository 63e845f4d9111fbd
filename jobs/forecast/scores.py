"""Keeps the score of forecasts: what was shown, and what came true."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from django.db.models import BigIntegerField, Count, ExpressionWrapper, F, Q

from base.core.bulk import chunks, update_rows
from base.core.clock import Remembered
from jobs.forecast.errors import WINDOW, Accuracy, Corrections, PastForecast, ShownForecast, score
from jobs.models import Holding, Job, Prediction
from jobs.planning.lifecycle import JobState

MINUTE, DAY = 60_000, 86_400_000  # milliseconds
WEEK = 7 * DAY
_MONDAY = 4 * DAY  # 1970 began on a Thursday
_SCORED = 10_000  # predictions, the newest
_EVERY = 60.0  # seconds for which what was learnt of errors holds for those who ask again and again
_MOMENTS = ("p10", "p50", "p90")
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
    for some in chunks(ids):
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
    found = rows.values_list("vc", "made", "played", "started", *_MOMENTS)[:WINDOW]
    seen = (
        PastForecast(vc, made, (p[0], p[1], p[2]), began, (p10, p50, p90))
        for vc, made, p, began, p10, p50, p90 in found
        if p
    )
    return Corrections(seen, now)


recent_corrections = Remembered(corrections, _EVERY)  # as of the last minute


def accuracy() -> Accuracy:
    """Say how good the forecasts were, of the newest predictions that came true."""
    return score(newest())


def newest() -> list[ShownForecast]:
    """The predictions that came true, the one shown last first. One query."""
    rows = Prediction.objects.filter(started__isnull=False).order_by("-made", "-id")
    return [ShownForecast(*values) for values in rows.values_list(*ShownForecast._fields)[:_SCORED]]


def by_wait(seen: Iterable[ShownForecast]) -> list[tuple[int, int | None, list[ShownForecast]]]:
    """(from, to, those) by the length of the wait that was shown, in milliseconds; the last one has no end."""
    parts: list[list[ShownForecast]] = [[] for _ in _WAITS]
    for forecast in seen:
        parts[sum(forecast.p50 - forecast.made >= least for least in _WAITS[1:])].append(forecast)
    return list(zip(_WAITS, (*_WAITS[1:], None), parts, strict=True))


def weeks(since: int) -> list[Week]:
    """The weeks since that moment with a start, the oldest first. One query."""
    week = ExpressionWrapper((F("made") - _MONDAY) / WEEK, BigIntegerField())
    rows = Prediction.objects.filter(started__isnull=False, made__gte=since).annotate(week=week).values("week")
    within = Count("id", filter=Q(started__gte=F("p10"), started__lte=F("p90")))
    by_week = rows.annotate(starts=Count("id"), within=within).order_by("week")
    return [Week(row["week"] * WEEK + _MONDAY, row["starts"], row["within"]) for row in by_week]
