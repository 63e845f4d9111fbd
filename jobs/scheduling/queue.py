"""The turns of the waiting jobs, worked out when somebody asks, from what the rows say then.

Two queries beside those for the nodes, however many jobs wait: only of jobs that may start now, and of those asked
for, the specs are read.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, NamedTuple

from django.db.models import Exists, OuterRef, Q
from django.utils import timezone

from clusters.nodes.queries import Ledger
from clusters.placement.fit import Demand, in_force
from clusters.placement.shares import quotas
from clusters.vcs.queries import load_rights
from jobs.config.demands import demands
from jobs.config.spec import JobSpec
from jobs.history.lengths import learnt
from jobs.models import Attempt, Job, Task
from jobs.planning.lifecycle import TASK_LIVE, JobState
from jobs.planning.queue.awaited import Awaited
from jobs.planning.queue.lines import in_order
from jobs.planning.queue.reservations import Reservation
from jobs.planning.queue.scene import LAST, Scene, Waiting
from jobs.planning.turns import Turn, turns
from jobs.scheduling import columns
from jobs.scheduling.columns import Specs
from jobs.scheduling.load import policy
from portal.core.bulk import read_values

_NO_ROW = 0  # no job has this id
_RESERVED = "reserved"
MANY = 1_000  # waiting jobs: of more, a picture is looked at for a while
KEPT, LONGEST = 15.0, 120.0  # seconds; between them, ten times as long as an answer took on a busy machine


@dataclass(frozen=True, slots=True, kw_only=True)
class Queued(Waiting):
    """A waiting job's row; its spec is read when its turn comes."""

    specs: Specs
    is_decided: bool = False  # its attempt is over, and its last containers are ending

    @property
    def demands(self) -> tuple[Demand, ...]:
        return self.specs.shape(self.id)

    @property
    def awaited(self) -> Sequence[Awaited]:
        return self.specs.awaited(self.id)

    @property
    def is_preemptible(self) -> bool:
        return self.specs.asked(self.id).preemptible

    @property
    def most_seconds(self) -> int | None:
        return self.specs.asked(self.id).max_run_seconds

    @property
    def is_ending(self) -> bool:
        return self.stopping or self.deleted or self.is_decided


class _Task(NamedTuple):
    id: int


def turns_of(ids: Collection[int]) -> dict[int, Turn[Queued]]:
    """The turns of these jobs, by job; one that does not wait, or is about to end, has none."""
    found: dict[int, Turn[Queued]] = {}
    if ids:
        specs = Specs(ids)
        for turn in turns(*_read(specs)):
            if turn.job.id in ids:
                found[turn.job.id] = turn
            if len(found) == len(ids):
                break
    return found


def picture() -> tuple[list[Queued], Scene[Queued]]:
    """All that wait, and the cluster with what runs, as the rows are now: for those who play the queue forward, or ask
    what would happen to a job that is not submitted yet."""
    return _read(Specs(()))


@dataclass(slots=True)
class Picture:
    """All that wait, and the cluster, for those who ask again and again. ``answers`` are those that were given, by
    question, and ``took`` is how many seconds the longest of them took."""

    waiting: Sequence[Queued]
    scene: Scene[Queued]
    answers: dict[object, Any] = field(default_factory=dict)
    took: float = 0.0


_recent: tuple[float, Picture] | None = None  # with when it was read
_reading = threading.Lock()  # who comes while it is read waits for it


def recent_picture() -> Picture:
    """As the rows are now; where very many jobs wait, as they were a moment ago."""
    global _recent
    with _reading:
        if _recent is not None and time.monotonic() - _recent[0] < min(LONGEST, max(KEPT, 10 * _recent[1].took)):
            return _recent[1]
        found = Picture(*picture())
        _recent = (time.monotonic(), found) if len(found.waiting) > MANY else None
        return found


def forget() -> None:
    global _recent
    _recent = None
    columns.forget()


