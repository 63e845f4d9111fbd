"""What is free in one round of turns, as each of its questions sees it; worked out when it is first asked for. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Generic

from clusters.placement.fit import Demand, Placement
from clusters.placement.free import FreeNodes
from jobs.planning.queue.reservations import Reservation
from jobs.planning.queue.scene import JobT, Scene

Shape = tuple[int, str, frozenset[str]]  # what places go by: demands, own nodes, nodes that appointments withhold


class FreeInRound(Generic[JobT]):
    def __init__(self, scene: Scene[JobT]) -> None:
        self._scene = scene
        self._owners = frozenset(node.dedicated_to for node in scene.nodes)
        self._withheld = scene.appointed.withheld  # the nodes that appointments keep a job off
        self._taken: list[tuple[Sequence[Demand], Sequence[Placement]]] = []
        self._could_hold: dict[Shape, tuple[Sequence[Demand], bool]] = {}
        self._whole: FreeNodes | None = None
        self.owned: FreeNodes | None = None  # with what yields to owners in it, where something does
        self._of_owners: dict[str, FreeNodes] = {}  # by virtual cluster, until somebody takes some

    def shape(self, job: JobT) -> Shape:
        """The same for jobs that fit on the same nodes."""
        return id(job.demands), job.vc if job.vc in self._owners else "", self._withheld(job)

    @cached_property
    def untouched(self) -> FreeNodes:
        """The free capacity at the start of the round, before anybody's turn. It is copied, and stays as it is."""
        if self._scene.before is not None:
            return self._scene.before.copy(self._scene.nodes)
        scene = self._scene
        return FreeNodes((node for node in scene.nodes if node.name not in scene.unseen), wanted=scene.wanted)

    @cached_property
    def left(self) -> FreeNodes:
        """The free capacity without reservations: what the next job may use."""
        return self.untouched.copy()

    @property
    def whole(self) -> FreeNodes:
        """The free capacity with reservations in it: what the next guest may use."""
        if self._whole is None:
            self._whole = self.untouched.copy()
            for demands, placements in self._taken:
                self._whole.take(demands, placements)
        return self._whole

    @cached_property
    def empty(self) -> FreeNodes:
        """The capacity that would be free if nothing ran, also on nodes that nobody has seen."""
        return self._scene.idle or FreeNodes(self._scene.nodes, empty=True)

    def could_hold(self, key: Shape, job: JobT) -> bool:
        """Whether the offered nodes could hold the job if nothing ran on them."""
        if key not in self._could_hold:
            placements = self.empty.place(job.demands, vc=job.vc, withheld=key[2])
            if placements is not None:
                self.empty.give_back(job.demands, placements)
            self._could_hold[key] = job.demands, placements is not None
        return self._could_hold[key][1]

    def of_owner(self, owned: FreeNodes, vc: str, ours: Iterable[Reservation[JobT]]) -> FreeNodes:
        """What of ``owned`` a virtual cluster that is within its guarantee may use: all but what is kept for ``ours``,
        its own that yield. Very many shapes find no room in it, one after the other."""
        if vc not in self._of_owners:
            free = self._of_owners[vc] = owned.copy()
            for each in ours:
                free.set_aside(each.demands, each.nodes)
        return self._of_owners[vc]

    def set_aside(self, demands: Sequence[Demand], nodes: Sequence[str], *, yields: bool) -> None:
        """Keep room for one job; where that ``yields``, owners may take it still."""
        self._of_owners.clear()
        if self.owned is None and yields:
            self.owned = self.left.copy()
        self.left.set_aside(demands, nodes)
        if self.owned is not None and not yields:
            self.owned.set_aside(demands, nodes)

    def take(self, demands: Sequence[Demand], placements: Sequence[Placement], by: FreeNodes) -> None:
        """Note that a job goes where ``by`` has placed it."""
        self._taken.append((demands, placements))
        self._of_owners.clear()
        for other in (self.left, self._whole, self.owned):
            if other is not None and other is not by:
                other.take(demands, placements)
