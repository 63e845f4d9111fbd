"""What the queue is worked out from: the waiting jobs, and what the cluster and the running jobs look like. Pure."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Generic, Protocol, TypeVar

from clusters.placement.fit import Demand, NodeView
from clusters.placement.room import Room
from clusters.placement.shares import Amount, Hold, Quota
from jobs.planning.forecast.lengths import Lengths, Like
from jobs.planning.queue.awaited import Awaited

LAST = "~"  # ``Waiting.since`` of a job that is behind all others: it sorts after every moment


@dataclass(frozen=True, slots=True)
class Waiting:
    """What the queue goes by, of a job that waits or runs. Fields named as a column of Job are read from it, for the
    planner and for pages alike (jobs/scheduling/columns.py)."""

    id: int
    vc: str
    username: str = ""
    name: str = ""
    stopping: bool = False
    deleted: bool = False
    never: str = ""  # no registered node could ever run it: found when it was submitted
    not_before: datetime | None = None
    parked_until: datetime | None = None
    awaits: int = 0  # jobs that must end before it starts
    unmet: str = ""  # why it waits for one of them in vain
    priority: int = 0
    since: str = ""  # when it was submitted, or counts as submitted: a text that sorts as the moment does
    is_guest: bool = False  # it runs on room that is reserved for another job
    guest_evictions: int = 0
    evictions: int = 0  # as a borrower
    started_at: datetime | None = None  # when its attempt was placed, for one that runs
    ends_by: datetime | None = None  # when that one ends at the latest, if its config says so
    avoid: frozenset[str] = (
        frozenset()
    )  # nodes on which its last attempt could not start, or of which its failure makes it suspicious

    @property
    def demands(self) -> tuple[Demand, ...]:
        """What its tasks ask of nodes; the same object for every job of the same shape. Read only when it may start."""
        raise NotImplementedError

    @property
    def awaited(self) -> Sequence[Awaited]:
        """The jobs that must end before it starts, ``awaits`` in number. Read only when somebody asks why it waits."""
        raise NotImplementedError

    @property
    def is_preemptible(self) -> bool:
        """Whether its owner agreed to its eviction (``extras.preemptible``)."""
        return False

    @property
    def most_seconds(self) -> int | None:
        """How long it may run at most (``extras.maxRunSeconds``)."""
        return None

    def would_end(self, now: datetime) -> datetime | None:
        """When it ends at the latest if it starts now."""
        return None if self.most_seconds is None else now + timedelta(seconds=self.most_seconds)

    @property
    def title(self) -> str:
        """user/job, for sentences."""
        return f"{self.username}/{self.name}"

    @property
    def like(self) -> Like:
        """What it has in common with the jobs from which its length is learnt."""
        gpus = self.demands[0].gpus if self.demands else 0
        return Like(self.username, self.name.rpartition("/")[2], gpus, self.vc)  # the planner's names have the user too

    @property
    def is_ending(self) -> bool:
        """Whether its attempt is over, so that what it holds comes back soon."""
        return self.stopping or self.deleted


W = TypeVar("W", bound=Waiting)


class HasId(Protocol):
    @property
    def id(self) -> int: ...


@dataclass(frozen=True, slots=True)
class Policy:
    """Settings of the queue."""

    reservations: int = 4  # at once; a virtual cluster has one at most
    guest_evictions: int = 2  # after so many a job is no guest again
    evictions: int = 3  # after so many a job that borrows is not evicted again
    depth: int = 1000  # jobs looked at behind one that has a reservation


POLICY = Policy()


NOTHING_LEARNT: Lengths = Lengths(())


@dataclass(frozen=True)
class Scene(Generic[W]):
    """The cluster at one moment. ``nodes`` are all registered ones with what is taken on them; nothing is placed on
    those whose names are ``unseen``, but they count for what could be placed once they are seen. ``running`` gives the
    running jobs with their tasks, and ``holds`` what a task holds, by its id as a text; both are asked for only when
    somebody's room has to be found."""

    nodes: Sequence[NodeView]
    now: datetime
    quotas: Mapping[str, Quota] = field(default_factory=dict)
    use: Mapping[str, Amount] = field(default_factory=dict)  # by virtual cluster
    unseen: Collection[str] = ()
    running: Callable[[], Sequence[tuple[W, Sequence[HasId]]]] = tuple
    # Whether a running job ends, is a guest or says when it ends, where that is known without ``running``.
    moves: bool | None = None
    holds: Mapping[str, Hold] = field(default_factory=dict)
    policy: Policy = POLICY
    # How long jobs of the like ran; asked for only when somebody's room has to be found.
    lengths: Callable[[], Lengths] = lambda: NOTHING_LEARNT
    # For those who ask for turn after turn: what each running job holds, a Room of the same nodes as they were a moment
    # ago, and one as if nothing ran. Without them all that is worked out from the rest.
    held: Callable[[], Iterable[tuple[W, Sequence[Hold]]]] | None = None
    before: Room | None = None
    idle: Room | None = None
    # The moment for which ends are worked out; without it, it is now (jobs/planning/queue/still.py).
    step: datetime | None = None

    @property
    def about(self) -> datetime:
        """Now, as far as it is compared with ends, which are only likely."""
        return self.step or self.now

    def likely_end(self, job: W) -> datetime | None:
        """When a running job ends, or a waiting one would if it started now: as it says itself, or as jobs of the like
        did; None where neither is known."""
        known = job.would_end(self.about) if job.started_at is None else job.ends_by
        lengths = self.lengths()
        if not lengths:
            return known
        began = job.started_at or self.about
        ran = max(0.0, (self.about - began).total_seconds())
        likely = began + timedelta(seconds=lengths.likely_of(job, ran))
        return likely if known is None else min(known, likely)

    def quota(self, vc: str) -> Quota:
        """That of a virtual cluster which is gone has no guarantee and no ceiling."""
        return self.quotas.get(vc, _NO_QUOTA)

    def holding(self) -> Iterable[tuple[W, Sequence[Hold]]]:
        """The running jobs with what their tasks hold."""
        if self.held is not None:
            return self.held()
        return ((job, self.held_by(tasks)) for job, tasks in self.running())

    def held_by(self, tasks: Sequence[HasId]) -> list[Hold]:
        return [hold for task in tasks if (hold := self.holds.get(str(task.id))) is not None]


_NO_QUOTA = Quota()
