"""Reads the World for the planner. The number of queries is constant, and only those rows are read that have changed
since the last World (jobs/scheduling/rows/stamps.py says which).

Times in rows are those of the clocks of other processes, maybe on other hosts, and clocks are set back and forth. The
picture has in their place the moment at which this process learnt of them, on its own steady clock: what it wrote
itself when it began the pass that wrote it, everything else when it first read it. So whether a look at a node is
younger than a row, whether a claim is open and whether an order has lapsed is asked of one clock.

Where the database says that nobody has changed anything (rows/written.py), nothing is read at all."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime, timedelta
from typing import NamedTuple, TypeVar

from django.conf import settings
from django.db import connection
from django.db.models import Exists, OuterRef
from django.utils import timezone

from base.core import clock
from base.core.bulk import chunks, with_ids
from clusters.appointments.queries import load_appointments
from clusters.appointments.rules import AppointmentView, Span, next_spans
from clusters.engines.runtime import LABEL_TASK, ContainerStatus, Look
from clusters.models import Node
from clusters.nodes.queries import Ledger
from clusters.placement.fit import NodeView, in_force
from clusters.placement.shares import quotas
from clusters.vcs.queries import load_rights
from jobs.history import holdings
from jobs.history.lengths import known_lengths
from jobs.models import Job, Task
from jobs.planning.lifecycle import JobState, TaskState
from jobs.planning.queue.appointments import by_node
from jobs.planning.queue.idling.rule import Idlings
from jobs.planning.queue.scene import NO_LENGTHS, Policy, Resting
from jobs.planning.queue.users.used_lately import UsedLately
from jobs.planning.world import JobView, LiveJob, Owner, TaskView, World
from jobs.scheduling import remembered
from jobs.scheduling.rows import written
from jobs.scheduling.rows.live import KnownJobs, KnownTasks

V = TypeVar("V")
_REREAD = timedelta(seconds=60)  # after which everything is read again all the same


class _ReadRows(NamedTuple):
    """The jobs and tasks of a World. A list is the same as that of the World before where nothing in it has changed."""

    live: list[LiveJob]
    waiting: list[JobView]
    leftovers: list[TaskView]
    ended: list[int]  # deleted jobs that have ended
    owners: Mapping[str, Owner]  # by name of the container
    rivals: holdings.Rivals


class WorldLoader:
    """Reads one World after the other, and keeps jobs with their specs and shapes, tasks, nodes and allocations."""

    def __init__(self) -> None:
        self.ledger = Ledger()
        self._times = clock.OwnTimes()
        self._jobs, self._tasks = KnownJobs(self._times), KnownTasks(self._times)
        self._moved: set[int] = set()  # ids of jobs that differ from those in the rows
        self._live: dict[int, LiveJob] = {}
        self._waiting: dict[int, JobView] = {}
        self._rows = _ReadRows([], [], [], [], {}, {})
        self._others: dict[str, Owner] = {}  # of containers whose tasks are not in the picture
        self._looked: tuple[_ReadRows | None, dict[str, Mapping[str, ContainerStatus]]] = None, {}
        self._owners: Mapping[str, Owner] = {}  # as of that
        self._nodes: list[NodeView] = []
        self._appointments: list[AppointmentView] = []
        self._world: World | None = None  # the last one
        self._version: written.Version | None = None  # than which all in it is at least as new
        self._pending: written.Version | None = None  # the same of the next one
        self._reread_at = clock.monotonic_now()
        self._rests, self._past = clock.Learnt[str, Resting](), clock.Learnt[tuple[str, str], UsedLately]()
        self._idlings: Idlings | None = None

    def writes(self, time_of_day: datetime, began: datetime) -> None:
        """Note that a pass which began at ``began`` writes this time of day into the rows that it changes."""
        self._times.note(time_of_day, began)

    def idles(self, after: Idlings) -> None:
        self._idlings = after  # the scheduler alone writes what reservations keep idle, so that is read once

    def learn(self) -> None:
        """Read everything once. Looks at nodes that begin afterwards are younger than all of it."""
        self.world(clock.monotonic_now(), {}, {})

    def registered(self) -> list[Node]:
        """The registered nodes, as they are now. All in the next World is at least as new."""
        self._pending = written.version()
        return self.ledger.registered() if self._is_old else self.ledger.known

    @property
    def seen(self) -> tuple[object, object]:
        """The rows of jobs and tasks and what they hold: other objects once anything in them is another."""
        return self._rows, self.ledger.holds()

    @property
    def _is_old(self) -> bool:
        """Whether anything may have changed since the last World was read."""
        is_other = self._pending is None or self._pending != self._version
        return self._world is None or is_other or clock.monotonic_now() >= self._reread_at

    @contextmanager
    def unseen(self) -> Iterator[None]:
        """What this process writes here is in no World: where it alone has written, nothing is read again."""
        before = written.own_version()
        yield
        after = written.own_version()
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
            clock_ahead=timezone.now() - now,
        )

    def _read_world(self, now: datetime) -> World:
        """What the rows say."""
        self._learn_rows()
        self._rests.learn(remembered.rests(), timezone.now(), now)
        if self._rows.waiting:
            self._past.learn(holdings.used_lately(self._rows.rivals), timezone.now(), now)
        self._idlings = remembered.idlings(timezone.now(), now) if self._idlings is None else self._idlings
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

    def _learn_rows(self) -> None:
        """Bring the rows up to date. What moved is kept until all of it is known."""
        self._moved |= self._jobs.learn()
        of_tasks, is_other = self._tasks.learn()
        self._moved |= of_tasks
        if not (self._moved or is_other):
            return
        live, waiting, is_live_other, is_waiting_other = self._live, self._waiting, False, False
        for id in self._moved:
            job, pair = self._jobs.of.get(id), live.get(id)
            if job is not None and job.state is JobState.RUNNING:
                tasks = [task for _, task in sorted(self._tasks.of_job.get(id, {}).items())]
                pair = pair if pair is not None and pair[0] is job and pair[1] == tasks else (job, tasks)
            else:
                pair = None
            is_live_other |= _put(live, id, pair)
            is_waiting_other |= _put(waiting, id, job if pair is None else None)
        before = self._rows
        in_order = [waiting[id] for id in sorted(waiting)] if is_waiting_other else before.waiting
        self._rows = _ReadRows(
            live=[live[id] for id in sorted(live)] if is_live_other else before.live,
            waiting=in_order,
            leftovers=[view for id in sorted(self._tasks.leftovers) if (view := self._tasks.view(id)) is not None],
            ended=sorted(self._jobs.ended),
            owners=dict(self._tasks.owners),
            rivals=holdings.rivals(in_order) if is_waiting_other else before.rivals,
        )
        self._moved = set()

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


def _put(known: dict[int, V], id: int, value: V | None) -> bool:
    """Keep this value, if it is one, and return whether it is another object than the one before."""
    if known.get(id) is value:
        return False
    if value is None:
        del known[id]
    else:
        known[id] = value
    return True


def _spans(appointments: Iterable[AppointmentView], now: datetime) -> tuple[Span, ...]:
    """The next time of each by the clock of the day, which is what people mean, on our own clock."""
    today = timezone.now()
    shift = timedelta(seconds=round((now - today).total_seconds()))
    return tuple(span.moved(shift) for span in next_spans(appointments, today))


def policy() -> Policy:
    """The settings of the queue."""
    return Policy(reservations=settings.RESERVATIONS)


def named_gpus(nodes: Iterable[NodeView]) -> dict[str, int]:
    """How many GPUs of each type jobs that wait or run ask for by its name; not read, and empty, where the nodes have
    one type. All of it is in one index, which SQLite uses as conditions are literals (rows/stamps.py beside this)."""
    if len({kind for node in nodes for _, kind in node.gpus}) < 2:
        return {}
    with connection.cursor() as cursor:
        cursor.execute(_NAMED)
        return {kind: int(number) for kind, number in cursor.fetchall()}


_NAMED = """
    SELECT gpu_type, sum(total_gpus) FROM jobs_job
    WHERE state IN ('WAITING', 'RUNNING') AND deleted_at IS NULL AND gpu_type > '' GROUP BY gpu_type
"""


def _purgeable(ended: list[int]) -> list[int]:
    if not ended:
        return []
    uncollected = Task.objects.filter(job=OuterRef("id"), collected=False).exclude(state=TaskState.WAITING)
    gone = Job.objects.filter(id__in=ended).filter(~Exists(uncollected))
    return list(gone.order_by("id").values_list("id", flat=True))
