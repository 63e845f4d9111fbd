"""What the planner sees and what it decides, as values. Pure.

``World`` is one picture of the database and the engines, and ``Plan`` says what should change; ``planner.plan`` makes
the one of the other. jobs/scheduling/load.py reads the World, jobs/scheduling/apply.py carries out the Plan.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

from clusters.appointments.rules import Span
from clusters.engines.runtime import ContainerStatus, Look
from clusters.placement.fit import Demand, NodeView, Placement
from clusters.placement.pace import Pace
from clusters.placement.shares import Amount, Hold, Quota
from jobs.config.spec import JobSpec
from jobs.planning.ends import STOP_GRACE, Ending, ending_of
from jobs.planning.exits import Exit
from jobs.planning.lifecycle import JobState, TaskState
from jobs.planning.queue.idling.rule import Idlings
from jobs.planning.queue.lengths import Lengths
from jobs.planning.queue.scene import NO_LENGTHS, POLICY, Policy, Rests, SchedulableJob
from jobs.planning.queue.unchanged import UnchangedTurns
from jobs.planning.queue.users.used_lately import UsesLately
from jobs.planning.retries import RetryDecision
from jobs.planning.streak import Streak, are_alike

PAUSED = "paused: it goes on when somebody unpauses its container"
PARK_FOR = timedelta(minutes=1)  # how long a job is left alone whose planning raised
Quarantined = tuple[frozenset[str], frozenset[int]]  # GPU ids and ports of one node


@dataclass(frozen=True, slots=True)
class TaskView:
    """A task's row. Its times are those at which the scheduler learnt of them (jobs/scheduling/load.py)."""

    id: int
    job_id: int
    role: str
    index: int
    state: TaskState
    changed_at: datetime
    node: str
    container_name: str
    container_id: str
    ordered_at: datetime | None
    claimed_until: datetime | None
    fact_at: datetime | None
    fault: Mapping[str, Any] | None
    exit: Mapping[str, Any]
    finished_at: datetime | None
    held_at: datetime | None = None  # its container is held for debugging since then
    released_at: datetime | None = None  # somebody asked for its end
    told: str = ""  # the last signal by which a worker has told it that it ends, the first one at ``told_at``
    told_at: datetime | None = None
    progress: str = ""  # what a start that is under way waits for: its image, its files; of a task that runs PAUSED
    container_started_at: datetime | None = None  # by its engine's clock, and compared with what that engine says

    @property
    def label(self) -> str:
        return f"{self.role}-{self.index}"


@dataclass(frozen=True, slots=True, kw_only=True)
class JobView(SchedulableJob):
    """A job and its current attempt. ``decided`` is how the attempt ended, once that is known."""

    state: JobState
    spec: JobSpec
    demands: tuple[Demand, ...] = field()  # no default: the property of SchedulableJob would count as one
    attempt_number: int
    changed_at: datetime
    stopped_by: str = ""
    user_retries: int = 0
    platform_retries: int = 0
    resource_retries: int = 0
    decided: Exit | None = None
    grace: int = STOP_GRACE  # seconds between notice and KILL, once it is decided
    stops_now: bool = False  # somebody has cut that short
    before: Streak | None = None  # how its last attempts ended, as far as it matters
    avoid: frozenset[str] = field(default=frozenset())
    port_offset: int = 0  # of this installation, so that two of them on one node do not look at the same ports

    @property
    def salt(self) -> int:
        return self.id + 1009 * self.attempt_number + self.port_offset

    def alike(self, end: Exit) -> int:
        """How many attempts in a row ended in this way, with the current one, which ends so."""
        return 1 + (self.before.alike if self.before is not None and are_alike(self.before.exit, end) else 0)

    @property
    def ending(self) -> Ending:
        """How its containers are told to end, now that its attempt is over."""
        return ending_of(self.spec.asked, 0 if self.stops_now else self.grace)

    def is_over(self, now: datetime) -> bool:
        return self.ends_by is not None and self.ends_by <= now

    @property
    def is_preemptible(self) -> bool:
        return self.spec.asked.preemptible

    @property
    def most_seconds(self) -> int | None:
        return self.spec.asked.max_run_seconds

    @property
    def is_ending(self) -> bool:
        return self.stopping or self.deleted or self.decided is not None


LiveJob = tuple[JobView, Sequence[TaskView]]  # with all tasks of the attempt


@dataclass(frozen=True, slots=True)
class Owner:
    """The task that a container belongs to, and since when the scheduler knows the task's row as it is now."""

    task: int
    read_at: datetime


@dataclass(frozen=True, slots=True)
class World:
    """All rows and reports of engines that a pass goes by."""

    now: datetime
    nodes: Sequence[NodeView]
    looks: Mapping[str, Look]  # by node
    live: Sequence[LiveJob]  # that are RUNNING
    waiting: Sequence[JobView]  # in any order: jobs/planning/turns.py has the queue
    leftovers: Sequence[TaskView]  # ended tasks whose container may still be there
    purgeable: Sequence[int]  # deleted jobs of which nothing is left
    quotas: Mapping[str, Quota] = field(default_factory=dict)  # by virtual cluster, as the next one
    use: Mapping[str, Amount] = field(default_factory=dict)
    holds: Mapping[str, Hold] = field(default_factory=dict)  # by id of the task, as a text
    drained: frozenset[str] = frozenset()  # nodes that an admin wants empty
    spans: tuple[Span, ...] = ()  # the appointments that run or come, each with its next time
    appointed: Mapping[str, Span] = field(default_factory=dict)  # by node, the one that it has now
    gone: frozenset[str] = frozenset()  # silent nodes of which an admin says that they are gone for good
    policy: Policy = POLICY
    rests: Rests = field(default_factory=dict)
    past: UsesLately = field(default_factory=dict)  # of users, where several wait in a virtual cluster
    idlings: Idlings = field(default_factory=dict)  # what reservations keep idle
    lengths: Lengths = NO_LENGTHS  # how long jobs of the like ran
    named: Mapping[str, int] = field(default_factory=dict)  # GPUs that live jobs ask for by the name of their type
    owners: Mapping[str, Owner] = field(default_factory=dict)  # by name of the container, where it has one
    lost_after: float = 60.0  # seconds
    eviction_grace: int = 30  # seconds that an evicted job has which does not say how many it needs
    strangers: Mapping[tuple[str, str], datetime] = field(default_factory=dict)  # (node, container) -> first seen
    random: float = 0.5  # in [0, 1): spreads retries
    clock_ahead: timedelta = timedelta(0)  # how far the clock of the day is ahead of ``now``

    def in_the_way(self, job: JobView, node: str) -> Span | None:
        """The appointment of others that a job is in the way of on this node."""
        span = self.appointed.get(node)
        return None if span is None or span.holder.takes(job.vc, job.username, job.name) else span


