"""Plans one pass: settles tasks, judges jobs, places gangs. Pure: the same World gives the same Plan.

Live jobs come first, since what ends makes room, and then the waiting ones in their turn. A job whose planning raises
is parked with the reason, and the others go on.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from functools import cache, partial

from base.core import words
from clusters.engines.runtime import Look
from clusters.placement.fit import NodeView
from clusters.placement.pace import NO_PACES, Pace
from clusters.placement.shares import Hold
from jobs.planning import exits
from jobs.planning.leftovers import plan_leftovers
from jobs.planning.lifecycle import TASK_END_STATES, TaskState
from jobs.planning.live import Standing, end_attempt, end_holds, end_state, held_in, nodes_to_relist, settle_job
from jobs.planning.queue.idling.after import idled_after
from jobs.planning.queue.lines import Queue
from jobs.planning.queue.reclaim import own_nodes
from jobs.planning.queue.scene import Runner, Scene
from jobs.planning.queue.unchanged import INTERVAL, UnchangedTurns, interval_start, unchanged_turns
from jobs.planning.settle import is_claimed
from jobs.planning.starts import limit_starts
from jobs.planning.turns import Move, Turn, turns_in
from jobs.planning.world import Decision, Eviction, JobPlan, JobView, LiveJob, Plan, World

MOST_PLACED = 512  # tasks placed in one pass, so that no event of an engine waits long behind a full queue
_TOLD = 36.0  # GPU-seconds of lost work that are worth a sentence of who is evicted
MOST_SETTLED = 512  # rows of live jobs changed in one pass, each job whole: no transaction is long when a rack dies


def plan(
    world: World,
    before: UnchangedTurns | None = None,
    paces: Mapping[str, Pace] = NO_PACES,
    standing: Standing | None = None,
    hold: timedelta = INTERVAL,
) -> Plan:
    """Plan what should change in this world. ``before`` is what the last plan says of its turns: they are not worked
    out again while they hold, which is ``hold`` at most; ``paces`` are those of the last plan, and ``standing``, which
    is brought up to date, is what was found out for it. The plan is the same without it. Raises nothing for a single
    bad job: that one is parked."""
    standing = standing or Standing()
    made = Plan(purge=list(world.purgeable[:MOST_SETTLED]))
    busy = standing.update(world)
    if not all(seen.reachable for seen in world.looks.values()):
        world = replace(world, looks=_with_signs(world.looks, busy))
    _settle_all(world, standing.names, busy, made)
    made.look = nodes_to_relist(world, busy)
    plan_leftovers(world, standing.names, standing.others, made)
    made.quarantine, made.to_write = dict(standing.quarantine), standing.to_write
    _take_turns(world, standing, made, before, hold)
    limit_starts(world, busy, made, paces)
    made.again_at = _again_at(world, standing, busy)
    return made


def _with_signs(seen_now: Mapping[str, Look], busy: Sequence[LiveJob]) -> Mapping[str, Look]:
    """What was observed, with what engines show by starting what they were ordered to while nobody gets their list."""
    looks = dict(seen_now)
    for _, tasks in busy:
        for task in tasks:
            seen = looks.get(task.node)
            if seen and not seen.reachable and task.state is TaskState.STARTING and task.container_id and task.fact_at:
                looks[task.node] = replace(seen, heard_at=max(task.fact_at, seen.heard_at or task.fact_at))
    return looks


def _settle_all(world: World, nodes: Collection[str], busy: Sequence[LiveJob], made: Plan) -> None:
    settled = 0
    for job, tasks in busy:
        if settled >= MOST_SETTLED:
            made.more = True
            break
        job_plan = _guarded(world, made, job, partial(settle_job, world, nodes, job, tasks))
        if job_plan is not None:
            goes_on = not (job_plan.retry or job_plan.after or job_plan.decision)
            settled += len(job_plan.changes) + len(job_plan.noted) + (not goes_on)


def _take_turns(world: World, standing: Standing, made: Plan, before: UnchangedTurns | None, hold: timedelta) -> None:
    """End the waiting jobs that will never start, and place those whose turn it is."""
    seen = scene(world, standing.offered, cache(partial(standing.runners, world)))
    basis = _basis(world, seen, standing.running)
    if before is not None and before.holds(basis, world.now):
        made.unchanged = before
        return
    standing.lines.learn(world.waiting)
    planned = len(made.jobs)
    ended = 0
    for _, job in sorted(standing.lines.ending.items()):
        if ended >= MOST_SETTLED:
            made.more = True
            break
        if _guarded(world, made, job, partial(_end_waiting, job)):
            ended += 1 if job.deleted else job.spec.total_tasks
    queue = Queue(world.waiting, seen, standing.lines)
    acts = _place_all(world, queue, made)
    queue.lines.clear()  # each of them has the queue: without that it would need the garbage collector
    if not acts and len(made.jobs) == planned:
        made.unchanged = unchanged_turns(basis, standing.pauses, world.now, hold)


def _place_all(world: World, queue: Queue[JobView], made: Plan) -> bool:
    """Carry out the turns, and return whether there was anything to do."""
    placed, acts, taken = 0, False, list[Turn[JobView]]()
    for turn in turns_in(queue, only_tried=True):
        taken.append(turn)
        if turn.keeps and not turn.job.keeps_turn:
            made.keeps.append(turn.job.id)
        acts = acts or turn.error is not None or turn.move is Move.GO or bool(turn.victims or made.keeps)
        if turn.error is not None:
            made.jobs.append(JobPlan(turn.job, parked=turn.error))
        elif turn.victims:
            _evict(world, turn, made)
        elif turn.move is Move.GO:
            if placed >= MOST_PLACED:
                made.more = True
                return acts
            made.jobs.append(JobPlan(turn.job, placements=turn.placements, is_guest=turn.is_guest))
            placed += len(turn.placements)
    idlings = idled_after(world.waiting, taken, queue.scene)
    made.idlings = None if idlings is world.idlings else idlings
    return acts


def _evict(world: World, turn: Turn[JobView], made: Plan) -> None:
    """End the attempts of a turn's victims: all of them or, where this pass already plans something else for one of
    them or frees room there, none, and the next pass, which follows at once, looks again."""
    planned = {job_plan.job.id for job_plan in made.jobs}
    freed = {
        change.task.node for job_plan in made.jobs for change in job_plan.changes if change.after in TASK_END_STATES
    }
    nodes = turn.reservation.nodes if turn.reservation else ()
    if not freed.isdisjoint(nodes) or any(victim.job.id in planned for victim in turn.victims):
        made.more = True
        return
    live = {job.id: tasks for job, tasks in world.live}
    if holding := [victim for victim in turn.victims if held_in(live[victim.job.id])]:
        for victim in holding:  # what is judged by its commands gives its room back without an eviction
            why, job_plan = _why(turn.job, victim, own_nodes(turn.job.vc, world.nodes), world.now), JobPlan(victim.job)
            end_holds(world, job_plan, held_in(live[victim.job.id]), why.reason)
            if not job_plan.is_empty:
                made.jobs.append(job_plan)
        return
    for victim in turn.victims:
        why = _why(turn.job, victim, own_nodes(turn.job.vc, world.nodes), world.now)
        job_plan = end_attempt(world, victim.job, live[victim.job.id], Decision(exits.evicted(why.reason)))
        job_plan.evicted = why
        made.jobs.append(job_plan)


def _why(owner: JobView, victim: Runner[JobView], own: frozenset[str], now: datetime) -> Eviction:
    """``own`` are the nodes dedicated to the owner's virtual cluster."""
    job, held = victim.job, _in_words(victim.holds)
    dedicated = sorted({hold.node for hold in victim.holds} & own)
    if dedicated and job.vc != owner.vc:
        serve = f"Node {dedicated[0]} serves" if len(dedicated) == 1 else f"Nodes {words.listing(dedicated)} serve"
        reason = f"{serve} VC {owner.vc} only by now, and {exits.OTHER} of it has a right to {held}."
    elif job.is_guest:
        reason = f"It ran as a guest on room that is reserved for {exits.OTHER}, which can start now."
    else:
        reason = (
            f"VC {job.vc} gives back {held}, which it had borrowed: {exits.OTHER} of VC {owner.vc} has a right to it."
        )
    if (lost := victim.lost(now)) >= _TOLD:
        since = "it last said that it saved" if job.saved_at else "it started"
        reason += f" That loses {lost / 3600:,.2f} GPU-hours at most: what it did since {since}."
    return Eviction(held, reason, owner.id, owner.title, owner.attempt_number, job.is_guest)


