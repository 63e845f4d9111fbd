"""How long a reservation may keep GPUs idle before others get them for a time. Pure.

What is kept for a job beyond its guarantee may be more than what it gives: others stand still for it, perhaps for days.
So it idles a tenth of what the job likely needs, or 30 minutes of its GPUs where its length is not known; then it
lapses for as long as it had idled, others start there, and it comes back. That way it idles half of the time at most.
A job that the guarantee would hold alone may idle twice as much each time it comes back, and so starts at last. What
comes free for a job within the guarantee, or by evictions, is not bounded.

This is counted by virtual cluster, as each has one reservation: whoever stops a job and sends it anew, or has a second
one behind it, keeps no more idle. It ends when the job starts, or when nothing has idled for as long as it had. What
idles are the free GPUs on the reserved nodes, up to the number that the job wants there, while another job that asks
for no more than these finds no room. Nothing is added up while that number stays the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

PART, UNKNOWN_SECONDS, LEAST_SECONDS = 0.1, 1800.0, 60.0  # of each GPU; the least, since a pass takes its time too


@dataclass(frozen=True, slots=True)
class Idling:
    """Of the reservation of one virtual cluster, which is that of ``job``. ``gpus`` idle since ``at``; before that,
    ``idled`` GPU-seconds did in ``lasted`` seconds, the first of them after ``since``. ``most`` is what may. ``until``
    is when it comes back, once it has lapsed, and ``lapses`` how often that was."""

    job: int
    nodes: tuple[str, ...]
    since: datetime
    at: datetime
    gpus: int
    most: float
    idled: float = 0.0
    lasted: float = 0.0
    lapses: int = 0
    until: datetime | None = None

    @property
    def lapses_at(self) -> datetime | None:
        """When it lapses if it idles on like this."""
        if self.until is not None or not self.gpus:
            return None
        return self.at + timedelta(seconds=max(0.0, self.most - self.idled) / self.gpus)

    @property
    def ended(self) -> datetime | None:
        """Until when room was kept, of one that has lapsed."""
        return None if self.until is None else self.until - timedelta(seconds=self.lasted)

    def lapsed(self, now: datetime) -> Idling | None:
        """It as one that has lapsed; None while it has not. However late that is found out, no more counts than what it
        may idle: a clock that jumps, or a long night without a scheduler, makes no pause longer."""
        if self.until is not None:
            return self if now < self.until else None
        end = self.lapses_at
        if end is None or now < end:
            return None
        lasted = self.lasted + max(0.0, (end - self.at).total_seconds())
        until = now + timedelta(seconds=lasted)
        idled = max(self.idled, self.most)
        return replace(self, at=now, gpus=0, idled=idled, lasted=lasted, lapses=self.lapses + 1, until=until)

    def kept(self, gpus: int, now: datetime) -> Idling | None:
        """It when so many GPUs idle from now on; itself where that is as before. None once it is forgotten."""
        if self.until is not None:
            return self if now < self.until else None
        passed = max(0.0, (now - self.at).total_seconds())
        if not gpus and not self.gpus:
            return self if passed < self.lasted else None
        if gpus == self.gpus:
            return self
        lasted = self.lasted + (passed if self.gpus else 0.0)
        since, idled = self.since if self.lasted or self.gpus else now, self.idled + passed * self.gpus
        return replace(self, since=since, at=max(now, self.at), gpus=gpus, idled=idled, lasted=lasted)

    def begun_anew(self, now: datetime) -> Idling:
        """It where nothing counts any more but how often it has lapsed."""
        if not (self.gpus or self.lasted or self.until):
            return self
        return replace(self, since=now, at=now, gpus=0, idled=0.0, lasted=0.0, until=None)

    def on_clock(self, today: datetime, now: datetime) -> Idling:
        """The same by a clock that says ``now`` when this one says ``today``; nothing of it lies ahead, and no pause is
        longer than what it has lasted."""
        since, at = (now + min(moment - today, timedelta(0)) for moment in (self.since, self.at))
        left = None if self.until is None else min(self.until - today, timedelta(seconds=self.lasted))
        return replace(self, since=since, at=at, until=None if left is None else now + left)


Idlings = Mapping[str, Idling]  # by virtual cluster


def most(gpus: int, likely: float | None, lapses: int = 0) -> float:
    """The GPU-seconds that the reservation of a job may idle whose ``likely`` length in seconds is this, after so many
    ``lapses`` that count."""
    of_each = UNKNOWN_SECONDS if likely is None else max(LEAST_SECONDS, PART * likely)
    return gpus * of_each * 2.0 ** min(lapses, 20)
