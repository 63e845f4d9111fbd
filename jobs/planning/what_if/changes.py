"""Finds the smallest changes with which a waiting job would start now, by trying each of them. Pure.

A change is tried with the very turns that the planner executes, so what is offered here starts the job if nothing else
happens meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from itertools import islice
from typing import Any, Generic

from clusters.placement.fit import Demand, NodeView, Placement
from clusters.placement.room import Room
from clusters.placement.shares import add, freed
from jobs.planning.queue.awaited import Awaited
from jobs.planning.queue.reclaim import Holder
from jobs.planning.queue.scene import LAST, Scene, W, Waiting
from jobs.planning.turns import Turn, Verdict, turns
from portal.core import words

MOST_ENDS = 40  # running jobs whose end is tried
_HOPELESS = frozenset({"parked", "delay", "dependency"})  # of these nobody changes anything by asking for less


@dataclass(frozen=True, slots=True)
class Change:
    """``change`` is the same for programs, one entry: gpuNumber, gpuType, taskNumber ({role: number}) and
    virtualCluster are of the config; jobEnds (user~job) and nodeReturns (its name) are what others would do. ``places``
    is where the job would start."""

    sentence: str
    change: Mapping[str, Any]
    places: Sequence[Placement]

    @property
    def is_of_config(self) -> bool:
        return not self.change.keys() & {"jobEnds", "nodeReturns"}


def smallest_changes(turn: Turn[W], vcs: Iterable[str], is_over: Callable[[], bool] = lambda: False) -> list[Change]:
    """At most one change of each kind, the smallest that starts the job; none for a job that starts anyway, or for
    which asking for less is of no use. ``vcs`` are the virtual clusters that its owner may use; ``is_over`` says that
    no time is left to try more."""
    if turn.verdict is Verdict.GO or any(blocker.kind in _HOPELESS for blocker in turn.rules):
        return []
    return list(_Trial(turn, is_over).changes([vc for vc in vcs if vc != turn.job.vc]))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Variant(Waiting):
    """The job as it would be."""

    of: Waiting
    shape: tuple[Demand, ...]

    @property
    def demands(self) -> tuple[Demand, ...]:
        return self.shape

    @property
    def awaited(self) -> Sequence[Awaited]:
        return self.of.awaited

    @property
    def is_preemptible(self) -> bool:
        return self.of.is_preemptible

    @property
    def most_seconds(self) -> int | None:
        return self.of.most_seconds


class _Trial(Generic[W]):
    def __init__(self, turn: Turn[W], is_over: Callable[[], bool]) -> None:
        self.job, self.queue, self.is_over = turn.job, turn.queue, is_over
        self.scene: Scene[Waiting] = turn.queue.scene  # type: ignore[assignment]  # jobs of two kinds stand in one queue
        self.demands = turn.job.demands

    def changes(self, vcs: Iterable[str]) -> Iterator[Change]:
        of_config = (self._fewer_gpus(), self._fewer_tasks(), self._other_types(), self._in(vcs))
        for found in (*of_config, self._job_ends(), self._node_returns()):
            yield from islice(found, 1)

    # --- of the config -----------------------------------------------------------------------------------------------

    def _fewer_gpus(self) -> Iterator[Change]:
        most = max(demand.gpus for demand in self.demands)
        for gpus in _less(most):
            shape = tuple(replace(one, gpus=min(one.gpus, gpus)) for one in self.demands)
            sentence = f"Ask for {words.count(gpus, 'GPU')} a task instead of {most}."
            yield from self._if_it_starts(sentence, {"gpuNumber": gpus}, shape)

    def _fewer_tasks(self) -> Iterator[Change]:
        roles = [demand.role for demand in self.demands]
        role = max(dict.fromkeys(roles), key=roles.count)
        for number in _less(roles.count(role)):
            shape = tuple(one for one in self.demands if one.role != role or one.index < number)
            sentence = f"Start {words.count(number, 'task')} of {role} instead of {roles.count(role)}."
            yield from self._if_it_starts(sentence, {"taskNumber": {role: number}}, shape)

    def _other_types(self) -> Iterator[Change]:
        asked = self.demands[0].gpu_type
        kinds = [kind for kind in self.queue.gpu_kinds if kind != asked] if asked else []
        for kind in kinds:
            shape = tuple(replace(one, gpu_type=kind) for one in self.demands)
            yield from self._if_it_starts(f"Use {kind} GPUs instead of {asked}.", {"gpuType": kind}, shape)

    def _in(self, vcs: Iterable[str]) -> Iterator[Change]:
        """In another virtual cluster it is the last of its priority."""
        for vc in vcs:
            yield from self._if_it_starts(f"Use VC {vc}.", {"virtualCluster": vc}, self.demands, vc=vc)

    # --- of others ---------------------------------------------------------------------------------------------------

    def _job_ends(self) -> Iterator[Change]:
        """The smallest job whose end would do."""
        by_size = sorted(self.queue.holders, key=lambda one: (_gpus(one), len(one.holds), -one.job.id))
        for one in islice(by_size, MOST_ENDS):
            change = {"jobEnds": f"{one.job.username}~{one.job.name}"}
            yield from self._if_it_starts(f"{one.job.title} ends.", change, self.demands, scene=self._without(one))

    def _node_returns(self) -> Iterator[Change]:
        for node in self.scene.nodes:
            if not node.offered:
                nodes = [replace(node, offered=True) if each is node else each for each in self.scene.nodes]
                sentence = f"Node {node.name}, which is {node.why_not}, takes tasks again."
                scene = replace(self.scene, nodes=nodes, unseen=set(self.scene.unseen) - {node.name})
                yield from self._if_it_starts(sentence, {"nodeReturns": node.name}, self.demands, scene=scene)

    def _without(self, gone: Holder[W]) -> Scene[Waiting]:
        scene = self.scene
        use = {vc: dict(amount) for vc, amount in scene.use.items()}
        add(use.setdefault(gone.job.vc, {}), self.queue.held(gone), -1)
        running = [(job, tasks) for job, tasks in scene.running() if job.id != gone.job.id]
        return replace(scene, nodes=freed(scene.nodes, gone.holds), use=use, running=lambda: running)

    # --- trying ------------------------------------------------------------------------------------------------------

    def _if_it_starts(
        self,
        sentence: str,
        change: Mapping[str, Any],
        shape: tuple[Demand, ...],
        *,
        vc: str = "",
        scene: Scene[Waiting] | None = None,
    ) -> Iterator[Change]:
        values = {field.name: getattr(self.job, field.name) for field in fields(Waiting)}
        values |= {"vc": vc, "since": LAST} if vc else {}
        variant = _Variant(**values, of=self.job, shape=shape)
        scene = scene or self.scene
        if self.is_over() or not _has_room(scene, variant):
            return
        others: list[Waiting] = [one for one in self.queue.jobs if one.id != self.job.id]
        for turn in turns([*others, variant], scene, only_tried=True):
            if turn.job is variant:
                if turn.verdict is Verdict.GO:
                    yield Change(sentence, change, turn.places)
                return


def _has_room(scene: Scene[Waiting], job: Waiting) -> bool:
    """A quick look before the whole queue is tried: whether it fits if nobody else wants anything."""
    seen: Sequence[NodeView] = [node for node in scene.nodes if node.name not in scene.unseen]
    return Room(seen).place(job.demands, job.id, job.avoid, job.vc) is not None


def _less(number: int) -> Iterator[int]:
    """One less and halves, the largest first: 7, 4, 2, 1 of 8."""
    steps: set[int] = {number - 1}
    while number > 1:
        number //= 2
        steps.add(number)
    return iter(sorted((one for one in steps if one > 0), reverse=True))


def _gpus(one: Holder[W]) -> int:
    return sum(len(hold.gpu_ids) for hold in one.holds)