def _in_words(holds: Sequence[Hold]) -> str:
    """ "4 GPUs and 8 CPU cores on n1"."""
    gpus, cpus = sum(len(hold.gpu_ids) for hold in holds), sum(hold.cpus for hold in holds)
    parts = [words.count(gpus, "GPU")] if gpus else []
    nodes = words.listing(sorted({hold.node for hold in holds}))
    return f"{' and '.join([*parts, words.count(cpus, 'CPU core')])} on {nodes}"


def _basis(world: World, seen: Scene[JobView], running: tuple[object, object]) -> tuple[object, ...]:
    """Gather all that the turns go by, but for the clock."""
    rights = seen.quotas, seen.use, seen.policy, seen.rests, seen.idlings, seen.spans, seen.named
    return world.waiting, seen.nodes, seen.unseen, running, world.holds, *rights, world.lengths, world.past


def _end_waiting(job: JobView) -> JobPlan:
    """The end of a job that never starts. Its tasks are stopped with it."""
    if job.stopping or job.deleted:
        exit_ = exits.job_stopped(job.stopped_by)
    else:
        exit_ = exits.dependency_failed(job.unmet) if job.unmet else exits.never_fits(job.never)
    return JobPlan(job, decision=Decision(exit_), after=end_state(exit_))


def scene(
    world: World, offered: Sequence[NodeView], runners: Callable[[], Sequence[Runner[JobView]]]
) -> Scene[JobView]:
    """Make the Scene from which the turns are worked out; ``offered`` are the nodes without what is in quarantine."""
    return Scene(
        nodes=offered,
        now=world.now,
        quotas=world.quotas,
        use=world.use,
        unseen={node.name for node in world.nodes} - world.looks.keys(),
        running=runners,
        holds=world.holds.values,
        spans=world.spans,
        policy=world.policy,
        rests=world.rests,
        idlings=world.idlings,
        named=world.named,
        lengths=lambda: world.lengths,
        past=lambda: world.past,
        step=interval_start(world.now),
        clock_ahead=world.clock_ahead,
    )


