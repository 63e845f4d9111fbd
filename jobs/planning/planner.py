"""Plans one pass: settles tasks, judges jobs, places gangs. Pure: the same World gives the same Plan.

Live jobs come first, since what ends makes room, and then the waiting ones in their turn. A job whose planning raises
is parked with the reason, and the others go on.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial

from clusters.placement.fit import NodeView
from jobs.planning import exits
from jobs.planning.leftovers import plan_leftovers
from jobs.planning.live import end_state, just_runs, settle_job, to_look_at
from jobs.planning.queue.evictions import evict
from jobs.planning.queue.lines import ending
from jobs.planning.queue.scene import Scene
from jobs.planning.queue.still import Still, step, still
from jobs.planning.settle import is_claimed
from jobs.planning.starts import limit_starts
from jobs.planning.turns import Verdict, turns
from jobs.planning.world import Decision, Held, JobPlan, JobView, Plan, TaskView, World

Live = tuple[JobView, Sequence[TaskView]]
MOST_PLACED = 512  # tasks placed in one pass, so that no event of an engine waits long behind a full queue
MOST_SETTLED = 512  # rows of live jobs changed in one pass, each job whole: no transaction is long when a rack dies


def plan(world: World, before: Still | None = None) -> Plan:
    """What should change in this world. ``before`` is what the last plan says of its turns: they are not worked out
    again while they hold. Raises nothing for a single bad job: that one is parked."""
    made = Plan(purge=list(world.purgeable[:MOST_SETTLED]), more=len(world.purgeable) > MOST_SETTLED)
    nodes = {node.name for node in world.nodes}
    busy = [(job, tasks) for job, tasks in world.live if not just_runs(world, nodes, job, tasks)]
    _settle_all(world, nodes, busy, made)
    made.look = to_look_at(world, busy)
    plan_leftovers(world, nodes, made)
    _take_turns(world, made, before)
    limit_starts(world, busy, made)
    made.again_at = _again_at(world, busy)
    return made


def _settle_all(world: World, nodes: set[str], busy: Sequence[Live], made: Plan) -> None:
    settled = 0
    for job, tasks in busy:
        if settled >= MOST_SETTLED:
            made.more = True
            break
        found = _guarded(world, made, job, partial(settle_job, world, nodes, job, tasks))
        if found is not None:
            settled += len(found.changes) + bool(found.retry or found.after or found.decision)


def _take_turns(world: World, made: Plan, before: Still | None) -> None:
    """Ends those that will never start, and places those whose turn it is."""
    seen = scene(world, made.quarantine)
    basis = _basis(world, seen)
    if before is not None and before.holds(basis, world.now):
        made.still = before
        return
    planned = len(made.jobs)
    for job in ending(world.waiting):
        _guarded(world, made, job, partial(_end_waiting, job))
    if not _place_all(world, seen, made) and len(made.jobs) == planned:
        made.still = still(basis, world.waiting, world.now)


def _place_all(world: World, seen: Scene[JobView], made: Plan) -> bool:
    """Carry out the turns, and return whether there was anything to do."""
    placed, acts = 0, False
    for turn in turns(world.waiting, seen, only_tried=True):
        acts = acts or turn.error is not None or turn.verdict is Verdict.GO or bool(turn.victims)
        if turn.error is not None:
            made.jobs.append(JobPlan(turn.job, parked=turn.error))
        elif turn.victims:
            evict(world, turn, made)
        elif turn.verdict is Verdict.GO:
            if placed >= MOST_PLACED:
                made.more = True
                break
            made.jobs.append(JobPlan(turn.job, places=turn.places, is_guest=turn.is_guest))
            placed += len(turn.places)
    return acts


def _basis(world: World, seen: Scene[JobView]) -> tuple[object, ...]:
    """All that the turns go by, but for the clock."""
    running = [job for job, _ in world.live], [[task.id for task in tasks] for _, tasks in world.live]
    rights = seen.quotas, seen.use, seen.policy
    return world.waiting, seen.nodes, seen.unseen, running, seen.holds, *rights, world.lengths


def _end_waiting(job: JobView) -> JobPlan:
    """The end of a job that never starts. Its tasks are stopped with it."""
    if job.stopping or job.deleted:
        exit_ = exits.job_stopped(job.stopped_by)
    else:
        exit_ = exits.dependency_failed(job.unmet) if job.unmet else exits.never_fits(job.never)
    return JobPlan(job, decision=Decision(exit_), after=end_state(exit_))


def scene(world: World, quarantine: Mapping[str, Held]) -> Scene[JobView]:
    """What the turns are worked out from."""
    return Scene(
        nodes=_offered(world, quarantine),
        now=world.now,
        quotas=world.quotas,
        use=world.use,
        unseen={node.name for node in world.nodes} - world.observations.keys(),
        running=lambda: world.live,
        holds=world.holds,
        policy=world.policy,
        lengths=lambda: world.lengths,
        step=step(world.now),
    )


def _offered(world: World, quarantine: Mapping[str, Held]) -> list[NodeView]:
    """The nodes with what is quarantined counted as taken."""
    nothing: Held = (frozenset(), frozenset())
    return [
        replace(node, used_gpus=node.used_gpus | gpus, used_ports=node.used_ports | ports) if gpus or ports else node
        for node in world.nodes
        for gpus, ports in [quarantine.get(node.name, nothing)]
    ]


def _again_at(world: World, busy: Sequence[Live]) -> datetime | None:
    """The next moment at which the clock alone changes the plan."""
    moments = [job.not_before for job in world.waiting if job.not_before and job.not_before > world.now]
    moments += [job.ends_by for job, _ in world.live if job.ends_by is not None]
    for seen in world.observations.values():
        if not seen.reachable and seen.unreachable_since:
            moments.append(seen.lost_at(world.lost_after))
    moments += [
        task.claimed_until
        for _, tasks in busy
        for task in tasks
        if task.claimed_until is not None and is_claimed(task, world.now)
    ]
    return min((moment for moment in moments if moment > world.now), default=None)


def _guarded(world: World, made: Plan, job: JobView, make: Callable[[], JobPlan]) -> JobPlan | None:
    """Add what ``make`` plans for the job, and return it. None for a job that is parked, or is from now on because
    ``make`` raised."""
    if job.parked_until is not None and job.parked_until > world.now:
        return None
    try:
        found = make()
    except Exception as error:
        made.jobs.append(JobPlan(job, parked=error))
        return None
    if not found.is_empty:
        made.jobs.append(found)
    return found
