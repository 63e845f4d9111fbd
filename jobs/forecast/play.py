"""Plays the queue forward: the same turns, on what running and waiting jobs may still take. Pure.

Each draw gives every job one of its likely lengths, and over all draws each of them once. The jobs of one user have the
same rank in a draw, for what is not known of one of them is not known of the others; with ranks of their own their
errors would cancel out, and the spread would be too narrow. What comes of all draws is the spread of each start.

In each draw other jobs come as well (jobs/forecast/arrivals.py), which may be started first, shares of users change
with what runs, and reservations lapse and come back. The turns see the likely lengths that they see in a pass, not
those of the draw. A draw ends when the last job that waits now has started.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from heapq import heappop, heappush
from math import ceil, inf
from typing import Generic, NamedTuple
from zlib import crc32

from clusters.placement.free import FreeNodes
from clusters.placement.shares import Hold, add, nodes_without
from jobs.planning.queue.idling.after import idled_after
from jobs.planning.queue.lengths import DRAWS
from jobs.planning.queue.lines import Queue, in_order, places
from jobs.planning.queue.scene import NO_LENGTHS, JobT, Runner, Scene, as_evicted, as_owner, holds_at, rests_after
from jobs.planning.queue.unchanged import pauses
from jobs.planning.queue.users.shares import after_run
from jobs.planning.turns import Move, Turn, turns

MOST = 400  # waiting jobs that are played, the first of the queue
LEAST_DRAWS = 5  # a spread of fewer says nothing
_ROUNDS = 120  # of turns in one draw
# What ends within so many seconds ends together, in their middle, and what ends within this part of the time played so
# far. Both are larger in the first draw, in a cluster where very many run, of which some always end, and where the time
# would not do for all draws with less: so many times as long they take.
_SOON, _CLOSE = 10.0, 0.04
_VERY_MANY, _SOON_OF_MANY, _CLOSE_OF_MANY, _FINER = 500, 30.0, 0.25, 4
_GRACE = 30.0  # seconds that what is evicted takes to leave


class Spread(NamedTuple):
    """Three moments: of ten starts one is before the first, five before the second, nine before the third."""

    p10: datetime
    p50: datetime
    p90: datetime


Length = Callable[[JobT], Sequence[float]]  # seconds from its start, DRAWS of them, shortest first
Coming = Callable[[int], Sequence[tuple[float, JobT]]]  # the jobs that come in a draw, the first one first, and when
Spent = Callable[[], float]  # the part of the time for a play that is over; from 1 on, nothing is left


class StartForecasts(NamedTuple):
    """When waiting jobs start, by their ids: a job that was seen to start in nearly all draws has its spread, another
    one the moment before which, of ten starts, one would be at most."""

    spreads: dict[int, Spread]
    not_before: dict[int, datetime]


def starts(
    waiting: Sequence[JobT],
    scene: Scene[JobT],
    length: Length[JobT],
    spent: Spent,
    most: int = MOST,
    coming: Coming[JobT] = lambda draw: (),
) -> StartForecasts:
    """When each waiting job starts, of the ``first`` so many. Where the time does not do for all of it, every draw is
    played for a while, so that those whose turn comes soon have a spread; a job of which too much is unknown has
    nothing."""
    table = _Table(first(waiting, scene, most), scene, length, coming)
    is_large, table.is_coarse = table.is_coarse, True
    for draw in range(DRAWS):
        future = _Draw(table, draw)
        is_whole = future.play(_over(spent, (draw + 1) / LEAST_DRAWS)) is not None
        table.is_coarse = is_large or (table.is_coarse if draw else spent() * DRAWS * _FINER > 1)
        if not is_whole and draw >= LEAST_DRAWS:
            break  # it would say less of each job than those before
        table.note(future.began, None if is_whole else future.delay)
    return StartForecasts(table.spreads(), table.not_before())


def _over(spent: Spent, part: float = 1.0) -> Callable[[], bool]:
    """Says whether this part of the time is over."""
    return lambda: spent() >= min(1.0, part)


def first(waiting: Sequence[JobT], scene: Scene[JobT], most: int = MOST) -> list[JobT]:
    """So many of the waiting jobs, in their order: of each virtual cluster the first ones, as their turns come side by
    side."""
    queue = in_order(waiting)
    if len(queue) <= most:
        return queue
    place = places(queue, scene)
    chosen = {job.id for job in sorted(queue, key=lambda job: place[job.id])[:most]}
    return [job for job in queue if job.id in chosen]


def at_limits(
    waiting: Sequence[JobT], scene: Scene[JobT], limit: Callable[[JobT], float], spent: Spent, most: int = MOST
) -> dict[int, float]:
    """Seconds until each waiting job starts if every one runs for its limit: what a scheduler foresees that only goes
    by limits. Of those alone that were seen to start before the time was over."""
    by_limits = replace(scene, lengths=lambda: NO_LENGTHS)
    future = _Draw(_Table(first(waiting, scene, most), by_limits, lambda job: [limit(job)] * DRAWS), 0)
    future.play(_over(spent))
    return future.began


def side_by_side(
    queues: Sequence[tuple[Sequence[JobT], Scene[JobT]]], length: Length[JobT], spent: Spent, most: int = MOST
) -> list[dict[int, Spread]]:
    """The spreads of several queues, to be compared: each draw gives a job the same length in all of them, and counts
    only when all have been played with it."""
    known: dict[tuple[int, datetime | None], Sequence[float]] = {}

    def once(job: JobT) -> Sequence[float]:
        """Ask for a length once: most jobs are in all of the queues."""
        key = job.id, job.started_at
        if key not in known:
            known[key] = length(job)
        return known[key]

    tables = [_Table(first(waiting, scene, most), scene, once) for waiting, scene in queues]
    for draw in range(DRAWS):
        played = []
        for table in tables:
            began = _Draw(table, draw).play(_over(spent))
            if began is None:
                return [table.spreads() for table in tables]
            played.append(began)
        for table, began in zip(tables, played, strict=True):
            table.note(began)
    return [table.spreads() for table in tables]


class _Table(Generic[JobT]):
    """One queue with what its draws have shown so far."""

    def __init__(
        self, queue: Sequence[JobT], scene: Scene[JobT], length: Length[JobT], coming: Coming[JobT] = lambda draw: ()
    ) -> None:
        self.scene, self.queue, self.length, self.coming = scene, queue, length, coming
        self.running = scene.running()
        self.is_coarse = len(self.running) > _VERY_MANY
        self.lengths = {job.id: length(job) for job in (*self.queue, *(runner.job for runner in self.running))}
        self.delays: dict[int, list[float]] = {job.id: [] for job in self.queue}
        self.earliest: dict[int, list[float]] = {job.id: [] for job in self.queue}  # inf: never, as far as is known
        seen = [node for node in scene.nodes if node.name not in scene.unseen]
        self.free = FreeNodes(seen, wanted=scene.wanted)
        self.idle = FreeNodes(scene.nodes, empty=True)

    def note(self, began: dict[int, float], played: float | None = None) -> None:
        """``played`` are the seconds after which a draw was cut off: what starts later is not known."""
        for id, delays in self.delays.items():
            delays.append(began.get(id, inf))
            self.earliest[id].append(began.get(id, inf if played is None else played))

    def spreads(self) -> dict[int, Spread]:
        spreads = ((id, _spread(delays, self.scene.now)) for id, delays in self.delays.items())
        return {id: spread for id, spread in spreads if spread is not None}

    def not_before(self) -> dict[int, datetime]:
        """The moment before which a job without a spread hardly starts, by job."""
        moments: dict[int, datetime] = {}
        for id, delays in self.earliest.items():
            if (
                len(delays) >= LEAST_DRAWS
                and inf in self.delays[id]
                and _spread(self.delays[id], self.scene.now) is None
            ):
                soonest = sorted(delays)[ceil(0.1 * len(delays)) - 1]
                if 0 < soonest < inf:
                    moments[id] = self.scene.now + timedelta(seconds=soonest)
        return moments


@dataclass(frozen=True, slots=True)
class Foreseen(Generic[JobT]):
    """The start of one job, and the job whose end most likely lets it start: in the ``part`` of all draws."""

    spread: Spread
    after: JobT | None
    part: float


def start_of(
    job: JobT, waiting: Sequence[JobT], scene: Scene[JobT], length: Length[JobT], spent: Spent
) -> Foreseen[JobT] | None:
    """Do as ``starts``, for one of the waiting jobs alone, and without others that come: no draw is played longer than
    until it starts. None where too much is unknown, and where more than MOST jobs of its virtual cluster are ahead of
    it."""
    queue = _until(job, waiting, scene)
    if queue is None:
        return None
    table = _Table(queue, scene, length)
    after: Counter[int] = Counter()
    for draw in range(DRAWS):
        future = _Draw(table, draw, job.id)
        began = future.play(_over(spent))
        if began is None:
            break
        table.note(began)
        after.update(future.let_in[:1])
    delays = table.delays[job.id]
    spread = _spread(delays, scene.now)
    if spread is None or not after:
        return spread and Foreseen(spread, None, 0.0)
    [(id, draws)] = after.most_common(1)
    jobs = (*queue, *(other.job for other in table.running))
    return Foreseen(spread, next(other for other in jobs if other.id == id), draws / len(delays))


def _until(job: JobT, waiting: Sequence[JobT], scene: Scene[JobT]) -> Sequence[JobT] | None:
    """Its virtual cluster's queue up to this job, and the first of the others; None if that are more than MOST."""
    queue = in_order(waiting)
    waits = any(other.id == job.id for other in queue)
    ahead = Queue(queue, scene).ahead(job) if waits else ()
    if not waits or len(ahead) >= MOST:
        return None
    others = [other for other in queue if other.vc != job.vc][: MOST - len(ahead)]
    return in_order([*ahead, job, *others])


