"""The turns of the waiting jobs, worked out when somebody asks, from what the rows say then.

Four queries beside those for the nodes, however many jobs wait: only of jobs that may start now, and of those asked
for, the specs are read.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

from django.db.models import Exists, OuterRef, Q
from django.utils import timezone

from base.core.bulk import values_of
from base.hosts import predecessor
from clusters.appointments.queries import spans
from clusters.nodes.queries import take_stock
from clusters.placement.fit import Demand, in_force
from clusters.placement.shares import Hold, quotas
from clusters.vcs.queries import load_rights
from jobs.config.demands import demands
from jobs.config.spec import JobSpec
from jobs.history import holdings
from jobs.history.lengths import known_lengths
from jobs.models import Attempt, Job, Task
from jobs.planning.lifecycle import JobState
from jobs.planning.queue.idling.rule import Idling
from jobs.planning.queue.lines import in_order
from jobs.planning.queue.reservations import Reservation
from jobs.planning.queue.scene import LAST, Awaited, Runner, Scene, SchedulableJob
from jobs.planning.queue.unchanged import interval_start
from jobs.planning.turns import Turn, turns
from jobs.scheduling import columns, remembered
from jobs.scheduling.columns import Specs
from jobs.scheduling.load import named_gpus, policy

_NO_ROW = 0  # no job has this id
_RESERVED = "reserved"
MANY = 1_000  # waiting jobs, their tasks and ports, and live tasks: of more, one look serves for a while
SHORTEST, LONGEST = 15.0, 120.0  # seconds; between them, ten times as long as an answer took on a busy machine


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingJob(SchedulableJob):
    """A waiting job's row; its spec is read when its turn comes."""

    specs: Specs
    is_decided: bool = False  # its attempt is over, and its last containers are ending

    @property
    def demands(self) -> tuple[Demand, ...]:
        return self.specs.shape(self.id)

    @property
    def awaited(self) -> Sequence[Awaited]:
        return self.specs.awaited(self.id)

    @property
    def avoid(self) -> frozenset[str]:
        return self.specs.avoid(self.id)

    @property
    def is_preemptible(self) -> bool:
        return self.specs.asked(self.id).preemptible

    @property
    def most_seconds(self) -> int | None:
        return self.specs.asked(self.id).max_run_seconds

    @property
    def is_ending(self) -> bool:
        return self.stopping or self.deleted or self.is_decided


@dataclass(slots=True)
class RecentQueue:
    """All that wait, and the cluster, for those who ask again and again. ``answers`` are those that were given, by
    question, ``took`` is how many seconds the longest of them took, and ``cost`` how much CPU the turns."""

    waiting: Sequence[WaitingJob]
    scene: Scene[WaitingJob]
    specs: Specs
    answers: dict[object, Any] = field(default_factory=dict)
    took: float = 0.0
    cost: float = 0.0
    ids: frozenset[int] = field(init=False)  # of all that wait
    _round: Iterator[Turn[WaitingJob]] = field(init=False)
    _found: dict[int, Turn[WaitingJob]] = field(default_factory=dict)
    _asking: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self.ids = frozenset([job.id for job in self.waiting])
        self._round = turns(self.waiting, self.scene)

    @property
    def is_large(self) -> bool:
        """Whether it takes so long that it is looked at for a while. That depends on the numbers of jobs and of tasks
        alone, so that it is known what a page shows."""
        jobs = len(self.waiting) + len(self.scene.holds())
        return jobs > MANY or jobs + self.specs.size > MANY

    def turns_of(self, ids: Collection[int]) -> dict[int, Turn[WaitingJob]]:
        """The turns of these jobs, by job, decided as far as nobody has asked for them before."""
        with self._asking:
            began, used, missing = time.monotonic(), time.thread_time(), set(ids) - self._found.keys()
            self.specs.want(missing)
            while missing and (turn := next(self._round, None)) is not None:
                self._found[turn.job.id] = turn
                missing.discard(turn.job.id)
            self.took = max(self.took, time.monotonic() - began)
            self.cost += time.thread_time() - used
            return {id: self._found[id] for id in ids if id in self._found}


