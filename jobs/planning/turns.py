"""Whose turn is it, and what keeps the others waiting? Pure; the one place with the rules of the queue.

The planner carries these turns out; the job page, the lists, the submit page and the API print them
(jobs/waiting/queue.py reads what they need). The next job is always of the virtual cluster that uses the smallest
share of its guarantee, those that stay within theirs before those that borrow. In a virtual cluster jobs start by
priority, then those that are overdue, then those of the user with the smallest share, then by age
(jobs/planning/queue/users/shares.py). The first one without room gets a reservation and keeps its turn; behind it
others start beside that room, or on it as guests.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from heapq import heapify, heappop, heapreplace
from typing import Generic

from clusters.placement.fit import Blocker, Placement
from clusters.placement.free import FreeNodes
from clusters.placement.shares import above_ceiling, is_within, rank
from jobs.planning.queue import limits, places
from jobs.planning.queue.free import FreeInRound
from jobs.planning.queue.idling.rule import Idling
from jobs.planning.queue.lines import Queue, VcQueue
from jobs.planning.queue.next_capacity import NextCapacity, owners_in_the_way, room_to_come
from jobs.planning.queue.places import ShapesWithoutRoom, could_be_below, place, place_as_owner, place_within
from jobs.planning.queue.reservations import Reservation, end_of_guest, leaves_in_time
from jobs.planning.queue.scene import JobT, Runner, Scene, as_owner
from jobs.planning.queue.users.waiting_lines import BY_AGE


class Move(StrEnum):
    GO = "go"  # it is placed now
    RESERVE = "reserve"  # it does not fit now; what it needs is reserved for it, or its virtual cluster waits for it
    SKIP = "skip"  # it does not start now


@dataclass(slots=True)
class Turn(Generic[JobT]):
    """What happens to one job now, and why.

    ``placements`` are those of a job that goes, ``is_guest`` whether they are reserved for another one. ``victims`` are
    the jobs evicted for it, ``awaits`` those that end already. ``behind`` is the job that starts before it in its
    virtual cluster; ``ceiling`` and ``cap`` name the resources in which the one of its virtual cluster, or that of its
    user, is in the way; ``owners`` are virtual clusters within whose guarantees its room is used, so that none is kept
    for it; ``lapse`` is what was kept and has lapsed; ``keeps``: its turn, from now on. ``error``: of its planning.
    """

    job: JobT
    move: Move
    queue: Queue[JobT] = field(repr=False, compare=False)
    placements: Sequence[Placement] = ()
    behind: JobT | None = None
    error: Exception | None = None
    is_guest: bool = False
    reservation: Reservation[JobT] | None = None
    victims: Sequence[Runner[JobT]] = ()
    awaits: bool = False
    ceiling: Sequence[str] = ()
    cap: Sequence[str] = ()
    owners: Sequence[str] = ()
    lapse: Idling | None = None
    keeps: bool = False

    @property
    def ahead(self) -> Sequence[JobT]:
        """The jobs before it in the queue of its virtual cluster, first the next one."""
        ahead, behind = self.queue.ahead(self.job), self.behind
        return ahead or ([behind] if behind is not None and behind.id != self.job.id else ahead)

    @property
    def position(self) -> int:
        """The rank of the job in its queue; 1 is next."""
        return 1 + len(self.ahead)

    @property
    def blockers(self) -> list[Blocker]:
        """Everything that keeps the job from starting, most telling first; empty when it goes. Worked out when asked
        for, which a pass never does, from what the turns so far have left of the nodes."""
        if self.move is Move.GO:
            return []
        rules = self.rules
        if any(blocker.kind == "parked" for blocker in rules):
            return rules
        short = self.queue.short(self.job)
        reasons = [*(b for b in rules if b.kind != "queue"), *short, *(b for b in rules if b.kind == "queue")]
        return reasons or [Blocker("gang", "No way was found to put all its tasks on the nodes as they are now.")]

    @property
    def rules(self) -> list[Blocker]:
        """Its blockers that are not about room on nodes: little work even for very many jobs."""
        return limits.rules(self)


def turns(waiting: Sequence[JobT], scene: Scene[JobT], *, only_tried: bool = False) -> Iterator[Turn[JobT]]:
    """The turn of every waiting job, in the order in which they are decided; a job that goes takes its room from those
    after it. ``only_tried`` leaves out the jobs that just wait: thousands in a pass, where nobody asks why they do.
    Nothing is raised for a single bad job: its Turn has the ``error``."""
    return turns_in(Queue(waiting, scene), only_tried=only_tried)


def turns_in(queue: Queue[JobT], *, only_tried: bool) -> Iterator[Turn[JobT]]:
    """The turns of this queue, which has had none yet."""
    return _Round(queue, only_tried).turns() if queue.lines else iter(())


class _Round(Generic[JobT]):
    """One round of turns."""

    def __init__(self, queue: Queue[JobT], only_tried: bool) -> None:
        self.queue, self.scene, self.lines, self.only_tried = queue, queue.scene, queue.lines, only_tried
        for line in self.lines.values():
            line.closed = line.quota.stopped
        self.free, self.reservations = FreeInRound(self.scene), queue.reservations
        self.latest: datetime | None = None  # of the moments at which the reserved room is likely free
        self.no_room = ShapesWithoutRoom(queue, self.free)

    def turns(self) -> Iterator[Turn[JobT]]:
        heap = [self._entry(line) for line in self.lines.values()]
        heapify(heap)
        while heap:
            line = heap[0][-1]
            job = line.next
            if job is None or line.closed:
                heappop(heap)
                if not self.only_tried:
                    yield from (self._skipped(line, each) for each in line.coming())
                continue
            turn = None
            if not (self.only_tried and self._is_surely_skipped(line, job)):
                turn = self._skipped(line, job) if job.is_delayed(self.scene.now) else self._turn(line, job)
                if turn is None:
                    heapreplace(heap, self._entry(line))
                    continue
            line.step(self.scene.policy.depth)
            if self.only_tried:
                self.no_room.pass_by(line)
            if turn and (not self.only_tried or turn.move is not Move.SKIP or turn.error or turn.lapse or turn.keeps):
                yield turn
            if len(heap) > 1:
                heapreplace(heap, self._entry(line))

    def _skipped(self, line: VcQueue[JobT], job: JobT) -> Turn[JobT]:
        return Turn(job, Move.SKIP, self.queue, behind=line.first_blocked)

    def _is_surely_skipped(self, line: VcQueue[JobT], job: JobT) -> bool:
        """Whether its turn would say what that of another one of its shape has said: nothing comes free in a round."""
        if job.is_delayed(self.scene.now):
            return True
        try:
            limited = line.is_limited(job)
            if limited:
                return job.id not in line.below_at and not self._may_go_before(line, job)
            return limited is False and self.no_room.is_hopeless(line, job)
        except Exception:
            return False  # its turn has the error

    def _entry(self, line: VcQueue[JobT]) -> tuple[tuple[bool, float], tuple[str, int], str, VcQueue[JobT]]:
        """Sorts virtual clusters by whose turn it is; where they are equal, by whose next job has waited longer."""
        job = line.next
        if job is None or line.closed:
            return (False, 0.0), ("", 0) if job is None else (job.since, job.id), line.vc, line
        return self._rank(line, job), (job.since, job.id), line.vc, line

    def _rank(self, line: VcQueue[JobT], job: JobT) -> tuple[bool, float]:
        """Rank those whose next job stays within the guarantee first, then by share. A job that cannot start whatever
        comes free is skipped at once: it would hide from its virtual cluster's right those behind it."""
        if len(self.lines) == 1 or job.is_delayed(self.scene.now):
            return False, 0.0
        try:
            demands = job.demands
            known = line.ranks.get(id(demands))
            if known is None:
                known = line.ranks[id(demands)] = rank(line.use, self.queue.asked(job.demands), line.quota)
            return (False, 0.0) if known[0] and self._cannot_start(line, job) else known
        except Exception:
            return False, 0.0  # its turn has the error

    def _cannot_start(self, line: VcQueue[JobT], job: JobT) -> bool:
        """Whether a ceiling, a cap, a rest or the size of the offered nodes keep it from starting."""
        if line.rests(job):
            return True
        limited = line.is_limited(job)
        is_limited = limited or (limited is None and self._limited(line, job) is not None)
        return (is_limited and not self._may_go_before(line, job)) or not self.free.could_hold(
            self.free.shape(job), job
        )

    def _turn(self, line: VcQueue[JobT], job: JobT) -> Turn[JobT] | None:
        try:
            return self._try(line, job)
        except Exception as error:
            return Turn(job, Move.SKIP, self.queue, error=error)

    def _try(self, line: VcQueue[JobT], job: JobT) -> Turn[JobT] | None:
        """Its turn, or None where it turns out to borrow: those that do not borrow come first."""
        demands = job.demands
        if (limited := self._limited(line, job)) is not None:
            if job.id in line.below_at:
                return self._wait_for_ceiling(line, job, limited)
            return self._go_before(line, job, limited)
        if line.rests(job) or line.exceeds_with_reclaimed(self.queue.asked(job.demands)):
            return self._skipped(line, job)
        key = self.free.shape(job)
        if key not in self.no_room.shapes:
            placements, above = place(line, job, self.free.left)
            if placements is not None:
                if not line.borrows_after_all(job, placements):
                    return self._go(line, job, placements, self.free.left)
                self.free.left.give_back(demands, placements)
                within = place_within(line, job, self.free.left)
                return self._go(line, job, within, self.free.left) if within is not None else None
            if above:
                return self._at_ceiling(line, job, above)
            self.no_room.shapes[key] = demands
            line.missed += 1
            self.queue.missed.append(job)
        if self.free.owned is not None and key not in line.takes_nothing_gathered:
            if gathered := place_as_owner(line, job, self.free):
                return self._go(line, job, *gathered)
            line.takes_nothing_gathered.add(key)
        end = None
        if self.reservations and key not in self.no_room.at_all and self.no_room.is_asked_as_guest(line, job):
            line.guests += 1
            end = end_of_guest(job, self.scene, self.latest, self.no_room.too_late.get(key))
        if end is not None:
            if (placements := place(line, job, self.free.whole)[0]) is None:
                self.no_room.at_all[key] = demands
            elif leaves_in_time(job, placements, end, self.reservations, self.scene.rounded_now):
                return self._go(line, job, placements, self.free.whole, is_guest=True)
            else:
                self.free.whole.give_back(demands, placements)
                self.no_room.too_late[key] = min(end, self.no_room.too_late.get(key, end))
        if line.first_blocked is None and self.free.could_hold(key, job):
            return self._wait(line, job)
        return self._skipped(line, job)

    def _go(
        self, line: VcQueue[JobT], job: JobT, placements: Sequence[Placement], by: FreeNodes, *, is_guest: bool = False
    ) -> Turn[JobT]:
        self.queue.taken.append((job, placements))
        self.queue.displace(job)
        self.free.take(job.demands, placements, by)
        if line.tracks_use:
            line.take(job, self.queue.amount(job, placements))
        return Turn(job, Move.GO, self.queue, placements, is_guest=is_guest)

    # --- ceilings and caps -------------------------------------------------------------------------------------------

    def _limited(self, line: VcQueue[JobT], job: JobT) -> Turn[JobT] | None:
        """Its turn when a ceiling or a cap is in the way; those go on that do not need what it waits for."""
        if line.is_limited(job) is False:
            return None
        wants = self.queue.asked(job.demands)
        if shared := places.shared_ceiling(line, job, wants):
            line.limited.add(id(job.demands))
            if not above_ceiling(line.use, wants, line.quota):
                line.behind_ceiling.add(id(job.demands))
            return Turn(job, Move.SKIP, self.queue, behind=places.first_at_ceiling(line, shared[0]), ceiling=shared)
        if above := above_ceiling(line.use, wants, line.quota):
            if not above_ceiling({}, wants, line.quota):  # else it waits for another ceiling, not for others to end
                line.wait_for_ceiling(job, above)
                line.below_at.setdefault(job.id, places.below_at(line, job))
            line.limited.add(id(job.demands))
            return Turn(job, Move.SKIP, self.queue, ceiling=above, keeps=job.id in line.below_at)
        if line.has_caps and (capped := line.capped(job, wants)):
            line.at_cap.add(line.kind(job))
            return Turn(job, Move.SKIP, self.queue, cap=capped)
        line.unlimited.add(line.kind(job))
        return None

    def _wait_for_ceiling(self, line: VcQueue[JobT], job: JobT, limited: Turn[JobT]) -> Turn[JobT]:
        """The turn of one that waits for the ceiling. Where guests of its virtual cluster alone are in the way, they
        leave for it once it then starts, and until then it gets a reservation as any other."""
        turn = self._clear_ceiling(line, job, limited)
        wants = self.queue.asked(job.demands)
        if turn is not limited or line.first_blocked or not self.free.could_hold(self.free.shape(job), job):
            return turn
        if not above_ceiling(places.without_guests(line, job), wants, line.quota):
            line.below_at[job.id] = self.scene.rounded_now
            return replace(self._wait(line, job), ceiling=limited.ceiling)
        return turn

    def _clear_ceiling(self, line: VcQueue[JobT], job: JobT, limited: Turn[JobT]) -> Turn[JobT]:
        if (cleared := places.room_below(line, job, self.free.untouched)) is None:
            return limited
        demands, found, victims = cleared
        nodes, now = tuple(place.node for place in found), self.scene.rounded_now
        line.first_blocked, line.below_at[job.id] = line.first_blocked or job, now
        coming = NextCapacity(demands, nodes, now, victims, awaits=not victims)
        return replace(self._reserve(line, job, coming), ceiling=limited.ceiling)

    def _may_go_before(self, line: VcQueue[JobT], job: JobT) -> bool:
        """Whether it only waits behind another one for the ceiling, and is asked whether it leaves before that one."""
        if id(job.demands) not in line.behind_ceiling or self.free.shape(job) in self.no_room.shapes:
            return False
        return self.no_room.is_asked_as_guest(line, job)

    def _go_before(self, line: VcQueue[JobT], job: JobT, limited: Turn[JobT]) -> Turn[JobT]:
        """Its turn: as a guest before those that wait for the ceiling, where it leaves before they could start."""
        if self._may_go_before(line, job) and places.may_go_before(line, job, limited.ceiling):
            placements, above = place(line, job, self.free.left)
            if placements is not None:
                return self._go(line, job, placements, self.free.left, is_guest=True)
            if not above:
                self.no_room.shapes[self.free.shape(job)] = job.demands
        return limited

    def _at_ceiling(self, line: VcQueue[JobT], job: JobT, above: Sequence[str]) -> Turn[JobT]:
        """The turn of a job that finds room only above its ceiling."""
        limited = Turn(job, Move.SKIP, self.queue, ceiling=above, keeps=could_be_below(line, job, self.free.empty))
        if limited.keeps:
            line.wait_for_ceiling(job, [*above, "gpu"])
            line.below_at[job.id] = self.scene.rounded_now  # nobody goes before it
            return self._clear_ceiling(line, job, limited)
        return limited

    # --- reservations, guests, evictions -----------------------------------------------------------------------------

    def _wait(self, line: VcQueue[JobT], job: JobT) -> Turn[JobT]:
        """Make a job the first of its virtual cluster without room, and reserve what it gets next. Where no more can be
        reserved, those behind it start beside what is reserved for others, unless it has waited longest of all: as its
        virtual cluster then comes to use less than the others, its turn comes before theirs. Nothing is reserved for a
        job beyond the guarantee where owners are in the way, or where what was has lapsed."""
        if owners := owners_in_the_way(line, job):
            line.hindered.add(self.free.shape(job))
            return Turn(job, Move.SKIP, self.queue, owners=owners)
        is_full = sum(not each.spared for each in self.reservations) >= self.scene.policy.reservations
        coming, above = (None, ()) if is_full else room_to_come(line, job, self.free.untouched)
        if coming is None and above:
            return self._at_ceiling(line, job, above)
        if (lapse := line.lapsed(job)) and not (coming and (coming.victims or coming.awaits)):
            line.hindered.add(self.free.shape(job))
            return Turn(job, Move.SKIP, self.queue, lapse=lapse)
        line.first_blocked = job
        if coming is None:
            line.closed = job.id == self._eldest()
            return Turn(job, Move.RESERVE, self.queue, keeps=True)
        places.keep_below(line, job, coming.moment)
        return self._reserve(line, job, coming)

    def _reserve(self, line: VcQueue[JobT], job: JobT, coming: NextCapacity[JobT]) -> Turn[JobT]:
        victims, awaits, wants = coming.victims, coming.awaits, self.queue.asked(job.demands)
        self.queue.evicted.update(victim.job.id for victim in victims)
        has_right = is_within(line.use, wants, line.quota)
        if victims or awaits:
            self.queue.displace(as_owner(job, victims))
        if has_right and (victims or awaits or coming.spared):
            line.reclaimed = wants
        reservation = Reservation(job, coming.demands, coming.nodes, coming.moment, not has_right, coming.spared)
        self.reservations.append(reservation)
        if reservation.moment is not None:
            self.latest = max(reservation.moment, self.latest or reservation.moment)
        self.free.set_aside(reservation.demands, reservation.nodes, yields=reservation.yields)
        return Turn(job, Move.RESERVE, self.queue, reservation=reservation, victims=victims, awaits=awaits, keeps=True)

    def _eldest(self) -> int:
        """Return the id of the job that has waited longest, of those that are next in their virtual clusters."""
        if self.queue.eldest is None:
            firsts = [job for line in self.lines.values() if (job := self._first(line)) is not None]
            self.queue.eldest = min(firsts, key=BY_AGE).id
        return self.queue.eldest

    def _first(self, line: VcQueue[JobT]) -> JobT | None:
        """Return the first blocked job or, where there is none yet, the next job that could start at all."""
        if line.first_blocked is not None or line.closed:
            return line.first_blocked
        return next((job for job in line.coming() if not self._is_out(line, job)), None)

    def _is_out(self, line: VcQueue[JobT], job: JobT) -> bool:
        """Whether the job does not start whatever comes free."""
        try:
            return job.is_delayed(self.scene.now) or self._cannot_start(line, job)
        except Exception:
            return True