def _spread(delays: list[float], now: datetime) -> Spread | None:
    if len(delays) < LEAST_DRAWS:
        return None
    delays = sorted(delays)
    chosen = [delays[max(0, ceil(part * len(delays)) - 1)] for part in (0.1, 0.5, 0.9)]
    return None if chosen[-1] == inf else Spread(*(now + timedelta(seconds=each) for each in chosen))


class _Draw(Generic[JobT]):
    """One possible future."""

    def __init__(self, table: _Table[JobT], draw: int, watched: int | None = None) -> None:
        """``watched``: the job with whose start the future that matters ends."""
        scene = table.scene
        self.scene, self.draw, self.watched = scene, draw, watched
        self.freed: list[Runner[JobT]] = []  # what ended last
        self.let_in: list[int] = []  # of that, the jobs whose room the watched one got, most of it first
        self.waiting, self.rests, self.past = list(table.queue), scene.rests, dict(scene.past())
        self.open = {job.id for job in table.queue}
        self.coming = list(reversed(table.coming(draw)))
        self.lengths = table.lengths | {job.id: table.length(job) for _, job in self.coming}
        self.idlings = scene.idlings
        self.free, self.idle = table.free, table.idle
        self.is_coarse = table.is_coarse
        self.nodes = list(scene.nodes)
        self.use: dict[str, dict[str, float]] = {vc: dict(amount) for vc, amount in scene.use.items()}
        self.running: dict[int, Runner[JobT]] = {}
        self.ends: list[tuple[float, int]] = []
        self.due: dict[int, float] = {}  # by job: a job that was evicted has an older end in the heap
        self.began: dict[int, float] = {}
        self.delay, self.until, self._makes_room = 0.0, 0.0, False  # what happens up to then has been played
        self._spared: list[datetime] = []  # when those have run for the minimum that leave for an owner then
        for runner in table.running:
            self.running[runner.job.id] = runner
            started = runner.job.started_at
            ran = (scene.now - started).total_seconds() if started is not None else 0.0
            self._ends(runner.job, max(0.0, self._length(runner.job) - ran) if not runner.job.is_ending else 0.0)

    def play(self, is_over: Callable[[], bool]) -> dict[int, float] | None:
        """{job: seconds until it starts}; None when the time was over before the end, with what is known in ``began``
        up to ``delay``."""
        for _ in range(_ROUNDS):
            if is_over():
                return None
            self._turns()
            following = self._next()
            if not self.open or following is None or self.watched in self.began:
                break
            self.delay = following
            self._end()
            while self.coming and self.coming[-1][0] <= self.delay:
                self.waiting.append(self.coming.pop()[1])
        return self.began

    def _length(self, job: JobT) -> float:
        user = crc32(job.username.encode())
        rank = (self.draw * (1 + user % (DRAWS - 1)) + user) % DRAWS
        return self.lengths[job.id][rank]

    def _ends(self, job: JobT, delay: float) -> None:
        self.due[job.id] = delay
        heappush(self.ends, (delay, job.id))

    def _turns(self) -> None:
        at = self.scene.now + timedelta(seconds=self.delay)
        self.free = self.free.copy(self.nodes)
        scene = replace(
            self.scene,
            nodes=self.nodes,
            now=at,
            use=self.use,
            rests=self.rests,
            past=lambda: self.past,
            idlings=self.idlings,
            step=None,
            running=lambda: list(self.running.values()),
            changes_by_itself=None,
            holds=lambda: [hold for runner in self.running.values() for hold in runner.holds],
            before=self.free,
            idle=self.idle,
        )
        gone: set[int] = set()
        again: list[JobT] = []
        taken = list(turns(self.waiting, scene, only_tried=True))
        self.idlings = idled_after(self.waiting, taken, scene)
        placed = [turn for turn in taken if turn.move is Move.GO]
        if placed:
            self.nodes = placed[0].queue.left()
        for turn in placed:
            self._start(turn, at)
            gone.add(turn.job.id)
        owners: dict[int, JobT] = {}
        for turn in taken:
            victims = [victim for victim in turn.victims if victim.job.id in self.running]
            for victim in victims:
                self._free(victim.job.id)
                again.append(as_evicted(victim.job))
            if victims:
                owners[turn.job.id] = as_owner(turn.job, victims)
        self._makes_room = bool(again)
        kept = [turn.reservation for turn in taken if turn.reservation is not None]
        self._spared = [each.moment for each in kept if each.spared and each.moment is not None]
        if gone or again:
            self.waiting = [owners.get(job.id, job) for job in self.waiting if job.id not in gone] + again
        if keeps := {turn.job.id for turn in taken if turn.keeps and not turn.job.keeps_turn}:
            self.waiting = [replace(job, keeps_turn=True) if job.id in keeps else job for job in self.waiting]

    def _start(self, turn: Turn[JobT], at: datetime) -> None:
        job, holds = turn.job, holds_at(turn.job, turn.placements)
        self.rests = rests_after(self.rests, job.displaced, job.title, at)
        add(self.use.setdefault(job.vc, {}), self.scene.amount(holds))
        self.running[job.id] = Runner(replace(job, is_guest=turn.is_guest, started_at=at, keeps_turn=False), holds)
        if job.id == self.watched:
            self.let_in = self._freed_by(holds)
        self.began.setdefault(job.id, self.delay)
        self.open.discard(job.id)
        self._ends(job, self.delay + self._length(job))

    def _next(self) -> float | None:
        """When something ends next, what is evicted has left, or a waiting job may be looked at again."""
        moments = [self.ends[0][0]] if self.ends else []
        moments += [self.delay + _GRACE] if self._makes_room else []
        now = self.scene.now
        times = pauses(self.waiting, self.rests)
        times.update(self._spared)
        times.update(time for one in self.idlings.values() if (time := one.until or one.lapses_at))
        moments += [delay for time in times if (delay := (time - now).total_seconds()) > self.delay]
        soonest = min(moments, default=inf)
        return None if soonest == inf else max(self.until if self.is_coarse else self.delay, soonest)

    def _end(self) -> None:
        """End what ends now or so soon that it is the same."""
        soon, close = (_SOON_OF_MANY, _CLOSE_OF_MANY) if self.is_coarse else (_SOON, _CLOSE)
        self.until = self.delay + max(soon, close * self.delay)
        self.freed, first = [], self.delay
        while self.ends and self.ends[0][0] <= self.until:
            delay, id = heappop(self.ends)
            if id in self.running and self.due[id] == delay:
                self.delay = max(self.delay, (first + delay) / 2)
                self._free(id)

    def _free(self, id: int) -> None:
        runner = self.running.pop(id)
        self.freed.append(runner)
        at, half_life = self.scene.now + timedelta(seconds=self.delay), self.scene.quota(runner.job.vc).half_life
        after_run(self.past, runner, at, half_life)
        self.nodes = nodes_without(self.nodes, runner.holds)
        add(self.use.setdefault(runner.job.vc, {}), self.scene.amount(runner.holds), -1)

    def _freed_by(self, holds: Iterable[Hold]) -> list[int]:
        nodes = {hold.node for hold in holds}
        shared = {runner.job.id: sum(hold.node in nodes for hold in runner.holds) for runner in self.freed}
        return sorted((id for id in shared if shared[id]), key=lambda id: -shared[id])
