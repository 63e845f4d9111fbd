"""The lines in which jobs wait for their turns, and the order in which these come. Pure."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from heapq import heapify, heappop, heapreplace
from operator import attrgetter
from typing import Generic

from clusters.placement.shares import Amount
from jobs.planning.queue.scene import JobT
from jobs.planning.queue.users.shares import UserShares

BY_AGE = attrgetter("since", "id")
Line = tuple[int, bool, str]  # the priority, negative; whether its jobs do not keep their turn; and if so their user
_Entry = tuple[int, bool, float, str, int, int, int, str, Sequence[JobT]]
_Kind = tuple[int, int, bool, bool]
_OVERDUE = -1.0  # in place of the share: before all of them
_FEW = 64  # kinds in one line, which are asked instead of each of its jobs


class JobsInLine(list[JobT], Generic[JobT]):
    """The jobs of one line in the order of their age. There may be very many, of a few kinds: where no appointment
    keeps nodes for somebody, jobs of one kind find the same places, and may be guests or may not."""

    def __init__(self) -> None:
        super().__init__()
        self._kinds: dict[_Kind, tuple[int, JobT]] | None = None  # how many there are, and one that is or was there

    def is_true_of_all(self, question: Callable[[JobT], bool]) -> bool:
        """Whether it is true of each job, for a question that jobs of one kind answer alike. False as well where there
        are too many kinds to ask."""
        if self._kinds is None:
            self._kinds = {}
            for job in self:
                self._count(job, 1)
        return len(self._kinds) <= _FEW and all(question(job) for _, job in self._kinds.values())

    def enter(self, job: JobT) -> None:
        """At its end: to be sorted when all are there."""
        self.append(job)
        if self._kinds is not None:
            self._count(job, 1)

    def leave(self, job: JobT) -> None:
        at = bisect_left(self, BY_AGE(job), key=BY_AGE)
        if at < len(self) and self[at] is job:
            del self[at]
            if self._kinds is not None:
                self._count(job, -1)

    def _count(self, job: JobT, more: int) -> None:
        assert self._kinds is not None
        kind = _kind_of(job)
        number, one = self._kinds.get(kind, (0, job))
        if number + more:
            self._kinds[kind] = number + more, one
        else:
            del self._kinds[kind]


def is_ending(job: JobT) -> bool:
    """Whether a waiting job will never start: asked to stop, deleted, too large for every registered node, or behind a
    job that did not succeed."""
    return bool(job.stopping or job.deleted or job.never or job.unmet)


class WaitingLines(Generic[JobT]):
    """The jobs that want a turn, by virtual cluster, and in it those of one priority, and of one user but for those
    that keep their turn, in the order of their age. A pass begins with the lines of the one before: of very many jobs
    few have come or gone. They are the same as new ones."""

    def __init__(self, waiting: Sequence[JobT] = ()) -> None:
        self.of_vc: dict[str, dict[Line, JobsInLine[JobT]]] = {}
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
        grown: dict[int, JobsInLine[JobT]] = {}
        for address in now.keys() - self._known.keys():
            if is_ending(job := now[address]):
                self.ending[job.id] = job
            else:
                line = self.of_vc.setdefault(job.vc, {}).setdefault(_line(job), JobsInLine())
                line.enter(job)
                grown[id(line)] = line
        for line in grown.values():
            line.sort(key=BY_AGE)
        self._seen, self._known = waiting, now

    def _leave(self, job: JobT) -> None:
        if self.ending.get(job.id) is job:
            del self.ending[job.id]
            return
        lines = self.of_vc.get(job.vc, {})
        if (line := lines.get(_line(job))) is not None:
            line.leave(job)
            if not line:
                del lines[_line(job)]
        if not lines:
            self.of_vc.pop(job.vc, None)


def _kind_of(job: JobT) -> _Kind:
    try:
        return id(job.demands), job.guest_evictions, job.is_preemptible, job.most_seconds is None
    except Exception:
        return -id(job), 0, False, False  # one that cannot be read: its turn has the error


def _line(job: JobT) -> Line:
    return -job.priority, not job.keeps_turn, "" if job.keeps_turn else job.share_of


def users_of(lines: Mapping[Line, Sequence[JobT]]) -> set[str]:
    """The users whose shares count."""
    users = {user for _, is_later, user in lines if is_later}
    return users.union(job.share_of for line, jobs in lines.items() if not line[1] for job in jobs)


def in_one(lines: Mapping[Line, Sequence[JobT]]) -> Sequence[JobT]:
    """The jobs of one user, by priority and then by age."""
    if len(lines) == 1:
        return next(iter(lines.values()))
    jobs = [job for line in sorted(lines) for job in lines[line]]
    return sorted(jobs, key=lambda job: (-job.priority, job.since, job.id))


def passed_by(jobs: Sequence[JobT], at: int, is_hopeless: Callable[[JobT], bool], *, by_kind: bool) -> int:
    """The first place from ``at`` on of a job that is not."""
    if at < len(jobs) and not is_hopeless(jobs[at]):
        return at
    if by_kind and isinstance(jobs, JobsInLine) and jobs.is_true_of_all(is_hopeless):
        return len(jobs)
    while at < len(jobs) and is_hopeless(jobs[at]):
        at += 1
    return at


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

    def pass_by(self, is_hopeless: Callable[[JobT], bool], *, by_kind: bool) -> None:
        """Take the next jobs as long as that is true of them. A user's are looked at together, ``by_kind`` where jobs
        of one kind are all or none of them hopeless."""
        while (entry := self._front()) is not None:
            _, _, _, _, _, at, _, _, jobs = entry
            end = passed_by(jobs, at - 1, is_hopeless, by_kind=by_kind)
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
        # By priority and user, of the jobs that do not keep their turn, which are in the order of their age: the ages,
        # and where they are.
        self._by_user: dict[int, dict[str, tuple[list[tuple[str, int]], list[int]]]] = {}

    def ahead(self, job: JobT) -> Sequence[JobT]:
        while job.id not in self._places:
            self._learn(next(self._order))
        return self._known[: self._places[job.id]]

    def came_later(self, job: JobT) -> Iterator[JobT]:
        """Of those ahead, all that are that only because their user has a smaller share, or they are overdue."""
        at, age = len(self.ahead(job)), BY_AGE(job)
        for ages, places in self._by_user.get(job.priority, {}).values():
            yield from (self._known[place] for place in places[bisect_right(ages, age) : bisect_left(places, at)])

    def _learn(self, job: JobT) -> None:
        place = self._places[job.id] = len(self._known)
        self._known.append(job)
        if not job.keeps_turn:
            ages, places = self._by_user.setdefault(job.priority, {}).setdefault(job.share_of, ([], []))
            ages.append(BY_AGE(job))
            places.append(place)
