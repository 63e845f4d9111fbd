"""The jobs that came lately, from which it is drawn what comes next."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC

from base.core.bulk import chunks, with_ids
from base.core.clock import Remembered
from jobs.forecast.arrivals import DAY, DAYS, Arrivals
from jobs.forecast.play import MOST
from jobs.history.window import TimeWindow
from jobs.models import Holding, Job
from jobs.planning.queue.scene import SchedulableJob
from jobs.replay.past import read_past
from jobs.scheduling.columns import Specs
from jobs.waiting.queue import Unsent, WaitingJob

_READ = 5_000  # tasks, the newest: of their jobs it is known when they came
_EVERY = 600.0  # seconds for which what was read holds
_SPAN = round(1000 * (DAYS * DAY + _EVERY))  # milliseconds


def read_arrivals(waiting: Sequence[WaitingJob], now: int) -> Arrivals[WaitingJob]:
    """The jobs that came in the last days up to ``now`` (milliseconds), in seconds since 1970: those that have started
    since, and those that wait, where these are few enough to be played."""
    newest = Holding.objects.order_by("-id").values_list("began", flat=True)[_READ : _READ + 1]
    begin = max(now - _SPAN, *newest, 0)
    past = read_past(TimeWindow(begin, now, now, UTC))
    runs = [*past.runs, *(start.run for start, _, _ in past.running)]
    came = [(begin / 1000 + run.submitted, _again(run)) for run in runs if run.submitted >= 0]
    still = {job.id: job for job in waiting if not job.evictions} if len(waiting) <= MOST else {}
    for some in chunks(sorted(still)):
        rows = with_ids(Job.objects.all(), some).values_list("id", "created_at")
        came += [(created.timestamp(), _again(still[id])) for id, created in rows if 1000 * created.timestamp() > begin]
    return Arrivals(came)


recent_arrivals = Remembered(read_arrivals, _EVERY)


def _again(job: SchedulableJob) -> WaitingJob:
    """The job as it would be if it came again."""
    return Unsent(
        0,
        job.vc,
        job.username,
        job.name,
        priority=job.priority,
        specs=Specs(),
        demands=job.demands,
        awaited=(),
        is_preemptible=job.is_preemptible,
        most_seconds=job.most_seconds,
    )
