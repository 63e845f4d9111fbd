"""Keeps the score of forecasts: what was shown, and what came true."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median

from jobs.models import Holding, Job, Prediction
from jobs.planning.lifecycle import JobState
from portal.core.bulk import update_rows

_SCORED = 10_000  # predictions, the newest


@dataclass(frozen=True, slots=True)
class Accuracy:
    """How good forecasts were: how many starts were seen, the part of them between p10 and p90, before and after; and
    the median error, in milliseconds, of p50 and of the guess that a job waits as long as the last one did."""

    scored: int
    within: float | None
    early: float | None
    late: float | None
    median_error: float | None
    median_error_of_guess: float | None


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


def accuracy() -> Accuracy:
    """Of the newest predictions that came true."""
    rows = Prediction.objects.filter(started__isnull=False).order_by("-made")
    seen: list[tuple[int, int, int, int | None, int]]
    seen = list(rows.values_list("p10", "p50", "p90", "guess", "started")[:_SCORED])  # type: ignore[arg-type]
    if not seen:
        return Accuracy(0, None, None, None, None, None)
    early = sum(started < p10 for p10, _, _, _, started in seen) / len(seen)
    late = sum(started > p90 for _, _, p90, _, started in seen) / len(seen)
    errors = [abs(started - p50) for _, p50, _, _, started in seen]
    guesses = [abs(started - guess) for _, _, _, guess, started in seen if guess is not None]
    return Accuracy(len(seen), 1 - early - late, early, late, median(errors), median(guesses) if guesses else None)
