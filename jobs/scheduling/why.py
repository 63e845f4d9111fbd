"""Everything about why a job waits: beside its blockers every node, who holds what it needs, what its virtual cluster
may use, and the smallest changes that start it. It is worked out when somebody asks, and takes more than a pass may."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from clusters.placement.blockers import could
from clusters.placement.grid import Row, grid
from clusters.placement.shares import Amount, add
from clusters.users.queries import load_user
from jobs.models import Job
from jobs.planning.queue.reclaim import Holder
from jobs.planning.turns import Turn, Verdict
from jobs.planning.what_if.changes import Change, smallest_changes
from jobs.scheduling.explain import turn_of, waiting_reason
from jobs.scheduling.queue import Queued
from portal.core.clock import deadline

MOST_NODES = 200  # rows of the grid
MOST_HOLDERS = 20
SECONDS = 2.0  # in which changes are tried


@dataclass(frozen=True, slots=True)
class InTheWay:
    """A running job on a node that could do: what it holds there, and when it ends at the latest, if that is known."""

    username: str
    name: str
    vc: str
    gpus: int
    cpus: int
    nodes: Sequence[str]
    ends_by: datetime | None


@dataclass(frozen=True, slots=True)
class Use:
    """Of the virtual cluster, by resource ("cpu", "memory" in MB, "gpu", "gpu:T"): what it uses, and would use with the
    job. A resource that the ceiling does not name has none."""

    guarantee: Amount
    ceiling: Amount
    used: Amount
    with_job: Amount


@dataclass(frozen=True, slots=True)
class Why:
    """``reason`` is that of jobs.scheduling.explain.waiting_reason. ``rows`` are the first of the grid, ``more`` the
    number of those left out."""

    reason: Mapping[str, Any]
    changes: Sequence[Change]
    holders: Sequence[InTheWay]
    use: Use
    reserved: Sequence[str]
    rows: Sequence[Row]
    more: int


def why(job: Job) -> Why | None:
    """None for a job that does not wait, or is about to end."""
    turn = turn_of(job)
    if turn is None:
        return None
    return of_turn(turn, waiting_reason(job, turn), _changes(job, turn))


def offered(job: Job) -> Sequence[Change]:
    """The changes that ``why`` shows."""
    turn = turn_of(job)
    return _changes(job, turn) if turn is not None else ()


def _changes(job: Job, turn: Turn[Queued]) -> Sequence[Change]:
    if turn.error is not None:  # what the job asks for cannot be read
        return ()
    owner = load_user(job.username)
    return smallest_changes(turn, owner.vcs if owner else (), deadline(SECONDS))


def of_turn(turn: Turn[Queued], reason: Mapping[str, Any], changes: Sequence[Change]) -> Why:
    """Also for a job that is not submitted yet. Where it starts now, nothing is in its way."""
    waits = turn.error is None and turn.verdict is not Verdict.GO
    rows = grid(turn.queue.left(), turn.job.demands, turn.job.vc) if waits else []
    return Why(
        reason=reason,
        changes=changes,
        holders=_in_the_way(turn) if waits else [],
        use=use_with(turn),
        reserved=turn.reservation.names if turn.reservation else (),
        rows=rows[:MOST_NODES],
        more=max(0, len(rows) - MOST_NODES),
    )


def use_with(turn: Turn[Queued]) -> Use:
    scene, queue, vc = turn.queue.scene, turn.queue, turn.job.vc
    quota, used = scene.quota(vc), scene.use.get(vc, {})
    with_job = dict(used)
    if turn.error is None:
        add(with_job, queue.amount(turn.job, turn.places) if turn.places else queue.asked(turn.job.demands))
    return Use(quota.guarantee, quota.ceiling, used, with_job)


def _in_the_way(turn: Turn[Queued]) -> list[InTheWay]:
    """Those with the most GPUs, or cores, first."""
    shape = max(turn.job.demands, key=lambda demand: demand.gpus)
    nodes = {node.name for node in turn.queue.scene.nodes if node.serves(turn.job.vc) and could(node, shape)}
    found = [one for holder in turn.queue.holders if (one := _held(holder, nodes)) and (one.gpus or not shape.gpus)]
    return sorted(found, key=lambda one: (-one.gpus, -one.cpus, one.username, one.name))[:MOST_HOLDERS]


def _held(holder: Holder[Queued], nodes: set[str]) -> InTheWay | None:
    holds = [hold for hold in holder.holds if hold.node in nodes]
    if not holds:
        return None
    job = holder.job
    return InTheWay(
        username=job.username,
        name=job.name,
        vc=job.vc,
        gpus=sum(len(hold.gpu_ids) for hold in holds),
        cpus=sum(hold.cpus for hold in holds),
        nodes=sorted({hold.node for hold in holds}),
        ends_by=job.ends_by,
    )
