"""The queue and the cluster as they would be after a change. Pure.

Nothing is decided here: a change makes another picture, and the turns say what follows from it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import singledispatch
from typing import Any, Generic

from clusters.placement.fit import OWN_LABEL, NodeView
from clusters.placement.shares import Right, add, freed, quotas, wholes
from clusters.vcs.rules import Gpus, find_gpu_mistake, part_of
from jobs.planning.queue import reclaim
from jobs.planning.queue.reclaim import Holder
from jobs.planning.queue.scene import HasId, Scene, W
from jobs.planning.what_if.asked import BOTH, CEILING, GUARANTEE, Asked, JobEnds, JobHas, NodeAdded, NodeBecomes, VcGets
from portal.core.errors import BadRequest

Runs = tuple[W, Sequence[HasId]]


@dataclass(frozen=True, slots=True)
class Evicted(Generic[W]):
    """A running job that a change, or a turn, evicts."""

    job: W
    gpus: int
    because: str


@dataclass(frozen=True, slots=True)
class Picture(Generic[W]):
    """All that wait and the cluster, with what admins gave to virtual clusters. ``evicted`` are by changes so far."""

    waiting: Sequence[W]
    scene: Scene[W]
    rights: Mapping[str, Right]
    evicted: tuple[Evicted[W], ...] = ()


def after(picture: Picture[W], changes: Sequence[Asked]) -> Picture[W]:
    """The picture after all of these changes, in their order. Raises BadRequest with a sentence about one that cannot
    be, because there is no such thing for example."""
    for change in changes:
        picture = _with(change, picture)
    return picture


@singledispatch
def _with(change: Asked, picture: Picture[Any]) -> Picture[Any]:
    raise NotImplementedError


# --- virtual clusters ------------------------------------------------------------------------------------------------


@_with.register
def _(change: VcGets, picture: Picture[Any]) -> Picture[Any]:
    right = picture.rights.get(change.vc)
    if right is None:
        raise BadRequest(f"There is no virtual cluster {change.vc}.")
    if right.has_rest:
        raise BadRequest(f"VC {change.vc} has what the others leave, so change those.")
    pool, _ = wholes(picture.scene.nodes)
    gpus = int(pool.get("gpu", 0))
    if change.of in (BOTH, GUARANTEE):
        number = int(_gpus(right).of(gpus)) + change.gpus
        right = replace(right, gpu_guarantee=_at_least_none(number, change, "guaranteed"))
    if change.of in (BOTH, CEILING):
        right = replace(right, gpu_ceiling=_ceiling(change, right, gpus))
    rights = {**picture.rights, change.vc: right}
    _check(change.vc, rights, gpus)
    return _refreshed(replace(picture, rights=rights))


def _ceiling(change: VcGets, right: Right, pool: int) -> int | None:
    """With both, one without a ceiling stays without."""
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
        raise BadRequest(f"VC {change.vc} has only {number - change.gpus:,} GPUs {what}.")
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


def _refreshed(picture: Picture[W]) -> Picture[W]:
    """With the quotas that follow from the rights and the registered nodes."""
    scene = picture.scene
    return replace(picture, scene=replace(scene, quotas=quotas(picture.rights, *wholes(scene.nodes))))


# --- nodes -----------------------------------------------------------------------------------------------------------


@_with.register
def _(change: NodeBecomes, picture: Picture[Any]) -> Picture[Any]:
    scene = picture.scene
    if not any(node.name == change.node for node in scene.nodes):
        raise BadRequest(f"There is no node {change.node}.")
    if change.to in ("drain", "remove"):
        picture = _without(picture, lambda one: any(hold.node == change.node for hold in one.holds), change.sentence)
        scene = picture.scene
    if change.to == "remove":
        nodes = [node for node in scene.nodes if node.name != change.node]
        return _refreshed(replace(picture, scene=replace(scene, nodes=nodes)))
    nodes = [_becomes(node, change.to) if node.name == change.node else node for node in scene.nodes]
    unseen: Collection[str] = set(scene.unseen) - {change.node}
    return replace(picture, scene=replace(scene, nodes=nodes, unseen=unseen))


_STATES = {"drain": "draining", "cordon": "cordoned", "return": ""}


def _becomes(node: NodeView, to: str) -> NodeView:
    why = node.why_not if node.why_not and to != "return" else _STATES[to]
    return replace(node, offered=not why, why_not=why, draining=to == "drain")


@_with.register
def _(change: NodeAdded, picture: Picture[Any]) -> Picture[Any]:
    scene = picture.scene
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
    return _refreshed(replace(picture, scene=replace(scene, nodes=nodes)))


# --- jobs ------------------------------------------------------------------------------------------------------------


@_with.register
def _(change: JobEnds, picture: Picture[Any]) -> Picture[Any]:
    if any(job.title == change.job for job, _ in picture.scene.running()):
        found = _without(picture, lambda one: one.job.title == change.job, change.sentence)
        return found if change.how == "evict" else replace(found, waiting=picture.waiting, evicted=picture.evicted)
    if change.how == "evict":
        raise BadRequest(f"Job {change.job} does not run, so it cannot be evicted.")
    _waiting(picture, change.job)
    return replace(picture, waiting=[job for job in picture.waiting if job.title != change.job])


@_with.register
def _(change: JobHas, picture: Picture[Any]) -> Picture[Any]:
    _waiting(picture, change.job)
    changed = [replace(job, priority=change.priority) if job.title == change.job else job for job in picture.waiting]
    return replace(picture, waiting=changed)


def _waiting(picture: Picture[W], title: str) -> W:
    found = next((job for job in picture.waiting if job.title == title), None)
    if found is None:
        raise BadRequest(f"No job {title} waits or runs that this could change.")
    return found


def _without(picture: Picture[W], goes: Callable[[Holder[W]], bool], because: str) -> Picture[W]:
    """Those who go wait again in their old places, and what they held is free."""
    scene = picture.scene
    going = [one for one in reclaim.holders(scene) if goes(one)]
    gone = {one.job.id for one in going}
    use = {vc: dict(amount) for vc, amount in scene.use.items()}
    types = {node.name: dict(node.gpus) for node in scene.nodes}
    for one in going:
        add(use.setdefault(one.job.vc, {}), reclaim.amount(one.holds, types), -1)
    left: list[Runs[W]] = [(job, tasks) for job, tasks in scene.running() if job.id not in gone]
    ends = {one.job.id for one in going if one.job.is_ending}  # what ends anyway is not tried again
    again = [waits_again(one.job) for one in going if one.job.id not in ends]
    evicted = tuple(evicted_because(one, because) for one in going if one.job.id not in ends)
    nodes = freed(scene.nodes, [hold for one in going for hold in one.holds])
    scene = replace(scene, nodes=nodes, use=use, running=lambda: left)
    return replace(picture, waiting=[*picture.waiting, *again], scene=scene, evicted=picture.evicted + evicted)


def waits_again(job: W) -> W:
    return replace(job, is_guest=False, started_at=None, ends_by=None)


def evicted_because(one: Holder[W], because: str) -> Evicted[W]:
    return Evicted(one.job, sum(len(hold.gpu_ids) for hold in one.holds), because)
