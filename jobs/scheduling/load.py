"""Reads the World for the planner. The number of queries is constant, and only those rows are read that have changed
since the last World (jobs/scheduling/stamps.py says which).

Times in rows are those of the clocks of other processes, maybe on other hosts, and clocks are set back and forth. The
picture has in their place the moment at which this process learnt of them, on its own steady clock: what it wrote
itself when it began the pass that wrote it, everything else when it first read it. So whether a look at a node is
younger than a row, whether a claim is open and whether an order has lapsed is asked of one clock."""

from __future__ import annotations

import random
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from django.conf import settings
from django.db.models import Exists, F, OuterRef
from django.utils import timezone

from clusters.engines.runtime import LABEL_TASK
from clusters.nodes.queries import Ledger
from clusters.placement.fit import Demand, in_force
from clusters.placement.shares import quotas
from clusters.vcs.queries import load_rights
from jobs.config.demands import demands
from jobs.config.spec import JobSpec
from jobs.history.lengths import learnt
from jobs.models import Attempt, Job, Task
from jobs.planning import retries
from jobs.planning.exits import Exit
from jobs.planning.lifecycle import JobState, TaskState
from jobs.planning.queue.scene import NOTHING_LEARNT, Policy
from jobs.planning.settle import LEASE
from jobs.planning.world import PARK_FOR, JobView, Observation, Owner, TaskView, World
from jobs.scheduling import columns, stamps
from jobs.scheduling.stamps import Stamp, Stamps
from portal.core import clock
from portal.core.bulk import among, read_values

_TASK_TIMES = ("changed_at", "ordered_at", "fact_at", "claimed_until")
_OWN_PASSES = 256  # so many passes back the Loader knows when each began
_LIVE = (JobState.WAITING, JobState.RUNNING)
DIAGNOSIS_WAIT = timedelta(seconds=2)  # a retry waits so long for the diagnosis, which may tell it to avoid a node
_CHUNK = 500  # rows asked for by id at once


@dataclass(frozen=True, slots=True)
class _Picture:
    """The jobs and tasks of a World."""

    live: list[tuple[JobView, list[TaskView]]]
    waiting: list[JobView]
    leftovers: list[TaskView]
    ended: list[int]  # deleted jobs that have ended
    owners: dict[str, Owner]  # by name of the container


class _Known(NamedTuple):
    """A task as it was read last. ``times`` are those of its row, which the view has on our own clock."""

    stamp: Stamp
    times: Mapping[str, datetime | None]
    view: TaskView
    owner: Owner


