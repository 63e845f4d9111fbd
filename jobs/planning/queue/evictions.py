"""Plans the end of the attempts that make room for another job. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from clusters.placement.shares import Hold
from jobs.planning import exits
from jobs.planning.lifecycle import TASK_ENDS
from jobs.planning.live import end_attempt
from jobs.planning.queue.reclaim import Holder, own_nodes
from jobs.planning.queue.scene import Policy
from jobs.planning.turns import Turn
from jobs.planning.world import Decision, Evicted, JobView, Plan, World
from portal.core import words


def evict(world: World, turn: Turn[JobView], made: Plan) -> None:
    """End the attempts of a turn's victims: all of them or, where this pass already plans something else for one of
    them or frees room there, none, and the next pass, which follows at once, looks again."""
    planned = {one.job.id for one in made.jobs}
    freed = {change.task.node for one in made.jobs for change in one.changes if change.after in TASK_ENDS}
    nodes = turn.reservation.nodes if turn.reservation else ()
    if not freed.isdisjoint(nodes) or any(victim.job.id in planned for victim in turn.victims):
        made.more = True
        return
    live = {job.id: tasks for job, tasks in world.live}
    for victim in turn.victims:
        why = _why(turn.job, victim, own_nodes(turn.job.vc, world.nodes), world.policy)
        one = end_attempt(world, victim.job, live[victim.job.id], Decision(exits.evicted(why.reason)))
        one.evicted = why
        made.jobs.append(one)


def _why(owner: JobView, victim: Holder[JobView], own: frozenset[str], policy: Policy) -> Evicted:
    """``own`` are the nodes dedicated to the owner's virtual cluster."""
    job, room = victim.job, in_words(victim.holds)
    dedicated = sorted({hold.node for hold in victim.holds} & own)
    if dedicated and job.vc != owner.vc:
        serve = f"Node {dedicated[0]} serves" if len(dedicated) == 1 else f"Nodes {words.listing(dedicated)} serve"
        reason = f"{serve} VC {owner.vc} only by now, and {owner.title} of it has a right to {room}."
    elif job.is_guest:
        reason = f"It ran as a guest on room that is reserved for {owner.title}, which can start now."
    else:
        reason = (
            f"VC {job.vc} gives back {room}, which it had borrowed: {owner.title} of VC {owner.vc} has a right to it."
        )
        if job.evictions + 1 >= policy.evictions:
            times = words.ordinal(job.evictions + 1)
            reason += f" That is the {times} time: its next run is not ended for that reason."
    return Evicted(room, reason, owner.id, owner.attempt_number, job.is_guest)


def in_words(holds: Sequence[Hold]) -> str:
    """ "4 GPUs and 8 CPU cores on n1"."""
    gpus, cpus = sum(len(hold.gpu_ids) for hold in holds), sum(hold.cpus for hold in holds)
    parts = [words.count(gpus, "GPU")] if gpus else []
    nodes = words.listing(sorted({hold.node for hold in holds}))
    return f"{' and '.join([*parts, words.count(cpus, 'CPU core')])} on {nodes}"
