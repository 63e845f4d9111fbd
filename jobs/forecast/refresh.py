"""Forecasts when waiting jobs will start, and writes that where pages find it.

A worker does it from time to time, so that no pass and no page waits for it: jobs/forecast/play.py says how.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import timedelta

from django.db import transaction
from django.db.models import Max
from django.utils import timezone

from base.core.bulk import Row, chunks, insert_values, update_rows
from base.core.threads import run_beside
from base.core.values import milliseconds
from jobs.forecast import scores
from jobs.forecast.errors import Corrections
from jobs.forecast.play import LEAST_DRAWS, Spread, StartForecasts, at_limits, starts
from jobs.forecast.recent import recent_arrivals
from jobs.history.lengths import learn
from jobs.models import Holding, Job, Prediction
from jobs.planning.lifecycle import JobState
from jobs.planning.queue.lengths import Lengths
from jobs.planning.queue.lines import in_order, places
from jobs.planning.queue.scene import Scene
from jobs.waiting.queue import WaitingJob, queue_now

BUDGET = 6.0  # seconds of one forecast, in which it has a core
PATIENCE = 5.0  # times as long it takes at most, where others have the cores
STALE = 60.0  # seconds: an order that lay for so long is followed by another one
NO_LIMIT = 86_400.0  # seconds: what a job without a limit counts for where only limits count
_BREATH = 0.002  # seconds left to other threads of the worker after each step
_AGAIN = 0.25  # a shown forecast is noted again after this part of the wait that the last one told
_SOONEST = timedelta(minutes=5)
_MOMENTS = ("p10", "p50", "p90")
_NAMES = ("job_id", "attempt", "vc", "made", "played", *_MOMENTS, "guess", "by_limit", "started")

Moments = dict[int, dict[str, int]]  # by job

_busy = threading.Lock()


def order(given: float) -> None:
    """The order that a worker carries out. Returns at once. ``given``: when it was given; an older order than STALE is
    dropped, as another one follows it."""
    if time.time() - given < STALE:
        run_beside("forecast", refresh, alone=_busy)


def refresh(budget: float = BUDGET) -> int:
    """Write the forecasts of all waiting jobs, and return how many there are. Takes ``budget`` seconds of a core at
    most, but for reading and writing; where that is not enough for the whole queue, its first jobs alone have one, and
    those behind them the moment before which they hardly start."""
    scores.note()
    waiting, scene = queue_now()
    forecasts, limits = StartForecasts({}, {}), dict[int, float]()
    lengths = learn() if waiting else Lengths(())
    if lengths:
        at = scene.now.timestamp()
        came = recent_arrivals(scene.now)
        forecasts = starts(
            waiting,
            scene,
            lambda job: length_of(lengths, job, at),
            clock(budget),
            coming=lambda draw: came.coming(at, draw),
        )
        if forecasts.spreads:
            spent = clock(budget / LEAST_DRAWS)
            limits = at_limits(waiting, scene, lambda job: float(job.most_seconds or NO_LIMIT), spent)
    by_limit = {id: milliseconds(scene.now + timedelta(seconds=delay)) for id, delay in limits.items()}
    played = {id: in_milliseconds(spread) for id, spread in forecasts.spreads.items()}
    now = milliseconds(scene.now)
    shown = corrected(scores.corrections(now), played, {job.id: job.vc for job in waiting}, now) if played else {}
    _write(waiting, played, shown, _bounds(waiting, scene, forecasts, shown), by_limit)
    return len(forecasts.spreads)


def corrected(known: Corrections, played: Moments, vcs: Mapping[int, str], now: int) -> Moments:
    """The same forecasts, made ``now`` (milliseconds), with what is known of the errors of earlier ones; ``vcs`` has
    the virtual cluster of each job."""
    return {
        id: dict(zip(_MOMENTS, known.corrected(vcs[id], now, (at["p10"], at["p50"], at["p90"])), strict=True))
        for id, at in played.items()
    }


def _bounds(
    waiting: Sequence[WaitingJob], scene: Scene[WaitingJob], forecasts: StartForecasts, shown: Moments
) -> Moments:
    """{"after"} of jobs without a spread, in milliseconds. Of a job that was not played it is that of the last one
    before it in its virtual cluster."""
    last, bounds = dict[str, int](), Moments()
    queue = in_order(waiting)
    place = places(queue, scene)
    for job in sorted(queue, key=lambda job: place[job.id]):
        before = last.get(job.vc, 0)
        if job.id in shown:
            last[job.vc] = shown[job.id]["p10"]
            continue
        soonest = forecasts.not_before.get(job.id)
        last[job.vc] = max(milliseconds(soonest) if soonest is not None else 0, before)
        if last[job.vc]:
            bounds[job.id] = {"after": last[job.vc]}
    return bounds


def length_of(lengths: Lengths, job: WaitingJob, now: float) -> Sequence[float]:
    """How long it may run, or may have run when it ends (jobs.planning.queue.lengths)."""
    ran = max(0.0, now - job.started_at.timestamp()) if job.started_at is not None else 0.0
    return lengths.quantiles(job.like, ran, job.most_seconds)


def in_milliseconds(spread: Spread) -> dict[str, int]:
    """{"p10", "p50", "p90"}, as rows and answers have it."""
    return dict(zip(_MOMENTS, map(milliseconds, spread), strict=True))


def clock(budget: float, patience: float = PATIENCE) -> Callable[[], float]:
    """The part of ``budget`` seconds that is over: of those in which this thread has a core, or of ``patience`` times
    as many on the wall."""
    used, began = time.thread_time(), time.monotonic()

    def spent() -> float:
        time.sleep(_BREATH)
        return max(time.thread_time() - used, (time.monotonic() - began) / patience) / max(budget, 1e-9)

    return spent


def _write(
    waiting: Iterable[WaitingJob], played: Moments, shown: Moments, bounds: Moments, limits: dict[int, int]
) -> None:
    """What pages show, and what is scored. ``played`` is as the queue was played, ``shown`` the same with what is known
    of errors; ``limits``: when limits say that the jobs start, in milliseconds."""
    now = milliseconds(timezone.now())
    known = {**shown, **bounds}
    gone = [job.id for job in waiting if job.id not in known]
    rows = [(known[id], id, JobState.WAITING) for id in sorted(known)]  # a pass may write the same rows
    with transaction.atomic():
        update_rows(Job, ["forecast"], ["id", "state"], rows)
        for some in chunks(gone):
            Job.objects.filter(id__in=some, forecast__isnull=False).update(forecast=None)
        insert_values(Prediction, _NAMES, _due(played, shown, limits, now))


def _due(played: Moments, shown: Moments, limits: dict[int, int], now: int) -> list[Row]:
    """The rows of forecasts to be scored: not of every minute, or a job that waits for long would count most."""
    ids = list(shown)
    last: dict[tuple[int, int], tuple[int, int]] = {}
    attempts: dict[int, tuple[int, str, int]] = {}
    for some in chunks(ids):
        noted = Prediction.objects.filter(job_id__in=some, started=None).values_list("job_id", "attempt")
        last |= {(job, n): (made, p50) for job, n, made, p50 in noted.annotate(Max("made"), Max("p50"))}
        rows = Job.objects.filter(id__in=some).values_list("id", "attempt_number", "vc", "queued_at")
        attempts |= {id: (number, vc, milliseconds(queued)) for id, number, vc, queued in rows}
    waits: dict[str, int] = {}
    due: list[Row] = []
    for id, spread in shown.items():
        if id not in attempts:
            continue
        number, vc, queued = attempts[id]
        made, p50 = last.get((id, number), (0, 0))
        if now - made < max(_SOONEST / timedelta(milliseconds=1), _AGAIN * (p50 - made)):
            continue
        if vc not in waits:
            latest = (
                Holding.objects.filter(vc=vc, waited__isnull=False).order_by("-id").values_list("waited", flat=True)
            )
            waits[vc] = latest.first() or 0
        guesses = max(now, queued + waits[vc]), limits.get(id)
        due.append((id, number, vc, now, list(played[id].values()), *spread.values(), *guesses, None))
    return due
