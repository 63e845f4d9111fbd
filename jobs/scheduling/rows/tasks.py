"""The tasks of running jobs, and those that have ended and left something behind, as the planner sees them."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, NamedTuple

from django.utils import timezone

from base.core import clock
from base.core.bulk import chunks, values_of, with_ids
from jobs.models import Task
from jobs.planning.lifecycle import TaskState
from jobs.planning.settle import LEASE
from jobs.planning.world import Owner, TaskView
from jobs.scheduling import columns
from jobs.scheduling.rows import stamps

_TIMES = ("changed_at", "ordered_at", "fact_at", "claimed_until", "told_at")


class _ReadTask(NamedTuple):
    """A task as it was read last. ``times`` are those of its row, which the view has on our own clock."""

    times: Mapping[str, datetime | None]
    view: TaskView


class KnownTasks:
    """Reads a task again only when its stamp has changed."""

    def __init__(self, times: clock.OwnTimes) -> None:
        self.of_job: dict[int, dict[int, TaskView]] = {}  # those of running jobs
        self.leftovers: set[int] = set()  # ids
        self.owners: dict[str, Owner] = {}  # by name of the container
        self._times = times
        self._stamps, self._left = stamps.of_tasks(), stamps.of_leftovers()
        self._read: dict[int, _ReadTask] = {}

    def view(self, id: int) -> TaskView | None:
        return self._read[id].view if id in self._read else None

    def learn(self) -> tuple[set[int], bool]:
        """Bring everything up to date, and return the ids of running jobs whose tasks are others now, and whether
        anything has changed."""
        is_other = any([self._stamps.read(), self._left.read()])
        changed = self._stamps.changed | self._left.changed
        for some in chunks(list(changed)):
            rows = values_of(with_ids(Task.objects.all(), some).values_list(*columns.TASK))
            read_at = clock.monotonic_now()
            for row in rows:
                self._know(dict(zip(columns.TASK, row, strict=True)), read_at)
        moved: set[int] = set()
        for id in self._stamps.gone & self._read.keys():
            moved.add(job := self._read[id].view.job_id)
            if (tasks := self.of_job.get(job, {})).pop(id, None) is not None and not tasks:
                del self.of_job[job]
        for id in self._stamps.changed:
            if id in self._read:
                view = self._read[id].view
                moved.add(view.job_id)
                self.of_job.setdefault(view.job_id, {})[id] = view
        self.leftovers = (self.leftovers - self._left.gone) | self._left.changed.keys()
        for id in self._stamps.gone | self._left.gone:
            self._forget(id)
        self._stamps.take()
        self._left.take()
        return moved, is_other

    def _forget(self, id: int) -> None:
        if id in self._read and id not in self.leftovers:
            view = self._read[id].view
            if id not in self.of_job.get(view.job_id, ()):
                self.owners.pop(view.container_name, None)
                del self._read[id]

    def _know(self, row: dict[str, Any], read_at: datetime) -> None:
        known = self._read.get(row["id"])
        times = {name: row[name] for name in _TIMES}
        learnt: dict[str, datetime | None] = {}
        for name, value in times.items():
            if value is None:
                learnt[name] = None
            elif known is not None and known.times[name] == value:
                learnt[name] = getattr(known.view, name)
            elif name == "claimed_until":
                learnt[name] = read_at + LEASE
            elif name == "fact_at":
                learnt[name] = read_at
            elif name == "told_at":  # of a process that begins here the clock of the day has to do
                learnt[name] = read_at if known else clock.before(value, timezone.now(), read_at)
            else:
                learnt[name] = self._times.learnt(value, read_at)
        view = TaskView(**{**row, **learnt, "state": TaskState(row["state"])})
        self._read[view.id] = _ReadTask(times, view)
        if known is not None:
            self.owners.pop(known.view.container_name, None)
        if view.container_name:
            self.owners[view.container_name] = Owner(view.id, read_at)
