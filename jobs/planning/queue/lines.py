"""The queue of each virtual cluster during one round of turns, and what is asked about it afterwards. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import cached_property
from itertools import islice
from math import inf
from operator import itemgetter
from typing import Generic

from clusters.placement.fit import Blocker, Demand, NodeView, Placement, with_tasks
from clusters.placement.free import FreeNodes
from clusters.placement.never import never_fits
from clusters.placement.shares import Amount, Hold, above_ceiling, add, asked, exceeded, is_within, plus, rank, taken
from jobs.planning.queue.free import Shape
from jobs.planning.queue.idling.rule import Idling
from jobs.planning.queue.reservations import Reservation
from jobs.planning.queue.scene import JobT, Runner, Scene, SchedulableJob
from jobs.planning.queue.sentences import beside_reservations, missing
from jobs.planning.queue.users.shares import UserShares
from jobs.planning.queue.users.waiting_lines import (
    BY_AGE,
    Line,
    PlacesInLine,
    UserLines,
    WaitingLines,
    in_one,
    is_ending,
    users_of,
)


def in_order(waiting: Sequence[JobT]) -> list[JobT]:
    """Return the jobs that want a turn, by priority, then in the order of submission."""
    jobs = sorted((job for job in waiting if not is_ending(job)), key=BY_AGE)
    if any(job.priority for job in jobs):
        jobs.sort(key=lambda job: -job.priority)
    return jobs


def places(jobs: list[JobT], scene: Scene[JobT]) -> dict[int, int]:
    """The place of each of these jobs, which are in order, in the queue of its virtual cluster."""
    return {job.id: at for line in Queue(jobs, scene).lines.values() for at, job in enumerate(line.order())}


class VcQueue(Generic[JobT]):
    """The waiting jobs of one virtual cluster in their order, and what the cluster uses, with the jobs that have had
    their turn. Where they are of several users, whose is next is found out when it comes to that: ``jobs`` has that one
    alone then, and ``lines`` the others."""

    def __init__(self, vc: str, lines: Mapping[Line, Sequence[JobT]], queue: Queue[JobT]) -> None:
        self.vc, self.queue = vc, queue
        self.at = 0  # of the job whose turn is next
        self.quota = quota = queue.scene.quota(vc)
        self.lines = self._lines(lines) if len(users_of(lines)) > 1 else None
        self.jobs = [] if self.lines else in_one(lines)
        self._before = self.lines and self.lines.copy(self.lines.shares.copy())  # as it is before the first turn
        self.has_caps = quota.user_gpus is not None or quota.user_jobs is not None
        self.has_limits = bool(quota.ceiling) or self.has_caps
        self.use: dict[str, float] = dict(queue.scene.use.get(vc, {}))
        self.first_blocked: JobT | None = None  # its first job without room
        self.reclaimed: Amount = {}  # what others leave to that job: those behind it do not use up its right to it
        # For jobs beyond the guarantee: who uses room within theirs, what is left beside those, and the shapes to which
        # that is not enough.
        self.owners: Sequence[str] = ()
        self.leave: FreeNodes | None = None
        self.hindered: set[Shape] = set()
        # Shapes that take nothing of what is gathered for others: beyond the guarantee, or without room there.
        self.takes_nothing_gathered: set[Shape] = set()
        self.closed = False  # nothing behind that one starts
        self.ranks: dict[int, tuple[bool, float]] = {}  # by shape of the next job, while the use stays as it is
        self.at_ceiling: dict[str, JobT] = {}  # by resource: who waits there for the ceiling
        self.below_at: dict[int, datetime | None] = {}  # by the job that waits for it: when that one likely gets below
        self.kept_below: Amount = {}  # what the first blocked job takes: with that the others stay below the ceiling
        self.behind_ceiling: set[int] = set()  # shapes that would be below it, and only wait behind another job
        self.limited: set[int] = set()  # shapes that the ceiling is in the way of, whatever starts in this round
        # (shape, user): those that no limit is in the way of as things are, and those at a cap whatever starts
        self.unlimited: set[tuple[int, str]] = set()
        self.at_cap: set[tuple[int, str]] = set()
        self.missed = 0  # shapes that found no room
        self.guests = 0  # jobs that were asked whether they could be guests, which takes work for each of them
        self._of_user: dict[str, dict[str, float]] | None = None
        self._waits_for_cap: dict[str, set[str]] = {}

    @property
    def next(self) -> JobT | None:
        if self.at < len(self.jobs):
            return self.jobs[self.at]
        if self.lines is None or (job := self.lines.take()) is None:
            return None
        self.jobs, self.at = [job], 0
        return job

    def coming(self) -> Iterator[JobT]:
        """The next jobs, as far as is known now."""
        yield from islice(self.jobs, self.at, None)
        if self.lines is not None:
            yield from self.lines.copy(self.lines.shares)

    def ahead(self, job: JobT) -> Sequence[JobT]:
        """The jobs before it; where they are of several users, as they start if each gets what it asks for."""
        return self._places.ahead(job)

    @cached_property
    def _places(self) -> PlacesInLine[JobT]:
        return PlacesInLine(self.order())

    def order(self) -> Iterable[JobT]:
        """All its jobs in that order, before the first has had its turn."""
        return self.jobs if self._before is None else self._before.foreseen(self._asks)

    def _asks(self, job: JobT) -> Amount:
        if self.quota.stopped or job.is_delayed(self.queue.scene.now):
            return {}
        try:
            return self.queue.asked(job.demands)
        except Exception:
            return {}  # its turn has the error

    def _lines(self, lines: Mapping[Line, Sequence[JobT]]) -> UserLines[JobT]:
        scene, quota, running = self.queue.scene, self.quota, self.queue.runners_of.get(self.vc, ())
        shares = UserShares.parts_of(quota.guarantee, scene.nodes)
        shares.add_all(running, scene.past(), self.vc, scene.rounded_now, quota.half_life, scene.clock_ahead)
        return UserLines(lines, shares)

    @property
    def waits(self) -> bool:
        """Whether one of its jobs without room has had its turn."""
        return self.first_blocked is not None or bool(self.hindered)

    @property
    def tracks_use(self) -> bool:
        """Whether the use of this virtual cluster is added up: only where it has limits, or there are others to compare
        it with."""
        several = len(self.queue.scene.quotas) > 1 or len(self.queue.lines) > 1
        return self.has_limits or several or self.lines is not None

    def step(self, depth: int) -> None:
        """Go on to the next job. Behind one without room only so many shapes find out that they have none either: so
        many jobs of one shape hide nobody."""
        self.at += 1
        self.closed = self.closed or (self.missed > depth and self.waits)

    def borrows_after_all(self, job: JobT, placements: Sequence[Placement]) -> bool:
        """Whether a job that left the type of its GPUs open, and therefore counts as within, gets so many of one type
        that the virtual cluster has more of that than its guarantee. If it went first it would take back the room from
        which it was evicted for that reason, and be evicted again."""
        rank = self.ranks.get(id(job.demands))
        if rank is None or rank[0] or not self.queue.types_differ:
            return False
        if is_within(self.use, self.queue.amount(job, placements), self.quota):
            return False
        self.ranks[id(job.demands)] = True, rank[1]
        return True

    def stays_within_limits(self, job: JobT, placements: Sequence[Placement], use: Amount | None = None) -> bool:
        """Whether the virtual cluster stays within its guarantee and below its ceiling with the job at these places;
        ``use`` is what it uses then besides, if not what it does."""
        amount, use = self.queue.amount(job, placements), self.use if use is None else use
        return is_within(use, amount, self.quota) and not above_ceiling(use, amount, self.quota)

    def lapsed(self, job: JobT) -> Idling | None:
        """The reservation of its virtual cluster where that has lapsed, for a job that is beyond the guarantee."""
        known = self.queue.scene.idlings.get(self.vc)
        lapse = known.lapsed(self.queue.scene.rounded_now) if known is not None else None
        return None if lapse is None or is_within(self.use, self.queue.asked(job.demands), self.quota) else lapse

    def exceeds_with_reclaimed(self, asked: Amount) -> bool:
        """Whether a job that asks for this would exceed the guarantee together with the first blocked job, for which
        others are evicted. That job would have no right to the room any more when it is free."""
        return bool(self.reclaimed) and not is_within(plus(self.use, self.reclaimed), asked, self.quota)

    def rests(self, job: JobT) -> bool:
        """Whether the job would borrow too soon after jobs of its user were evicted for that, or before the one for
        which they are has started."""
        scene = self.queue.scene
        until = job.rests_until(scene.rests)
        if (until is None or until <= scene.now) and job.username not in self.queue.displaced:
            return False
        return not is_within(self.use, self.queue.asked(job.demands), self.quota)

    def kind(self, job: JobT) -> tuple[int, str]:
        """The same for jobs that the limits treat alike."""
        return id(job.demands), job.username if self.has_caps else ""

    def is_limited(self, job: JobT) -> bool | None:
        """Whether a limit is in the way of jobs like this one; None where that is still to be found out."""
        if not self.has_limits or (kind := self.kind(job)) in self.unlimited:
            return False
        return True if kind[0] in self.limited or kind in self.at_cap else None

    def wait_for_ceiling(self, job: JobT, what: Iterable[str]) -> None:
        """Note that later jobs which need one of these resources wait behind this job."""
        for each in what:
            self.at_ceiling.setdefault(each, job)
        self.unlimited.clear()

    def take(self, job: JobT, amount: Amount) -> None:
        add(self.use, amount)
        if self.lines is not None:
            self.lines.shares.start(job.username, amount)
        self.ranks.clear()
        self.unlimited.clear()
        if self.has_caps:
            add(self._user(job.username), {"gpu": amount.get("gpu", 0), "jobs": 1})

    def came_later(self, job: JobT) -> list[bool]:
        """Of those ahead, all that came later: whether as they had waited for too long, or have a smaller share."""
        overdue = self._before.overdue if self._before else set[int]()  # else they are of one user, and none did
        return [other.id in overdue for other in self._places.came_later(job)]

    def capped(self, job: JobT, wants: Amount) -> list[str]:
        """Return in what the cap of its user is in the way: "gpu", "jobs". The user's next jobs wait behind it."""
        quota, waits = self.quota, self._waits_for_cap.setdefault(job.username, set())
        caps = {"gpu": quota.user_gpus, "jobs": quota.user_jobs}
        limit = {what: float(most) for what, most in caps.items() if most is not None}
        mine = {"gpu": wants.get("gpu", 0), "jobs": 1.0}
        above = exceeded(self._user(job.username), mine, limit)
        if above and not exceeded({}, mine, limit):
            waits.update(above)
            self.unlimited.clear()
        return above or [what for what in sorted(waits) if mine[what]]

    def _user(self, username: str) -> dict[str, float]:
        if self._of_user is None:
            self._of_user = {}
            for runner in self.queue.runners_of.get(self.vc, ()):
                add(self._of_user.setdefault(runner.job.username, {}), {"gpu": runner.gpus, "jobs": 1})
        return self._of_user.setdefault(username, {})


