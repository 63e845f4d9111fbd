"""Plans the end of the attempts that make room for another job. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from base.core import words
from clusters.placement.shares import Hold
from jobs.planning import exits
from jobs.planning.lifecycle import TASK_ENDS
from jobs.planning.live import end_attempt
from jobs.planning.queue.reclaim import own_nodes
from jobs.planning.queue.scene import Runner
from jobs.planning.turns import Turn
from jobs.planning.world import Decision, Eviction, JobView, Plan, World

_TOLD = 36.0  # GPU-seconds of lost work that are worth a sentence


def evict(world: World, turn: Turn[JobView], made: Plan) -> None:
    """End the attempts of a turn's victims: all of them or, where this pass already plans something else for one of
    them or frees room there, none, and the next pass, which follows at once, looks again."""
    planned = {job_plan.job.id for job_plan in made.jobs}
    freed = {change.task.node for job_plan in made.jobs for change in job_plan.changes if change.after in TASK_ENDS}
    nodes = turn.reservation.nodes if turn.reservation else ()
    if not freed.isdisjoint(nodes) or any(victim.job.id in planned for victim in turn.victims):
        made.more = True
        return
    live = {job.id: tasks for job, tasks in world.live}
    for victim in turn.victims:
        why = _why(turn.job, victim, own_nodes(turn.job.vc, world.nodes), world.now)
        job_plan = end_attempt(world, victim.job, live[victim.job.id], Decision(exits.evicted(why.reason)))
        job_plan.evicted = why
        made.jobs.append(job_plan)


def _why(owner: JobView, victim: Runner[JobView], own: frozenset[str], now: datetime) -> Eviction:
    """``own`` are the nodes dedicated to the owner's virtual cluster."""
    job, held = victim.job, in_words(victim.holds)
    dedicated = sorted({hold.node for hold in victim.holds} & own)
    if dedicated and job.vc != owner.vc:
        serve = f"Node {dedicated[0]} serves" if len(dedicated) == 1 else f"Nodes {words.listing(dedicated)} serve"
        reason = f"{serve} VC {owner.vc} only by now, and {owner.title} of it has a right to {held}."
    elif job.is_guest:
        reason = f"It ran as a guest on room that is reserved for {owner.title}, which can start now."
    else:
        reason = (
            f"VC {job.vc} gives back {held}, which it had borrowed: {owner.title} of VC {owner.vc} has a right to it."
        )
    if (lost := victim.lost(now)) >= _TOLD:
        since = "it last said that it saved" if job.saved_at else "it started"
        reason += f" That loses {lost / 3600:,.2f} GPU-hours at most: what it did since {since}."
    return Eviction(held, reason, owner.id, owner.attempt_number, job.is_guest)


def in_words(holds: Sequence[Hold]) -> str:
    """ "4 GPUs and 8 CPU cores on n1"."""
    gpus, cpus = sum(len(hold.gpu_ids) for hold in holds), sum(hold.cpus for hold in holds)
    parts = [words.count(gpus, "GPU")] if gpus else []
    nodes = words.listing(sorted({hold.node for hold in holds}))
    return f"{' and '.join([*parts, words.count(cpus, 'CPU core')])} on {nodes}"
