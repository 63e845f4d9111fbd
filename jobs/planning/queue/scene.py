"""What the queue is worked out from: the waiting jobs, and what the cluster and the running jobs look like. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import cached_property
from typing import Generic, TypeVar

from clusters.appointments.rules import Span
from clusters.placement.fit import Blocker, Demand, NodeView, Placement, Wanted
from clusters.placement.free import FreeNodes
from clusters.placement.shares import Amount, Hold, Quota, add, named_gpus, of_gpus, wanted
from jobs.planning.queue.appointments import Appointed
from jobs.planning.queue.idling.rule import Idlings
from jobs.planning.queue.lengths import Lengths, LikeJobs
from jobs.planning.queue.users.used_lately import UsesLately

REST, LONGEST_REST = timedelta(minutes=5), timedelta(hours=12)  # of who was evicted as a borrower
QUIET, MOST_EVICTIONS = timedelta(days=1), 8  # each quiet day takes one off; from so many on the rest is the longest
LAST = "~"  # ``SchedulableJob.since`` of a job that is behind all others: it sorts after every moment
# So long users with smaller shares come first; less than the longest rest, so that an eviction puts it off no further.
OVERDUE = timedelta(hours=6)


_ENDS = {"SUCCEEDED": "succeeded", "FAILED": "failed", "STOPPED": "was stopped"}
_STATES = {"WAITING": "is waiting", "RUNNING": "is running", **_ENDS}


def since_text(moment: datetime) -> str:
    """``SchedulableJob.since`` of a job that came at this moment."""
    return f"{moment.astimezone(UTC):%Y-%m-%d %H:%M:%S.%f}"


@dataclass(frozen=True, slots=True)
class Awaited:
    """A job that another one waits for. ``name`` is user~job; ``condition`` says which end it waits for: "success" or
    any "end"; ``state`` is the job's own. A job between two attempts has not ended."""

    name: str
    condition: str
    state: str
    has_ended: bool

    @property
    def is_met(self) -> bool:
        return self.has_ended and (self.condition == "end" or self.state == "SUCCEEDED")

    @property
    def in_vain(self) -> str:
        """Why the other job cannot start any more; empty while it may."""
        if not self.has_ended or self.is_met:
            return ""
        return f"It was to start after {self._title} had succeeded, but that job {_ENDS.get(self.state, 'ended')}."

    @property
    def says_end(self) -> str:
        """The Event of the other job when this one has ended."""
        return self.in_vain or f"{self._title}, which it waited for, {_ENDS.get(self.state, 'ended')}."

    @property
    def blocker(self) -> Blocker:
        until = "has succeeded" if self.condition == "success" else "has ended"
        now = _STATES.get(self.state, self.state)
        return Blocker("dependency", f"It starts after {self._title} {until}; that job {now}.", job=self.name)

    @property
    def _title(self) -> str:
        return self.name.replace("~", "/", 1)


@dataclass(frozen=True, slots=True)
class Resting:
    """A user of whom jobs left borrowed room for others, which then started. Whatever they stop, delete or submit, none
    of theirs borrows before ``until``, in whichever virtual cluster: what they borrow is the same room. ``evictions``
    is how often that was, less the quiet days since. What ran already when one was ``counted`` belongs to that one:
    twenty may leave for one owner. ``owner`` is the job, user/name, that started last so."""

    evictions: int
    counted: datetime
    last: datetime
    owner: str = ""

    @property
    def until(self) -> datetime:
        return self.last + min(LONGEST_REST, 2.0 ** min(self.evictions, MOST_EVICTIONS) * REST)

    def on_clock(self, today: datetime, now: datetime) -> Resting:
        """The same by a clock that says ``now`` when this one says ``today``; none of it comes later than that."""
        counted, last = (now + min(moment - today, timedelta(0)) for moment in (self.counted, self.last))
        return replace(self, counted=counted, last=last)


Rests = Mapping[str, Resting]  # by user
# The users whose borrowers were evicted for a job that waits, each with the moment, as a text of ISO 8601, at which the
# youngest of those had started; empty where nobody knows.
Displaced = Mapping[str, str]


def displaced_by(before: Displaced | None, evicted: Iterable[tuple[str, datetime | None]]) -> Displaced:
    """The users that a job displaces once these borrowers, each its user and when it started, are evicted for it."""
    after = dict(before or {})
    for username, started in evicted:
        after[username] = max(after.get(username, ""), started.astimezone(UTC).isoformat() if started else "")
    return after