class Queue(Generic[JobT]):
    """All waiting jobs and the Scene of one round of turns, for those who ask why a turn is as it is."""

    def __init__(self, jobs: Sequence[JobT], scene: Scene[JobT], lines: WaitingLines[JobT] | None = None) -> None:
        """``lines`` are those of the jobs, where they are known."""
        self.jobs, self.scene = jobs, scene
        of_vc = (lines or WaitingLines(jobs)).of_vc
        self.lines: dict[str, VcQueue[JobT]] = {}
        self.lines |= {vc: VcQueue(vc, of_vc[vc], self) for vc in sorted(of_vc)}
        self.taken: list[tuple[JobT, Sequence[Placement]]] = []  # by the turns so far
        self.reservations: list[Reservation[JobT]] = []
        self.missed: list[JobT] = []  # of each shape that found no room, one
        self.evicted: set[int] = set()  # jobs that make room for one of the turns so far
        self.displaced: dict[str, JobT] = {}  # by user of whom borrowers do, or have: that one
        self.eldest: int | None = None  # the job that has waited longest of all, where none could have a reservation
        self._short: dict[tuple[object, ...], tuple[Sequence[Demand], list[Blocker]]] = {}
        self._beside: dict[tuple[object, ...], list[Blocker]] = {}
        self._asked: dict[int, tuple[Sequence[Demand], Amount]] = {}
        self._amount: tuple[Sequence[Placement], Amount] = (), {}

    def displace(self, owner: JobT) -> None:
        """Note that borrowers leave for this job. Their users borrow nothing meanwhile: what it leaves over of their
        places would be taken back from them by the next one."""
        for username in owner.displaced or ():
            self.displaced.setdefault(username, owner)

    def ahead(self, job: JobT) -> Sequence[JobT]:
        return self.lines[job.vc].ahead(job)

    @cached_property
    def runners_of(self) -> Mapping[str, Sequence[Runner[JobT]]]:
        """The running jobs of each virtual cluster that hold something."""
        found: dict[str, list[Runner[JobT]]] = {}
        for runner in self.runners:
            found.setdefault(runner.job.vc, []).append(runner)
        return found

    @property
    def somebody_moves(self) -> bool:
        """Whether some running job ends, is a guest or is to be evicted: else its room is not asked for."""
        return bool(self.evicted) or self._somebody_moves

    @cached_property
    def _somebody_moves(self) -> bool:
        return self.looks and any(runner.job.is_ending or runner.job.is_guest for runner in self.scene.running())

    @cached_property
    def ends(self) -> Mapping[str, list[tuple[datetime, Hold]]]:
        """The holds that end on each node, with the known or likely moment, the first end first."""
        ends: dict[str, list[tuple[datetime, Hold]]] = {}
        for runner in self.scene.running() if self.looks else ():
            end = self.scene.likely_end(runner.job)
            for hold in runner.holds if end is not None else ():
                ends.setdefault(hold.node, []).append((end or self.scene.rounded_now, hold))
        return {name: sorted(each, key=itemgetter(0)) for name, each in ends.items()}

    @property
    def looks(self) -> bool:
        """Whether running jobs need be looked at."""
        return self.scene.changes_by_itself is not False or bool(self.scene.lengths())

    @cached_property
    def runners(self) -> list[Runner[JobT]]:
        """The running jobs that hold something."""
        return [runner for runner in self.scene.running() if runner.holds]

    def asked(self, demands: Sequence[Demand]) -> Amount:
        if id(demands) not in self._asked:
            self._asked[id(demands)] = demands, asked(demands)
        return self._asked[id(demands)][1]

    @cached_property
    def gpu_kinds(self) -> Sequence[str]:
        """The types of GPUs, the least wanted first."""
        kinds = {kind for node in self.scene.nodes for _, kind in node.gpus if kind}
        return sorted(kinds, key=lambda kind: (self.scene.wanted.get(kind, 0.0), kind))

    def amount(self, job: JobT, placements: Sequence[Placement]) -> Mapping[str, float]:
        """Add up what the job takes at these places, about which several questions in a row are asked."""
        if self._amount[0] is not placements:
            self._amount = placements, taken(job.demands, placements, self.scene.gpu_types)
        return self._amount[1]

    def most(self, demands: Sequence[Demand], nodes: Sequence[str]) -> Amount:
        """Add up the most that a job takes on these nodes, one for each demand; of each type of GPUs as many as it may
        get there."""
        most = dict(asked(demands))
        for demand, name in zip(demands, nodes, strict=True):
            kinds = Counter(self.scene.gpu_types[name].values()) if demand.gpus and not demand.gpu_type else {}
            add(most, {f"gpu:{kind}": min(demand.gpus, number) for kind, number in kinds.items() if kind})
        return most

    @cached_property
    def types_differ(self) -> bool:
        return len({kind for node in self.scene.nodes for _, kind in node.gpus}) > 1

    def typed(self, demands: Sequence[Demand], limits: Amount, use: Amount) -> Iterator[tuple[Demand, ...]]:
        """Yield the demands with GPUs of one type each, where the type is open and types have limits; at last with
        several types, the least wanted first, as far as the limits have room beside this ``use``."""
        is_open = any(each.gpus and not each.gpu_type for each in demands)
        if is_open and any(what.startswith("gpu:") for what in limits):
            for kind in self.gpu_kinds:
                yield tuple(replace(each, gpu_type=each.gpu_type or kind) for each in demands)
            if len(demands) > 1:
                yield from self._mixed(demands, limits, use)

    def _mixed(self, demands: Sequence[Demand], limits: Amount, use: Amount) -> Iterator[tuple[Demand, ...]]:
        room = {kind: limits.get(f"gpu:{kind}", inf) - use.get(f"gpu:{kind}", 0.0) for kind in self.gpu_kinds}
        for each in demands:
            if each.gpu_type in room:
                room[each.gpu_type] -= each.gpus
        kinds: list[str] = []
        for each in demands:
            kind = each.gpu_type
            if each.gpus and not kind:
                if (kind := next((kind for kind, gpus in room.items() if gpus >= each.gpus), "")) == "":
                    return
                room[kind] -= each.gpus
            kinds.append(kind)
        yield tuple(replace(each, gpu_type=kind) for each, kind in zip(demands, kinds, strict=True))

    def returns_before(self, guest: Runner[JobT], job: JobT) -> bool:
        """Whether a guest, evicted for this job, would have its turn before it: the eviction would be in vain."""
        vc, held = guest.job.vc, self.scene.amount(guest.holds)
        if vc == job.vc:  # this job keeps its turn: of another user's only those of a higher priority pass it
            is_own = guest.job.username == job.username
            return _key(guest.job) < _key(job) if is_own else guest.job.priority > job.priority
        use = dict(self.lines[vc].use if vc in self.lines else self.scene.use.get(vc, {}))
        add(use, held, -1)
        mine = self.lines[job.vc]
        theirs = rank(use, held, self.scene.quota(vc)), guest.job.since, guest.job.id
        return theirs < (rank(mine.use, self.asked(job.demands), mine.quota), job.since, job.id)

    def short(self, job: JobT) -> list[Blocker]:
        """Say what is missing on the nodes for jobs of this shape; the same for all virtual clusters without own
        nodes."""
        demands, vc = job.demands, job.vc
        off = self.scene.appointed.withheld(job)
        key: tuple[object, ...] = id(demands), vc if vc in self._owners or off else "", len(self.taken), off
        if key not in self._short:
            never = never_fits([node for node in self.scene.nodes if node.serves(vc)], demands)
            self._short[key] = demands, [never] if never else missing(job, self.scene, self.left())
        if self._short[key][1]:
            return self._short[key][1]
        key = id(demands), vc, len(self.taken), off
        if key not in self._beside:
            self._beside[key] = beside_reservations(job, self.scene, self.left(), self.reservations)
        return self._beside[key]

    @cached_property
    def _owners(self) -> frozenset[str]:
        return frozenset(node.dedicated_to for node in self.scene.nodes)

    def left(self) -> list[NodeView]:
        """The nodes after the turns so far have taken their places."""
        taken: dict[str, list[tuple[Demand, Placement]]] = {}
        for job, placements in self.taken:
            for demand, place in zip(job.demands, placements, strict=True):
                taken.setdefault(place.node, []).append((demand, place))
        return [with_tasks(node, taken[node.name]) if node.name in taken else node for node in self.scene.nodes]


def _key(job: SchedulableJob) -> tuple[int, str, int]:
    """Return what the jobs of one user in a virtual cluster are sorted by."""
    return -job.priority, job.since, job.id
