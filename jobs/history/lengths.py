"""Learns from the attempts that ended how long jobs run. Each process asks the database once a minute at most."""

from __future__ import annotations

from base.core.clock import Remembered
from jobs.models import Holding
from jobs.planning.queue.lengths import Lengths, LikeJobs

EVERY = 60.0  # seconds for which what was learnt holds
_LEARNT = 5_000  # attempts
_ENDS = (Holding.Outcome.SUCCEEDED, Holding.Outcome.FAILED, Holding.Outcome.STOPPED)


def learn() -> Lengths:
    """Learn from the newest attempts that ended, now."""
    return Lengths(ended())


known_lengths = Remembered(learn, EVERY)  # as of the last minute


def ended(before: int | None = None) -> list[tuple[LikeJobs, float]]:
    """The newest attempts that ended, or those that had before this moment (in milliseconds), with their seconds."""
    rows = Holding.objects.filter(waited__isnull=False, outcome__in=_ENDS, ended__isnull=False).order_by("-id")
    if before is not None:
        rows = rows.filter(ended__lt=before)
    attempts = rows.values_list("username", "job_name", "gpus", "vc", "began", "ended")[:_LEARNT]
    return [
        (LikeJobs(user, name, gpus, vc), (last - began) / 1000)
        for user, name, gpus, vc, began, last in attempts
        if last is not None
    ]