class Loader:
    """Reads one World after the other, and keeps jobs with their specs and shapes, tasks, nodes and allocations."""

    def __init__(self) -> None:
        self.ledger = Ledger()
        self._specs: dict[int, tuple[JobSpec, tuple[Demand, ...]]] = {}
        self._shapes: dict[tuple[Demand, ...], tuple[Demand, ...]] = {}
        self._jobs: dict[int, tuple[Stamp, JobView]] = {}
        self._tasks: dict[int, _Known] = {}
        self._own: dict[datetime, datetime] = {}  # the time of day that a pass writes -> when it began
        self._seen: tuple[object, ...] = ()
        self._split: tuple[stamps.Split, ...] = ({}, {}, {})
        self._picture = _Picture([], [], [], [], {})
        self._others: dict[str, Owner] = {}  # of containers whose tasks are not in the picture

    def writes(self, time_of_day: datetime, began: datetime) -> None:
        """Note that a pass which began at ``began`` writes this time of day into the rows that it changes."""
        self._own[time_of_day] = began
        if len(self._own) > _OWN_PASSES:
            del self._own[next(iter(self._own))]

    def learn(self) -> None:
        """Read everything once. Looks at nodes that begin afterwards are younger than all of it."""
        self.world(clock.steady(), {}, {})

    def world(
        self,
        now: datetime,
        observations: Mapping[str, Observation],
        strangers: Mapping[tuple[str, str], datetime],
        *,
        again: bool = True,
    ) -> World:
        """What the rows and ``observations`` say. Not ``again``: the nodes are those that the ledger has just read."""
        jobs, tasks, leftovers, decided = stamps.of_jobs(), stamps.of_tasks(), stamps.of_leftovers(), _decided()
        if (seen := (jobs, tasks, leftovers, decided)) != self._seen:
            self._picture, self._seen = self._read(jobs, tasks, leftovers, decided), seen
        nodes = in_force(self.ledger.nodes(with_held=False, again=again), timezone.now())
        return World(
            now=now,
            nodes=nodes,
            observations=observations,
            live=self._picture.live,
            waiting=self._picture.waiting,
            leftovers=self._picture.leftovers,
            purgeable=_purgeable(self._picture.ended),
            quotas=quotas(load_rights(), *self.ledger.wholes()),
            use=self.ledger.use(),
            holds=self.ledger.holds(),
            drained=frozenset(node.name for node in nodes if node.draining),
            gone=frozenset(node.name for node in nodes if node.gone),
            policy=policy(),
            lengths=learnt() if self._picture.waiting else NOTHING_LEARNT,
            owners=self._owners(observations),
            lost_after=settings.NODE_LOST_AFTER,
            strangers=strangers,
            random=random.random(),  # noqa: S311 - spreads retries, hides nothing
        )

    def _read(self, jobs: Stamps, tasks: Stamps, leftovers: Stamps, decided: Mapping[int, Exit]) -> _Picture:
        of_jobs, of_tasks, of_leftovers = map(stamps.by_id, (jobs, tasks, leftovers), self._split)
        living = {id: stamp for id, stamp in of_jobs.items() if stamps.state_of_job(stamp) in _LIVE}
        views = self._read_jobs(living)
        views = [replace(view, decided=decided[view.id]) if view.id in decided else view for view in views]
        self._read_tasks({**of_tasks, **of_leftovers})
        by_job: dict[int, list[TaskView]] = {}
        for id, stamp in sorted(of_tasks.items()):
            if id in self._tasks:
                by_job.setdefault(stamps.job_of_task(stamp), []).append(self._tasks[id].view)
        return _Picture(
            live=[(job, by_job.get(job.id, [])) for job in views if job.state is JobState.RUNNING],
            waiting=[job for job in views if job.state is JobState.WAITING],
            leftovers=[self._tasks[id].view for id in of_leftovers if id in self._tasks],
            ended=[id for id in of_jobs if id not in living],
            owners={one.view.container_name: one.owner for one in self._tasks.values() if one.view.container_name},
        )

    def _owners(self, observations: Mapping[str, Observation]) -> Mapping[str, Owner]:
        """The owners of the containers seen, by name. A container of none of the tasks in the picture names its task by
        a label, and that task is read once."""
        labels = {
            name: int(label)
            for observation in observations.values()
            for name, container in observation.containers.items()
            if name not in self._picture.owners
            and (label := container.labels.get(LABEL_TASK, "")).isdecimal()
            and len(label) < 19
        }
        self._others = {name: owner for name, owner in self._others.items() if labels.get(name) == owner.task}
        for some in _chunks(sorted({task for name, task in labels.items() if name not in self._others})):
            rows = list(among(Task.objects.all(), some).values_list("id", "container_name"))
            read_at = clock.steady()
            self._others |= {name: Owner(id, read_at) for id, name in rows if labels.get(name) == id}
        return {**self._picture.owners, **self._others} if self._others else self._picture.owners

    def _read_jobs(self, found: Mapping[int, Stamp]) -> list[JobView]:
        """The jobs, in their order. A job that is gone by the time it is read is left out."""
        changed = _changed(self._jobs, found)
        self._read_specs(found.keys())
        for some in _chunks(changed):
            jobs = among(Job.objects.all(), some).annotate(**columns.ASKED)
            rows = [dict(zip(columns.JOB, row, strict=True)) for row in read_values(jobs.values_list(*columns.JOB))]
            again = [row["id"] for row in rows if row["attempt_number"] > 1]
            refused, before = _refused(again), _diagnosed(again)
            for row in rows:
                last = before.get(row["id"], _NOT_DIAGNOSED)
                row["not_before"] = max(filter(None, (row["not_before"], last.until)), default=None)
                avoid = refused.get(row["id"], frozenset()) | last.suspects
                view = self._view(row, avoid, timezone.now(), clock.steady())
                self._jobs[row["id"]] = found[row["id"]], view
        return [self._jobs[id][1] for id in found if id in self._jobs]

    def _read_tasks(self, found: Mapping[int, Stamp]) -> None:
        changed = _changed(self._tasks, found)
        for some in _chunks(changed):
            rows = read_values(among(Task.objects.all(), some).values_list(*columns.TASK))
            read_at = clock.steady()
            for values in rows:
                row = dict(zip(columns.TASK, values, strict=True))
                self._tasks[row["id"]] = self._task(row, found[row["id"]], read_at)

    def _task(self, row: dict[str, Any], stamp: Stamp, read_at: datetime) -> _Known:
        before = self._tasks.get(row["id"])
        times = {name: row[name] for name in _TASK_TIMES}
        learnt: dict[str, datetime | None] = {}
        for name, value in times.items():
            if value is None:
                learnt[name] = None
            elif before is not None and before.times[name] == value:
                learnt[name] = getattr(before.view, name)
            elif name == "claimed_until":
                learnt[name] = read_at + LEASE
            elif name == "fact_at":
                learnt[name] = read_at
            else:
                learnt[name] = self._own.get(value, read_at)
        view = TaskView(**{**row, **learnt, "state": TaskState(row["state"])})
        return _Known(stamp, times, view, Owner(view.id, read_at))

    def _read_specs(self, ids: Collection[int]) -> None:
        for id in self._specs.keys() - ids:
            del self._specs[id]
        missing = [id for id in ids if id not in self._specs]
        for some in _chunks(missing):
            for id, data in among(Job.objects.all(), some).values_list("id", "spec"):
                spec = JobSpec.from_json(data)
                shape = demands(spec)
                self._specs[id] = spec, self._shapes.setdefault(shape, shape)

    def _view(self, row: dict[str, Any], avoid: frozenset[str], time_of_day: datetime, read_at: datetime) -> JobView:
        spec, shape = self._specs[row["id"]]
        started = self._started(row, time_of_day, read_at)
        most = spec.asked.max_run_seconds
        read = {
            "name": f"{row['username']}/{row['name']}",
            "state": JobState(row["state"]),
            "not_before": _after(row["not_before"], time_of_day, read_at, retries.LONGEST_DELAY),
            "parked_until": _after(row["parked_until"], time_of_day, read_at, PARK_FOR),
            "started_at": started,
            "ends_by": started + timedelta(seconds=most) if started and most else None,
        }
        avoid |= frozenset(spec.asked.avoid_nodes)
        return JobView(**{**row, **read}, spec=spec, demands=shape, avoid=avoid)

    def _started(self, row: dict[str, Any], time_of_day: datetime, read_at: datetime) -> datetime | None:
        """When the attempt of a running job was placed, on our own clock. What was learnt once stays, whatever is done
        to the clock of the day."""
        started: datetime | None = row["started_at"]
        if started is None or row["state"] != JobState.RUNNING:
            return None
        before = self._jobs.get(row["id"])
        if before and before[1].started_at and before[1].attempt_number == row["attempt_number"]:
            return before[1].started_at
        return self._own.get(started) or read_at - max(time_of_day - started, timedelta())