def reservations() -> Sequence[Reservation[Queued]]:
    """The room that is kept for jobs, as in ``recent_picture``. One query where nobody waits."""
    if not Job.objects.filter(state=JobState.WAITING, deleted_at__isnull=True).exists():
        return ()
    seen = recent_picture()
    if _RESERVED not in seen.answers:
        kept = [turn.reservation for turn in turns(seen.waiting, seen.scene, only_tried=True)]
        seen.answers[_RESERVED] = tuple(one for one in kept if one is not None)
    found: Sequence[Reservation[Queued]] = seen.answers[_RESERVED]
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Unsent(Queued):
    """The job that would come of a config if it were submitted now."""

    spec: JobSpec
    shape: tuple[Demand, ...]
    awaits_jobs: Sequence[Awaited] = ()

    @property
    def demands(self) -> tuple[Demand, ...]:
        return self.shape

    @property
    def awaited(self) -> Sequence[Awaited]:
        return self.awaits_jobs

    @property
    def is_preemptible(self) -> bool:
        return self.spec.asked.preemptible

    @property
    def most_seconds(self) -> int | None:
        return self.spec.asked.max_run_seconds


def turn_if_submitted(
    waiting: Sequence[Queued], scene: Scene[Queued], spec: JobSpec, awaited: Sequence[Awaited], username: str
) -> Turn[Queued]:
    """The turn that a job of this spec would have in this picture if this user submitted it now. ``awaited`` is what it
    would wait for."""
    last = Unsent(
        _NO_ROW,
        spec.effective_virtual_cluster,
        username,
        spec.job_name,
        awaits=len(awaited),
        priority=spec.asked.priority,
        since=LAST,
        specs=Specs(()),
        spec=spec,
        shape=demands(spec),
        awaits_jobs=awaited,
    )
    return next(turn for turn in turns([*waiting, last], scene) if turn.job is last)


def _read(specs: Specs) -> tuple[list[Queued], Scene[Queued]]:
    """All that wait, and the cluster as the rows say it is."""
    rows = Job.objects.filter(state=JobState.WAITING, deleted_at__isnull=True).annotate(**columns.ASKED)
    rows = rows.annotate(moves=Exists(Job.objects.filter(_MOVING, state=JobState.RUNNING)))
    found = read_values(rows.values_list(*columns.QUEUE, "moves"))
    waiting = [Queued(*values, specs=specs) for *values, _ in found]
    specs.ids = [job.id for job in in_order(waiting)]
    columns.forget_others(waiting)
    return waiting, _scene(specs, any(row[-1] for row in found[:1]))


def _scene(specs: Specs, moves: bool) -> Scene[Queued]:
    """Of running jobs rows are read when the turns ask for them. ``moves``: whether one of them ends, is a guest or
    says when it ends."""
    ledger = Ledger()
    nodes = in_force(ledger.nodes(), timezone.now())
    return Scene(
        nodes=nodes,
        now=timezone.localtime(),
        quotas=quotas(load_rights(), *ledger.wholes()),
        use=ledger.use(),
        running=cache(lambda: _running(specs)),
        moves=moves,
        holds=ledger.holds(),
        policy=policy(),
        lengths=learnt,
    )


_DECIDED = Exists(Attempt.objects.filter(job=OuterRef("id"), decided_at__isnull=False, completed_at__isnull=True))
_MOVING = (
    Q(ends_by__isnull=False)
    | Q(_DECIDED)
    | Q(is_guest=True)
    | Q(execution=Job.Execution.STOP)
    | Q(deleted_at__isnull=False)
)


def _running(specs: Specs) -> list[tuple[Queued, list[_Task]]]:
    """The running jobs with their live tasks: two queries."""
    tasks: dict[int, list[_Task]] = {}
    live = Task.objects.filter(state__in=sorted(TASK_LIVE))
    for id, job in live.values_list("id", "job_id"):
        tasks.setdefault(job, []).append(_Task(id))
    rows = Job.objects.filter(state=JobState.RUNNING).annotate(**columns.ASKED, is_decided=_DECIDED)
    found = read_values(rows.values_list(*columns.QUEUE, "is_decided"))
    jobs = [Queued(*values, specs=specs, is_decided=is_decided) for *values, is_decided in found]
    specs.running = {job.id for job in jobs}
    return [(job, tasks.get(job.id, [])) for job in jobs]
