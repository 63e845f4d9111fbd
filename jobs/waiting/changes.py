"""Finds the smallest changes with which a waiting job would start now, by trying each of them. Pure.

A change is tried with the very turns that the planner executes, so what is offered here starts the job if nothing else
happens meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from datetime import timedelta
from itertools import islice
from typing import Any, Generic

from base.core import words
from clusters.placement.fit import Demand, NodeView, Placement
from clusters.placement.free import FreeNodes
from clusters.placement.topology import Topology
from jobs.planning.queue.reclaim import without
from jobs.planning.queue.scene import LAST, JobT, KnownJob, Scene, SchedulableJob
from jobs.planning.turns import Move, Turn, turns

MOST_ENDS = 40  # running jobs whose end is tried
_HERE: Mapping[str, Any] = {}  # it stays in its virtual cluster
TO_SUBMIT = timedelta(minutes=5)  # so much later it may be submitted, and still ends in time
_STEP = timedelta(minutes=5)
_SHORTEST = timedelta(minutes=10)  # less is of no use
_HOPELESS = frozenset({"parked", "delay", "dependency"})  # of these nobody changes anything by asking for less


@dataclass(frozen=True, slots=True)
class Change:
    """``change`` is the same for programs, one entry: maxRunSeconds, preemptible, gpuNumber, gpuType, taskNumber
    ({role: number}), topology and virtualCluster are of the config; jobEnds (user~job) and nodeReturns (its name) are
    what others would do. ``placements`` say where the job would start."""

    sentence: str
    change: Mapping[str, Any]
    placements: Sequence[Placement]

    @property
    def is_of_config(self) -> bool:
        return not self.change.keys() & {"jobEnds", "nodeReturns"}


def smallest_changes(
    turn: Turn[JobT], vcs: Mapping[str, int], is_over: Callable[[], bool] = lambda: False
) -> list[Change]:
    """Return at most one change of each kind, the smallest that starts the job; none for a job that starts anyway, or
    for which asking for less is of no use. ``vcs`` are the virtual clusters that its owner may use, each with the
    highest priority that they may set in it; ``is_over`` says that no time is left to try more."""
    if turn.move is Move.GO or any(blocker.kind in _HOPELESS for blocker in turn.rules):
        return []
    return list(_ChangeSearch(turn, is_over).changes({vc: most for vc, most in vcs.items() if vc != turn.job.vc}))


class _ChangeSearch(Generic[JobT]):
    def __init__(self, turn: Turn[JobT], is_over: Callable[[], bool]) -> None:
        self.job, self.queue, self.is_over = turn.job, turn.queue, is_over
        self.scene: Scene[SchedulableJob] = turn.queue.scene  # type: ignore[assignment]  # jobs of two kinds stand in one queue
        self.demands = turn.job.demands

    def changes(self, vcs: Mapping[str, int]) -> Iterator[Change]:
        of_appointments = self._ends_in_time(), self._preemptible()
        of_config = (self._apart(), self._fewer_gpus(), self._fewer_tasks(), self._other_types(), self._in(vcs))
        for found in (*of_appointments, *of_config, self._job_ends(), self._node_returns()):
            yield from islice(found, 1)

    # --- of the config -----------------------------------------------------------------------------------------------

    def _ends_in_time(self) -> Iterator[Change]:
        """Before one of the appointments that keep it off; the longest time that does."""
        for begin in sorted({span.begin for span in self.scene.appointed.ahead_of(self.job)}, reverse=True):
            seconds = int(((begin - self.scene.now) - TO_SUBMIT) / _STEP) * int(_STEP.total_seconds())
            if seconds >= _SHORTEST.total_seconds():
                when = begin.astimezone(self.scene.now.tzinfo)
                length, zone = words.duration(seconds), words.zone(when)
                sentence = (
                    f"Let it run {length} at most (extras.maxRunSeconds): it ends before the appointment that begins "
                    f"{when:%d %b, %H:%M} ({zone})."
                )
                yield from self._if_it_starts(sentence, {"maxRunSeconds": seconds}, self.demands, most_seconds=seconds)

    def _preemptible(self) -> Iterator[Change]:
        if self.scene.appointed.ahead_of(self.job):
            sentence = (
                "Let it be stopped for others (extras.preemptible): it starts, is stopped at the latest when an "
                "appointment of its nodes begins, and is tried again."
            )
            yield from self._if_it_starts(sentence, {"preemptible": True}, self.demands, is_preemptible=True)

    def _apart(self) -> Iterator[Change]:
        """No domain is required any more, but as close together as there is room."""
        asked = self.demands[0].topology
        if asked.is_required:
            level = asked.config_value
            shape = tuple(replace(demand, topology=Topology(asked.level)) for demand in self.demands)
            sentence = "Let its tasks be further apart if need be (extras.topology: prefer instead of require)."
            yield from self._if_it_starts(sentence, {"topology": {"prefer": level}}, shape)

    def _fewer_gpus(self) -> Iterator[Change]:
        most = max(demand.gpus for demand in self.demands)
        for gpus in _less(most):
            shape = tuple(replace(demand, gpus=min(demand.gpus, gpus)) for demand in self.demands)
            sentence = f"Ask for {words.count(gpus, 'GPU')} a task instead of {most}."
            yield from self._if_it_starts(sentence, {"gpuNumber": gpus}, shape)

    def _fewer_tasks(self) -> Iterator[Change]:
        roles = [demand.role for demand in self.demands]
        role = max(dict.fromkeys(roles), key=roles.count)
        for number in _less(roles.count(role)):
            shape = tuple(demand for demand in self.demands if demand.role != role or demand.index < number)
            sentence = f"Start {words.count(number, 'task')} of {role} instead of {roles.count(role)}."
            yield from self._if_it_starts(sentence, {"taskNumber": {role: number}}, shape)

    def _other_types(self) -> Iterator[Change]:
        asked = self.demands[0].gpu_type
        kinds = [kind for kind in self.queue.gpu_kinds if kind != asked] if asked else []
        for kind in kinds:
            shape = tuple(replace(demand, gpu_type=kind) for demand in self.demands)
            yield from self._if_it_starts(f"Use {kind} GPUs instead of {asked}.", {"gpuType": kind}, shape)

    def _in(self, vcs: Mapping[str, int]) -> Iterator[Change]:
        """Try other virtual clusters, where it is the last of its priority."""
        for vc, most in vcs.items():
            there = {"vc": vc, "since": LAST, "priority": min(self.job.priority, most)}
            yield from self._if_it_starts(f"Use VC {vc}.", {"virtualCluster": vc}, self.demands, there=there)

    # --- of others ---------------------------------------------------------------------------------------------------

    def _job_ends(self) -> Iterator[Change]:
        """The smallest job whose end would do."""
        by_size = sorted(self.queue.runners, key=lambda runner: (runner.gpus, len(runner.holds), -runner.job.id))
        for runner in islice(by_size, MOST_ENDS):
            change = {"jobEnds": f"{runner.job.username}~{runner.job.name}"}
            scene: Scene[Any] = without([runner], self.queue.scene)
            scene = scene.naming(less=runner.job.demands) if scene.named else scene
            yield from self._if_it_starts(f"{runner.job.title} ends.", change, self.demands, scene=scene)

    def _node_returns(self) -> Iterator[Change]:
        for node in self.scene.nodes:
            if not node.offered:
                nodes = [replace(node, offered=True) if each is node else each for each in self.scene.nodes]
                sentence = f"Node {node.name}, which is {node.why_not}, takes tasks again."
                scene = replace(self.scene, nodes=nodes, unseen=set(self.scene.unseen) - {node.name})
                yield from self._if_it_starts(sentence, {"nodeReturns": node.name}, self.demands, scene=scene)

    # --- trying ------------------------------------------------------------------------------------------------------

    def _if_it_starts(
        self,
        sentence: str,
        change: Mapping[str, Any],
        shape: tuple[Demand, ...],
        *,
        there: Mapping[str, Any] = _HERE,
        scene: Scene[SchedulableJob] | None = None,
        most_seconds: int | None = None,
        is_preemptible: bool = False,
    ) -> Iterator[Change]:
        values = {**{each.name: getattr(self.job, each.name) for each in fields(SchedulableJob)}, **there}
        variant = KnownJob(
            **values,
            demands=shape,
            is_preemptible=is_preemptible or self.job.is_preemptible,
            most_seconds=most_seconds or self.job.most_seconds,
        )
        scene = (scene or self.scene).naming(shape, self.demands)
        if self.is_over() or not _has_room(scene, variant):
            return
        others: list[SchedulableJob] = [other for other in self.queue.jobs if other.id != self.job.id]
        for turn in turns([*others, variant], scene, only_tried=True):
            if turn.job is variant:
                if turn.move is Move.GO:
                    yield Change(sentence, change, turn.placements)
                return


def _has_room(scene: Scene[SchedulableJob], job: SchedulableJob) -> bool:
    """A quick look before the whole queue is tried: whether it fits if nobody else wants anything."""
    seen: Sequence[NodeView] = [node for node in scene.nodes if node.name not in scene.unseen]
    return FreeNodes(seen).place(job.demands, job.salt, job.avoid, job.vc, scene.appointed.withheld(job)) is not None


def _less(number: int) -> Iterator[int]:
    """One less and halves, the largest first: 7, 4, 2, 1 of 8."""
    steps: set[int] = {number - 1}
    while number > 1:
        number //= 2
        steps.add(number)
    return iter(sorted((step for step in steps if step > 0), reverse=True))
