"""Whose turn it is among the jobs of one priority in a virtual cluster: that of the user with the smallest share. Pure.

A share is what a user holds and what they used lately, as a part of what the virtual cluster is guaranteed, in cores,
memory or GPUs, whichever is the largest; of the pool where it is guaranteed none. What was used is an average: who held
8 GPUs for long has used 8 lately. So it adds up to the same however a user splits, stops or repeats what they run. The
half-life is a setting of the virtual cluster; with 0 only what is held counts.

Users who have used nothing could come without end, so a job is overdue, and before the shares, once it has waited for
OVERDUE and none of its user's has begun or ended there as long: who banks old jobs has one turn for their age, not all.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from heapq import heapify, heappop, heapreplace
from operator import attrgetter
from typing import Generic

from clusters.placement.fit import NodeView
from clusters.placement.shares import Amount, Hold, pool_totals
from jobs.planning.queue.scene import LAST, OVERDUE, JobT, Runner, since_text
from jobs.planning.queue.users.used_lately import WHAT, UsedLately, UsesLately, after_use, counts, grows

BY_AGE = attrgetter("since", "id")
Line = tuple[int, bool, str]  # the priority, negative; whether its jobs do not keep their turn; and if so their user
_Entry = tuple[int, bool, float, str, int, int, int, str, Sequence[JobT]]
_DIGITS = 9  # of a share: a difference beyond this digit is an error of rounding
_NOT = timedelta(0)
_OVERDUE = -1.0  # in place of the share: before all of them


def after_run(past: dict[tuple[str, str], UsedLately], runner: Runner[JobT], now: datetime, hours: float) -> None:
    """Add to ``past`` that this job ends now."""
    job, began = runner.job, runner.job.started_at or now
    whose, use = (job.username, job.vc), (_held(runner.holds), (now - began).total_seconds())
    past[whose] = after_use(past.get(whose), [use], now, hours)


def _held(holds: Iterable[Hold]) -> dict[str, float]:
    amount = dict.fromkeys(WHAT, 0.0)
    for hold in holds:
        amount["cpu"] += hold.cpus
        amount["memory"] += hold.memory_mb
        amount["gpu"] += len(hold.gpu_ids)
    return amount


class UserShares:
    """The share of each user in one virtual cluster; ``whole`` is what they are parts of."""

    def __init__(self, whole: Amount) -> None:
        self._whole = {what: float(whole[what]) for what in WHAT if whole.get(what)}
        self._used: dict[str, dict[str, float]] = {}
        self.of: dict[str, float] = {}  # who is not there has none
        self._last: dict[str, str] = {}  # when a job of theirs began or ended last, as ``since_text``
        self._limit = ""  # the same for the moment since which an overdue one has waited

    @classmethod
    def parts_of(cls, guarantee: Amount, nodes: Iterable[NodeView]) -> UserShares:
        """Of what a virtual cluster is guaranteed, or of the pool where that is nothing."""
        pool = {} if all(guarantee.get(what) for what in WHAT) else pool_totals(nodes)[0]
        return cls({what: guarantee.get(what) or pool.get(what, 0.0) for what in WHAT})

    def used(self, user: str) -> Amount:
        """What they hold and what they used lately, added up."""
        return self._used.get(user, {})

    def copy(self) -> UserShares:
        other = UserShares(self._whole)
        other._used, other.of = {user: dict(used) for user, used in self._used.items()}, dict(self.of)
        other._last, other._limit = dict(self._last), self._limit
        return other

    def overdue_since(self, job: JobT) -> str:
        """Since when it has waited without a turn of its user, if that is too long; else empty."""
        if job.since >= self._limit:
            return ""
        since = max(job.since, self._last.get(job.share_of, ""))
        return since if since < self._limit else ""

    def start(self, user: str, amount: Amount) -> None:
        """Add what a job takes that starts now."""
        self._last[user] = LAST
        self.add(user, amount)

    def add(self, user: str, amount: Amount, times: float = 1.0) -> None:
        used = self._used.setdefault(user, dict.fromkeys(WHAT, 0.0))
        for what in WHAT:
            used[what] += times * amount.get(what, 0)
        parts = (used[what] / whole for what, whole in self._whole.items())
        self.of[user] = round(max(parts, default=0.0), _DIGITS)

    def add_all(
        self,
        running: Iterable[Runner[JobT]],
        past: UsesLately,
        vc: str,
        now: datetime,
        half_life: float,
        clock_ahead: timedelta = _NOT,
    ) -> None:
        """Add what everybody holds in this virtual cluster and what they used lately. By the clock of the day, by which
        jobs came, it is ``clock_ahead`` later."""
        self._limit, last = since_text(now + clock_ahead - OVERDUE), dict[str, datetime]()
        grown: dict[datetime, float] = {}  # by when it began: a pass starts many at one moment
        for runner in running:  # of which there may be very many
            began, username = runner.job.started_at or now, runner.job.username
            if (times := grown.get(began)) is None:
                times = grown[began] = 1.0 + grows((now - began).total_seconds(), half_life)
            if (sums := self._used.get(username)) is None:
                sums = self._used[username] = dict.fromkeys(WHAT, 0.0)
            for hold in runner.holds:
                sums["cpu"] += times * hold.cpus
                sums["memory"] += times * hold.memory_mb
                sums["gpu"] += times * len(hold.gpu_ids)
            if began is not now:
                last[username] = max(began, last.get(username, began))
        for user in list(self._used):
            self.add(user, {})
        for (user, of_vc), used in past.items():
            if of_vc == vc:
                part = counts((now - used.at).total_seconds(), half_life)
                self.add(user, dict(zip(WHAT, used[:3], strict=True)), part)
                last[user] = max(used.at, last.get(user, used.at))
        self._last = {user: since_text(moment + clock_ahead) for user, moment in last.items()}


# --- lines -----------------------------------------------------------------------------------------------------------


def is_ending(job: JobT) -> bool:
    """Whether a waiting job will never start: asked to stop, deleted, too large for every registered node, or behind a
    job that did not succeed."""
    return bool(job.stopping or job.deleted or job.never or job.unmet)


class WaitingLines(Generic[JobT]):
    """The jobs that want a turn, by virtual cluster, and in it those of one priority, and of one user but for those
    that keep their turn, in the order of their age. A pass begins with the lines of the one before: of very many jobs
    few have come or gone. They are the same as new ones."""

    def __init__(self, waiting: Sequence[JobT] = ()) -> None:
        self.of_vc: dict[str, dict[Line, list[JobT]]] = {}
        self.ending: dict[int, JobT] = {}  # by id, those that want none
        self._seen: Sequence[JobT] = ()
        self._known: dict[int, JobT] = {}  # by address
        self.learn(waiting)

    def learn(self, waiting: Sequence[JobT]) -> None:
        if waiting is self._seen:
            return
        now = dict(zip(map(id, waiting), waiting, strict=True))
        for address in self._known.keys() - now.keys():
            self._leave(self._known[address])
        grown: dict[int, list[JobT]] = {}
        for address in now.keys() - self._known.keys():
            if is_ending(job := now[address]):
                self.ending[job.id] = job
            else:
                line = self.of_vc.setdefault(job.vc, {}).setdefault(_line(job), [])
                line.append(job)
                grown[id(line)] = line
        for line in grown.values():
            line.sort(key=BY_AGE)
        self._seen, self._known = waiting, now

    def _leave(self, job: JobT) -> None:
        if self.ending.get(job.id) is job:
            del self.ending[job.id]
            return
        lines = self.of_vc.get(job.vc, {})
        line = lines.get(_line(job), [])
        at = bisect_left(line, BY_AGE(job), key=BY_AGE)
        if at < len(line) and line[at] is job:
            del line[at]
        if not line:
            lines.pop(_line(job), None)
        if not lines:
            self.of_vc.pop(job.vc, None)


def _line(job: JobT) -> Line:
    return -job.priority, not job.keeps_turn, "" if job.keeps_turn else job.share_of


def users_of(lines: Mapping[Line, Sequence[JobT]]) -> set[str]:
    """The users whose shares count."""
    users = {user for _, is_later, user in lines if is_later}
    return users.union(job.share_of for line, jobs in lines.items() if not line[1] for job in jobs)


def in_one(lines: Mapping[Line, Sequence[JobT]]) -> list[JobT]:
    """The jobs of one user, by priority and then by age."""
    jobs = [job for line in sorted(lines) for job in lines[line]]
    return sorted(jobs, key=lambda job: (-job.priority, job.since, job.id)) if len(lines) > 1 else jobs


class UserLines(Generic[JobT]):
    """Gives the jobs of one virtual cluster in the order of their turns: by priority, then those that keep their turn,
    then those that are overdue, then those of the user whose share is the smallest at that moment, then by age. Shares
    only grow meanwhile, and nobody becomes overdue, so the place of a user's next job is looked at again when it comes
    to the front, and nothing is sorted anew."""

    def __init__(self, lines: Mapping[Line, Sequence[JobT]], shares: UserShares) -> None:
        self.shares = shares
        self.overdue: set[int] = set()  # the jobs that had their turn as they were overdue
        self._heap: list[_Entry[JobT]] = []
        for (rank, is_later, user), line in lines.items():
            share, since = shares.of.setdefault(user, 0.0) if is_later else 0.0, line[0].since
            if is_later and (overdue := shares.overdue_since(line[0])):
                share, since = _OVERDUE, overdue
            self._heap.append((rank, is_later, share, since, line[0].id, 1, len(line), user, line))
        heapify(self._heap)

    def copy(self, shares: UserShares) -> UserLines[JobT]:
        """The same from here on, with shares of their own."""
        other = UserLines[JobT]({}, shares)
        other._heap, other.overdue = list(self._heap), self.overdue
        return other

    def foreseen(self, asks: Callable[[JobT], Amount]) -> Iterator[JobT]:
        """The jobs in the order in which they start if each gets what it asks for."""
        lines = self.copy(self.shares.copy())
        for job in lines:
            if amount := asks(job):
                lines.shares.start(job.username, amount)
            yield job

    def __iter__(self) -> Iterator[JobT]:
        while (job := self.take()) is not None:
            yield job

    def take(self) -> JobT | None:
        """The next job, which is no longer in the lines then; None where there is none."""
        if (entry := self._front()) is None:
            return None
        _, _, _, _, _, at, _, _, jobs = entry
        self._go_on(entry, at)
        return jobs[at - 1]

    def pass_by(self, is_hopeless: Callable[[JobT], bool]) -> None:
        """Take the next jobs as long as that is true of them. A user's are looked at together."""
        while (entry := self._front()) is not None:
            _, _, _, _, _, at, size, _, jobs = entry
            end = at - 1
            while end < size and is_hopeless(jobs[end]):
                end += 1
            if end < at:
                return
            self._go_on(entry, end)

    def _front(self) -> _Entry[JobT] | None:
        heap, shares = self._heap, self.shares.of
        while heap:
            rank, is_later, share, since, id, at, size, user, jobs = heap[0]
            if is_later and share != (grown := shares[user]):
                overdue = self.shares.overdue_since(jobs[at - 1]) if share == _OVERDUE else ""
                if not overdue or overdue != since:
                    share, since = (_OVERDUE, overdue) if overdue else (grown, jobs[at - 1].since)
                    heapreplace(heap, (rank, is_later, share, since, id, at, size, user, jobs))
                    continue
                self.overdue.add(id)
            return heap[0]
        return None

    def _go_on(self, entry: _Entry[JobT], at: int) -> None:
        """Let the front of the line, which is ``entry``, be its job at this place."""
        rank, is_later, share, _, _, _, size, user, jobs = entry
        if at < size:
            after = jobs[at]
            heapreplace(self._heap, (rank, is_later, share, after.since, after.id, at + 1, size, user, jobs))
        else:
            heappop(self._heap)


class PlacesInLine(Generic[JobT]):
    """The places of jobs in an order that is gone through as far as somebody asks for it."""

    def __init__(self, order: Iterable[JobT]) -> None:
        self._order, self._known = iter(order), list[JobT]()
        self._places: dict[int, int] = {}

    def ahead(self, job: JobT) -> Sequence[JobT]:
        while job.id not in self._places:
            other = next(self._order)
            self._places[other.id] = len(self._known)
            self._known.append(other)
        return self._known[: self._places[job.id]]
