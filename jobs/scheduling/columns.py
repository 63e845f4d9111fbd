"""What is read of a job's or task's row: a view's fields name their columns, so that each column is listed once. And,
for those who ask about the queue, of a job's spec, which is known from then on."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field, fields
from itertools import dropwhile, islice
from typing import Any

from django.db.models import Q, TextField
from django.db.models.functions import Cast, Coalesce

from base.core.bulk import chunks, with_ids
from clusters.placement.fit import Demand
from jobs import dependencies
from jobs.config.demands import demands
from jobs.config.extras import Extras
from jobs.config.spec import JobSpec
from jobs.history import earlier
from jobs.models import Job
from jobs.planning.queue.scene import Awaited, SchedulableJob
from jobs.planning.world import JobView, TaskView

# Fields that are no column, but follow from one.
ASKED = {
    "stopping": Q(execution=Job.Execution.STOP),
    "deleted": Q(deleted_at__isnull=False),
    "since": Cast(Coalesce("queue_time", "created_at"), TextField()),
}
_COLUMNS = {column.name for column in Job._meta.concrete_fields} - {"spec"}  # the spec is read once: it never changes


def _named(view: type[SchedulableJob]) -> tuple[str, ...]:
    return tuple(each.name for each in fields(view) if each.name in _COLUMNS or each.name in ASKED)


QUEUE = _named(SchedulableJob)
JOB = _named(JobView)
TASK = tuple(each.name for each in fields(TaskView))


def by_name(values: Sequence[Any]) -> dict[str, Any]:
    """The fields of a SchedulableJob, of the values of the columns ``QUEUE``."""
    return dict(zip(QUEUE, values, strict=True))


@dataclass(slots=True)
class _KnownSpecs:
    """Keeps by job, from one question to the next, what specs ask for, which never change. Jobs of one shape have the
    same object."""

    jobs: dict[int, tuple[tuple[Demand, ...], Extras]] = field(default_factory=dict)
    shapes: dict[tuple[Demand, ...], tuple[Demand, ...]] = field(default_factory=dict)
    tasks: int = 0  # of all the jobs
    tasks_before: int = 0  # as many when others were last forgotten

    def add(self, id: int, spec: JobSpec) -> None:
        shape = demands(spec)
        self.jobs[id] = self.shapes.setdefault(shape, shape), spec.asked
        self.tasks += len(shape)

    def of(self, ids: Iterable[int]) -> _KnownSpecs:
        """Return what is known of these jobs alone."""
        jobs = {id: self.jobs[id] for id in ids if id in self.jobs}
        tasks = sum(len(shape) for shape, _ in jobs.values())
        return _KnownSpecs(jobs, {shape: shape for shape, _ in jobs.values()}, tasks, tasks)


_known = _KnownSpecs()
_SPARE, _SPARE_TASKS = 1_000, 20_000  # jobs and tasks that may have started or ended, before they are forgotten


def forget() -> None:
    global _known
    _known = _KnownSpecs()


def forget_others(waiting: Sequence[SchedulableJob]) -> None:
    """Forget jobs that wait no longer. A question that is being answered goes on with what it has."""
    global _known
    if len(_known.jobs) > 2 * len(waiting) + _SPARE or _known.tasks > 2 * _known.tasks_before + _SPARE_TASKS:
        _known = _known.of(job.id for job in waiting)


class Specs:
    """The shapes of waiting jobs. Specs are read many together, each time twice as many."""

    def __init__(self) -> None:
        self.ids: list[int] = []  # of all that wait, in their order
        self.again: Sequence[int] = ()  # of those that wait and had an attempt before
        self.running: set[int] = set()  # of those that run, once somebody has asked for them
        self._shaped: set[int] = set()
        self._wanted: Collection[int] = ()
        self._at_once = 100  # in most virtual clusters one of the first already holds the queue
        self._specs: dict[int, Any] = {}
        self._known = _known
        self._awaited: dict[int, Sequence[Awaited]] = {}
        self._avoid: dict[int, frozenset[str]] | None = None

    def want(self, ids: Collection[int]) -> None:
        """Note that what is read of one of these jobs is read of them all."""
        self._wanted = ids

    def shape(self, id: int) -> tuple[Demand, ...]:
        """Raises LookupError for a job that is gone by now, and what a spec raises that cannot be read."""
        shape = self._know(id)[0]
        self._shaped.add(id)
        return shape

    @property
    def size(self) -> int:
        """How many tasks and ports the shapes have that were asked for: the work that they make."""
        shapes = (self._known.jobs[each][0] for each in self._shaped if each in self._known.jobs)
        distinct = {id(shape): shape for shape in shapes}.values()
        return sum(1 + len(demand.ports) for shape in distinct for demand in shape)

    def asked(self, id: int) -> Extras:
        """Return, as ``shape``, what the extras ask for."""
        return self._know(id)[1]

    def _know(self, id: int) -> tuple[tuple[Demand, ...], Extras]:
        if id not in self._known.jobs:
            if id not in self._specs:
                self._read(id)
            self._known.add(id, JobSpec.from_json(self._specs[id]))
        return self._known.jobs[id]

    def avoid(self, id: int) -> frozenset[str]:
        """The nodes that it leaves to the last; those that earlier attempts say are read together for all that had
        any."""
        if self._avoid is None:
            self._avoid = {}
            for some in chunks(self.again):
                self._avoid |= {job: before.avoid for job, before in earlier.of(some).items()}
        return self._avoid.get(id, frozenset()).union(self.asked(id).avoid_nodes)

    def awaited(self, id: int) -> Sequence[Awaited]:
        """The jobs that this job waits for; read together for all jobs asked for."""
        if id not in self._awaited:
            wanted = {*self._wanted, id}
            unmet = dependencies.unmet(wanted)
            self._awaited |= {each: unmet.get(each, []) for each in wanted}
        return self._awaited[id]

    def _read(self, id: int) -> None:
        """The spec of this job, with those of the jobs after it, or of all that run like it, and, the first time, those
        asked for."""
        wanted = {*self._wanted, id}
        if id in self.running:
            wanted |= self.running
        else:
            wanted.update(islice(dropwhile(lambda other: other != id, self.ids), self._at_once))
            self._at_once *= 2
        ids = sorted(wanted - self._specs.keys() - self._known.jobs.keys())
        for some in chunks(ids):
            self._specs |= dict(with_ids(Job.objects.all(), some).values_list("id", "spec"))
