"""The queue and the cluster as they would be after a change. Pure.

Nothing is decided here: a change makes another situation, and the turns say what follows from it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import singledispatch
from typing import Any, Generic

from base.core import words
from base.core.errors import BadRequest
from clusters.placement.fit import OWN_LABEL, NodeView
from clusters.placement.shares import Right, pool_totals, quotas
from clusters.vcs.rules import Gpus, find_gpu_mistake, part_of
from jobs.planning.queue import reclaim
from jobs.planning.queue.scene import JobT, Runner, Scene, as_evicted
from jobs.what_if.asked import BOTH, CEILING, GUARANTEE, AskedChange, JobBecomes, NodeAdded, NodeBecomes, VcGets


@dataclass(frozen=True, slots=True)
class EvictedJob(Generic[JobT]):
    """A running job that a change, or a turn, evicts."""

    job: JobT
    gpus: int
    because: str


@dataclass(frozen=True, slots=True)
class Situation(Generic[JobT]):
    """All that wait and the cluster, with what admins gave to virtual clusters. ``evicted`` are by changes so far."""

    waiting: Sequence[JobT]
    scene: Scene[JobT]
    rights: Mapping[str, Right]
    evicted: tuple[EvictedJob[JobT], ...] = ()


def apply_changes(situation: Situation[JobT], changes: Sequence[AskedChange]) -> Situation[JobT]:
    """The situation after all of these changes, in their order. Raises BadRequest with a sentence about one that cannot
    be, because there is no such thing for example."""
    for change in changes:
        situation = _with(change, situation)
    return situation


@singledispatch
def _with(change: AskedChange, situation: Situation[Any]) -> Situation[Any]:
    raise NotImplementedError


# --- virtual clusters ------------------------------------------------------------------------------------------------


@_with.register
def _(change: VcGets, situation: Situation[Any]) -> Situation[Any]:
    right = situation.rights.get(change.vc)
    if right is None:
        raise BadRequest(f"There is no virtual cluster {change.vc}.")
    if right.has_rest:
        raise BadRequest(f"VC {change.vc} has what the others leave, so change those.")
    pool, _ = pool_totals(situation.scene.nodes)
    gpus = int(pool.get("gpu", 0))
    if change.of in (BOTH, GUARANTEE):
        number = int(_gpus(right).of(gpus)) + change.gpus
        right = replace(right, gpu_guarantee=_at_least_none(number, change, "guaranteed"))
    if change.of in (BOTH, CEILING):
        right = replace(right, gpu_ceiling=_ceiling(change, right, gpus))
    rights = {**situation.rights, change.vc: right}
    _check(change.vc, rights, gpus)
    return _refreshed(replace(situation, rights=rights))


def _ceiling(change: VcGets, right: Right, pool: int) -> int | None:
    """Return the ceiling after the change. Where both change, one without a ceiling stays without."""
    number = right.gpu_ceiling
    if number is None and right.max_capacity >= 100:
        if change.of == CEILING and change.gpus > 0:
            raise BadRequest(f"VC {change.vc} has no ceiling: it may use all GPUs already.")
        if change.of == BOTH:
            return None
        number = pool
    elif number is None:
        number = part_of(pool, right.max_capacity)
    return _at_least_none(number + change.gpus, change, "as its ceiling")


def _at_least_none(number: int, change: VcGets, what: str) -> int:
    if number < 0:
        raise BadRequest(f"VC {change.vc} has only {words.count(number - change.gpus, 'GPU')} {what}.")
    return number


def _check(name: str, rights: Mapping[str, Right], pool: int) -> None:
    """What an admin may not give is not tried."""
    others = (right for other, right in rights.items() if other != name and not right.has_rest)
    right = rights[name]
    mistake = find_gpu_mistake(_gpus(right), right.gpu_ceiling, map(_gpus, others), pool)
    if mistake is not None:
        raise BadRequest(f"VC {name} cannot have this. {mistake.sentence}")


def _gpus(right: Right) -> Gpus:
    return Gpus(right.capacity, right.gpu_guarantee)


def _refreshed(situation: Situation[JobT]) -> Situation[JobT]:
    """Return the situation with the quotas that follow from the rights and the registered nodes."""
    scene = situation.scene
    return replace(situation, scene=replace(scene, quotas=quotas(situation.rights, *pool_totals(scene.nodes))))


# --- nodes -----------------------------------------------------------------------------------------------------------


@_with.register
def _(change: NodeBecomes, situation: Situation[Any]) -> Situation[Any]:
    scene = situation.scene
    if not any(node.name == change.node for node in scene.nodes):
        raise BadRequest(f"There is no node {change.node}.")
    if change.to in ("drain", "remove"):
        situation = _without(
            situation, lambda one: any(hold.node == change.node for hold in one.holds), change.sentence
        )
        scene = situation.scene
    if change.to == "remove":
        nodes = [node for node in scene.nodes if node.name != change.node]
        return _refreshed(replace(situation, scene=replace(scene, nodes=nodes)))
    nodes = [_becomes(node, change.to) if node.name == change.node else node for node in scene.nodes]
    unseen: Collection[str] = set(scene.unseen) - {change.node}
    return replace(situation, scene=replace(scene, nodes=nodes, unseen=unseen))


_STATES = {"drain": "draining", "cordon": "cordoned", "return": ""}


def _becomes(node: NodeView, to: str) -> NodeView:
    why = node.why_not if node.why_not and to != "return" else _STATES[to]
    return replace(node, offered=not why, why_not=why, draining=to == "drain")


@_with.register
def _(change: NodeAdded, situation: Situation[Any]) -> Situation[Any]:
    scene = situation.scene
    if any(node.name == change.node for node in scene.nodes):
        raise BadRequest(f"There is a node {change.node} already.")
    alike = max(scene.nodes, key=lambda node: (len(node.gpus), node.cpus, node.memory_mb), default=None)
    if alike is None and not (change.cpus and change.memory_gb):
        raise BadRequest(f"There is no node yet: say also how many cores and GB {change.node} has.")
    node = NodeView(
        change.node,
        change.node,
        change.cpus or (alike.cpus if alike else 0),
        change.memory_gb * 1024 or (alike.memory_mb if alike else 0),
        tuple((str(at), change.gpu_type) for at in range(change.gpus)),
        alike.port_from if alike else 30_000,
        alike.port_to if alike else 39_999,
        labels=frozenset({(OWN_LABEL, change.node)}),
    )
    nodes = sorted([*scene.nodes, node], key=lambda one: one.name)
    return _refreshed(replace(situation, scene=replace(scene, nodes=nodes)))


# --- jobs ------------------------------------------------------------------------------------------------------------


@_with.register
def _(change: JobBecomes, situation: Situation[Any]) -> Situation[Any]:
    runs = [one.job for one in situation.scene.running() if one.job.title == change.job]
    if change.to and runs:
        found = _without(situation, lambda one: one.job.title == change.job, change.sentence)
        if change.to == "evict":
            return found
        return replace(_not_asking(found, runs), waiting=situation.waiting, evicted=situation.evicted)
    if change.to == "evict":
        raise BadRequest(f"Job {change.job} does not run, so it cannot be evicted.")
    others = [job for job in situation.waiting if job.title != change.job]
    if len(others) == len(situation.waiting):
        raise BadRequest(f"No job {change.job} waits or runs that this could change.")
    if change.to:
        gone = [job for job in situation.waiting if job.title == change.job]
        return replace(_not_asking(situation, gone), waiting=others)
    changed = [replace(job, priority=change.priority) if job.title == change.job else job for job in situation.waiting]
    return replace(situation, waiting=changed)


def _not_asking(situation: Situation[JobT], gone: Sequence[JobT]) -> Situation[JobT]:
    """Return the situation where these jobs ask for no type of GPUs any more."""
    less = [demand for job in gone for demand in job.demands]
    return replace(situation, scene=situation.scene.naming(less=less))


def _without(situation: Situation[JobT], goes: Callable[[Runner[JobT]], bool], because: str) -> Situation[JobT]:
    """Let those who go wait again in their old places, and what they held is free."""
    going = [runner for runner in situation.scene.running() if runner.holds and goes(runner)]
    evicted = [runner for runner in going if not runner.job.is_ending]  # what ends anyway is not tried again
    again = [as_evicted(runner.job, counts=False) for runner in evicted]
    return replace(
        situation,
        waiting=[*situation.waiting, *again],
        scene=reclaim.without(going, situation.scene),
        evicted=(*situation.evicted, *(EvictedJob(runner.job, runner.gpus, because) for runner in evicted)),
    )
