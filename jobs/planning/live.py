"""Plans one running job: settles its tasks, judges the attempt, and ends what is over. Pure."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime

from clusters.engines.runtime import Phase
from jobs.planning import exits, retries
from jobs.planning.exits import Exit
from jobs.planning.lifecycle import TASK_ENDS, TASK_LIVE, JobState, TaskState
from jobs.planning.settle import STAYS, Settled, is_claimed, is_stale, settle
from jobs.planning.verdict import Ended, judge
from jobs.planning.world import Decision, Evicted, JobPlan, JobView, KeptTask, Kind, Order, TaskChange, TaskView, World


def settle_job(world: World, nodes: Collection[str], job: JobView, tasks: Sequence[TaskView]) -> JobPlan:
    """Everything that a running job needs now. ``nodes`` are the names of the registered ones. Raises what a row raises
    that cannot be read."""
    made = JobPlan(job)
    memory = {role.name: role.memory_mb for role in job.spec.task_roles}
    settled = {
        task.id: settle(
            task,
            world.observations.get(task.node),
            world.now,
            lost_after=0 if task.node in world.gone else world.lost_after,
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
            # A worker that collects finds it taken while the claim of its start is open, and the order would be lost.
            ended = one.container is not None and one.container.phase is Phase.EXITED
            if ended and not is_claimed(task, world.now):
                made.orders.append(Order(Kind.COLLECT, task.id, task.node, task.container_name))
        if one.kept is not None:
            made.kept.append(KeptTask(task, one.kept.held_code))
    decided = _decide(world, job, tasks, settled, made)
    if decided is not None:
        _wind_down(world, job, tasks, settled, decided, made)
    for task in tasks:
        order = settled.get(task.id, STAYS).order
        if order is not None and not (decided and order in (Kind.START, Kind.RELEASE)):
            made.orders.append(Order(order, task.id, task.node, task.container_name))
    return made


def just_runs(world: World, nodes: Collection[str], job: JobView, tasks: Sequence[TaskView]) -> bool:
    """Whether ``settle_job`` would plan nothing, as for most jobs in most passes; a shorter way to know it."""
    if job.decided is not None or job.stopping or job.is_over(world.now):
        return False
    for task in tasks:
        seen = world.observations.get(task.node)
        if task.node in world.drained:
            return False
        if task.state is not TaskState.RUNNING or seen is None or not seen.reachable or task.node not in nodes:
            return False
        container = seen.containers.get(task.container_name)
        if container is None or container.phase is not Phase.RUNNING or container.held:
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
        if made.decision is None and job.is_over(world.now):
            made.decision = Decision(exits.out_of_time(job.spec.asked.max_run_seconds or 0))
        if made.decision is None and (drained := _drained(world, tasks, settled)):
            made.evicted = Evicted(f"what it held on node {drained}", f"Node {drained} is being drained.")
            made.decision = Decision(exits.evicted(made.evicted.reason))
    return made.decision.exit if made.decision else None


def _drained(world: World, tasks: Sequence[TaskView], settled: dict[int, Settled]) -> str:
    """A node that is being drained and on which one of the tasks lives."""
    live = (task for task in tasks if task.state in TASK_LIVE and settled.get(task.id, STAYS).after not in TASK_ENDS)
    return next((task.node for task in live if task.node in world.drained), "")


def end_attempt(world: World, job: JobView, tasks: Sequence[TaskView], decision: Decision) -> JobPlan:
    """The plan that ends the attempt of a running job of which nothing else is planned in this pass."""
    made = JobPlan(job, decision=decision)
    _wind_down(world, job, tasks, {}, decision.exit, made)
    return made


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
    """The attempt is over: the tasks that still live must stop. Once none does, the job ends or is tried again."""
    made.changes = [change for change in made.changes if change.after in TASK_ENDS]  # none begins to run now
    made.kept = []
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
    retry = retries.decide_retry(
        decided,
        retry_count=job.spec.retry_count,
        user_retries=job.user_retries,
        platform_retries=job.platform_retries,
        resource_retries=job.resource_retries,
        random_unit=world.random,
    )
    if retry.retry and job.stopping and decided.code != exits.JOB_STOPPED:
        made.decision = Decision(exits.job_stopped(job.stopped_by))  # instead of another attempt
        decided = made.decision.exit
    else:
        made.retry = retry  # its reason is shown also when no attempt follows
        if retry.retry:
            return
    made.after = end_state(decided)


def end_state(exit_: Exit) -> JobState:
    """The state of a job whose last attempt ended so."""
    if exit_.code == exits.SUCCEEDED:
        return JobState.SUCCEEDED
    return JobState.STOPPED if exit_.code == exits.JOB_STOPPED else JobState.FAILED


def to_look_at(world: World, busy: Sequence[tuple[JobView, Sequence[TaskView]]]) -> set[str]:
    """The nodes to list again: a worker gave up a task there, because its start was refused or withdrawn, after the
    last list."""
    nodes = set()
    for _, tasks in busy:
        for task in tasks:
            seen = world.observations.get(task.node)
            waits = task.state is TaskState.STOPPING or (task.state is TaskState.STARTING and task.fault is not None)
            if waits and seen is not None and seen.reachable and is_stale(task, seen):
                nodes.add(task.node)
    return nodes
