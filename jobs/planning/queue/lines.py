"""The queue of each virtual cluster during one round of turns, and what is asked about it afterwards. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import cached_property
from operator import attrgetter, itemgetter
from typing import Generic

from clusters.placement.blockers import blockers, never_fits
from clusters.placement.fit import Blocker, Demand, NodeView, Placement
from clusters.placement.room import Room
from clusters.placement.shares import Amount, Hold, above_ceiling, add, asked, is_within, over, plus, rank, taken
from jobs.planning.queue import reclaim, sentences
from jobs.planning.queue.reclaim import Holder
from jobs.planning.queue.reservations import Ranks, Reservation
from jobs.planning.queue.scene import Scene, W, Waiting

AGE = attrgetter("since", "id")


def ending(waiting: Iterable[W]) -> list[W]:
    """Those that will never start: asked to stop, deleted, too large for every registered node, or behind a job that
    did not succeed."""
    return [job for job in waiting if job.stopping or job.deleted or job.never or job.unmet]


def in_order(waiting: Sequence[W]) -> list[W]:
    """Those that want a turn: by priority, then in the order of submission."""
    gone = {job.id for job in ending(waiting)}
    jobs = sorted((job for job in waiting if job.id not in gone) if gone else waiting, key=AGE)
    if any(job.priority for job in jobs):
        jobs.sort(key=lambda job: -job.priority)
    return jobs


class Line(Generic[W]):
    """The jobs of one virtual cluster in their order, and what it uses with those that have had their turn."""

    def __init__(self, vc: str, jobs: list[W], queue: Queue[W]) -> None:
        self.vc, self.jobs, self.queue = vc, jobs, queue
        self.at = 0  # of the job whose turn is next
        self.quota = quota = queue.scene.quota(vc)
        self.has_caps = quota.user_gpus is not None or quota.user_jobs is not None
        self.has_limits = bool(quota.ceiling) or self.has_caps
        self.use: dict[str, float] = dict(queue.scene.use.get(vc, {}))
        self.holder: W | None = None  # its first job without room
        self.gets_back: Amount = {}  # what others leave to that job: those behind it do not use up its right to it
        self.closed = False  # nothing behind that one starts
        self.ranks: dict[int, tuple[bool, float]] = {}  # by shape of the next job, while the use stays as it is
        self.at_ceiling: dict[str, W] = {}  # by resource: who waits there for the ceiling
        self.limited: set[int] = set()  # shapes that the ceiling is in the way of, whatever starts in this round
        self._behind = 0
        self._of_user: dict[str, dict[str, float]] | None = None
        self._waits_for_cap: dict[str, set[str]] = {}

    @property
    def next(self) -> W | None:
        return self.jobs[self.at] if self.at < len(self.jobs) else None

    @property
    def counts(self) -> bool:
        """Whether anybody looks at what it uses."""
        return self.has_limits or len(self.queue.scene.quotas) > 1 or len(self.queue.lines) > 1

    def step(self, depth: int) -> None:
        """On to the next job. Only so many are looked at behind one that has no room."""
        self.at += 1
        self._behind += self.holder is not None
        self.closed = self.closed or self._behind > depth

    def borrows_after_all(self, job: W, places: Sequence[Placement]) -> bool:
        """Whether a job that left the type of its GPUs open, and therefore counts as within, gets so many of one type
        that the virtual cluster has more of that than its guarantee. If it went first it would take back the room from
        which it was evicted for that reason, and be evicted again."""
        rank = self.ranks.get(id(job.demands))
        if rank is None or rank[0] or not self.queue.types_differ:
            return False
        if is_within(self.use, self.queue.amount(job, places), self.quota):
            return False
        self.ranks[id(job.demands)] = True, rank[1]
        return True

    def keeps(self, job: W, places: Sequence[Placement]) -> bool:
        """Whether it stays within the guarantee and below the ceiling at these places."""
        amount = self.queue.amount(job, places)
        return is_within(self.use, amount, self.quota) and not above_ceiling(self.use, amount, self.quota)

    def uses_up_what_comes_back(self, asked: Amount) -> bool:
        """Whether a job that asks for this would be above the guarantee beside the one that others leave for. That one
        would have no right to the room any more when it is free."""
        return bool(self.gets_back) and not is_within(plus(self.use, self.gets_back), asked, self.quota)

    def wait_for_ceiling(self, job: W, what: Iterable[str]) -> None:
        """The next jobs that need this wait behind it."""
        for each in what:
            self.at_ceiling.setdefault(each, job)

    def take(self, job: W, amount: Amount) -> None:
        add(self.use, amount)
        self.ranks.clear()
        if self.has_caps:
            add(self._user(job.username), {"gpu": amount.get("gpu", 0), "jobs": 1})

    def capped(self, job: W, wants: Amount) -> list[str]:
        """In what the cap of its user is in the way: "gpu", "jobs". The user's next jobs wait behind it."""
        quota, waits = self.quota, self._waits_for_cap.setdefault(job.username, set())
        caps = {"gpu": quota.user_gpus, "jobs": quota.user_jobs}
        limit = {what: float(most) for what, most in caps.items() if most is not None}
        mine = {"gpu": wants.get("gpu", 0), "jobs": 1.0}
        above = over(self._user(job.username), mine, limit)
        if above and not over({}, mine, limit):
            waits.update(above)
        return above or [what for what in sorted(waits) if mine[what]]

    def _user(self, username: str) -> dict[str, float]:
        if self._of_user is None:
            self._of_user = {}
            for one in self.queue.holders:
                if one.job.vc == self.vc:
                    mine = {"gpu": sum(len(hold.gpu_ids) for hold in one.holds), "jobs": 1}
                    add(self._of_user.setdefault(one.job.username, {}), mine)
        return self._of_user.setdefault(username, {})


