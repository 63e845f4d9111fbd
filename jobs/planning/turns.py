"""Whose turn is it, and what keeps the others waiting? Pure; the one place with the rules of the queue.

The planner carries these turns out; the job page, the lists, the submit page and the API print them
(jobs/scheduling/queue.py reads what they need). Each virtual cluster starts its jobs first in, first out. A job that
does not fit now holds the queue behind it, so that large jobs do not starve, unless the nodes offered now could not
hold it even if they were idle: then the others pass.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from functools import cached_property
from operator import attrgetter
from typing import Generic, TypeVar

from clusters.placement.blockers import blockers, never_fits
from clusters.placement.fit import Blocker, Demand, NodeView, Placement, Room
from jobs.planning.queue.awaited import Awaited
from portal.core import words


class Verdict(StrEnum):
    GO = "go"  # it is placed now
    HOLD = "hold"  # it does not fit now, and nothing behind it in its virtual cluster starts before it
    PASS = "pass"  # it does not start now  # noqa: S105 - no password


@dataclass(frozen=True, slots=True)
class Waiting:
    """What the queue goes by. Fields named as a column of Job are read from it, for the planner and for pages alike
    (jobs/scheduling/columns.py)."""

    id: int
    vc: str
    stopping: bool = False
    deleted: bool = False
    never: str = ""  # no registered node could ever run it: found when it was submitted
    not_before: datetime | None = None
    parked_until: datetime | None = None
    awaits: int = 0  # jobs that must end before it starts
    unmet: str = ""  # why it waits for one of them in vain
    avoid: frozenset[str] = frozenset()  # nodes on which its last attempt could not start

    @property
    def demands(self) -> tuple[Demand, ...]:
        """What its tasks ask of nodes; the same object for every job of the same shape. Read only when it may start."""
        raise NotImplementedError

    @property
    def awaited(self) -> Sequence[Awaited]:
        """The jobs that must end before it starts, ``awaits`` in number. Read only when somebody asks why it waits."""
        raise NotImplementedError


W = TypeVar("W", bound=Waiting)


@dataclass(slots=True)
class Turn(Generic[W]):
    """What happens to one job now, and why. ``places`` are those of a job that goes; ``held_by`` is the job that holds
    the queue before it; ``error`` is what planning it raised."""

    job: W
    verdict: Verdict
    queue: Queue[W] = field(repr=False, compare=False)
    places: Sequence[Placement] = ()
    held_by: W | None = None
    error: Exception | None = None

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
        room = self.queue.short(self.job.demands)
        found = [*(b for b in rules if b.kind != "queue"), *room, *(b for b in rules if b.kind == "queue")]
        return found or [Blocker("gang", "No way was found to put all its tasks on the nodes as they are now.")]

    @property
    def rules(self) -> list[Blocker]:
        """Those of its blockers that are not about room on nodes: little work even for very many jobs."""
        job, now = self.job, self.queue.now
        if self.error is not None or _is_future(job.parked_until, now):
            return [_PARKED]
        found: list[Blocker] = []
        if job.not_before is not None and _is_future(job.not_before, now):
            found.append(_delay(job.not_before, now))
        if job.awaits:
            found += [one.blocker for one in job.awaited]
        if job.vc in self.queue.stopped_vcs:
            found.append(Blocker("vc_stopped", f"VC {job.vc} is stopped, so nothing new starts in it."))
        if self.held_by is not None:
            found.append(_queue(len(self.ahead), job.vc))
        return found


def turns(
    waiting: Sequence[W],
    nodes: Sequence[NodeView],
    stopped_vcs: Collection[str],
    now: datetime,
    unseen: Collection[str] = (),
    *,
    only_tried: bool = False,
) -> Iterator[Turn[W]]:
    """The turn of every waiting job, in queue order; a job that goes takes its room from those after it.

    ``nodes`` are all registered ones with what is taken on them; nothing is placed on those whose names are ``unseen``,
    but they count for what could be placed once they are seen. ``only_tried`` leaves out the jobs for which no room is
    looked for: thousands in a pass, where nobody asks why they wait. Nothing is raised for a single bad job: its Turn
    has the ``error``.
    """
    queue = Queue(_in_order(waiting), nodes, stopped_vcs, now)
    room = Room(node for node in nodes if node.name not in unseen)
    idle = _Idle(nodes)
    holding: dict[str, W] = {}
    for job in queue.jobs:
        if job.vc in holding:
            if not only_tried:
                yield Turn(job, Verdict.PASS, queue, held_by=holding[job.vc])
        elif (
            job.vc in stopped_vcs or job.awaits or _is_future(job.not_before, now) or _is_future(job.parked_until, now)
        ):
            if not only_tried:
                yield Turn(job, Verdict.PASS, queue)
        else:
            turn = _take(job, queue, room, idle)
            if turn.verdict is Verdict.HOLD:
                holding[job.vc] = job
            yield turn


def ending(waiting: Iterable[W]) -> list[W]:
    """Those that will never start: asked to stop, deleted, too large for every registered node, or behind a job that
    did not succeed."""
    return [job for job in waiting if job.stopping or job.deleted or job.never or job.unmet]


def _in_order(waiting: Sequence[W]) -> list[W]:
    """Those that want a turn, first in, first out."""
    gone = {job.id for job in ending(waiting)}
    staying = [job for job in waiting if job.id not in gone] if gone else waiting
    return sorted(staying, key=attrgetter("id"))


def _take(job: W, queue: Queue[W], room: Room, idle: _Idle) -> Turn[W]:
    try:
        places = room.place(job.demands, job.id, job.avoid)
        if places is not None:
            queue.taken.append((job, places))
            return Turn(job, Verdict.GO, queue, places)
        return Turn(job, Verdict.HOLD if idle.could_hold(job.demands) else Verdict.PASS, queue)
    except Exception as error:
        return Turn(job, Verdict.PASS, queue, error=error)


def _is_future(moment: datetime | None, now: datetime) -> bool:
    return moment is not None and moment > now


class Queue(Generic[W]):
    """What the turns of one queue were worked out from, for those who ask why."""

    def __init__(self, jobs: list[W], nodes: Sequence[NodeView], stopped_vcs: Collection[str], now: datetime) -> None:
        self.jobs, self.stopped_vcs, self.now = jobs, stopped_vcs, now
        self.taken: list[tuple[W, Sequence[Placement]]] = []  # by the turns so far
        self.nodes = nodes
        self._short: dict[tuple[int, int], tuple[tuple[Demand, ...], list[Blocker]]] = {}

    def ahead(self, job: W) -> Sequence[W]:
        return self._of_vc[job.vc][: self._places[job.id]]

    def short(self, demands: tuple[Demand, ...]) -> list[Blocker]:
        """What is missing on the nodes for jobs of this shape."""
        key = id(demands), len(self.taken)
        if key not in self._short:
            never = never_fits(self.nodes, demands)
            found = [never] if never else blockers(self.left(), demands)
            self._short[key] = demands, found
        return self._short[key][1]

    def left(self) -> list[NodeView]:
        """The nodes after the turns so far have taken their places."""
        left = {node.name: node for node in self.nodes}
        for job, places in self.taken:
            for demand, place in zip(job.demands, places, strict=True):
                node = left[place.node]
                left[place.node] = replace(
                    node,
                    used_cpus=node.used_cpus + demand.cpus,
                    used_memory_mb=node.used_memory_mb + demand.memory_mb,
                    used_gpus=node.used_gpus.union(place.gpu_ids),
                    used_ports=node.used_ports.union(*place.ports.values()),
                )
        return list(left.values())

    @cached_property
    def _of_vc(self) -> dict[str, list[W]]:
        found: dict[str, list[W]] = {}
        for job in self.jobs:
            found.setdefault(job.vc, []).append(job)
        return found

    @cached_property
    def _places(self) -> dict[int, int]:
        return {job.id: at for jobs in self._of_vc.values() for at, job in enumerate(jobs)}


class _Idle:
    """Could the offered nodes, if nothing ran on them, hold a job? Remembered by shape."""

    def __init__(self, nodes: Sequence[NodeView]) -> None:
        self._nodes = nodes
        self._room: Room | None = None
        self._known: dict[
            int, tuple[Sequence[Demand], bool]
        ] = {}  # with the shape itself, so that its id stays its own

    def could_hold(self, demands: Sequence[Demand]) -> bool:
        if id(demands) not in self._known:
            self._known[id(demands)] = demands, self._could_place(demands)
        return self._known[id(demands)][1]

    def _could_place(self, demands: Sequence[Demand]) -> bool:
        """Tried in one empty room, which is replaced only when something was put there."""
        if self._room is None:
            self._room = Room(self._nodes, empty=True)
        if self._room.place(demands) is None:
            return False
        self._room = None
        return True


_PARKED = Blocker("parked", "Longshore could not plan this job. It looks again in a minute; its events say why.")


def _delay(until: datetime, now: datetime) -> Blocker:
    until = until.astimezone(now.tzinfo)
    wait = words.duration((until - now).total_seconds())
    sentence = f"The next try is in {wait}, at {until:%H:%M:%S} ({words.zone(until)})."
    return Blocker("delay", sentence, until=until.isoformat(timespec="seconds"))


def _queue(ahead: int, vc: str) -> Blocker:
    jobs = "One job is" if ahead == 1 else f"{ahead:,} jobs are"
    return Blocker("queue", f"{jobs} ahead of it in VC {vc}, which starts jobs in order.", have=str(ahead))