class OrderKind(StrEnum):
    """What a worker is ordered to do."""

    START = "start"
    STOP = "stop"
    RELEASE = "release"  # end a container that is only held for debugging
    COLLECT = "collect"  # archive the log, then remove the container
    REMOVE = "remove"  # a container that belongs to nothing
    DIAGNOSE = "diagnose"  # say why an attempt failed


@dataclass(frozen=True, slots=True)
class Order:
    """Work for a worker, by id of the task; REMOVE by node and container name. For STOP ``container`` is the Step, for
    DIAGNOSE the application id of the attempt."""

    kind: OrderKind
    task: int = 0
    node: str = ""
    container: str = ""


@dataclass(frozen=True, slots=True)
class TaskChange:
    """A task that goes to another state."""

    task: TaskView
    after: TaskState
    exit: Exit | None = None
    container: ContainerStatus | None = None
    collected: bool = False  # there is no container to collect


@dataclass(frozen=True, slots=True)
class HeldTask:
    """A task whose command failed, as ``exit`` says, and whose container is held for debugging from now on."""

    task: TaskView
    exit: Exit


@dataclass(frozen=True, slots=True)
class Decision:
    """How the current attempt ended, known before its last container is gone."""

    exit: Exit
    trigger: str = ""  # the v1 text
    role: str = ""
    index: int | None = None
    grace: int = STOP_GRACE  # seconds that its containers have to end


@dataclass(frozen=True, slots=True)
class Eviction:
    """Why an attempt is evicted: for the job ``owner``, or because its node is drained. ``gives_back`` says in
    words what; ``reason``, which the victim's owner reads, does not name ``owner``."""

    gives_back: str
    reason: str
    owner: int | None = None
    owner_title: str = ""
    owner_attempt: int | None = None
    was_guest: bool = False


@dataclass(slots=True)
class JobPlan:
    """Everything one job needs, applied whole or not at all."""

    job: JobView
    changes: list[TaskChange] = field(default_factory=list)
    held: list[HeldTask] = field(default_factory=list)
    released: list[TaskView] = field(default_factory=list)  # whose hold ends, because of ``released_for``
    released_for: str = ""
    noted: list[tuple[TaskView, str]] = field(default_factory=list)  # running tasks, and what is said of each now
    placements: Sequence[Placement] = ()
    is_guest: bool = False  # the places are reserved for another job
    evicted: Eviction | None = None
    start_now: set[tuple[str, int]] = field(default_factory=set)  # (role, index) of the places whose starts are ordered
    decision: Decision | None = None
    after: JobState | None = None  # the job ends in this state
    retry: RetryDecision | None = None  # whether it gets a new attempt, and why
    parked: Exception | None = None  # what planning it raised: it is left alone for PARK_FOR
    orders: list[Order] = field(default_factory=list)

    @property
    def is_empty(self) -> bool:
        return self == JobPlan(self.job)


@dataclass(slots=True)
class Plan:
    """Everything that one pass changes."""

    jobs: list[JobPlan] = field(default_factory=list)
    orders: list[Order] = field(default_factory=list)  # for tasks that have ended and for strangers
    collected: list[int] = field(default_factory=list)  # ended tasks with nothing left to collect
    quarantine: Mapping[str, Quarantined] = field(default_factory=dict)  # by node
    to_write: Mapping[str, Quarantined] = field(default_factory=dict)  # quarantines that differ from those in the rows
    strangers: dict[tuple[str, str], datetime] = field(default_factory=dict)
    keeps: list[int] = field(default_factory=list)  # waiting jobs that keep their turn from now on
    purge: list[int] = field(default_factory=list)  # deleted jobs whose rows go
    look: set[str] = field(default_factory=set)  # nodes whose picture is too old to act on
    again_at: datetime | None = None  # the next moment at which time alone changes something
    more: bool = False  # the pass was full, so the next one follows at once
    idlings: Idlings | None = None  # what reservations keep idle from now on, where that differs from the World's
    unchanged: UnchangedTurns | None = None  # of the waiting jobs none was to be started, ended or made room for
    paces: Mapping[str, Pace] = field(default_factory=dict)  # by node, where its engine was asked to start something

    @property
    def goes_on(self) -> bool:
        """Whether what is written gives the next pass something to do: it makes room, or something has to be
        stopped."""
        return any(
            one.after or one.retry or one.decision or any(c.after is not TaskState.RUNNING for c in one.changes)
            for one in self.jobs
        )

    @property
    def is_empty(self) -> bool:
        """Whether nothing is to be written."""
        is_nothing = not (self.jobs or self.orders or self.collected or self.to_write or self.purge or self.keeps)
        return is_nothing and self.idlings is None
