"""The shapes that found no room in one round of turns, and the jobs that are passed by for it. The free capacity only
becomes smaller in a round, so a shape that found none finds none later. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Generic

from clusters.placement.fit import Demand
from jobs.planning.queue.free import FreeInRound, Shape
from jobs.planning.queue.lines import Queue, VcQueue
from jobs.planning.queue.reservations import may_be_guest
from jobs.planning.queue.scene import JobT


class NoRoom(Generic[JobT]):
    def __init__(self, queue: Queue[JobT], free: FreeInRound[JobT]) -> None:
        self._scene, self._reservations, self._free = queue.scene, queue.reservations, free
        # With the shape itself, so that its id stays its own.
        self.shapes: dict[Shape, Sequence[Demand]] = {}
        self.at_all: dict[Shape, Sequence[Demand]] = {}  # not even as a guest
        self.too_late: dict[Shape, datetime] = {}  # the first end with which a guest would stay too long

    def is_asked_as_guest(self, line: VcQueue[JobT], job: JobT) -> bool:
        return line.guests < self._scene.policy.depth and may_be_guest(job, self._scene)

    def is_hopeless(self, line: VcQueue[JobT], job: JobT) -> bool:
        """Whether the job is skipped whatever else this round brings."""
        known = self._is_hopeless(line, self._free.shape(job)) if line.waits else False
        return known or (known is None and not self.is_asked_as_guest(line, job))

    def pass_by(self, line: VcQueue[JobT]) -> None:
        """Leave out the next jobs as long as they are hopeless: very many, which have few shapes."""
        if not line.waits:
            return
        known: dict[Shape, bool | None] = {}

        def is_hopeless(job: JobT) -> bool:
            try:
                if (key := self._free.shape(job)) not in known:
                    known[key] = self._is_hopeless(line, key)
                return known[key] or (known[key] is None and not self.is_asked_as_guest(line, job))
            except Exception:
                return False  # its turn has the error

        while line.at < len(line.jobs) and is_hopeless(line.jobs[line.at]):
            line.at += 1
        if line.lines is not None and line.at >= len(line.jobs):
            line.lines.pass_by(is_hopeless)

    def _is_hopeless(self, line: VcQueue[JobT], key: Shape) -> bool | None:
        """Whether all jobs of the shape are, behind one that waits; None where one may be asked as a guest."""
        if key not in self.shapes or (line.first_blocked is None and key not in line.hindered):
            return False
        if self._free.owned is not None and key not in line.takes_nothing_gathered:
            return False
        return None if self._reservations and key not in self.at_all else True
