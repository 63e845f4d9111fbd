"""The jobs that wait or run, with their specs and shapes, and their tasks, as the planner sees them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from operator import itemgetter
from typing import Any, NamedTuple

from django.conf import settings
from django.db.models import QuerySet
from django.utils import timezone

from base.core import clock
from base.core.bulk import chunks, values_again, values_with_ids
from clusters.placement.fit import Demand
from jobs.config.demands import demands
from jobs.config.spec import JobSpec
from jobs.history import earlier
from jobs.history.earlier import NOTHING_EARLIER, Earlier
from jobs.models import Attempt, Job, Task
from jobs.planning import retries
from jobs.planning.exits import Exit
from jobs.planning.lifecycle import JobState, TaskState
from jobs.planning.settle import LEASE
from jobs.planning.world import PARK_FOR, JobView, Owner, TaskView
from jobs.scheduling import columns
from jobs.scheduling.rows import stamps

_LIVE = frozenset(map(str, (JobState.WAITING, JobState.RUNNING)))
_TIMES = ("changed_at", "ordered_at", "fact_at", "claimed_until", "told_at")
_TIME_AT = [columns.TASK.index(name) for name in _TIMES]  # as TaskView has them, whose first field is the id
_STATE_AT, _times_of = columns.TASK.index("state"), itemgetter(*_TIME_AT)
_PORT_OFFSET = int(settings.INSTANCE, 16) % 1_000_000
Decided = Mapping[int, tuple[Exit, int]]


class KnownJobs:
    """Reads a job again only when its stamp has changed."""

    def __init__(self, times: clock.OwnTimes) -> None:
        self.of: dict[int, JobView] = {}
        self.ended: set[int] = set()  # deleted ones that have ended
        self._times, self._stamps = times, stamps.of_jobs()
        self._specs: dict[int, tuple[JobSpec, tuple[Demand, ...]]] = {}
        self._shapes: dict[tuple[Demand, ...], tuple[Demand, ...]] = {}
        self._read: dict[int, JobView] = {}  # without how their attempts end, which attempts say
        self._decided: Decided = {}

    def learn(self) -> set[int]:
        """Bring everything up to date, and return the ids of those that are others now, or gone."""
        self._stamps.read()
        changed, gone, decided = self._stamps.changed, self._stamps.gone, _decided()
        living = [id for id, stamp in changed.items() if stamps.state_of_job(stamp) in _LIVE]
        gone = gone | (changed.keys() - set(living))
        moved = {id for id in decided.keys() | self._decided.keys() if decided.get(id) != self._decided.get(id)}
        self._read_all(living)
        for id in gone:
            for known in (self._read, self.of, self._specs):
                known.pop(id, None)
        for id in self._read.keys() & moved.union(living):
            exit_, grace = decided.get(id, (None, 0))
            view = self._read[id]
            self.of[id] = view if exit_ is None else replace(view, decided=exit_, grace=grace)
        self.ended = (self.ended - self._stamps.gone).difference(living) | (changed.keys() - set(living))
        self._decided = decided
        self._stamps.take()
        return gone | {*living} | moved

    def _read_all(self, ids: list[int]) -> None:
        """A job that is gone by the time it is read is left out."""
        self._read_specs(id for id in ids if id not in self._specs)
        for some in chunks(ids):
            rows = [dict(zip(columns.JOB, row, strict=True)) for row in values_with_ids(_job_rows, some)]
            ends = earlier.of([row["id"] for row in rows if row["attempt_number"] > 1])
            for row in rows:
                view = self._view(row, ends.get(row["id"], NOTHING_EARLIER), timezone.now(), clock.monotonic_now())
                self._read[row["id"]] = view

    def _read_specs(self, ids: Iterable[int]) -> None:
        for some in chunks(list(ids)):
            for id, data in values_with_ids(_spec_rows, some):
                spec = JobSpec.from_json(data)
                shape = demands(spec)
                self._specs[id] = spec, self._shapes.setdefault(shape, shape)

    def _view(self, row: dict[str, Any], ends: Earlier, time_of_day: datetime, read_at: datetime) -> JobView:
        not_before = max(filter(None, (row["not_before"], ends.until)), default=None)
        spec, shape = self._specs[row["id"]]
        started = self._started(row, time_of_day, read_at)
        most = spec.asked.max_run_seconds
        read = {
            "state": JobState(row["state"]),
            "not_before": clock.after(not_before, time_of_day, read_at, retries.LONGEST_DELAY),
            "parked_until": clock.after(row["parked_until"], time_of_day, read_at, PARK_FOR),
            "started_at": started,
            "saved_at": clock.before(row["saved_at"], time_of_day, read_at) if row["saved_at"] else None,
            "ends_by": started + timedelta(seconds=most) if started and most else None,
        }
        learnt_of = {"avoid": ends.avoid | frozenset(spec.asked.avoid_nodes), "before": ends.streak}
        return JobView(**{**row, **read, **learnt_of}, spec=spec, demands=shape, port_offset=_PORT_OFFSET)

    def _started(self, row: dict[str, Any], time_of_day: datetime, read_at: datetime) -> datetime | None:
        """When the attempt of a running job was placed. What was learnt once stays, whatever is done to the clock of
        the day."""
        started: datetime | None = row["started_at"]
        if started is None or row["state"] != JobState.RUNNING:
            return None
        known = self._read.get(row["id"])
        if known and known.started_at and known.attempt_number == row["attempt_number"]:
            return known.started_at
        return self._times.since(started, time_of_day, read_at)


def _decided() -> Decided:
    """Read by job how attempts end that are decided and of which something still runs, and the seconds of grace."""
    return {job: (Exit.from_json(data["exit"]), grace) for job, data, grace in values_again(_decided_rows)}


def _decided_rows() -> QuerySet[Any, Any]:
    winding_down = Attempt.objects.filter(decided_at__isnull=False, completed_at__isnull=True)
    return winding_down.values_list("job_id", "exit", "grace")


def _job_rows() -> QuerySet[Any, Any]:
    return Job.objects.annotate(**columns.ASKED).values_list(*columns.JOB)


def _spec_rows() -> QuerySet[Any, Any]:
    return Job.objects.values_list("id", "spec")


def _task_rows() -> QuerySet[Any, Any]:
    return Task.objects.values_list(*columns.TASK)


class _ReadTask(NamedTuple):
    """A task as it was read last. ``times`` are those of its row, which the view has on our own clock."""

    times: Sequence[datetime | None]
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
            rows = values_with_ids(_task_rows, some)
            read_at = clock.monotonic_now()
            for row in rows:
                self._know(row, read_at)
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

    def _know(self, row: Sequence[Any], read_at: datetime) -> None:
        values, known = list(row), self._read.get(row[0])
        times = _times_of(row)
        for at, name, value, before in zip(_TIME_AT, _TIMES, times, known.times if known else times, strict=True):
            if value is None:
                continue
            if known is not None and before == value:
                values[at] = getattr(known.view, name)
            elif name == "claimed_until":
                values[at] = read_at + LEASE
            elif name == "fact_at":
                values[at] = read_at
            elif name == "told_at":  # of a process that begins here the clock of the day has to do
                values[at] = read_at if known else clock.before(value, timezone.now(), read_at)
            else:
                values[at] = self._times.learnt(value, read_at)
        values[_STATE_AT] = TaskState(row[_STATE_AT])
        view = TaskView(*values)
        self._read[view.id] = _ReadTask(times, view)
        if known is not None:
            self.owners.pop(known.view.container_name, None)
        if view.container_name:
            self.owners[view.container_name] = Owner(view.id, read_at)