def _changed(known: dict[int, Any], found: Mapping[int, Stamp]) -> list[int]:
    """The rows that are new or differ from those that are known, each with its stamp first. Rows that are gone are
    forgotten."""
    for id in known.keys() - found.keys():
        del known[id]
    return [id for id, stamp in found.items() if known.get(id, _NEW)[0] != stamp]


_NEW: tuple[Stamp] = ((),)


def policy() -> Policy:
    """The settings of the queue."""
    return Policy(reservations=settings.RESERVATIONS)


def _decided() -> dict[int, Exit]:
    """How the attempts end that are decided and of which something still runs, by job."""
    rows = Attempt.objects.filter(decided_at__isnull=False, completed_at__isnull=True).values_list("job_id", "exit")
    return {job: Exit.from_json(data["exit"]) for job, data in rows}


def _after(until: datetime | None, time_of_day: datetime, read_at: datetime, most: timedelta) -> datetime | None:
    """The end of a pause on our own clock. It is never longer than ``most``, whatever was done to the clock of the
    day."""
    return None if until is None else read_at + min(until - time_of_day, most)


def _refused(ids: list[int]) -> dict[int, frozenset[str]]:
    """The nodes that refused to start a task of the attempt before the current one, by job."""
    if not ids:
        return {}
    last = Task.objects.filter(job__in=ids, attempt__number=F("job__attempt_number") - 1, fault__isnull=False)
    found: dict[int, set[str]] = {}
    for job, node in last.values_list("job_id", "node"):
        found.setdefault(job, set()).add(node)
    return {job: frozenset(nodes) for job, nodes in found.items()}


class _Diagnosed(NamedTuple):
    """What the diagnosis of a job's last attempt says for the next one: nodes that it avoids, and, while the diagnosis
    is not there yet, until when it is worth waiting for."""

    suspects: frozenset[str] = frozenset()
    until: datetime | None = None


_NOT_DIAGNOSED = _Diagnosed()


def _diagnosed(ids: list[int]) -> dict[int, _Diagnosed]:
    """By job. Only a task that ran can have shown that its node is at fault."""
    if not ids:
        return {}
    last = Attempt.objects.filter(job__in=ids, number=F("job__attempt_number") - 1)
    rows = last.values_list("job_id", "diagnosis_due", "diagnosis__suspects", "exit__exit__raw_code")
    return {
        job: _Diagnosed(frozenset(suspects or ()), due + DIAGNOSIS_WAIT if due and code is not None else None)
        for job, due, suspects, code in rows
    }


def _purgeable(ended: list[int]) -> list[int]:
    if not ended:
        return []
    uncollected = Task.objects.filter(job=OuterRef("id"), collected=False).exclude(state=TaskState.WAITING)
    return list(Job.objects.filter(id__in=ended).filter(~Exists(uncollected)).values_list("id", flat=True))


def _chunks(ids: list[int]) -> Iterator[list[int]]:
    return (ids[start : start + _CHUNK] for start in range(0, len(ids), _CHUNK))
