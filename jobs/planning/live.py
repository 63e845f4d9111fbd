"""Plans one running job: settles its tasks, judges the attempt, and ends what is over. Pure.

Most jobs just run, and most looks at nodes show what the last ones did. As long as a job's rows, the containers of its
nodes and the nodes are the same objects as in the last pass, it is not looked at again (``Standing``), so that a pass
costs as much as has changed.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from datetime import datetime

from clusters.engines.runtime import ContainerStatus, FaultReason, Look, Phase
from clusters.placement.fit import NodeView
from clusters.placement.shares import Quota
from jobs.planning import exits, retries
from jobs.planning.ends import grace_of
from jobs.planning.exits import Exit
from jobs.planning.leftovers import NOTHING, offered, quarantined, to_write
from jobs.planning.lifecycle import TASK_END_STATES, TASK_LIVE_STATES, JobState, TaskState
from jobs.planning.queue.scene import Runner
from jobs.planning.queue.unchanged import pauses
from jobs.planning.queue.users.waiting_lines import WaitingLines
from jobs.planning.settle import NO_CHANGE, Settled, is_claimed, is_stale, lives_again, may_order, settle
from jobs.planning.streak import MANY
from jobs.planning.verdict import JudgedTask, judge
from jobs.planning.world import (
    Decision,
    Eviction,
    HeldTask,
    JobPlan,
    JobView,
    LiveJob,
    Order,
    OrderKind,
    Quarantined,
    TaskChange,
    TaskView,
    World,
)


def settle_job(world: World, nodes: Collection[str], job: JobView, tasks: Sequence[TaskView]) -> JobPlan:
    """Plan everything that a running job needs now. ``nodes`` are the names of the registered ones. Raises what a row
    raises that cannot be read."""
    made = JobPlan(job)
    memory = {role.name: role.memory_mb for role in job.spec.task_roles}
    settled = {
        task.id: _at_last(
            job,
            settle(
                task,
                world.looks.get(task.node),
                world.now,
                lost_after=0 if task.node in world.gone else world.lost_after,
                memory_mb=memory.get(task.role, 0),
                registered=task.node in nodes,
                ending=job.ending,
            ),
        )
        for task in tasks
        if task.state in TASK_LIVE_STATES
    }
    for task in tasks:
        outcome = settled.get(task.id, NO_CHANGE)
        if outcome.after is not None:
            made.changes.append(
                TaskChange(task, outcome.after, outcome.exit, outcome.container, collected=outcome.gone)
            )
            # A worker that collects finds it taken while the claim of its start is open, and the order would be lost.
            ended = outcome.container is not None and outcome.container.phase is Phase.EXITED
            if ended and not is_claimed(task, world.now):
                made.orders.append(Order(OrderKind.COLLECT, task.id, task.node, task.container_name))
        if outcome.held is not None:
            made.held.append(
                HeldTask(task, exits.held(outcome.held, memory.get(task.role, 0), f"The command of {task.label}"))
            )
        if outcome.says is not None:
            made.noted.append((task, outcome.says))
    decided = _decide(world, job, tasks, settled, made)
    if decided is not None:
        _wind_down(world, job, tasks, settled, decided, made)
    for task in tasks:
        order = settled.get(task.id, NO_CHANGE).order
        if order is not None and not (decided and order in (OrderKind.START, OrderKind.RELEASE)):
            step = settled[task.id].step
            made.orders.append(Order(order, task.id, task.node, step or task.container_name))
    return made


def _at_last(job: JobView, settled: Settled) -> Settled:
    """A registry that no node ever knew, and none has reached in MANY attempts, is what the job has got wrong: it ends,
    where it would be tried again otherwise."""
    if settled.exit is None or settled.exit.fault != FaultReason.REGISTRY_UNKNOWN or job.alike(settled.exit) < MANY:
        return settled
    return replace(settled, exit=exits.given_up(settled.exit, MANY))


def just_runs(world: World, nodes: Collection[str], job: JobView, tasks: Sequence[TaskView]) -> bool:
    """Whether ``settle_job`` would plan nothing, as for most jobs in most passes; a shorter way to know it."""
    if job.decided is not None or job.stopping or job.is_over(world.now):
        return False
    for task in tasks:
        seen = world.looks.get(task.node)
        if task.node in world.drained or world.in_the_way(job, task.node):
            return False
        if task.state is not TaskState.RUNNING or seen is None or not seen.reachable or task.node not in nodes:
            return False
        container = seen.containers.get(task.container_name)
        if container is None or container.phase is not Phase.RUNNING or container.held:
            return False
        if container.paused or task.progress or lives_again(task, container):
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
        made.decision = judge(job.spec, [_as_ended(task, settled.get(task.id, NO_CHANGE), world.now) for task in tasks])
        if made.decision is None and job.is_over(world.now):
            made.decision = Decision(exits.out_of_time(job.spec.asked.max_run_seconds or 0))
        leaves = _leaves(world, job, tasks, settled) if made.decision is None else None
        if leaves and not end_holds(world, made, _held(tasks, settled), leaves.reason):
            made.evicted = leaves
            made.decision = Decision(exits.evicted(leaves.reason))
    return made.decision.exit if made.decision else None


def _leaves(world: World, job: JobView, tasks: Sequence[TaskView], settled: dict[int, Settled]) -> Eviction | None:
    """Why it gives up a node on which one of the tasks lives: that is drained, or others have it by appointment."""
    for task in tasks:
        if task.state in TASK_LIVE_STATES and settled.get(task.id, NO_CHANGE).after not in TASK_END_STATES:
            held = f"what it held on node {task.node}"
            if task.node in world.drained:
                return Eviction(held, f"Node {task.node} is being drained.")
            if span := world.in_the_way(job, task.node):
                when = span.sentence_for_others([task.node], world.now)
                return Eviction(held, f"It makes room for an appointment on {when}")
    return None


def _held(tasks: Sequence[TaskView], settled: Mapping[int, Settled]) -> list[TaskView]:
    """The tasks whose containers are kept for debugging, and will be after this pass."""
    found = []
    for task in tasks:
        outcome = settled.get(task.id, NO_CHANGE)
        is_running = task.state is TaskState.RUNNING and outcome.after is None
        if is_running and (task.held_at is not None or outcome.held is not None):
            found.append(task)
    return found


def held_in(tasks: Sequence[TaskView]) -> list[TaskView]:
    return _held(tasks, {})


def end_holds(world: World, made: JobPlan, held: Sequence[TaskView], reason: str) -> bool:
    """Before a job gives something up, what it only keeps for debugging ends, as if somebody had released it: then the
    attempt is judged by what its commands did. Returns whether there is anything to wait for."""
    for task in held:
        seen = world.looks.get(task.node)
        if task.released_at is None:
            made.released.append(task)
            made.released_for = reason
            if seen is not None and may_order(task, seen, world.now):
                made.orders.append(Order(OrderKind.RELEASE, task.id, task.node, task.container_name))
    return bool(held)


def end_attempt(world: World, job: JobView, tasks: Sequence[TaskView], decision: Decision) -> JobPlan:
    """The plan that ends the attempt of a running job of which nothing else is planned in this pass."""
    made = JobPlan(job, decision=decision)
    _wind_down(world, job, tasks, {}, decision.exit, made)
    return made


def _as_ended(task: TaskView, settled: Settled, now: datetime) -> JudgedTask:
    if settled.after in TASK_END_STATES:
        finished = settled.container.finished_at if settled.container else None
        return JudgedTask(task.role, task.index, settled.after, settled.exit, finished or now)
    exit_ = Exit.from_json(task.exit) if task.exit else None
    return JudgedTask(task.role, task.index, settled.after or task.state, exit_, task.finished_at)


def _wind_down(
    world: World, job: JobView, tasks: Sequence[TaskView], settled: dict[int, Settled], decided: Exit, made: JobPlan
) -> None:
    """The attempt is over: the tasks that still live must stop. Once none does, the job ends or is tried again."""
    made.changes = [change for change in made.changes if change.after in TASK_END_STATES]  # none begins to run now
    made.held, made.noted, made.released = [], [], []
    if made.decision is not None:
        most = world.quotas.get(job.vc, Quota()).grace
        grace = grace_of(decided.code, job.spec.asked, most, world.eviction_grace)
        made.decision = replace(made.decision, grace=grace)
    ended = {change.task.id for change in made.changes}
    live = [task for task in tasks if task.state not in TASK_END_STATES and task.id not in ended]
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
        alike=job.alike(decided),
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


def nodes_to_relist(world: World, busy: Sequence[LiveJob]) -> set[str]:
    """The nodes to list again: a worker gave up a task there, because its start was refused or withdrawn, after the
    last list."""
    nodes = set()
    for _, tasks in busy:
        for task in tasks:
            seen = world.looks.get(task.node)
            waits = task.state is TaskState.STOPPING or (task.state is TaskState.STARTING and task.fault is not None)
            if waits and seen is not None and seen.reachable and is_stale(task, seen):
                nodes.add(task.node)
    return nodes


class Standing:
    """The knowledge of live jobs and containers that a pass leaves to the next one. ``update`` brings it up to date;
    the rest is what follows from the World of that moment. Without an earlier pass everything is looked at."""

    def __init__(self) -> None:
        self.names: Collection[str] = frozenset()  # of the registered nodes
        self.others: dict[str, list[ContainerStatus]] = {}  # by node, containers of no live task
        self.quarantine: dict[str, Quarantined] = {}  # by node
        self.to_write: dict[str, Quarantined] = {}  # those that differ from the rows
        self.offered: Sequence[NodeView] = ()  # the nodes with what is in quarantine counted as taken
        self.running: tuple[Sequence[JobView], Sequence[Sequence[int]]] = (), ()  # live jobs, and the tasks of each
        self.ends: list[datetime] = []  # at which live jobs are stopped, as their configs say
        self.pauses: Collection[datetime] = frozenset()  # of waiting jobs
        self.lines = WaitingLines[JobView]()
        self._runners: dict[int, tuple[LiveJob, tuple[str, ...], Runner[JobView]]] = {}  # by id of the job
        self._all: tuple[object, object, list[Runner[JobView]]] = None, None, []  # of these live jobs and holds
        self._seen: World | None = None
        self._quiet: dict[int, LiveJob] = {}  # by id of the job: those that just ran
        self._containers: Collection[str] = frozenset()  # names of those of live tasks

    def update(self, world: World) -> list[LiveJob]:
        """Return the live jobs that do more than run, in their order."""
        before, self._seen = self._seen, world
        looks, known = world.looks, before.looks if before is not None else {}
        news = {name for name, look in looks.items() if not _is_same(known.get(name), look)} | (
            known.keys() - looks.keys()
        )
        has_nodes = before is not None and world.nodes is before.nodes
        if not has_nodes:
            names, self.names = self.names, frozenset(node.name for node in world.nodes)
            if names != self.names:
                self._quiet = {}
        if before is None or (world.drained, world.appointed) != (before.drained, before.appointed):
            self._quiet = {}
        if before is None or world.waiting is not before.waiting or world.rests != before.rests:
            self.pauses = pauses(world.waiting, world.rests)
        is_other = before is None or world.live is not before.live
        if is_other:
            self._take_over(world.live)
        if any(end <= world.now for end in self.ends):
            self._quiet = {}
        elif news:
            moved = {job.id for job, tasks in self._quiet.values() if any(task.node in news for task in tasks)}
            self._quiet = {id: pair for id, pair in self._quiet.items() if id not in moved}
        if is_other or news or not has_nodes:
            self._look_at(looks, looks.keys() | known.keys() if is_other else news)
            self.to_write = to_write(world.nodes, self.quarantine)
            self.offered = offered(world.nodes, self.quarantine)
        if len(self._quiet) == len(world.live):
            return []
        again = [pair for pair in world.live if pair[0].id not in self._quiet]
        busy = [pair for pair in again if not just_runs(world, self.names, *pair)]
        left = {job.id for job, _ in busy}
        self._quiet |= {pair[0].id: pair for pair in again if pair[0].id not in left}
        return busy

    def runners(self, world: World) -> list[Runner[JobView]]:
        """The live jobs with what they hold."""
        if self._all[0] is world.live and self._all[1] is world.holds:
            return self._all[2]
        known, self._runners = self._runners, {}
        for pair in world.live:
            job, tasks = pair
            before, keys, runner = known.get(job.id, (None, (), None))
            keys = keys if before is pair else tuple(str(task.id) for task in tasks)
            holds = tuple([hold for hold in map(world.holds.get, keys) if hold is not None])
            if before is not pair or runner is None or runner.holds != holds:
                runner = Runner(job, holds)
            self._runners[job.id] = pair, keys, runner
        self._all = world.live, world.holds, [runner for _, _, runner in self._runners.values()]
        return self._all[2]

    def _take_over(self, live: Sequence[LiveJob]) -> None:
        known = self._quiet
        self._quiet = {pair[0].id: pair for pair in live if known.get(pair[0].id) is pair}
        self._containers = frozenset(
            task.container_name for _, tasks in live for task in tasks if task.state in TASK_LIVE_STATES
        )
        self.running = [job for job, _ in live], [[task.id for task in tasks] for _, tasks in live]
        self.ends = [job.ends_by for job, _ in live if job.ends_by is not None]

    def _look_at(self, looks: Mapping[str, Look], nodes: Collection[str]) -> None:
        for name in nodes:
            self.others.pop(name, None)
            self.quarantine.pop(name, None)
            if name in looks:
                others = [each for each in looks[name].containers.values() if each.name not in self._containers]
                self.quarantine[name] = quarantined(others) if others else NOTHING
                if others:
                    self.others[name] = others


def _is_same(before: Look | None, now: Look) -> bool:
    return before is now or (
        before is not None and before.containers is now.containers and before.reachable == now.reachable
    )