class Queue(Generic[W]):
    """What the turns of one round were worked out from, for those who ask why."""

    def __init__(self, jobs: list[W], scene: Scene[W]) -> None:
        self.jobs, self.scene = jobs, scene
        of_vc: dict[str, list[W]] = {}
        for job in jobs:
            of_vc.setdefault(job.vc, []).append(job)
        self.lines: dict[str, Line[W]] = {}
        self.lines |= {vc: Line(vc, jobs, self) for vc, jobs in of_vc.items()}
        self.taken: list[tuple[W, Sequence[Placement]]] = []  # by the turns so far
        self.kept: list[Reservation[W]] = []
        self.evicted: set[int] = set()  # jobs that make room for one of the turns so far
        self.eldest: int | None = None  # the job that has waited longest of all, where no room could be kept for one
        self._short: dict[tuple[int, str, int], tuple[Sequence[Demand], list[Blocker]]] = {}
        self._beside: dict[tuple[int, str, int], list[Blocker]] = {}
        self._asked: dict[int, tuple[Sequence[Demand], Amount]] = {}
        self._amount: tuple[Sequence[Placement], Amount] = (), {}
        self.ranks: Ranks = {}

    @property
    def nodes(self) -> Sequence[NodeView]:
        return self.scene.nodes

    def ahead(self, job: W) -> Sequence[W]:
        return self.lines[job.vc].jobs[: self._places[job.id]]

    @cached_property
    def _places(self) -> dict[int, int]:
        return {job.id: at for line in self.lines.values() for at, job in enumerate(line.jobs)}

    @property
    def somebody_moves(self) -> bool:
        """Whether some running job ends, is a guest or is to be evicted: else its room is not asked for."""
        return bool(self.evicted) or self._somebody_moves

    @cached_property
    def _somebody_moves(self) -> bool:
        return self._looks and any(job.is_ending or job.is_guest for job, _ in self.scene.running())

    @cached_property
    def ends(self) -> Mapping[str, list[tuple[datetime, Hold]]]:
        """What comes free on each node when, of what is known or likely, the first of it first."""
        found: dict[str, list[tuple[datetime, Hold]]] = {}
        for job, holds in self.scene.holding() if self._looks else ():
            end = self.scene.likely_end(job)
            for hold in holds if end is not None else ():
                found.setdefault(hold.node, []).append((end or self.scene.about, hold))
        return {name: sorted(each, key=itemgetter(0)) for name, each in found.items()}

    @property
    def _looks(self) -> bool:
        """Whether running jobs need be looked at."""
        return self.scene.moves is not False or bool(self.scene.lengths())

    @cached_property
    def holders(self) -> list[Holder[W]]:
        """The running jobs with what they hold."""
        return reclaim.holders(self.scene)

    def asked(self, demands: Sequence[Demand]) -> Amount:
        if id(demands) not in self._asked:
            self._asked[id(demands)] = demands, asked(demands)
        return self._asked[id(demands)][1]

    @cached_property
    def gpu_types(self) -> Mapping[str, Mapping[str, str]]:
        return {node.name: dict(node.gpus) for node in self.scene.nodes}

    @cached_property
    def gpu_kinds(self) -> Sequence[str]:
        return sorted({kind for node in self.scene.nodes for _, kind in node.gpus if kind})

    def amount(self, job: W, places: Sequence[Placement]) -> Mapping[str, float]:
        """What it takes at these places, about which several questions in a row are asked."""
        if self._amount[0] is not places:
            self._amount = places, taken(job.demands, places, self.gpu_types)
        return self._amount[1]

    def most(self, demands: Sequence[Demand], nodes: Sequence[str]) -> Amount:
        """What a job takes on these nodes, one for each demand; of each type of GPUs as many as it may get there."""
        found = dict(asked(demands))
        for demand, name in zip(demands, nodes, strict=True):
            kinds = Counter(self.gpu_types[name].values()) if demand.gpus and not demand.gpu_type else {}
            add(found, {f"gpu:{kind}": min(demand.gpus, number) for kind, number in kinds.items() if kind})
        return found

    @cached_property
    def types_differ(self) -> bool:
        return len({kind for node in self.scene.nodes for _, kind in node.gpus}) > 1

    def typed(self, demands: Sequence[Demand], limits: Amount) -> Iterator[tuple[Demand, ...]]:
        """The same with GPUs of one type each, where the type is open and types have limits."""
        is_open = any(each.gpus and not each.gpu_type for each in demands)
        if is_open and any(what.startswith("gpu:") for what in limits):
            for kind in self.gpu_kinds:
                yield tuple(replace(each, gpu_type=each.gpu_type or kind) for each in demands)

    def held(self, one: Holder[W]) -> Mapping[str, float]:
        return reclaim.amount(one.holds, self.gpu_types)

    def returns_before(self, guest: Holder[W], job: W) -> bool:
        """Whether a guest, evicted for this job, would have its turn before it: the eviction would be in vain."""
        vc, held = guest.job.vc, self.held(guest)
        if vc == job.vc:
            return _key(guest.job) < _key(job)
        use = dict(self.lines[vc].use if vc in self.lines else self.scene.use.get(vc, {}))
        add(use, held, -1)
        mine = self.lines[job.vc]
        theirs = rank(use, held, self.scene.quota(vc)), guest.job.since, guest.job.id
        return theirs < (rank(mine.use, self.asked(job.demands), mine.quota), job.since, job.id)

    def evict(self, victims: Iterable[Holder[W]]) -> None:
        self.evicted.update(one.job.id for one in victims)

    def short(self, job: W) -> list[Blocker]:
        """What is missing on the nodes for jobs of this shape; the same for all virtual clusters without own nodes."""
        demands, vc = job.demands, job.vc
        key = id(demands), vc if vc in self._owners else "", len(self.taken)
        if key not in self._short:
            never = never_fits([node for node in self.nodes if node.serves(vc)], demands)
            self._short[key] = demands, [never] if never else self._missing(job)
        if self._short[key][1]:
            return self._short[key][1]
        key = id(demands), vc, len(self.taken)
        if key not in self._beside:
            self._beside[key] = self._kept_from(job)
        return self._beside[key]

    @cached_property
    def _owners(self) -> frozenset[str]:
        return frozenset(node.dedicated_to for node in self.nodes)

    def _missing(self, job: W) -> list[Blocker]:
        left = self.left()
        serving = [node for node in left if node.serves(job.vc)]
        found = blockers([replace(one, dedicated_to="") if one.dedicated_to else one for one in serving], job.demands)
        if not found:
            return []
        foreign = {node.name: node.dedicated_to for node in left if not node.serves(job.vc)}
        places = Room(replace(node, dedicated_to="") for node in left).place(job.demands) if foreign else None
        used = sorted({place.node for place in places or ()} & foreign.keys())
        return [*found, *(sentences.dedicated(name, foreign[name]) for name in used[:3])]

    def _kept_from(self, job: W) -> list[Blocker]:
        """It would fit on what is kept for others, and does not beside that."""
        others = [one for one in self.kept if one.job.id != job.id]
        room = Room(node for node in self.left() if node.name not in self.scene.unseen)
        for one in others:
            room.set_aside(one.demands, one.nodes)
        if not others or room.place(job.demands, job.id, job.avoid, job.vc) is not None:
            return []
        return [sentences.reserved([one.job.title for one in others])]

    def left(self) -> list[NodeView]:
        """The nodes after the turns so far have taken their places."""
        left = {node.name: node for node in self.scene.nodes}
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


def _key(job: Waiting) -> tuple[int, str, int]:
    """By what the jobs of one virtual cluster are sorted."""
    return -job.priority, job.since, job.id