def _again_at(world: World, standing: Standing, busy: Sequence[LiveJob]) -> datetime | None:
    """The next moment at which the clock alone changes the plan."""
    moments = [*standing.pauses, *standing.ends]
    moments += [moment for span in world.spans for moment in (span.begin, span.end)]
    for seen in world.looks.values():
        if not seen.reachable and seen.since:
            moments.append(seen.lost_at(world.lost_after))
    moments += [
        task.claimed_until
        for _, tasks in busy
        for task in tasks
        if task.claimed_until is not None and is_claimed(task, world.now)
    ]
    moments += [
        at
        for job, tasks in busy
        for task in tasks
        if task.state is TaskState.STOPPING
        and (at := job.ending.next_step(task.told, task.told_at, task.ordered_at, world.now)[1]) is not None
    ]
    return min((moment for moment in moments if moment > world.now), default=None)


def _guarded(world: World, made: Plan, job: JobView, make: Callable[[], JobPlan]) -> JobPlan | None:
    """Add what ``make`` plans for the job, and return it. None for a job that is parked, or is from now on because
    ``make`` raised."""
    if job.parked_until is not None and job.parked_until > world.now:
        return None
    try:
        job_plan = make()
    except Exception as error:
        made.jobs.append(JobPlan(job, parked=error))
        return None
    if not job_plan.is_empty:
        made.jobs.append(job_plan)
    return job_plan
