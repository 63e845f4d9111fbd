"""Shows jobs as lines, for the list and the home page."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from urllib.parse import quote, urlencode

from django.db.models import Count, F, Q, QuerySet, Sum
from django.utils import timezone

from base.accounts.viewer import Viewer
from base.core import words
from base.hosts import predecessor
from jobs import access, queries
from jobs.metrics.idle import use_of
from jobs.models import Attempt, Job, Task
from jobs.planning.lifecycle import JobState, TaskState
from jobs.planning.streak import MANY, End, Streak, streak
from jobs.planning.turns import Move, Turn
from jobs.waiting.queue import WaitingJob, turns_of
from jobs.waiting.words import briefly, current, moment, not_before

_MOST_LOOKS = 5000  # nodes times different demands that are compared for one list, as a page must be quick


class Named:
    """Whatever belongs to one job: its name and its page."""

    __slots__ = ()
    username: str
    name: str

    @property
    def full_name(self) -> str:
        return f"{self.username}/{self.name}"

    @property
    def url(self) -> str:
        return job_url(self.username, self.name)


class JobRow:
    """One line. ``state`` is the one that pages show, STOPPING included. The column Time is the time from ``start`` to
    ``end``: how long it has waited, runs, or ran."""

    sweep: SweepRow | None = None  # the line stands for all jobs of it

    def __init__(self, job: Mapping[str, Any], known: _Known, viewer: Viewer) -> None:
        attempt, exit = known.attempts.get(job["id"], (0, {}))
        before, (says, is_idle) = known.before.get(job["id"]), known.use.get(job["id"], ("", False))
        is_live = job["state"] in queries.LIVE
        self.id, self.username, self.name, self.vc = job["id"], job["username"], job["name"], job["vc"]
        self.full_name, self.url = f"{self.username}/{self.name}", job_url(self.username, self.name)
        self.state = shown_state(job["state"], job["execution"])
        self.counts = known.counts.get(attempt, {})  # tasks of the current attempt by state
        self.gpus = gpu_text(job["total_gpus"], job["gpu_type"])  # "8 × A100"
        self.created_at: datetime = job["created_at"]
        self.start: datetime | None = job["queued_at" if job["state"] == JobState.WAITING else "started_at"]
        self.end: datetime | None = None if is_live else job["completed_at"]
        waits = self.state == JobState.WAITING
        self.next_try = _next_try(job) if waits else None  # it failed, and then it is tried again
        has_turn = waits and self.next_try is None
        # "1st in vision", and the first thing that it waits for; both empty unless it waits for its turn
        self.place, reason = known.reasons.get(job["id"], ("", "")) if has_turn else ("", "")
        happening = self._happening(job, exit, before, reason, known.doing.get(attempt, ""))
        self.happening = (happening or says) if access.may_read_details(viewer, self.username) else ""
        # It failed in the same way several times, or does not use its GPUs.
        self.is_warned = is_live and ((before is not None and before.is_warned) or (is_idle and not happening))
        self.retries = job["user_retries"] + job["platform_retries"] + job["resource_retries"]
        self.has_run = job["started_at"] is not None or job["attempt_number"] > 1  # else it has no log
        self.may_stop = access.may_stop(viewer, self.username, job["state"], job["execution"])
        self.sweep_id: int | None = job["sweep_id"]
        # The first change that its diagnosis offers its owner, and the page that makes it.
        mine = self.state == JobState.FAILED and self.username == viewer.username
        first = next(iter(exit.get("actions", ())), None) if mine else None
        self.action = first and (str(first["label"]), change_url(self.username, self.name, first["change"]))

    @property
    def part(self) -> str:
        """The id of the line's element, by which the live stream replaces it."""
        return f"job:{self.full_name}"

    def _happening(
        self, job: Mapping[str, Any], exit: Mapping[str, Any], before: Streak | None, reason: str, doing: str
    ) -> str:
        by = f" by {job['stopped_by']}" if job["stopped_by"] else ""
        if self.state == queries.STOPPING:
            return f"Stop asked{by}"
        if self.state == JobState.STOPPED:
            return f"Stopped{by}"
        if self.state == JobState.FAILED:
            return str(exit.get("cause") or exit.get("reason") or exit.get("exit", {}).get("sentence") or "")
        why = _said_of(before) if before else ""
        if self.next_try is not None:
            return why
        if self.state == JobState.WAITING:
            return " ".join(filter(None, (why, _likely(job["forecast"]), reason)))
        return why if before and before.is_warned and not doing else doing