_recent: tuple[float, RecentQueue] | None = None  # with when it was read
_reading = threading.Lock()  # who comes while it is read waits for it


def turns_of(ids: Collection[int]) -> dict[int, Turn[WaitingJob]]:
    """The turns of these jobs, by job; one that does not wait, or is about to end, has none. In a large queue neither
    has one that was submitted a moment ago."""
    return recent_queue().turns_of(ids) if ids else {}


def turn_now(id: int) -> Turn[WaitingJob] | None:
    """The turn of this job, of which the last look is not too old to know."""
    global _recent
    if id not in recent_queue().ids:
        _recent = None
    return turns_of([id]).get(id)


def queue_now() -> tuple[list[WaitingJob], Scene[WaitingJob]]:
    """All that wait, and the cluster with what runs, as the rows are now: for those who play the queue forward, or ask
    what would happen to a job that is not submitted yet."""
    return _read(Specs())


def recent_queue() -> RecentQueue:
    """Return the queue as the rows are now; where very many jobs wait, or very many tasks wait or run, as they were a
    moment ago. What a user submits so costs the pages of others no more than a look from time to time."""
    last = _recent
    if last is None or not last[1].is_large:
        return _look()
    with _reading:
        at, seen = _recent or last
        lasts = min(LONGEST, max(SHORTEST, 10 * seen.took))
        return seen if seen.is_large and time.monotonic() - at < lasts and _recent else _look()


def _look() -> RecentQueue:
    global _recent
    began, specs = time.monotonic(), Specs()
    queue = RecentQueue(*_read(specs), specs)
    queue.took = time.monotonic() - began
    _recent = (time.monotonic(), queue)
    return queue


def forget() -> None:
    global _recent
    _recent = None
    columns.forget()


def reservations() -> Sequence[Reservation[WaitingJob]]:
    """The room that is reserved for jobs, as in ``recent_queue``. One query where nobody waits."""
    global _recent
    if not Job.objects.filter(state=JobState.WAITING, deleted_at__isnull=True).exists():
        _recent = None
        return ()
    seen = recent_queue()
    if _RESERVED not in seen.answers:
        reserved = [turn.reservation for turn in turns(seen.waiting, seen.scene, only_tried=True)]
        seen.answers[_RESERVED] = tuple(one for one in reserved if one is not None)
    found: Sequence[Reservation[WaitingJob]] = seen.answers[_RESERVED]
    return found


def lapses() -> Sequence[tuple[WaitingJob, Idling]]:
    """The reservations that have lapsed, each with its job, as of the last look for ``reservations``."""
    if _recent is None or not (seen := _recent[1]).scene.idlings:
        return ()
    jobs = {job.id: job for job in seen.waiting}
    known = (each.lapsed(seen.scene.rounded_now) for _, each in sorted(seen.scene.idlings.items()))
    return [(jobs[each.job], each) for each in known if each is not None and each.job in jobs]


@dataclass(frozen=True, slots=True, kw_only=True)
class Unsent(WaitingJob):
    """The job that would come of a config if it were submitted now. (None has a default: the properties of a WaitingJob
    would count as that.)"""

    demands: tuple[Demand, ...] = field()
    awaited: Sequence[Awaited] = field()
    avoid: frozenset[str] = field()
    is_preemptible: bool = field()
    most_seconds: int | None = field()


def unsent(spec: JobSpec, awaited: Sequence[Awaited], username: str) -> Unsent:
    return Unsent(
        _NO_ROW,
        spec.effective_virtual_cluster,
        username,
        spec.job_name,
        awaits=len(awaited),
        priority=spec.asked.priority,
        since=LAST,
        specs=Specs(),
        demands=demands(spec),
        awaited=awaited,
        avoid=frozenset(spec.asked.avoid_nodes),
        is_preemptible=spec.asked.preemptible,
        most_seconds=spec.asked.max_run_seconds,
    )


