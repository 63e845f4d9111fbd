"""Whose turn is it, and what keeps the others waiting? Pure; the one place with the rules of the queue.

The planner carries these turns out; the job page, the lists, the submit page and the API print them
(jobs/scheduling/queue.py reads what they need). The next job is always of the virtual cluster that uses the smallest
share of its guarantee, those that stay within theirs before those that borrow. In a virtual cluster jobs start by
priority, then in the order of their submission. The first one without room gets a reservation; behind it others start
beside that room, or on it as guests.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from heapq import heapify, heappop, heapreplace
from itertools import islice
from typing import Generic

from clusters.placement.fit import Blocker, Demand, Placement
from clusters.placement.room import Room
from clusters.placement.shares import Amount, above_ceiling, is_within, rank
from jobs.planning.queue import sentences
from jobs.planning.queue.coming import room_to_come
from jobs.planning.queue.lines import AGE, Line, Queue, in_order
from jobs.planning.queue.reclaim import Holder
from jobs.planning.queue.reservations import Reservation
from jobs.planning.queue.rooms import Rooms
from jobs.planning.queue.scene import Scene, W


class Verdict(StrEnum):
    GO = "go"  # it is placed now
    RESERVE = "reserve"  # it does not fit now; what it needs is kept for it, or its virtual cluster waits for it
    PASS = "pass"  # it does not start now  # noqa: S105 - no password


@dataclass(slots=True)
class Turn(Generic[W]):
    """What happens to one job now, and why.

    ``places`` are those of a job that goes, ``is_guest`` whether they are reserved for another one. ``victims`` are the
    jobs evicted for it, ``awaits`` those that end already. ``held_by`` is the job that starts before it in its virtual
    cluster; ``ceiling`` and ``cap`` name the resources in which the one of its virtual cluster, or that of its user, is
    in the way. ``error`` is what planning it raised.
    """

    job: W
    verdict: Verdict
    queue: Queue[W] = field(repr=False, compare=False)
    places: Sequence[Placement] = ()
    held_by: W | None = None
    error: Exception | None = None
    is_guest: bool = False
    reservation: Reservation[W] | None = None
    victims: Sequence[Holder[W]] = ()
    awaits: bool = False
    ceiling: Sequence[str] = ()
    cap: Sequence[str] = ()

    @property
    def ahead(self) -> Sequence[W]:
        """The jobs before it in the queue of its virtual cluster, first the next one."""
        return self.queue.ahead(self.job)

    @property
    def place(self) -> int:
        """Its place in that queue; 1 is next."""
        return 1 + len(self.ahead)

    @property
    def blockers(self) -> list[Blocker]:
        """Everything that keeps it from starting, most telling first; empty when it goes. Worked out when asked for,
        which a pass never does, from what the turns so far have left of the nodes."""
        if self.verdict is Verdict.GO:
            return []
        rules = self.rules
        if any(blocker.kind == "parked" for blocker in rules):
            return rules
        room = self.queue.short(self.job)
        found = [*(b for b in rules if b.kind != "queue"), *room, *(b for b in rules if b.kind == "queue")]
        return found or [Blocker("gang", "No way was found to put all its tasks on the nodes as they are now.")]

    @property
    def rules(self) -> list[Blocker]:
        """Those of its blockers that are not about room on nodes: little work even for very many jobs."""
        job, queue = self.job, self.queue
        now, vc = queue.scene.now, job.vc
        if self.error is not None or _is_future(job.parked_until, now):
            return [sentences.PARKED]
        found: list[Blocker] = []
        if job.not_before is not None and _is_future(job.not_before, now):
            found.append(sentences.delay(job.not_before, now))
        if job.awaits:
            found += [one.blocker for one in job.awaited]
        if queue.scene.quota(vc).stopped:
            found.append(sentences.stopped(vc))
        if self.victims or self.awaits:
            found.append(sentences.evicting(self.victims))
        if self.ceiling:
            found.append(sentences.ceiling(job, self.ceiling, queue, self.held_by))
        if self.cap:
            found.append(sentences.cap(job, self.cap, queue))
        if self.held_by is not None and not self.ceiling:
            is_kept = any(one.job.id == self.held_by.id for one in queue.kept)
            waits = "" if is_kept else self.held_by.title
            found.append(sentences.queue(len(self.ahead), vc, waits, is_eldest=queue.eldest == self.held_by.id))
        return found


def turns(waiting: Sequence[W], scene: Scene[W], *, only_tried: bool = False) -> Iterator[Turn[W]]:
    """The turn of every waiting job, in the order in which they are decided; a job that goes takes its room from those
    after it.

    ``only_tried`` leaves out the jobs that just wait: thousands in a pass, where nobody asks why they do. Nothing is
    raised for a single bad job: its Turn has the ``error``.
    """
    return _Round(waiting, scene, only_tried).turns()


def _is_future(moment: datetime | None, now: datetime) -> bool:
    return moment is not None and moment > now


class _Round(Generic[W]):
    """One round of turns. The Room only becomes smaller in it, so a shape that found none finds none later."""

    def __init__(self, waiting: Sequence[W], scene: Scene[W], only_tried: bool) -> None:
        self.scene, self.only_tried = scene, only_tried
        self.queue = Queue(in_order(waiting), scene)
        self.lines = self.queue.lines
        for line in self.lines.values():
            line.closed = line.quota.stopped
        self.rooms = Rooms(scene)
        self.kept = self.queue.kept
        self.latest: datetime | None = None  # of the moments at which the room that is kept is likely free
        self.owners = frozenset(node.dedicated_to for node in scene.nodes)
        self.no_room: dict[
            tuple[int, str], Sequence[Demand]
        ] = {}  # with the shape itself, so that its id stays its own
        self.no_room_at_all: dict[tuple[int, str], Sequence[Demand]] = {}  # not even as a guest
        self.too_late: dict[tuple[int, str], datetime] = {}  # the first end with which a guest would stay too long
        self.idle: dict[tuple[int, str], tuple[Sequence[Demand], bool]] = {}

    def turns(self) -> Iterator[Turn[W]]:
        heap = [self._entry(line) for line in self.lines.values()]
        heapify(heap)
        while heap:
            line = heap[0][-1]
            job = line.next
            if job is None or line.closed:
                heappop(heap)
                if not self.only_tried:
                    yield from (self._held(line, each) for each in line.jobs[line.at :])
                continue
            turn = None
            if not (self.only_tried and self._surely_passes(line, job)):
                turn = self._held(line, job) if self._is_delayed(job) else self._turn(line, job)
                if turn is None:
                    heapreplace(heap, self._entry(line))
                    continue
            line.step(self.scene.policy.depth)
            if turn is not None and (turn.verdict is not Verdict.PASS or turn.error is not None or not self.only_tried):
                yield turn
            if len(heap) > 1:
                heapreplace(heap, self._entry(line))

    def _held(self, line: Line[W], job: W) -> Turn[W]:
        return Turn(job, Verdict.PASS, self.queue, held_by=line.holder)

    def _surely_passes(self, line: Line[W], job: W) -> bool:
        """Whether its turn would say what that of another one of its shape has said: most turns of a long queue. In a
        round, nothing comes free."""
        if self._is_delayed(job):
            return True
        try:
            if line.has_limits:
                return id(job.demands) in line.limited
            key = self._shape(job)
        except Exception:
            return False  # its turn has the error
        has_none = key in self.no_room and (not self.kept or key in self.no_room_at_all)
        return has_none and line.holder is not None

    def _is_delayed(self, job: W) -> bool:
        until, parked, now = job.not_before, job.parked_until, self.scene.now
        return job.awaits > 0 or (until is not None and until > now) or (parked is not None and parked > now)

    def _entry(self, line: Line[W]) -> tuple[tuple[bool, float], tuple[str, int], str, Line[W]]:
        """Sorts virtual clusters by whose turn it is; where they are equal, by whose next job has waited longer."""
        job = line.next
        if job is None or line.closed:
            return (False, 0.0), ("", 0) if job is None else (job.since, job.id), line.vc, line
        return self._rank(line, job), (job.since, job.id), line.vc, line

    def _rank(self, line: Line[W], job: W) -> tuple[bool, float]:
        """Those whose next job stays within the guarantee first, then by share. A job that cannot start whatever comes
        free is passed at once: it would hide from its virtual cluster's right those behind it."""
        if len(self.lines) == 1 or self._is_delayed(job):
            return False, 0.0
        try:
            demands = job.demands
            found = line.ranks.get(id(demands))
            if found is None:
                found = line.ranks[id(demands)] = rank(line.use, self._asked(job), line.quota)
            return (False, 0.0) if found[0] and self._passes(line, job) else found
        except Exception:
            return False, 0.0  # its turn has the error

    def _passes(self, line: Line[W], job: W) -> bool:
        """Whether a ceiling, a cap or the size of the offered nodes keeps it from starting."""
        if line.has_limits and (id(job.demands) in line.limited or self._limited(line, job) is not None):
            return True
        return not self._could_hold(self._shape(job), job)

    def _shape(self, job: W) -> tuple[int, str]:
        """The same for jobs that fit on the same nodes."""
        return id(job.demands), job.vc if job.vc in self.owners else ""

    def _turn(self, line: Line[W], job: W) -> Turn[W] | None:
        try:
            return self._try(line, job)
        except Exception as error:
            return Turn(job, Verdict.PASS, self.queue, error=error)

    def _try(self, line: Line[W], job: W) -> Turn[W] | None:
        """Its turn, or None where it turns out to borrow: those that do not borrow come first."""
        demands = job.demands
        if line.has_limits and (limited := self._limited(line, job)) is not None:
            return limited
        if line.uses_up_what_comes_back(self._asked(job)):
            return Turn(job, Verdict.PASS, self.queue, held_by=line.holder)
        key = self._shape(job)
        if key not in self.no_room:
            places, above = self._place(line, job, self.rooms.left)
            if places is not None:
                if not line.borrows_after_all(job, places):
                    return self._go(line, job, places)
                self.rooms.left.give_back(demands, places)
                within = self._place_within(line, job)
                return self._go(line, job, within) if within is not None else None
            if above:
                return self._at_ceiling(line, job, above)
            self.no_room[key] = demands
        if self.kept and key not in self.no_room_at_all and (end := self._end_of_guest(key, job)) is not None:
            places = self._place(line, job, self.rooms.whole)[0]
            if places is None:
                self.no_room_at_all[key] = demands
            elif self._leaves_in_time(job, places, end):
                return self._go(line, job, places, is_guest=True)
            else:
                self.rooms.whole.give_back(demands, places)
                self.too_late[key] = min(end, self.too_late.get(key, end))
        if line.holder is not None:
            return Turn(job, Verdict.PASS, self.queue, held_by=line.holder)
        return self._wait(line, job) if self._could_hold(key, job) else Turn(job, Verdict.PASS, self.queue)

    def _go(self, line: Line[W], job: W, places: Sequence[Placement], *, is_guest: bool = False) -> Turn[W]:
        self.queue.taken.append((job, places))
        self.rooms.take(job.demands, places, is_guest=is_guest)
        if line.counts:
            line.take(job, self.queue.amount(job, places))
        return Turn(job, Verdict.GO, self.queue, places, is_guest=is_guest)

    # --- ceilings and caps -------------------------------------------------------------------------------------------

    def _asked(self, job: W) -> Amount:
        return self.queue.asked(job.demands)

    def _limited(self, line: Line[W], job: W) -> Turn[W] | None:
        """Its turn when a ceiling or a cap is in the way: those pass that do not need what it waits for."""
        wants = self._asked(job)
        if held := [what for what, holder in line.at_ceiling.items() if wants.get(what)]:
            line.limited.add(id(job.demands))
            return Turn(job, Verdict.PASS, self.queue, held_by=line.at_ceiling[held[0]], ceiling=held)
        if above := above_ceiling(line.use, wants, line.quota):
            if not above_ceiling({}, wants, line.quota):  # else it waits for another ceiling, not for others to end
                line.wait_for_ceiling(job, above)
            line.limited.add(id(job.demands))
            return Turn(job, Verdict.PASS, self.queue, ceiling=above)
        if line.has_caps and (capped := line.capped(job, wants)):
            return Turn(job, Verdict.PASS, self.queue, cap=capped)
        return None

    def _place(self, line: Line[W], job: W, room: Room) -> tuple[Sequence[Placement] | None, list[str]]:
        """Places that keep the ceiling, also where the types of GPUs have ceilings of their own and the job leaves the
        type open; and, where there are none for that reason, the resources above it."""
        above: list[str] = []
        for demands in (job.demands, *self.queue.typed(job.demands, line.quota.ceiling)):
            places = room.place(demands, job.id, job.avoid, job.vc)
            if places is None:
                continue
            over = above_ceiling(line.use, self.queue.amount(job, places), line.quota) if line.quota.ceiling else []
            if not over:
                return places, []
            above = above or over
            room.give_back(demands, places)
        return None, above

    def _place_within(self, line: Line[W], job: W) -> Sequence[Placement] | None:
        """Places with GPUs of a type of which it stays within the guarantee, for a job that leaves the type open."""
        for demands in self.queue.typed(job.demands, line.quota.guarantee):
            places = self.rooms.left.place(demands, job.id, job.avoid, job.vc)
            if places is not None:
                if line.keeps(job, places):
                    return places
                self.rooms.left.give_back(demands, places)
        return None

    def _at_ceiling(self, line: Line[W], job: W, above: Sequence[str]) -> Turn[W]:
        """The turn of one that finds room only above its ceiling."""
        if self._could_be_below(line, job):
            line.wait_for_ceiling(job, [*above, "gpu"])
        return Turn(job, Verdict.PASS, self.queue, ceiling=above)

    def _could_be_below(self, line: Line[W], job: W) -> bool:
        """Whether its places could keep the ceiling if nothing ran."""
        room = self.rooms.empty
        for demands in (job.demands, *self.queue.typed(job.demands, line.quota.ceiling)):
            places = room.place(demands, vc=job.vc)
            if places is not None:
                room.give_back(demands, places)
                if not above_ceiling({}, self.queue.amount(job, places), line.quota):
                    return True
        return False

    # --- reservations, guests, evictions -----------------------------------------------------------------------------

    def _wait(self, line: Line[W], job: W) -> Turn[W]:
        """The first job of its virtual cluster without room: the room it gets next is kept for it. Where no more can be
        kept, those behind it start beside what is kept for others, unless it has waited longest of all: as its virtual
        cluster then comes to use less than the others, its turn comes before theirs."""
        is_full = len(self.kept) >= self.scene.policy.reservations
        coming, above = (None, ()) if is_full else room_to_come(line, job, self.rooms.untouched)
        if coming is None and above:
            return self._at_ceiling(line, job, above)
        line.holder = job
        if coming is None:
            line.closed = job.id == self._eldest()
            return Turn(job, Verdict.RESERVE, self.queue)
        self.queue.evict(coming.victims)
        if (coming.victims or coming.awaits) and is_within(line.use, self._asked(job), line.quota):
            line.gets_back = self._asked(job)
        kept = Reservation(job, coming.demands, coming.nodes, coming.moment)
        self.kept.append(kept)
        if kept.moment is not None:
            self.latest = max(kept.moment, self.latest or kept.moment)
        self.rooms.left.set_aside(kept.demands, kept.nodes)
        victims, awaits = coming.victims, coming.awaits
        return Turn(job, Verdict.RESERVE, self.queue, reservation=kept, victims=victims, awaits=awaits)

    def _eldest(self) -> int:
        """Of the jobs that are next in their virtual clusters, the one that has waited longest."""
        if self.queue.eldest is None:
            firsts = [job for line in self.lines.values() if (job := self._first(line)) is not None]
            self.queue.eldest = min(firsts, key=AGE).id
        return self.queue.eldest

    def _first(self, line: Line[W]) -> W | None:
        """The first one without room or, where none has turned out to be, the next that could start at all."""
        if line.holder is not None or line.closed:
            return line.holder
        return next((job for job in islice(line.jobs, line.at, None) if not self._is_out(line, job)), None)

    def _is_out(self, line: Line[W], job: W) -> bool:
        """Whether it does not start whatever comes free."""
        try:
            return self._is_delayed(job) or self._passes(line, job)
        except Exception:
            return True

    def _end_of_guest(self, key: tuple[int, str], job: W) -> datetime | None:
        """When it leaves the room of others at the latest; None for one that cannot be a guest."""
        if job.guest_evictions >= self.scene.policy.guest_evictions:
            return None
        if job.is_preemptible:
            return self.scene.about  # its owner agreed that it leaves at any moment
        end = self.scene.likely_end(job)
        if end is None or (key in self.too_late and end >= self.too_late[key]):
            return None
        return end if self.latest is not None and end <= self.latest else None

    def _leaves_in_time(self, job: W, places: Sequence[Placement], end: datetime) -> bool:
        """Whether it likely leaves before the room on its nodes is free for those for whom that is kept; if it does
        not, it is evicted then. Where the room comes at this very moment, a guest would only hold that up."""
        nodes = {place.node for place in places}
        moments = [kept.moment for kept in self.kept if not nodes.isdisjoint(kept.nodes)]
        if any(moment is not None and moment <= self.scene.about for moment in moments):
            return False
        return job.is_preemptible or all(moment is not None and end <= moment for moment in moments)

    def _could_hold(self, key: tuple[int, str], job: W) -> bool:
        """Could the offered nodes, if nothing ran on them, hold the job?"""
        if key not in self.idle:
            places = self.rooms.empty.place(job.demands, vc=job.vc)
            if places is not None:
                self.rooms.empty.give_back(job.demands, places)
            self.idle[key] = job.demands, places is not None
        return self.idle[key][1]