@dataclass(slots=True)
class SweepRow:
    """All jobs of a sweep as one line. ``counts`` are its jobs by the state that pages show."""

    id: int
    username: str
    name: str
    counts: Counter[str] = field(default_factory=Counter)
    gpus: int = 0
    may_stop: bool = False

    @property
    def url(self) -> str:
        return f"/sweeps/{quote(self.username)}/{quote(self.name)}"

    @property
    def total(self) -> int:
        return sum(self.counts.values())

    @property
    def state(self) -> str:
        """The state of its jobs that says most about it."""
        return next((state for state in _TELLING if self.counts[state]), JobState.STOPPED.value)


_TELLING = [
    *(JobState.RUNNING.value, JobState.WAITING.value, queries.STOPPING),
    *(JobState.FAILED.value, JobState.SUCCEEDED.value),
]


def job_url(username: str, name: str) -> str:
    return f"/jobs/{quote(username)}/{quote(name)}"


def change_url(username: str, name: str, change: Mapping[str, Any]) -> str:
    """The submit page with the job's config, changed in what a diagnosis offers."""
    return f"/submit?{urlencode({'from': f'{username}/{name}', 'change': json.dumps(change)})}"


def shown_state(state: str, execution: str) -> str:
    """The state that pages show: a live job that was asked to stop is STOPPING."""
    return queries.STOPPING if execution == Job.Execution.STOP and state in queries.LIVE else state


def gpu_text(total: int, gpu_type: str) -> str:
    return f"{total:,} × {words.visible(gpu_type or 'any')}" if total else words.NOTHING


def rows_of(jobs: Sequence[Mapping[str, Any]], viewer: Viewer) -> list[JobRow]:
    """Lines for dicts of ``queries.list_jobs(...)``."""
    known = _Known(jobs)
    return [JobRow(job, known, viewer) for job in jobs]


class _Known:
    """What other tables say of these jobs. Three queries for any number of jobs, four more when one of them waits, and
    one more each when one runs, or has failed and is tried again."""

    def __init__(self, jobs: Sequence[Mapping[str, Any]]) -> None:
        running = [job["id"] for job in jobs if job["state"] == JobState.RUNNING]
        self.use = use_of(running) if running else {}
        self.attempts = _current_attempts([job["id"] for job in jobs])
        tasks = Task.objects.filter(attempt_id__in=[pk for pk, _ in self.attempts.values()])
        self.counts = _task_counts(tasks)
        self.doing = _progress(tasks)
        self.before = _earlier(jobs)
        self.reasons = _waiting_reasons([job["id"] for job in jobs if job["state"] == JobState.WAITING])


CAUSE = ("diagnosis__name", "diagnosis__task")  # columns of Attempt


def cause_words(name: str | None, task: str | None) -> str:
    """The cause of a failure for lists: nothing out of a log. Empty where it is not known."""
    return f"{name} in {task}" if name and task else name or ""


def _current_attempts(ids: Iterable[int]) -> dict[int, tuple[int, dict[str, Any]]]:
    """Return {job id: (attempt id, exit)}"""
    current = Attempt.objects.filter(job_id__in=ids, number=F("job__attempt_number"))
    rows = current.values_list("job_id", "id", "exit", *CAUSE, "diagnosis__actions")
    return {
        job: (pk, exit | {"cause": cause_words(name, task), "actions": actions or []})
        for job, pk, exit, name, task, actions in rows
    }


def _earlier(jobs: Sequence[Mapping[str, Any]]) -> dict[int, Streak]:
    """{job id: how its last attempts failed} of the jobs that are tried again, with one query at most. It reads MANY
    attempts of each: enough to know whether to warn, not how often the job has failed."""
    again = [job["id"] for job in jobs if job["state"] in queries.LIVE and job["attempt_number"] > 1]
    if not again:
        return {}
    last = Attempt.objects.filter(
        job_id__in=again, number__lt=F("job__attempt_number"), number__gte=F("job__attempt_number") - MANY
    )
    ends: dict[int, list[End]] = {}
    columns = ("job_id", "number", "exit_code", "exit", *CAUSE)
    for job, number, code, exit, name, task in last.order_by("-number").values_list(*columns):
        ends.setdefault(job, []).append((number, code, exit | {"cause": cause_words(name, task)}))
    return {job: failures for job, some in ends.items() if (failures := streak(some, 0))}


