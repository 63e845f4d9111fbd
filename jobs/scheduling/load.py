"""Reads the World for the planner. The number of queries is constant, and only those rows are read that have changed
since the last World (jobs/scheduling/stamps.py says which).

Times in rows are those of the clocks of other processes, maybe on other hosts, and clocks are set back and forth. The
picture has in their place the moment at which this process learnt of them, on its own steady clock: what it wrote
itself when it began the pass that wrote it, everything else when it first read it. So whether a look at a node is
younger than a row, whether a claim is open and whether an order has lapsed is asked of one clock.

Where the database says that nobody has changed anything (``version`` of base/core/bulk.py), nothing is read at all."""

from __future__ import annotations

import random
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from django.conf import settings
from django.db import connection
from django.db.models import Exists, OuterRef
from django.utils import timezone

from base.core import bulk, clock
from base.core.bulk import chunks, with_ids
from clusters.appointments.queries import load_appointments
from clusters.appointments.rules import AppointmentView, Span, next_spans
from clusters.engines.runtime import LABEL_TASK, ContainerStatus, Look
from clusters.models import Node
from clusters.nodes.queries import Ledger
from clusters.placement.fit import Demand, NodeView, in_force
from clusters.placement.shares import quotas
from clusters.vcs.queries import load_rights
from jobs.config.demands import demands
from jobs.config.spec import JobSpec
from jobs.history import earlier, holdings
from jobs.history.earlier import NOTHING_EARLIER, Earlier
from jobs.history.lengths import known_lengths
from jobs.models import Attempt, Job, Task
from jobs.planning import retries
from jobs.planning.exits import Exit
from jobs.planning.lifecycle import JobState, TaskState
from jobs.planning.queue.appointments import by_node
from jobs.planning.queue.idling.rule import Idlings
from jobs.planning.queue.scene import NO_LENGTHS, Policy, Resting
from jobs.planning.queue.users.used_lately import UsedLately
from jobs.planning.settle import LEASE
from jobs.planning.world import PARK_FOR, JobView, LiveJob, Owner, TaskView, World
from jobs.scheduling import columns, idlings, rests, stamps
from jobs.scheduling.stamps import Stamp, Stamps

_TASK_TIMES = ("changed_at", "ordered_at", "fact_at", "claimed_until", "told_at")
_REREAD = timedelta(seconds=60)  # after which everything is read again all the same
_OWN_PASSES = 256  # so many passes back the loader knows when each began
_LIVE = frozenset(map(str, (JobState.WAITING, JobState.RUNNING)))
Decided = Mapping[int, tuple[Exit, int]]
_PORT_OFFSET = int(settings.INSTANCE, 16) % 1_000_000


@dataclass(frozen=True, slots=True)
class _ReadRows:
    """The jobs and tasks of a World."""

    live: list[LiveJob]
    waiting: list[JobView]
    leftovers: list[TaskView]
    ended: list[int]  # deleted jobs that have ended
    owners: dict[str, Owner]  # by name of the container


class _ReadTask(NamedTuple):
    """A task as it was read last. ``times`` are those of its row, which the view has on our own clock."""

    stamp: Stamp
    times: Mapping[str, datetime | None]
    view: TaskView
    owner: Owner