def rests_after(rests: Rests, displaced: Displaced | None, owner: str, now: datetime) -> Rests:
    """The rests once the job ``owner``, which displaced these, has started: only then their evictions count, so that
    nobody makes others rest by claims that they take back."""
    after = dict(rests)
    for username, started in (displaced or {}).items():
        rest = after.get(username, Resting(0, now, now)).on_clock(now, now)
        evictions = max(0, min(rest.evictions, MOST_EVICTIONS) - (now - rest.last) // QUIET)
        if not evictions or not started or datetime.fromisoformat(started) >= rest.counted:
            after[username] = Resting(min(evictions + 1, MOST_EVICTIONS), now, now, owner)
        else:
            after[username] = replace(rest, evictions=evictions, last=now, owner=owner)
    return after


@dataclass(frozen=True, slots=True)
class SchedulableJob:
    """A job that waits or runs, with the fields that the queue goes by. Fields named as a column of Job are read from
    it, for the planner and for pages alike (jobs/scheduling/columns.py)."""

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
    # It was the first without room: no job of its priority whose user has a smaller share passes it before it starts.
    keeps_turn: bool = False
    place_of: str = ""  # a user whose share counts for its turn, as an admin moved it before a job of theirs
    since: str = ""  # when it was submitted, or counts as submitted: a text that sorts as the moment does
    is_guest: bool = False  # it runs on room that is reserved for another job
    guest_evictions: int = 0
    evictions: int = 0  # as a borrower
    displaced: Displaced | None = field(default=None, hash=False)  # for it, while it waits
    started_at: datetime | None = None  # when its attempt was placed, for one that runs
    ends_by: datetime | None = None  # when that one ends at the latest, if its config says so
    saved_at: datetime | None = None  # when its running attempt last said that it saved: that much is not lost

    @property
    def demands(self) -> tuple[Demand, ...]:
        """What its tasks ask of nodes; the same object for every job of the same shape. Read only when it may start."""
        raise NotImplementedError

    @property
    def avoid(self) -> frozenset[str]:
        """Nodes that it leaves to the last: those on which its last attempts could not start, of which their failure
        makes it suspicious, or that its config names. Read only when it may start."""
        return frozenset()

    @property
    def share_of(self) -> str:
        """The user whose share decides when its turn comes."""
        return self.place_of or self.username

    def is_delayed(self, now: datetime) -> bool:
        """Whether it would not start now if there were room."""
        until, parked = self.not_before, self.parked_until
        return self.awaits > 0 or (until is not None and until > now) or (parked is not None and parked > now)

    @property
    def salt(self) -> int:
        """The number from which free ports are looked for, another one for each job."""
        return self.id

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

    def rests_until(self, rests: Rests) -> datetime | None:
        """When it may borrow (again), after jobs of its user were evicted for that."""
        if not rests or (rest := rests.get(self.username)) is None:
            return None
        return rest.until

    def would_end(self, now: datetime) -> datetime | None:
        """When it ends at the latest if it starts now."""
        return None if self.most_seconds is None else now + timedelta(seconds=self.most_seconds)

    @property
    def title(self) -> str:
        """user/job, for sentences."""
        return f"{self.username}/{self.name}"

    @property
    def like(self) -> LikeJobs:
        """What it has in common with the jobs from which its length is learnt."""
        gpus = self.demands[0].gpus if self.demands else 0
        return LikeJobs(self.username, self.name, gpus, self.vc)

    @property
    def is_ending(self) -> bool:
        """Whether its attempt is over, so that what it holds comes back soon."""
        return self.stopping or self.deleted


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownJob(SchedulableJob):
    """A job of which it is known beforehand what it asks for. (Fields without a default are declared so, as the
    properties of SchedulableJob would count as one.)"""

    demands: tuple[Demand, ...] = field()
    is_preemptible: bool = False
    most_seconds: int | None = None


JobT = TypeVar("JobT", bound=SchedulableJob)


@dataclass(frozen=True, slots=True)
class Runner(Generic[JobT]):
    """A running job and what its tasks hold."""

    job: JobT
    holds: tuple[Hold, ...]

    @property
    def gpus(self) -> int:
        return sum(len(hold.gpu_ids) for hold in self.holds)

    def lost(self, now: datetime) -> float:
        """The GPU-seconds of its work that an eviction now would lose."""
        known = [moment for moment in (self.job.started_at, self.job.saved_at) if moment is not None]
        return self.gpus * max(0.0, (now - max(known)).total_seconds()) if known else 0.0


def holds_at(job: JobT, placements: Sequence[Placement]) -> tuple[Hold, ...]:
    """List what a job holds when its tasks run at these places."""
    return tuple(
        Hold(
            job.vc,
            place.node,
            demand.cpus,
            demand.memory_mb,
            place.gpu_ids,
            tuple(port for ports in place.ports.values() for port in ports),
        )
        for demand, place in zip(job.demands, placements, strict=True)
    )


def as_owner(job: JobT, victims: Iterable[Runner[JobT]]) -> JobT:
    """Make of a waiting job the one that it is once these are evicted for it. Guests borrow nothing."""
    borrowers = ((each.job.username, each.job.started_at) for each in victims if not each.job.is_guest)
    return replace(job, displaced=displaced_by(job.displaced, borrowers))


def as_evicted(job: JobT, *, counts: bool = True) -> JobT:
    """Make of a running job the waiting one that it is after its eviction. It remembers an eviction that ``counts``:
    what an admin does, to a job or a node, says nothing of what it borrowed."""
    was_guest = job.is_guest
    return replace(
        job,
        stopping=False,
        is_guest=False,
        displaced=None,
        started_at=None,
        ends_by=None,
        saved_at=None,
        guest_evictions=job.guest_evictions + (counts and was_guest),
        evictions=job.evictions + (counts and not was_guest),
    )


@dataclass(frozen=True, slots=True)
class Policy:
    """Settings of the queue."""

    reservations: int = 4  # at once; a virtual cluster has one at most
    guest_evictions: int = 2  # after so many a job is no guest again
    depth: int = 1000  # shapes that are tried behind a job without room, and jobs that are tried as guests


POLICY = Policy()


NO_LENGTHS: Lengths = Lengths(())


@dataclass(frozen=True)
class Scene(Generic[JobT]):
    """The cluster at one moment. ``nodes`` are all registered ones with what is taken on them; nothing is placed on
    those whose names are ``unseen``, but they count for what could be placed once they are seen. ``running`` gives the
    running jobs, and ``holds`` what all tasks hold, which is known with less work; both are asked for only when
    somebody's room has to be found."""

    nodes: Sequence[NodeView]
    now: datetime
    quotas: Mapping[str, Quota] = field(default_factory=dict)
    use: Mapping[str, Amount] = field(default_factory=dict)  # by virtual cluster
    unseen: Collection[str] = ()
    running: Callable[[], Sequence[Runner[JobT]]] = tuple
    # Whether a running job ends, is a guest or says when it ends, where that is known without ``running``.
    changes_by_itself: bool | None = None
    holds: Callable[[], Collection[Hold]] = tuple
    policy: Policy = POLICY
    rests: Rests = field(default_factory=dict)
    idlings: Idlings = field(default_factory=dict)  # what reservations keep idle
    spans: Sequence[Span] = ()  # the appointments that run or come, each with its next time
    # How long jobs of the like ran; asked for only when somebody's room has to be found.
    lengths: Callable[[], Lengths] = lambda: NO_LENGTHS
    # What users used lately; asked for only where jobs of several users wait in a virtual cluster.
    past: Callable[[], UsesLately] = dict
    # How many GPUs of each type waiting and running jobs ask for by its name. Who looks at a later moment leaves it as
    # it is now.
    named: Mapping[str, int] = field(default_factory=dict)
    # For those who ask for turn after turn: what was free on the same nodes a moment ago, and what is if nothing runs.
    # Without them that is worked out from the rest.
    before: FreeNodes | None = None
    idle: FreeNodes | None = None
    # The moment for which ends are worked out; without it, it is now (jobs/planning/queue/unchanged.py).
    step: datetime | None = None
    # How far the clock of the day, by which jobs came, is ahead of ``now``.
    clock_ahead: timedelta = timedelta(0)
    # Whether nothing starts, as the installation that was backed up may still run; for those who ask why.
    is_held: bool = False

    @property
    def rounded_now(self) -> datetime:
        """Now, as far as it is compared with ends, which are only likely."""
        return self.step or self.now

    def likely_end(self, job: JobT) -> datetime | None:
        """When a running job ends, or a waiting one would if it started now: as it says itself, or as jobs of the like
        did; None where neither is known."""
        now, lengths, began = self.step or self.now, self.lengths(), job.started_at
        known = job.would_end(now) if began is None else job.ends_by
        if not lengths:
            return known
        likely = lengths.likely_end(job, began or now, now)
        return likely if known is None else min(known, likely)

    @cached_property
    def wanted(self) -> Wanted:
        """How much each type of GPUs is wanted: a job that names none gets those that are wanted least."""
        return wanted(self.nodes, self.named)

    def naming(self, more: Sequence[Demand] = (), less: Sequence[Demand] = ()) -> Scene[JobT]:
        """The scene where a job asks for ``more`` by name, or none for ``less`` any longer."""
        named = Counter(self.named) + named_gpus([more])
        return replace(self, named=named - named_gpus([less]))

    @cached_property
    def appointed(self) -> Appointed:
        return Appointed(self.spans, self.now)

    @cached_property
    def gpu_types(self) -> Mapping[str, Mapping[str, str]]:
        """The types of each node's GPUs, by their ids."""
        return {node.name: dict(node.gpus) for node in self.nodes}

    def amount(self, holds: Iterable[Hold]) -> dict[str, float]:
        """Add up these holds."""
        amount: dict[str, float] = {}
        for hold in holds:
            kinds = self.gpu_types.get(hold.node, {})
            gpus = of_gpus(kinds.get(id, "") for id in hold.gpu_ids)
            add(amount, {"cpu": hold.cpus, "memory": hold.memory_mb, **gpus})
        return amount

    def quota(self, vc: str) -> Quota:
        """Return the quota of a virtual cluster. One that is gone has no guarantee and no ceiling."""
        quota = self.quotas.get(vc, _NO_QUOTA)
        return self.appointed.quota(vc, quota, self.nodes) if self.spans else quota


_NO_QUOTA = Quota()