def turn_if_submitted(
    waiting: Sequence[WaitingJob], scene: Scene[WaitingJob], spec: JobSpec, awaited: Sequence[Awaited], username: str
) -> Turn[WaitingJob]:
    """The turn that a job of this spec would have in this queue if this user submitted it now. ``awaited`` is what it
    would wait for."""
    last = unsent(spec, awaited, username)
    every = [*waiting, last]
    scene = replace(scene.naming(last.demands), past=cache(lambda: holdings.used_lately(holdings.rivals(every))))
    return next(turn for turn in turns(every, scene) if turn.job is last)


def _read(specs: Specs) -> tuple[list[WaitingJob], Scene[WaitingJob]]:
    """All that wait, and the cluster as the rows say it is."""
    rows = Job.objects.filter(state=JobState.WAITING, deleted_at__isnull=True).annotate(**columns.ASKED)
    rows = rows.annotate(moves=Exists(Job.planned().filter(_MOVING, state=JobState.RUNNING)))
    rows = rows.annotate(is_held=Exists(predecessor.rows()))
    read_rows = values_of(rows.values_list(*columns.QUEUE, "attempt_number", "moves", "is_held"))
    waiting = [WaitingJob(**columns.by_name(values), specs=specs) for *values, _, _, _ in read_rows]
    specs.ids = [job.id for job in in_order(waiting)]
    specs.again = [job.id for job, (*_, number, _, _) in zip(waiting, read_rows, strict=True) if number > 1]
    columns.forget_others(waiting)
    moves, is_held = read_rows[0][-2:] if read_rows else (False, False)
    return waiting, _scene(specs, waiting, moves=moves, is_held=is_held)


def _scene(specs: Specs, waiting: Sequence[WaitingJob], *, moves: bool, is_held: bool) -> Scene[WaitingJob]:
    """Make the scene; rows of running jobs are read when the turns ask for them. ``moves`` says whether one of them
    ends, is a guest or says when it ends."""
    stock, now = take_stock(), timezone.localtime()
    nodes = in_force(stock.nodes, now)
    return Scene(
        nodes=nodes,
        now=now,
        step=interval_start(now),
        quotas=quotas(load_rights(), *stock.totals),
        use=stock.use,
        running=cache(lambda: _running(specs, stock.holds)),
        changes_by_itself=moves,
        is_held=is_held,
        holds=stock.holds.values,
        spans=spans(now),
        policy=policy(),
        rests=remembered.rests(),
        idlings=remembered.idlings(now, now),
        lengths=known_lengths,
        past=cache(lambda: holdings.used_lately(holdings.rivals(waiting))),
        named=named_gpus(nodes),
    )


_DECIDED = Exists(Attempt.objects.filter(job=OuterRef("id"), decided_at__isnull=False, completed_at__isnull=True))
_MOVING = (
    Q(ends_by__isnull=False)
    | Q(_DECIDED)
    | Q(is_guest=True)
    | Q(execution=Job.Execution.STOP)
    | Q(deleted_at__isnull=False)
)


def _running(specs: Specs, holds: Mapping[str, Hold]) -> list[Runner[WaitingJob]]:
    """The running jobs with what their live tasks hold: two queries."""
    of_job: dict[int, list[Hold]] = {}
    for id, job_id in values_of(Task.live().values_list("id", "job_id")):
        if (hold := holds.get(str(id))) is not None:
            of_job.setdefault(job_id, []).append(hold)
    rows = Job.planned().filter(state=JobState.RUNNING).annotate(**columns.ASKED, is_decided=_DECIDED)
    read_rows = values_of(rows.values_list(*columns.QUEUE, "is_decided"))
    jobs = [WaitingJob(**columns.by_name(values), specs=specs, is_decided=decided) for *values, decided in read_rows]
    specs.running = {job.id for job in jobs}
    return [Runner(job, tuple(of_job.get(job.id, ()))) for job in jobs]