def _task_counts(tasks: QuerySet[Task]) -> dict[int, dict[str, int]]:
    """{attempt id: {state: tasks}}"""
    counts: dict[int, dict[str, int]] = {}
    for attempt, state, number in tasks.values_list("attempt_id", "state").annotate(number=Count("id")):
        counts.setdefault(attempt, {})[state] = number
    return counts


def _progress(tasks: QuerySet[Task]) -> dict[int, str]:
    """{attempt id: what a worker does for one of its starting tasks, that one is paused, or how one ended that is kept
    for debugging}"""
    told = Q(state__in=(TaskState.STARTING, TaskState.RUNNING)) & ~Q(progress="")
    held = Q(state=TaskState.RUNNING, held_at__isnull=False)
    doing = tasks.filter(told | held).values_list("attempt_id", "progress", "node", "exit")[:1000]
    return {
        attempt: f"{text[:1].upper()}{text[1:]} on {node}"
        if text
        else f"{exit.get('sentence', 'Its command failed.')} It is kept for debugging."
        for attempt, text, node, exit in doing
    }


def with_sweeps(rows: list[JobRow], viewer: Viewer) -> list[JobRow]:
    """The lines, of which those of a sweep stand for all its jobs. One query, when there is a sweep."""
    ids = {row.sweep_id for row in rows if row.sweep_id is not None}
    sweeps = {sweep.id: sweep for sweep in sweeps_of(ids, viewer)} if ids else {}
    for row in rows:
        row.sweep = sweeps.get(row.sweep_id or 0)
    return rows


def sweeps_of(ids: Collection[int], viewer: Viewer) -> list[SweepRow]:
    """The lines of these sweeps, by one query."""
    jobs = queries.visible_jobs().filter(sweep__in=ids).order_by()
    counted = jobs.values_list("sweep_id", "sweep__username", "sweep__name", "state", "execution")
    rows: dict[int, SweepRow] = {}
    for id, username, name, state, execution, number, gpus in counted.annotate(Count("id"), Sum("total_gpus")):
        row = rows.setdefault(id, SweepRow(id, username, name))
        row.counts[shown_state(state, execution)] += number
        row.gpus += gpus or 0
        row.may_stop |= access.may_stop(viewer, username, state, execution)
    return list(rows.values())


def _waiting_reasons(ids: Sequence[int]) -> dict[int, tuple[str, str]]:
    """{job id: ("1st in default", "No node has 4 free A100.")} in a constant number of queries."""
    shapes: set[int] = set()
    return {
        id: (f"{words.ordinal(turn.position)} in {turn.job.vc}", _first_reason(turn, shapes))
        for id, turn in turns_of(ids).items()
    }


def _first_reason(turn: Turn[WaitingJob], shapes: set[int]) -> str:
    """The first of its blockers. ``shapes`` are the demands that were compared with every node already."""
    if turn.queue.scene.is_held:
        return predecessor.BRIEFLY
    if turn.move is Move.GO:
        return ""
    shape = id(turn.job.demands)
    if shape in shapes or (len(shapes) + 1) * len(turn.queue.scene.nodes) <= _MOST_LOOKS:
        shapes.add(shape)
        return access.told(turn.blockers[:1], turn.job.username)[0].sentence
    told = access.told(turn.rules[:1], turn.job.username)
    return told[0].sentence if told else "It does not fit on the nodes as they are now."


def _said_of(before: Streak) -> str:
    if before.is_eviction:
        return f"Evicted: {before.exit.sentence}"
    why = f"{before.cause}." if before.cause else before.exit.sentence
    return f"{'Failing again and again' if before.is_warned else 'Failed'}: {why}"


def _likely(forecast: Mapping[str, int] | None) -> str:
    now = timezone.localtime()
    if (after := not_before(forecast, now)) is not None:
        return f"Starts after {moment(after, now)}."
    known = current(forecast, now)
    return briefly(known, now) if known else ""


def _next_try(job: Mapping[str, Any]) -> datetime | None:
    later: datetime | None = job["not_before"]
    return later if later and later > timezone.now() else None
