"""What is read of a job's or task's row: a view's fields name their columns, so that each column is listed once. And,
for those who ask about the queue, of a job's spec, which is known from then on."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field, fields
from itertools import dropwhile, islice
from typing import Any

from django.db.models import Q, TextField
from django.db.models.functions import Cast, Coalesce

from clusters.placement.fit import Demand
from jobs import dependencies
from jobs.config.demands import demands
from jobs.config.extras import Asked
from jobs.config.spec import JobSpec
from jobs.models import Job
from jobs.planning.queue.awaited import Awaited
from jobs.planning.queue.scene import Waiting
from jobs.planning.world import JobView, TaskView
from portal.core.bulk import among

# Fields that are no column, but follow from one.
ASKED = {
    "stopping": Q(execution=Job.Execution.STOP),
    "deleted": Q(deleted_at__isnull=False),
    "since": Cast(Coalesce("queue_time", "created_at"), TextField()),
}
_COLUMNS = {column.name for column in Job._meta.concrete_fields} - {"spec"}  # the spec is read once: it never changes


def _named(view: type[Waiting]) -> tuple[str, ...]:
    return tuple(each.name for each in fields(view) if each.name in _COLUMNS or each.name in ASKED)


QUEUE = _named(Waiting)  # in the order of its fields
JOB = _named(JobView)
TASK = tuple(each.name for each in fields(TaskView))


@dataclass(slots=True)
class _Known:
    """What specs, which never change, ask for, by job; kept from one question to the next. Jobs of one shape have the
    same object."""

    jobs: dict[int, tuple[tuple[Demand, ...], Asked]] = field(default_factory=dict)
    shapes: dict[tuple[Demand, ...], tuple[Demand, ...]] = field(default_factory=dict)

    def add(self, id: int, spec: JobSpec) -> None:
        shape = demands(spec)
        self.jobs[id] = self.shapes.setdefault(shape, shape), spec.asked

    def of(self, ids: Iterable[int]) -> _Known:
        """What is known of these alone."""
        jobs = {id: self.jobs[id] for id in ids if id in self.jobs}
        return _Known(jobs, {shape: shape for shape, _ in jobs.values()})


_known = _Known()
_SPARE = 1_000  # jobs that may have started or ended since, before they are forgotten


def forget() -> None:
    global _known
    _known = _Known()


def forget_others(waiting: Sequence[Waiting]) -> None:
    """Forget jobs that wait no longer. A question that is being answered goes on with what it has."""
    global _known
    if len(_known.jobs) > 2 * len(waiting) + _SPARE:
        _known = _known.of(job.id for job in waiting)


class Specs:
    """The shapes of waiting jobs. Specs are read many together, each time twice as many."""

    def __init__(self, wanted: Collection[int]) -> None:
        self.ids: list[int] = []  # of all that wait, in their order
        self.running: set[int] = set()  # of those that run, once somebody has asked for them
        self._wanted = wanted
        self._at_once = 100  # in most virtual clusters one of the first already holds the queue
        self._specs: dict[int, Any] = {}
        self._known = _known
        self._awaited: dict[int, Sequence[Awaited]] = {}

    def shape(self, id: int) -> tuple[Demand, ...]:
        """Raises LookupError for a job that is gone by now, and what a spec raises that cannot be read."""
        return self._know(id)[0]

    def asked(self, id: int) -> Asked:
        """As ``shape``, of the extras."""
        return self._know(id)[1]

    def _know(self, id: int) -> tuple[tuple[Demand, ...], Asked]:
        if id not in self._known.jobs:
            if id not in self._specs:
                self._read(id)
            self._known.add(id, JobSpec.from_json(self._specs[id]))
        return self._known.jobs[id]

    def awaited(self, id: int) -> Sequence[Awaited]:
        """What this job waits for; read together for all jobs asked for."""
        if id not in self._awaited:
            wanted = {*self._wanted, id}
            found = dependencies.unmet(wanted)
            self._awaited |= {each: found.get(each, []) for each in wanted}
        return self._awaited[id]

    def _read(self, id: int) -> None:
        """The spec of this job, with those of the jobs after it, or of all that run like it, and, the first time, those
        asked for."""
        wanted = {*self._wanted, id} if not self._specs else {id}
        if id in self.running:
            wanted |= self.running
        else:
            wanted.update(islice(dropwhile(lambda other: other != id, self.ids), self._at_once))
            self._at_once *= 2
        ids = sorted(wanted - self._specs.keys() - self._known.jobs.keys())
        for start in range(0, len(ids), 500):
            self._specs |= dict(among(Job.objects.all(), ids[start : start + 500]).values_list("id", "spec"))
