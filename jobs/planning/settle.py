"""Compares one live task with what its node says, and decides its next state and what to order. Pure.

Recovery is this function: after a crash of any part, the next pass calls it with the rows and the nodes as they are.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from clusters.engines.runtime import ContainerStatus, Look, Phase
from jobs.planning import exits
from jobs.planning.ends import USUAL, Ending
from jobs.planning.exits import Exit
from jobs.planning.lifecycle import TaskState
from jobs.planning.world import PAUSED, OrderKind, TaskView

# How long a worker's claim on a task lasts; progress renews it.
LEASE = timedelta(seconds=30)
# An order that no worker has taken up after this long is given again. Taking it up twice does no harm.
ORDER_LAPSE = timedelta(seconds=15)
# Pause before a start is ordered again that could not proceed: the file store is down, or the engine does not answer.
RETRY_LAPSE = timedelta(seconds=3)


@dataclass(frozen=True, slots=True)
class Settled:
    """What happens to a task. ``after`` is its next state, None when it stays; ``gone`` means that no container is left
    to collect; ``held`` is its container when that is held for debugging from now on (v1 contract, 5.8); ``says`` is
    what there is to say of it while it runs, None when that stays."""

    after: TaskState | None = None
    exit: Exit | None = None
    container: ContainerStatus | None = None
    gone: bool = False
    order: OrderKind | None = None
    step: str = ""  # of an order to stop it
    held: ContainerStatus | None = None
    says: str | None = None


NO_CHANGE = Settled()


def settle(
    task: TaskView,
    seen: Look | None,
    now: datetime,
    *,
    lost_after: float,
    memory_mb: int,
    registered: bool = True,
    ending: Ending = USUAL,
) -> Settled:
    """Say what happens to a live task. ``seen`` is None when nobody has looked at its node yet; ``memory_mb`` is the
    limit of the task; ``registered`` says whether its node still is; ``ending`` is how it is told to end. Raises what a
    fault raises that cannot be read."""
    if not registered:
        return _lost(task, gone=True)
    if seen is None:
        return NO_CHANGE
    if not seen.reachable:
        return _lost(task, gone=False, slow=seen.slow) if now >= seen.lost_at(lost_after) else NO_CHANGE
    container = seen.containers.get(task.container_name)
    if container is not None and task.changed_at < seen.at:  # also an old picture is right about what it shows
        if container.phase is Phase.EXITED:
            return _ended(task, container, memory_mb)
        if container.phase is Phase.RUNNING and task.state is TaskState.STARTING:
            return Settled(TaskState.RUNNING, container=container, held=container if container.held else None)
        if task.state is TaskState.RUNNING and lives_again(task, container):
            exit_ = _as_held(task, exits.restarted(task.label))
            return Settled(TaskState.FAILED, exit=exit_, container=container)
        if container.held and task.held_at is None and task.state is TaskState.RUNNING:
            return Settled(held=container)
        if container.phase is Phase.RUNNING and task.state is TaskState.RUNNING and task.progress != note(container):
            return Settled(says=note(container))
    if is_stale(task, seen):
        return NO_CHANGE
    if task.state is TaskState.STARTING:
        return _starting(task, container, seen, now)
    if task.state is TaskState.RUNNING:
        return _running(task, container, seen, now)
    return _stopping(task, container, seen, now, ending)


def note(container: ContainerStatus) -> str:
    """What there is to say of a container that runs."""
    return PAUSED if container.paused else ""


def lives_again(task: TaskView, container: ContainerStatus) -> bool:
    """Whether the task's container runs for the second time: somebody restarted it by hand. What came over its standard
    input at its start is not sent again, so it may wait for ever, and whatever it had in memory is gone."""
    before, now = task.container_started_at, container.started_at
    return container.phase is Phase.RUNNING and before is not None and now is not None and before != now


def is_stale(task: TaskView, seen: Look) -> bool:
    """Whether the row changed, or a worker did something for it, after the node was listed."""
    return task.changed_at >= seen.at or (task.fact_at is not None and task.fact_at >= seen.at)


def is_claimed(task: TaskView, now: datetime) -> bool:
    """Whether a worker is at work on the task."""
    return task.claimed_until is not None and task.claimed_until > now


def is_ordered(task: TaskView, now: datetime) -> bool:
    """Whether a worker is at work on it, or may still take up the last order."""
    return is_claimed(task, now) or (task.ordered_at is not None and now - task.ordered_at < ORDER_LAPSE)


def may_order(task: TaskView, seen: Look, now: datetime) -> bool:
    """Whether work on the task may be ordered (again). An order from before the engine was away is void when it
    answers: the worker who took it up found nobody, and nothing else would be done for it until it lapses."""
    if not is_ordered(task, now):
        return True
    since = seen.answers_since
    return not is_claimed(task, now) and since is not None and task.ordered_at is not None and task.ordered_at < since


def _starting(task: TaskView, container: ContainerStatus | None, seen: Look, now: datetime) -> Settled:
    if task.fault is not None and not is_claimed(task, now):
        fault = task.fault
        exit_ = exits.from_fault(fault["reason"], fault["sentence"], bool(fault["permanent"]))
        return Settled(TaskState.FAILED, exit=exit_, gone=container is None)
    return Settled(order=OrderKind.START) if may_order(task, seen, now) or _came_back(task, now) else NO_CHANGE


def _came_back(task: TaskView, now: datetime) -> bool:
    """A worker took up the order, could not proceed, and some time has passed."""
    if task.fact_at is None or task.ordered_at is None or is_claimed(task, now):
        return False
    return task.fact_at >= task.ordered_at and now - task.fact_at >= RETRY_LAPSE


def _running(task: TaskView, container: ContainerStatus | None, seen: Look, now: datetime) -> Settled:
    """A container that is kept for debugging goes on holding what it holds. It ends when its time is over (its own
    start script sees to that), when its job is stopped, or when somebody releases it."""
    if container is None:
        # what was read of its log stays
        return Settled(TaskState.FAILED, exit=_as_held(task, exits.container_lost(task.label)))
    if (container.held or task.held_at is not None) and task.released_at is not None and may_order(task, seen, now):
        return Settled(order=OrderKind.RELEASE)
    return NO_CHANGE


def _stopping(task: TaskView, container: ContainerStatus | None, seen: Look, now: datetime, ending: Ending) -> Settled:
    if is_claimed(task, now):
        return NO_CHANGE  # a start is under way: it asks again before it creates the container, and gives up
    if container is None:
        return Settled(TaskState.STOPPED, exit=exits.task_stopped(), gone=not task.container_id)
    if container.phase is Phase.CREATED:
        return Settled(TaskState.STOPPED, exit=exits.task_stopped())  # it never ran: its container is to be removed
    step, at = ending.next_step(task.told, task.told_at, task.ordered_at, now)
    if at is None or task.ordered_at is None:
        is_due = may_order(task, seen, now)
    else:  # an order for an earlier step is no order for this one
        is_due = at <= now and (task.ordered_at < at or may_order(task, seen, now))
    return Settled(order=OrderKind.STOP, step=step) if is_due else NO_CHANGE


def _ended(task: TaskView, container: ContainerStatus, memory_mb: int) -> Settled:
    """Its container has exited. A task is STOPPED if somebody was ordered to stop it before; one that ended by itself
    earlier has the end that it had. Times of nodes do not count here: their clocks may differ from ours."""
    if task.state is TaskState.STOPPING and task.ordered_at is not None:
        return Settled(TaskState.STOPPED, exit=exits.task_stopped(), container=container)
    exit_ = _as_held(task, exits.classify(container, memory_mb, label=task.label))
    after = TaskState.SUCCEEDED if exit_.code == exits.SUCCEEDED else TaskState.FAILED
    return Settled(after, exit=exit_, container=container)


def _lost(task: TaskView, *, gone: bool, slow: bool = False) -> Settled:
    if task.state is TaskState.STOPPING:
        return Settled(TaskState.STOPPED, exit=exits.task_stopped(), gone=gone)
    return Settled(TaskState.FAILED, exit=_as_held(task, exits.node_lost(task.node, slow=slow)), gone=gone)


def _as_held(task: TaskView, exit_: Exit) -> Exit:
    """The end of a task whose command had failed before, and whose container was only kept for debugging: however that
    container ends, the task is judged by what its command did."""
    if task.held_at is None or not task.exit or exit_.blame != "the cluster":
        return exit_
    return Exit.from_json(task.exit)
