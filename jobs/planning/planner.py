"""One pass: settle tasks, judge jobs, place gangs. Pure: ``plan(world)`` gives the same Plan for the same World.

Order of a pass: live jobs first (what ends makes room), then the waiting ones in the order of their virtual cluster's
queue. A job whose planning raises is parked with the reason, the others go on.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial

from clusters.engines.runtime import LABEL_GPUS, LABEL_PORTS, ContainerStatus, Phase
from clusters.placement.fit import NodeView
from jobs.planning import exits
from jobs.planning.exits import Exit
from jobs.planning.lifecycle import TASK_ENDS, TASK_LIVE, JobState, TaskState
from jobs.planning.settle import STAYS, Settled, is_claimed, is_stale, may_order, settle
from jobs.planning.turns import Verdict, ending, turns
from jobs.planning.verdict import Ended, judge
from jobs.planning.world import Decision, JobPlan, JobView, Kind, Observation, Order, Plan, TaskChange, TaskView, World

PARK_FOR = timedelta(minutes=1)
STRANGER_GRACE = timedelta(seconds=30)
Live = tuple[JobView, Sequence[TaskView]]
MOST_PLACED = 512  # tasks placed in one pass: an answer to a Docker event never waits long behind a full queue
MOST_SETTLED = 512  # rows of live jobs changed in one pass, but a job whole: when a rack dies, no transaction is long


def plan(world: World) -> Plan:
    """What should change. Raises nothing for a single bad job; that one is parked."""
    made = Plan(purge=list(world.purgeable[:MOST_SETTLED]), more=len(world.purgeable) > MOST_SETTLED)
    starts = _Starts(world.nodes)
    nodes = {node.name for node in world.nodes}
    busy = [(job, tasks) for job, tasks in world.live if not _just_runs(world, nodes, job, tasks)]
    _settle_all(world, nodes, busy, made)
    _look_again(world, busy, made)
    _leftovers(world, nodes, made)
    _place_all(world, made)
    _order_starts(world, busy, made, starts)
    made.again_at = _again_at(world, busy)
    return made


def offered(world: World, held: dict[str, tuple[frozenset[str], frozenset[int]]]) -> list[NodeView]:
    """The nodes with what quarantine holds counted as taken."""
    nothing: tuple[frozenset[str], frozenset[int]] = (frozenset(), frozenset())
    return [
        replace(node, used_gpus=node.used_gpus | gpus, used_ports=node.used_ports | ports) if gpus or ports else node
        for node in world.nodes
        for gpus, ports in [held.get(node.name, nothing)]
    ]


# --- live jobs -----------------------------------------------------------------------------------------------------


def _settle_all(world: World, nodes: set[str], busy: Sequence[Live], made: Plan) -> None:
    settled = 0
    for job, tasks in busy:
        if settled >= MOST_SETTLED:
            made.more = True
            break
        found = _guarded(world, made, job, partial(_live, world, nodes, job, tasks))
        if found is not None:
            settled += len(found.changes) + bool(found.retry or found.after or found.decision)


def _live(world: World, nodes: set[str], job: JobView, tasks: Sequence[TaskView]) -> JobPlan:
    made = JobPlan(job)
    memory = {role.name: role.memory_mb for role in job.spec.task_roles}
    settled = {
        task.id: settle(
            task,
            world.observations.get(task.node),
            world.now,
            lost_after=world.lost_after,
            memory_mb=memory.get(task.role, 0),
            registered=task.node in nodes,
        )
        for task in tasks
        if task.state in TASK_LIVE
    }
    for task in tasks:
        one = settled.get(task.id, STAYS)
        if one.after is not None:
            made.changes.append(TaskChange(task, one.after, one.exit, one.container, collected=one.gone))
            # A claimed task has its start's claim still: collected now, the order would find it taken and be lost.
            ended = one.container is not None and one.container.phase is Phase.EXITED
            if ended and not is_claimed(task, world.now):
                made.orders.append(Order(Kind.COLLECT, task.id, task.node, task.container_name))
    decided = _decide(world, job, tasks, settled, made)
    if decided is not None:
        _wind_down(world, job, tasks, settled, decided, made)
    for task in tasks:
        order = settled.get(task.id, STAYS).order
        if order is not None and not (decided and order is Kind.START):
            made.orders.append(Order(order, task.id, task.node, task.container_name))
    return made


def _just_runs(world: World, nodes: set[str], job: JobView, tasks: Sequence[TaskView]) -> bool:
    """So it is with most jobs in most passes, and there is nothing to do: the short way to what ``_live`` would say."""
    if job.decided is not None or job.stopping:
        return False
    for task in tasks:
        seen = world.observations.get(task.node)
        if task.state is not TaskState.RUNNING or seen is None or not seen.reachable or task.node not in nodes:
            return False
        container = seen.containers.get(task.container_name)
        if container is None or container.phase is not Phase.RUNNING:
            return False
    return bool(tasks)


def _decide(
    world: World, job: JobView, tasks: Sequence[TaskView], settled: dict[int, Settled], made: JobPlan
) -> Exit | None:
    if job.decided is not None:
        return job.decided
    if job.stopping:
        made.decision = Decision(exits.job_stopped(job.stopped_by))
    else:
        made.decision = judge(job.spec, [_as_ended(task, settled.get(task.id, STAYS), world.now) for task in tasks])
    return made.decision.exit if made.decision else None


def _as_ended(task: TaskView, one: Settled, now: datetime) -> Ended:
    if one.after in TASK_ENDS:
        finished = one.container.finished_at if one.container else None
        return Ended(task.role, task.index, one.after, one.exit, finished or now)
    exit_ = Exit.from_json(task.exit) if task.exit else None
    return Ended(task.role, task.index, one.after or task.state, exit_, task.finished_at)


def _wind_down(
    world: World,
    job: JobView,
    tasks: Sequence[TaskView],
    settled: dict[int, Settled],
    decided: Exit,
    made: JobPlan,
) -> None:
    """The attempt is over: what still lives must go; once nothing does, the job ends or is tried again."""
    made.changes = [change for change in made.changes if change.after in TASK_ENDS]  # to RUNNING is passed over
    ended = {change.task.id for change in made.changes}
    live = [task for task in tasks if task.state not in TASK_ENDS and task.id not in ended]
    for task in live:
        if task.state is TaskState.WAITING:
            made.changes.append(TaskChange(task, TaskState.STOPPED, exits.task_stopped(), collected=True))
        elif task.state is not TaskState.STOPPING:
            made.changes.append(TaskChange(task, TaskState.STOPPING))
    if not any(task.state is not TaskState.WAITING for task in live):
        _finish(world, job, decided, made)


def _finish(world: World, job: JobView, decided: Exit, made: JobPlan) -> None:
    retry = exits.decide_retry(
        decided,
        retry_count=job.spec.retry_count,
        user_retries=job.user_retries,
        platform_retries=job.platform_retries,
        resource_retries=job.resource_retries,
        random_unit=world.random,
    )
    if retry.retry and job.stopping and decided.code != exits.JOB_STOPPED:
        made.decision = Decision(exits.job_stopped(job.stopped_by))  # it would have been tried again
        decided = made.decision.exit
    else:
        made.retry = retry  # with the reason also when it is not tried again
        if retry.retry:
            return
    made.after = end_state(decided)


def end_state(exit_: Exit) -> JobState:
    if exit_.code == exits.SUCCEEDED:
        return JobState.SUCCEEDED
    return JobState.STOPPED if exit_.code == exits.JOB_STOPPED else JobState.FAILED


def _look_again(world: World, busy: Sequence[Live], made: Plan) -> None:
    """A worker has given up a task (its start was refused or withdrawn) after the node was last listed."""
    for _, tasks in busy:
        for task in tasks:
            seen = world.observations.get(task.node)
            waits = task.state is TaskState.STOPPING or (task.state is TaskState.STARTING and task.fault is not None)
            if waits and seen is not None and seen.reachable and is_stale(task, seen):
                made.look.add(task.node)


# --- containers that belong to no live task --------------------------------------------------------------------------


def _leftovers(world: World, nodes: set[str], made: Plan) -> None:
    """Ended tasks are collected, then forgotten; what belongs to no task is removed after a grace period."""
    uncollected = {task.id for task in world.leftovers}
    for task in world.leftovers:
        seen = world.observations.get(task.node)
        if task.node not in nodes:
            made.collected.append(task.id)
        elif seen is not None and seen.reachable and may_order(task, world.now) and _is_sure(task, seen):
            made.orders.append(Order(Kind.COLLECT, task.id, task.node, task.container_name))
    live = {task.container_name for _, tasks in world.live for task in tasks if task.state in TASK_LIVE}
    for name, seen in world.observations.items():
        others = [container for container in seen.containers.values() if container.name not in live]
        _hold(made, name, others)
        if seen.reachable and name in nodes:
            for container in others:
                owner = world.owners.get(container.name)
                if owner is None or owner.task not in uncollected:
                    _stray(world, seen, container, made)
    made.to_hold = {
        node.name: found for node in world.nodes if (found := made.held.get(node.name, node.held)) != node.held
    }


def _is_sure(task: TaskView, seen: Observation) -> bool:
    """What the picture shows is there; what is missing in a picture older than the row may only not be there yet."""
    return task.container_name in seen.containers or not is_stale(task, seen)


def _stray(world: World, seen: Observation, container: ContainerStatus, made: Plan) -> None:
    """One whose task has been collected is back, or outlived it: it goes as soon as a picture younger than the row
    shows it. In an older picture it may be the one that has just been removed."""
    node, owner = seen.node, world.owners.get(container.name)
    if owner is not None:
        if owner.read_at < seen.at:
            made.orders.append(Order(Kind.REMOVE, 0, node, container.name))
        return
    first = world.strangers.get((node, container.name), world.now)
    made.strangers[node, container.name] = first
    if world.now - first >= STRANGER_GRACE:
        made.orders.append(Order(Kind.REMOVE, 0, node, container.name))


def _hold(made: Plan, node: str, others: Sequence[ContainerStatus]) -> None:
    """GPUs and ports in the hands of containers without an allocation: not offered until they are seen gone."""
    gpus: set[str] = set()
    ports: set[int] = set()
    for container in others:
        if container.phase is Phase.RUNNING:
            gpus.update(filter(None, container.labels.get(LABEL_GPUS, "").split(",")))
            ports.update(int(port) for port in container.labels.get(LABEL_PORTS, "").split(",") if port.isdigit())
    made.held[node] = (frozenset(gpus), frozenset(ports))


# --- waiting jobs ----------------------------------------------------------------------------------------------------


def _place_all(world: World, made: Plan) -> None:
    """Ends those that will never start, and places those whose turn it is."""
    for job in ending(world.waiting):
        _guarded(world, made, job, partial(_end_waiting, job))
    unseen = {node.name for node in world.nodes} - world.observations.keys()
    placed = 0
    nodes = offered(world, made.held)
    for turn in turns(world.waiting, nodes, world.stopped_vcs, world.now, unseen, only_tried=True):
        if turn.error is not None:
            made.jobs.append(_parked(turn.job, turn.error))
        elif turn.verdict is Verdict.GO:
            if placed >= MOST_PLACED:
                made.more = True
                break
            made.jobs.append(JobPlan(turn.job, places=turn.places))
            placed += len(turn.places)


def _end_waiting(job: JobView) -> JobPlan:
    """Its tasks never started: apply stops them with the job."""
    stopped = job.stopping or job.deleted
    exit_ = exits.job_stopped(job.stopped_by) if stopped else exits.never_fits(job.never)
    return JobPlan(job, decision=Decision(exit_), after=end_state(exit_))


# --- starts, and when to look again ----------------------------------------------------------------------------------


class _Starts:
    """At most twice its cores are started on a node at once: beyond that an engine only queues."""

    def __init__(self, nodes: Sequence[NodeView]) -> None:
        self._left = {node.name: max(2, 2 * node.cpus) for node in nodes}

    def take(self, node: str) -> bool:
        self._left[node] = self._left.get(node, 0) - 1
        return self._left[node] >= 0


def _order_starts(world: World, busy: Sequence[Live], made: Plan, starts: _Starts) -> None:
    """Keep only as many start orders a node as it takes at once; the rest is ordered in later passes."""
    for _, tasks in busy:
        for task in tasks:
            if task.state is TaskState.STARTING and task.ordered_at and not may_order(task, world.now):
                starts.take(task.node)
    for job_plan in made.jobs:
        job_plan.orders = [
            order for order in job_plan.orders if order.kind is not Kind.START or starts.take(order.node)
        ]
        for place in job_plan.places or ():
            if starts.take(place.node):
                job_plan.start_now.add((place.role, place.index))


def _again_at(world: World, busy: Sequence[Live]) -> datetime | None:
    """The next moment at which the clock alone changes the plan."""
    moments = [job.not_before for job in world.waiting if job.not_before and job.not_before > world.now]
    for seen in world.observations.values():
        if not seen.reachable and seen.unreachable_since:
            moments.append(seen.unreachable_since + timedelta(seconds=world.lost_after))
    moments += [
        task.claimed_until
        for _, tasks in busy
        for task in tasks
        if task.claimed_until is not None and is_claimed(task, world.now)
    ]
    return min((moment for moment in moments if moment > world.now), default=None)


def _guarded(world: World, made: Plan, job: JobView, make: Callable[[], JobPlan]) -> JobPlan | None:
    """Add what ``make`` plans for the job; None when it is parked, or raised and so is parked now."""
    if job.parked_until is not None and job.parked_until > world.now:
        return None
    try:
        found = make()
    except Exception as error:
        made.jobs.append(_parked(job, error))
        return None
    if not found.is_empty:
        made.jobs.append(found)
    return found


def _parked(job: JobView, error: Exception) -> JobPlan:
    return JobPlan(job, parked=f"{type(error).__name__}: {error}")