class WorldLoader:
    """Reads one World after the other, and keeps jobs with their specs and shapes, tasks, nodes and allocations."""

    def __init__(self) -> None:
        self.ledger = Ledger()
        self._specs: dict[int, tuple[JobSpec, tuple[Demand, ...]]] = {}
        self._shapes: dict[tuple[Demand, ...], tuple[Demand, ...]] = {}
        self._jobs: dict[int, tuple[Stamp, JobView]] = {}
        self._tasks: dict[int, _ReadTask] = {}
        self._own: dict[datetime, datetime] = {}  # the time of day that a pass writes -> when it began
        self._seen: tuple[object, ...] = ()
        self._split: tuple[stamps.Split, ...] = ({}, {}, {})
        self._rows = _ReadRows([], [], [], [], {})
        self._others: dict[str, Owner] = {}  # of containers whose tasks are not in the picture
        self._looked: tuple[_ReadRows | None, dict[str, Mapping[str, ContainerStatus]]] = None, {}
        self._owners: Mapping[str, Owner] = {}  # as of that
        self._nodes: list[NodeView] = []
        self._appointments: list[AppointmentView] = []
        self._world: World | None = None  # the last one
        self._version: bulk.Version | None = None  # than which all in it is at least as new
        self._pending: bulk.Version | None = None  # the same of the next one
        self._reread_at = clock.monotonic_now()
        self._rests, self._past = clock.Learnt[str, Resting](), clock.Learnt[tuple[str, str], UsedLately]()
        self._idlings: Idlings | None = None

    def writes(self, time_of_day: datetime, began: datetime) -> None:
        """Note that a pass which began at ``began`` writes this time of day into the rows that it changes."""
        self._own[time_of_day] = began
        if len(self._own) > _OWN_PASSES:
            del self._own[next(iter(self._own))]

    def idles(self, after: Idlings) -> None:
        self._idlings = after  # the scheduler alone writes what reservations keep idle, so that is read once

    def learn(self) -> None:
        """Read everything once. Looks at nodes that begin afterwards are younger than all of it."""
        self.world(clock.monotonic_now(), {}, {})

    def registered(self) -> list[Node]:
        """The registered nodes, as they are now. All in the next World is at least as new."""
        self._pending = bulk.version()
        return self.ledger.registered() if self._is_old else self.ledger.known

    @property
    def _is_old(self) -> bool:
        """Whether anything may have changed since the last World was read."""
        is_other = self._pending is None or self._pending != self._version
        return self._world is None or is_other or clock.monotonic_now() >= self._reread_at

    @contextmanager
    def unseen(self) -> Iterator[None]:
        """What this process writes here is in no World: where it alone has written, nothing is read again."""
        before = bulk.own_version()
        yield
        after = bulk.own_version()
        if before is not None and after is not None and before[:2] == after[:2]:
            self._version = after if self._version == before else self._version
            self._pending = after if self._pending == before else self._pending

    def world(
        self,
        now: datetime,
        looks: Mapping[str, Look],
        strangers: Mapping[tuple[str, str], datetime],
        *,
        again: bool = True,
    ) -> World:
        """Read the World: what the rows and ``looks`` say. Not ``again``: the nodes are those that ``registered`` has
        just read."""
        if again:
            self.registered()
        if again or self._is_old or self._world is None:
            self._world = None  # until all of it is read
            self._world, self._version = self._read_world(now), self._pending
            self._reread_at = now + _REREAD
        nodes = self.ledger.views
        if any(node.marks or node.refused_ports for node in nodes):
            nodes = in_force(nodes, timezone.now())
        self._nodes = self._nodes if self._nodes == nodes else nodes  # the same list where nothing differs
        spans = _spans(self._appointments, now) if self._appointments else ()
        return replace(
            self._world,
            now=now,
            spans=spans,
            appointed=by_node(spans, now),
            nodes=self._nodes,
            looks=looks,
            policy=policy(),
            idlings=self._idlings or {},
            lengths=known_lengths() if self._rows.waiting else NO_LENGTHS,
            owners=self._owners_of(looks),
            lost_after=settings.NODE_LOST_AFTER,
            eviction_grace=settings.EVICTION_GRACE,
            strangers=strangers,
            random=random.random(),  # noqa: S311 - spreads retries, hides nothing
        )

    def _read_world(self, now: datetime) -> World:
        """What the rows say."""
        jobs, tasks, leftovers, decided = stamps.of_jobs(), stamps.of_tasks(), stamps.of_leftovers(), _decided()
        if (seen := (jobs, tasks, leftovers, decided)) != self._seen:
            self._rows, self._seen = self._read(jobs, tasks, leftovers, decided), seen
        self._rests.learn(rests.load(), timezone.now(), now)
        if self._rows.waiting:
            self._past.learn(holdings.used_lately(self._rows.waiting), timezone.now(), now)
        self._idlings = idlings.load(timezone.now(), now) if self._idlings is None else self._idlings
        nodes = self.ledger.nodes(with_held=False, again=False)
        self._appointments = load_appointments(timezone.now())
        return World(
            now=now,
            nodes=nodes,
            looks={},
            live=self._rows.live,
            waiting=self._rows.waiting,
            leftovers=self._rows.leftovers,
            purgeable=_purgeable(self._rows.ended),
            quotas=quotas(load_rights(), *self.ledger.pool_totals()),
            use=self.ledger.use(),
            holds=self.ledger.holds(),
            drained=frozenset(node.name for node in nodes if node.draining),
            gone=frozenset(node.name for node in nodes if node.gone),
            rests=self._rests.known,
            past=self._past.known,
            named=named_gpus(nodes),
        )

    def _read(self, jobs: Stamps, tasks: Stamps, leftovers: Stamps, decided: Decided) -> _ReadRows:
        of_jobs, of_tasks, of_leftovers = map(stamps.by_id, (jobs, tasks, leftovers), self._split)
        living = {id: stamp for id, stamp in of_jobs.items() if stamps.state_of_job(stamp) in _LIVE}
        views = self._read_jobs(living)
        for at, job in enumerate(views):
            if job.id in decided:
                views[at] = replace(job, decided=decided[job.id][0], grace=decided[job.id][1])
        self._read_tasks({**of_tasks, **of_leftovers})
        by_job: dict[int, list[TaskView]] = {}
        for id in of_tasks:
            if id in self._tasks:
                view = self._tasks[id].view
                by_job.setdefault(view.job_id, []).append(view)
        pairs = {pair[0].id: pair for pair in self._rows.live}
        live: list[LiveJob] = []
        for job in views:
            if job.state is JobState.RUNNING:
                pair, before = (job, by_job.get(job.id, [])), pairs.get(job.id)
                is_same = before is not None and before[0] is job and before[1] == pair[1]
                live.append(before if before is not None and is_same else pair)
        return _ReadRows(
            live=live,
            waiting=[job for job in views if job.state is JobState.WAITING],
            leftovers=[self._tasks[id].view for id in of_leftovers if id in self._tasks],
            ended=[id for id in of_jobs if id not in living],
            owners={task.view.container_name: task.owner for task in self._tasks.values() if task.view.container_name},
        )

    def _owners_of(self, looks: Mapping[str, Look]) -> Mapping[str, Owner]:
        """The owners of the containers seen, by name. A container of none of the tasks in the picture names its task by
        a label, and that task is read once."""
        shown = {node: look.containers for node, look in looks.items()}
        of_rows, before = self._looked
        is_known = of_rows is self._rows and before.keys() == shown.keys()
        if is_known and all(shown[node] is each for node, each in before.items()):
            return self._owners
        labels = {
            name: int(label)
            for look in looks.values()
            for name, container in look.containers.items()
            if name not in self._rows.owners
            and (label := container.labels.get(LABEL_TASK, "")).isdecimal()
            and len(label) < 19
        }
        self._others = {name: owner for name, owner in self._others.items() if labels.get(name) == owner.task}
        for some in chunks(sorted({task for name, task in labels.items() if name not in self._others})):
            rows = list(with_ids(Task.objects.all(), some).values_list("id", "container_name"))
            read_at = clock.monotonic_now()
            self._others |= {name: Owner(id, read_at) for id, name in rows if labels.get(name) == id}
        self._owners = {**self._rows.owners, **self._others} if self._others else self._rows.owners
        self._looked = self._rows, shown
        return self._owners

    def _read_jobs(self, living: Mapping[int, Stamp]) -> list[JobView]:
        """The jobs, in their order. A job that is gone by the time it is read is left out."""
        changed = _changed(self._jobs, living)
        self._read_specs(living.keys())
        for some in chunks(changed):
            jobs = with_ids(Job.objects.all(), some).annotate(**columns.ASKED)
            rows = list(jobs.values(*columns.JOB))
            before = earlier.of([row["id"] for row in rows if row["attempt_number"] > 1])
            for row in rows:
                view = self._view(row, before.get(row["id"], NOTHING_EARLIER), timezone.now(), clock.monotonic_now())
                self._jobs[row["id"]] = living[row["id"]], view
        return [self._jobs[id][1] for id in living if id in self._jobs]

    def _read_tasks(self, by_id: Mapping[int, Stamp]) -> None:
        changed = _changed(self._tasks, by_id)
        for some in chunks(changed):
            rows = list(with_ids(Task.objects.all(), some).values(*columns.TASK))
            read_at = clock.monotonic_now()
            for row in rows:
                self._tasks[row["id"]] = self._task(row, by_id[row["id"]], read_at)

    def _task(self, row: dict[str, Any], stamp: Stamp, read_at: datetime) -> _ReadTask:
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
            elif name == "told_at":  # of a process that begins here the clock of the day has to do
                learnt[name] = read_at if before else read_at - max(timezone.now() - value, timedelta())
            else:
                learnt[name] = self._own.get(value, read_at)
        view = TaskView(**{**row, **learnt, "state": TaskState(row["state"])})
        return _ReadTask(stamp, times, view, Owner(view.id, read_at))

    def _read_specs(self, ids: Collection[int]) -> None:
        for id in self._specs.keys() - ids:
            del self._specs[id]
        missing = [id for id in ids if id not in self._specs]
        for some in chunks(missing):
            for id, data in with_ids(Job.objects.all(), some).values_list("id", "spec"):
                spec = JobSpec.from_json(data)
                shape = demands(spec)
                self._specs[id] = spec, self._shapes.setdefault(shape, shape)

    def _view(self, row: dict[str, Any], before: Earlier, time_of_day: datetime, read_at: datetime) -> JobView:
        not_before = max(filter(None, (row["not_before"], before.until)), default=None)
        spec, shape = self._specs[row["id"]]
        started = self._started(row, time_of_day, read_at)
        most = spec.asked.max_run_seconds
        read = {
            "state": JobState(row["state"]),
            "not_before": _after(not_before, time_of_day, read_at, retries.LONGEST_DELAY),
            "parked_until": _after(row["parked_until"], time_of_day, read_at, PARK_FOR),
            "started_at": started,
            "saved_at": read_at - max(time_of_day - row["saved_at"], timedelta()) if row["saved_at"] else None,
            "ends_by": started + timedelta(seconds=most) if started and most else None,
        }
        learnt_of = {"avoid": before.avoid | frozenset(spec.asked.avoid_nodes), "before": before.streak}
        return JobView(**{**row, **read, **learnt_of}, spec=spec, demands=shape, port_offset=_PORT_OFFSET)

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


