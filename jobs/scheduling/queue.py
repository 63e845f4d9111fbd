"""The turns of the waiting jobs, worked out when somebody asks, from what the rows say then.

Two queries beside those for the nodes, however many jobs wait: only of jobs that may start now, and of those asked
for, the specs are read.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from django.db.models import Exists, OuterRef
from django.utils import timezone

from clusters.models import VirtualCluster
from clusters.nodes.queries import load_nodes
from clusters.placement.fit import Demand
from jobs import dependencies
from jobs.config.demands import demands
from jobs.config.spec import JobSpec
from jobs.models import Job
from jobs.planning.lifecycle import JobState
from jobs.planning.queue.awaited import Awaited
from jobs.planning.turns import Turn, Waiting, turns
from jobs.scheduling import columns


@dataclass(frozen=True, slots=True, kw_only=True)
class Queued(Waiting):
    """A waiting job's row; its spec is read when its turn comes."""

    specs: _Specs

    @property
    def demands(self) -> tuple[Demand, ...]:
        return self.specs.shape(self.id)

    @property
    def awaited(self) -> Sequence[Awaited]:
        return self.specs.awaited(self.id)


def turns_of(ids: Collection[int]) -> dict[int, Turn[Queued]]:
    """The turns of these jobs, by job; one that does not wait, or is about to end, has none."""
    found: dict[int, Turn[Queued]] = {}
    if ids:
        waiting, stopped = _read(_Specs(ids))
        for turn in turns(waiting, load_nodes(), stopped, timezone.localtime()):
            if turn.job.id in ids:
                found[turn.job.id] = turn
            if len(found) == len(ids):
                break
    return found


def turn_if_submitted(spec: JobSpec, awaited: Sequence[Awaited] = ()) -> Turn[Queued]:
    """The turn that a job of this spec would have if it were submitted now. ``awaited``: what it would wait for."""
    specs, vc = _Specs(()), spec.effective_virtual_cluster
    waiting, stopped = _read(specs)
    if _STOPPED.filter(name=vc).exists():
        stopped.add(vc)
    last = Queued(max(specs.ids, default=0) + 1, vc, awaits=len(awaited), specs=specs)
    specs.add(last.id, spec)
    specs.note_awaited({last.id: awaited})
    all_turns = turns([*waiting, last], load_nodes(), stopped, timezone.localtime())
    return next(turn for turn in all_turns if turn.job is last)


_STOPPED = VirtualCluster.objects.exclude(status=VirtualCluster.Status.RUNNING)


def _read(specs: _Specs) -> tuple[list[Queued], set[str]]:
    """All that wait, and which of their virtual clusters are stopped."""
    rows = Job.objects.filter(state=JobState.WAITING, deleted_at__isnull=True)
    rows = rows.annotate(is_stopped=Exists(_STOPPED.filter(name=OuterRef("vc"))))
    waiting, stopped = [], set()
    for *values, is_stopped in rows.annotate(**columns.ASKED).values_list(*columns.QUEUE, "is_stopped"):
        job = Queued(*values, specs=specs)
        waiting.append(job)
        if is_stopped:
            stopped.add(job.vc)
    specs.ids = sorted(job.id for job in waiting)
    return waiting, stopped


class _Specs:
    """The shapes of waiting jobs. Specs are read many together, each time twice as many; jobs of one shape have the
    same object."""

    def __init__(self, wanted: Collection[int]) -> None:
        self.ids: list[int] = []  # of all that wait
        self._wanted = wanted
        self._at_once = 100  # in most virtual clusters one of the first already holds the queue
        self._specs: dict[int, Any] = {}
        self._shapes: dict[int, tuple[Demand, ...]] = {}
        self._same: dict[tuple[Demand, ...], tuple[Demand, ...]] = {}
        self._awaited: dict[int, Sequence[Awaited]] = {}

    def add(self, id: int, spec: JobSpec) -> None:
        shape = demands(spec)
        self._shapes[id] = self._same.setdefault(shape, shape)

    def shape(self, id: int) -> tuple[Demand, ...]:
        """Raises LookupError for a job that is gone by now, and what a spec raises that cannot be read."""
        if id not in self._shapes:
            if id not in self._specs:
                self._read(id)
            self.add(id, JobSpec.from_json(self._specs[id]))
        return self._shapes[id]

    def awaited(self, id: int) -> Sequence[Awaited]:
        """What this job waits for; read together for all jobs asked for."""
        if id not in self._awaited:
            wanted = {*self._wanted, id}
            found = dependencies.unmet(wanted)
            self.note_awaited({each: found.get(each, []) for each in wanted})
        return self._awaited[id]

    def note_awaited(self, found: Mapping[int, Sequence[Awaited]]) -> None:
        self._awaited |= found

    def _read(self, id: int) -> None:
        """The spec of this job, with those of the jobs after it and, the first time, those asked for."""
        wanted = {*self._wanted, id} if not self._specs else {id}
        wanted.update(islice((other for other in self.ids if other > id), self._at_once))
        self._at_once *= 2
        ids = sorted(wanted - self._specs.keys())
        for start in range(0, len(ids), 500):
            self._specs |= dict(Job.objects.filter(id__in=ids[start : start + 500]).values_list("id", "spec"))
