"""Why a job waits, in words: its turn as jobs/planning/turns.py decides it, and how it failed before. Beside that,
when somebody asks for it: every node, who holds what the job needs, what its virtual cluster may use, and the
smallest changes that start it, which takes more than a pass may."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar, cast

from django.utils import timezone

from base.core import words
from base.core.clock import cpu_deadline
from base.hosts import predecessor
from base.models import User
from clusters.placement.blockers import could
from clusters.placement.fit import Blocker
from clusters.placement.grid import GridRow, grid
from clusters.placement.shares import Amount, add
from clusters.vcs.grants import priorities
from jobs import access, queries
from jobs.config.spec import JobSpec
from jobs.models import Job
from jobs.planning.lifecycle import JobState
from jobs.planning.queue.scene import Runner
from jobs.planning.queue.sentences import at_minute
from jobs.planning.streak import Streak, streak
from jobs.planning.turns import Move, Turn
from jobs.waiting.changes import Change, smallest_changes
from jobs.waiting.queue import WaitingJob, recent_queue, turn_now
from jobs.waiting.reason import Ahead, Forecast, Reason, ReservedNodes, WaitingReason, blocker_item
from jobs.waiting.words import current, not_before

R = TypeVar("R", bound=Reason)
_NOT_SEEN = "The next pass of the scheduler looks at it."  # it came, or got its place, since the queue was looked at
MOST_AHEAD = 5  # jobs named of those that start before this one


def turn_of(job: Job) -> Turn[WaitingJob] | None:
    """Its turn; None when it does not wait, or is about to end."""
    return turn_now(job.pk) if job.state == JobState.WAITING else None


def waiting_reason(job: Job, turn: Turn[WaitingJob] | None, before: Streak | None = None) -> WaitingReason:
    """Why a job waits. ``turn`` is of ``turn_of``; ``before`` of ``earlier``, for those who know it."""
    if (turn is None or turn.queue.scene.is_held) and (held := predecessor.sentence()):
        return {"summary": held, "blockers": [{"kind": "restored", "sentence": held}], "ahead": []}
    if turn is None:
        if job.execution == Job.Execution.STOP or job.deleted_at is not None:
            return {"summary": "It does not start any more; it ends in a moment.", "blockers": [], "ahead": []}
        return {"summary": _NOT_SEEN, "blockers": [{"kind": "pass", "sentence": _NOT_SEEN}], "ahead": []}
    now = timezone.now()
    after = not_before(job.forecast, now)
    told = _reason(turn, explain(job, turn, before), current(job.forecast, now))
    reason: WaitingReason = {**told, "notBefore": after or 0}
    if after is None:
        del reason["notBefore"]
    return reason


def reason_if_submitted(turn: Turn[WaitingJob], forecast: Mapping[str, int] | None) -> Reason:
    """Return, as ``waiting_reason``, that of a job that is not submitted yet; ``forecast`` is {"p10", "p50", "p90"}."""
    return _reason(turn, access.told(turn.blockers, turn.job.username), forecast)


def _reason(turn: Turn[WaitingJob], blockers: list[Blocker], forecast: Mapping[str, int] | None) -> Reason:
    kinds = {blocker.kind for blocker in blockers}
    is_queued = not kinds & {"never", "parked"}
    reason: Reason = {
        "summary": _summary(blockers),
        "blockers": [blocker_item(blocker) for blocker in blockers],
        "ahead": _ahead(turn) if is_queued and "queue" in kinds else [],
    }
    if is_queued:
        reason["position"] = turn.position
    if turn.reservation:
        reason["reservation"] = reservation(turn)
    if forecast:
        reason["forecast"] = cast(Forecast, forecast)
    return reason


def reservation(turn: Turn[WaitingJob]) -> ReservedNodes:
    """The room that is reserved for a job, ``{"nodes", "sentence"}``; of a turn that has some."""
    assert turn.reservation is not None
    nodes = turn.reservation.names
    sentence = f"Room is kept for it on {words.listing(nodes)}: what comes free there goes to this job first."
    scene = turn.queue.scene
    idling = scene.idlings.get(turn.job.vc)
    if idling is not None and idling.job == turn.job.id and idling.lapses_at is not None:
        at = at_minute(idling.lapses_at, scene.now)
        sentence += f" If it idles on, others may use it for a time from {at} ({words.zone(scene.now)})."
    return {"nodes": nodes, "sentence": sentence}


def explain(job: Job, turn: Turn[WaitingJob], before: Streak | None = None) -> list[Blocker]:
    """Everything that keeps it from starting, most telling first. Empty: it is about to be placed. That it was evicted
    keeps it from nothing."""
    blockers = access.told(turn.blockers, job.username)
    if any(blocker.kind == "parked" for blocker in blockers):
        return blockers
    before = before or earlier(job)
    return [Blocker("failed", before.says), *blockers] if before and not before.is_eviction else blockers


def earlier(job: Job) -> Streak | None:
    """How its attempts before this one failed; one query, and none for a first attempt."""
    if job.attempt_number == 1:
        return None
    return streak(queries.earlier_ends(job), JobSpec.from_json(job.spec).retry_count)


def _ahead(turn: Turn[WaitingJob]) -> list[Ahead]:
    return [{"name": f"{job.username}~{job.name}"} for job in turn.ahead[:MOST_AHEAD]]


def _summary(blockers: list[Blocker]) -> str:
    if not blockers:
        return "Nothing is in the way; it starts in a moment."
    if len(blockers) == 1 or blockers[0].kind == "failed":
        return blockers[0].sentence
    return f"{len(blockers)} things keep this job waiting."


MOST_NODES = 200  # rows of the grid
MOST_IN_THE_WAY = 20
SECONDS = 0.5  # of CPU in which changes are tried


@dataclass(frozen=True, slots=True)
class InTheWay:
    """A running job on a node that could do, and what it holds there."""

    job: WaitingJob
    gpus: int
    cpus: int
    nodes: Sequence[str]


@dataclass(frozen=True, slots=True)
class UseWithJob:
    """What the virtual cluster uses, and would use with the job, by resource ("cpu", "memory" in MB, "gpu", "gpu:T"). A
    resource that the ceiling does not name has none."""

    guarantee: Amount
    ceiling: Amount
    used: Amount
    with_job: Amount


@dataclass(frozen=True, slots=True)
class WhyWaiting(Generic[R]):
    """``reason`` is that of ``waiting_reason``. ``rows`` are the first of the grid, ``more`` the
    number of those left out."""

    reason: R
    changes: Sequence[Change]
    in_the_way: Sequence[InTheWay]
    use: UseWithJob
    reserved: Sequence[str]
    rows: Sequence[GridRow]
    more: int


def why(job: Job) -> WhyWaiting[WaitingReason] | None:
    """Everything about why a job waits; None for one that does not wait, or is about to end."""
    turn = turn_of(job)
    if turn is None:
        return None
    return of_turn(turn, waiting_reason(job, turn), _changes(job, turn))


def offered(job: Job) -> Sequence[Change]:
    """The changes that ``why`` shows."""
    turn = turn_of(job)
    return _changes(job, turn) if turn is not None else ()


def _changes(job: Job, turn: Turn[WaitingJob]) -> Sequence[Change]:
    if turn.error is not None:  # what the job asks for cannot be read
        return ()
    seen, question = recent_queue(), ("changes", job.pk, job.changed_at)
    if question not in seen.answers:
        owner = User.objects.filter(username=job.username).first()
        vcs = priorities(owner.username, is_admin=owner.is_admin) if owner else {}
        # To try a change takes about as long as the turns did. Where others let very much wait nothing is tried.
        is_over = cpu_deadline(SECONDS, step=seen.cost)
        seen.answers[question] = smallest_changes(turn, vcs, is_over)
    changes: Sequence[Change] = seen.answers[question]
    return changes


def of_turn(turn: Turn[WaitingJob], reason: R, changes: Sequence[Change]) -> WhyWaiting[R]:
    """Everything about why this job waits, also for one that is not submitted yet. Where it starts now, nothing is in
    its way."""
    waits = turn.error is None and turn.move is not Move.GO
    rows = grid(turn.queue.left(), turn.job.demands, turn.job.vc) if waits else []
    return WhyWaiting(
        reason=reason,
        changes=changes,
        in_the_way=_in_the_way(turn) if waits else [],
        use=use_with(turn),
        reserved=turn.reservation.names if turn.reservation else (),
        rows=rows[:MOST_NODES],
        more=max(0, len(rows) - MOST_NODES),
    )


def use_with(turn: Turn[WaitingJob]) -> UseWithJob:
    scene, queue, vc = turn.queue.scene, turn.queue, turn.job.vc
    quota, used = scene.quota(vc), scene.use.get(vc, {})
    with_job = dict(used)
    if turn.error is None:
        add(with_job, queue.amount(turn.job, turn.placements) if turn.placements else queue.asked(turn.job.demands))
    return UseWithJob(quota.guarantee, quota.ceiling, used, with_job)


def _in_the_way(turn: Turn[WaitingJob]) -> list[InTheWay]:
    """Return who is in its way, those with the most GPUs, or cores, first."""
    shape = max(turn.job.demands, key=lambda demand: demand.gpus)
    nodes = {node.name for node in turn.queue.scene.nodes if node.serves(turn.job.vc) and could(node, shape)}
    there = [held for runner in turn.queue.runners if (held := _held(runner, nodes)) and (held.gpus or not shape.gpus)]
    most = sorted(there, key=lambda held: (-held.gpus, -held.cpus, held.job.username, held.job.name))
    return most[:MOST_IN_THE_WAY]


def _held(runner: Runner[WaitingJob], nodes: set[str]) -> InTheWay | None:
    holds = [hold for hold in runner.holds if hold.node in nodes]
    if not holds:
        return None
    return InTheWay(
        job=runner.job,
        gpus=sum(len(hold.gpu_ids) for hold in holds),
        cpus=sum(hold.cpus for hold in holds),
        nodes=sorted({hold.node for hold in holds}),
    )