def _spans(appointments: Iterable[AppointmentView], now: datetime) -> tuple[Span, ...]:
    """The next time of each by the clock of the day, which is what people mean, on our own clock."""
    today = timezone.now()
    shift = timedelta(seconds=round((now - today).total_seconds()))
    return tuple(span.moved(shift) for span in next_spans(appointments, today))


def _changed(known: dict[int, Any], by_id: Mapping[int, Stamp]) -> list[int]:
    """The rows that are new or differ from those that are known, each with its stamp first. Rows that are gone are
    forgotten."""
    for id in known.keys() - by_id.keys():
        del known[id]
    return [id for id, stamp in by_id.items() if known.get(id, _NEW)[0] != stamp]


_NEW: tuple[Stamp] = ((),)


def policy() -> Policy:
    """The settings of the queue."""
    return Policy(reservations=settings.RESERVATIONS)


def named_gpus(nodes: Iterable[NodeView]) -> dict[str, int]:
    """How many GPUs of each type jobs that wait or run ask for by its name; not read, and empty, where the nodes have
    one type. All of it is in one index, which SQLite uses as conditions are literals (jobs/scheduling/stamps.py)."""
    if len({kind for node in nodes for _, kind in node.gpus}) < 2:
        return {}
    with connection.cursor() as cursor:
        cursor.execute(_NAMED)
        return {kind: int(number) for kind, number in cursor.fetchall()}


_NAMED = """
    SELECT gpu_type, sum(total_gpus) FROM jobs_job
    WHERE state IN ('WAITING', 'RUNNING') AND deleted_at IS NULL AND gpu_type > '' GROUP BY gpu_type
"""


def _decided() -> Decided:
    """Read by job how attempts end that are decided and of which something still runs, and the seconds of grace."""
    winding_down = Attempt.objects.filter(decided_at__isnull=False, completed_at__isnull=True)
    rows = winding_down.values_list("job_id", "exit", "grace")
    return {job: (Exit.from_json(data["exit"]), grace) for job, data, grace in rows}


def _after(until: datetime | None, time_of_day: datetime, read_at: datetime, most: timedelta) -> datetime | None:
    """Return the end of a pause on our own clock. It is never longer than ``most``, whatever was done to the clock of
    the day."""
    return None if until is None else read_at + min(until - time_of_day, most)


def _purgeable(ended: list[int]) -> list[int]:
    if not ended:
        return []
    uncollected = Task.objects.filter(job=OuterRef("id"), collected=False).exclude(state=TaskState.WAITING)
    gone = Job.objects.filter(id__in=ended).filter(~Exists(uncollected))
    return list(gone.order_by("id").values_list("id", flat=True))
