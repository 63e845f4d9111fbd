"""Shows a job's page: head, steps, cause, strip, and one context for each tab. The number of queries does not grow with
the number of tasks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from django.db.models import Count, Max, Min
from django.utils import timezone

from base.accounts.viewer import Viewer
from base.core import words
from jobs import access, order, queries
from jobs.config import web_pages
from jobs.config.spec import JobSpec
from jobs.history.ledger import as_read
from jobs.metrics.use import together
from jobs.models import Attempt, Event, Job, Task
from jobs.planning import exits
from jobs.planning.ends import word_for
from jobs.planning.lifecycle import JobState, TaskState
from jobs.planning.streak import Streak, streak
from jobs.planning.turns import Turn
from jobs.rewind.services import snapshots_of
from jobs.waiting.queue import WaitingJob
from jobs.waiting.why import turn_of, waiting_reason
from portal.job import cause, progress
from portal.job.tasks import role_views
from portal.shared.jobs.rows import job_url, shown_state

TABS = ("tasks", "logs", "metrics", "events", "attempts", "config", "ssh", "terminal", "web")
_NAMES = {"ssh": "SSH", "web": "Web pages"}
MOST_EVENTS = 100
MOST_ATTEMPTS = 100
MOST_KEPT = 3


@dataclass(frozen=True, slots=True)
class EndingTasks:
    """Tasks that have been told to end: when the first of them was, why, and when the last one is killed."""

    told: datetime
    until: datetime
    word: str
    reason: str


class HeldTasks:
    """Tasks whose command failed and whose containers are kept for debugging."""

    def __init__(self, tasks: Sequence[Task]) -> None:
        self.labels = [task.label for task in tasks]
        self.says = words.listing(self.labels)
        self.until = min(end for task in tasks if (end := queries.held_until(task)))  # when the first of them ends
        self.exit = exits.Exit.from_json({"code": exits.USER_FAILED, **tasks[0].exit})  # of the first


@dataclass(frozen=True, slots=True)
class Tab:
    key: str
    name: str
    url: str
    count: int | None = None
    current: bool = False


class Detail:
    """What a job's page shows above its tabs, without its details (jobs.access) when the viewer may not read that."""

    def __init__(self, job: Job, viewer: Viewer) -> None:
        self.job, self.viewer, self.now = job, viewer, timezone.now()
        self.spec = JobSpec.from_json(job.spec)
        self.state = shown_state(job.state, job.execution)
        self.is_live = job.state in queries.LIVE
        self.url = job_url(job.username, job.name)
        self.may_write = access.may_write(viewer, job)
        self.may_read_details = access.may_read_details(viewer, job.username)
        self.may_read_logs = access.may_read_logs(viewer, job.username)
        self.may_read_config = access.may_read_config(viewer, job)
        # The page on which its place in the queue is changed; empty for those who may not.
        self.place_url = f"{self.url}/place" if order.may_prioritize(viewer, job) else ""
        self.attempts = list(queries.list_attempts(job)[:MOST_ATTEMPTS])  # newest first
        self.counts = task_counts(self.attempts[0])  # of the current attempt: role -> state -> tasks
        self.attempt_text = progress.attempt_text(job, self.spec)
        self.held = _held(job, self.spec) if self.may_read_details else None
        self.ending = _ending(job, self.attempts[0]) if self.may_read_details else None
        # How the attempts before this one failed, while the job lives.
        self.before = _before(self.attempts, self.spec) if self.may_read_details and self.is_live else None
        # Failed tasks that can be opened again: the first of them, and how many there are besides.
        snapshots = snapshots_of(job) if self.may_read_details and job.state == JobState.FAILED else ()
        self.kept, self.more_kept = snapshots[:MOST_KEPT], len(snapshots[MOST_KEPT:])
        turn = turn_of(job)
        self.cause = self._cause(turn, viewer) if self.may_read_details else None
        self._progress(turn)

    def _progress(self, turn: Turn[WaitingJob] | None) -> None:
        """Adds the steps and the strip of figures."""
        job, current = self.job, self.attempts[0]
        starts, nodes = _starts(current, self.counts)
        shown = self.attempts
        if not self.may_read_details:
            starts, shown = replace(starts, doing=""), self.attempts[:1]
        has_run = self.may_read_details and job.state != JobState.WAITING
        use = together(current, self.spec, is_live=self.is_live) if has_run else None
        self.steps = progress.steps(job, shown, starts, self.state)
        position = turn.position if turn else 0
        self.strip = progress.strip(job, self.spec, self.counts, nodes, self.attempts, position, use)

    def _cause(self, turn: Turn[WaitingJob] | None, viewer: Viewer) -> cause.Cause | None:
        job, before = self.job, self.before
        if self.state == JobState.WAITING:
            next_try = job.not_before if job.not_before and job.not_before > self.now else None
            shown = cause.waiting(waiting_reason(job, turn, before), before, next_try)
            last = self.attempts[1] if before else None
            return cause.between(shown, job, last, may_read_logs=self.may_read_logs) if last else shown
        if self.state == JobState.FAILED:
            return cause.failed(job, self.attempts[0], may_read_logs=self.may_read_logs)
        if self.held is not None:
            return cause.held(self.held.exit, self.held.labels[0], job.attempt_number)
        return cause.stopped(job) if self.state == JobState.STOPPED else None

    @property
    def ends_by(self) -> datetime | None:
        """When the time is over that its config gives its attempt."""
        seconds = self.spec.asked.max_run_seconds
        if seconds is None or self.job.started_at is None or self.job.state != JobState.RUNNING:
            return None
        return self.job.started_at + timedelta(seconds=seconds)

    @property
    def after(self) -> list[tuple[str, str]]:
        """The jobs that it starts after, and their pages; as they were named, whatever became of them."""
        awaited = self.spec.asked.depends_on if self.may_read_details else ()
        names = [each.job.rpartition("~")[2] for each in awaited]
        return [(name, job_url(self.job.username, name)) for name in names]

    @property
    def may_run(self) -> str:
        """How long it may run, while it waits."""
        seconds = self.spec.asked.max_run_seconds
        return words.duration(seconds) if seconds is not None and self.job.state == JobState.WAITING else ""


def _ending(job: Job, attempt: Attempt) -> EndingTasks | None:
    if job.state != JobState.RUNNING or attempt.decided_at is None:
        return None
    told = Task.objects.filter(attempt=attempt, state=TaskState.STOPPING).aggregate(Min("told_at"), Max("told_at"))
    last = Task(state=TaskState.STOPPING, told_at=told["told_at__max"])
    if (until := queries.killed_at(job, attempt, last)) is None:
        return None
    return EndingTasks(told["told_at__min"], until, word_for(attempt.exit_code), attempt.exit.get("reason", ""))


def _held(job: Job, spec: JobSpec) -> HeldTasks | None:
    """The tasks that are kept for debugging; the database is asked only for jobs with isDebug."""
    tasks = queries.held_tasks(job) if spec.is_debug and job.state == JobState.RUNNING else []
    return HeldTasks(tasks) if tasks else None


def tabs(shown: Detail, current: str) -> list[Tab]:
    """The tabs of the page; without the job's details only the first."""
    events = Event.objects.filter(job=shown.job).count()
    pages = web_pages.count(shown.spec) or None
    counted = {"tasks": shown.job.total_tasks, "events": events, "attempts": shown.job.attempt_number, "web": pages}
    return [
        Tab(
            key,
            _NAMES.get(key, key.capitalize()),
            shown.url if key == "tasks" else f"{shown.url}/{key}",
            counted.get(key),
            key == current,
        )
        for key in (TABS if shown.may_read_details else TABS[:1])
    ]


def task_counts(attempt: Attempt) -> dict[str, dict[str, int]]:
    """{role: {state: tasks}}"""
    counts: dict[str, dict[str, int]] = {}
    rows = Task.objects.filter(attempt=attempt).order_by().values_list("role", "state").annotate(number=Count("id"))
    for role, state, number in rows:
        counts.setdefault(role, {})[state] = number
    return counts


def tasks_tab(shown: Detail, params: Mapping[str, str]) -> dict[str, Any]:
    """The tasks of the attempt ``?attempt=``; ``?role=&start=`` asks for one page of one role."""
    number = words.whole(params.get("attempt")) or shown.job.attempt_number
    chosen = next((attempt for attempt in shown.attempts if attempt.number == number), shown.attempts[0])
    counts = shown.counts if chosen is shown.attempts[0] else task_counts(chosen)
    only, start = params.get("role", ""), words.whole(params.get("start")) or 0
    roles = role_views(shown.spec, chosen, counts, only, start, with_details=shown.may_read_details)
    return {"roles": roles, "chosen": chosen}


def events_tab(shown: Detail, params: Mapping[str, str]) -> dict[str, Any]:
    """The events, newest first; ``?before=`` has an event id as cursor, ``?task=`` and ``?kind=`` are filters."""
    events = Event.objects.filter(job=shown.job).order_by("-id")
    kind, task, before = params.get("kind", ""), params.get("task", ""), words.whole(params.get("before")) or 0
    if kind:
        events = events.filter(kind__startswith=f"{kind}.")
    if task:
        events = events.filter(task=task)
    if before:
        events = events.filter(id__lt=before)
    rows = list(events[: MOST_EVENTS + 1])
    return {
        "events": [EventLine(event) for event in as_read(rows[:MOST_EVENTS], shown.viewer)],
        "older": rows[MOST_EVENTS - 1].pk if len(rows) > MOST_EVENTS else 0,
        "before": before,
        "kind": kind,
        "task": task,
        "kinds": ("job", "attempt", "task", "node"),
    }


def attempts_tab(shown: Detail, params: Mapping[str, str]) -> dict[str, Any]:
    nodes: dict[int, list[str]] = {}
    used = Task.objects.filter(attempt__in=[attempt.pk for attempt in shown.attempts]).exclude(node="")
    for attempt, node in used.order_by("attempt_id", "node").values_list("attempt_id", "node").distinct():
        nodes.setdefault(attempt, []).append(node)
    return {"lines": [AttemptLine(shown, attempt, nodes.get(attempt.pk, [])) for attempt in shown.attempts]}


class AttemptLine:
    def __init__(self, shown: Detail, attempt: Attempt, nodes: Sequence[str]) -> None:
        was_evicted = attempt.exit_code == exits.PREEMPTED
        if attempt.number == shown.job.attempt_number:
            self.state = shown.state
        elif attempt.exit_code == 0:
            self.state = JobState.SUCCEEDED
        else:
            self.state = JobState.STOPPED if was_evicted else JobState.FAILED
        self.attempt = attempt
        self.word = "Evicted" if was_evicted and self.state == JobState.STOPPED else ""  # in place of the state's own
        self.why, self.code = cause.short(attempt)
        self.nodes = words.listing(nodes)
        self.end = attempt.completed_at or attempt.decided_at
        self.followed = str(attempt.exit.get("next", ""))


class EventLine:
    """An Event in words: its reason, else the new state or the kind."""

    def __init__(self, event: Event) -> None:
        self.id, self.at, self.task, self.node, self.actor = event.pk, event.at, event.task, event.node, event.actor
        self.attempt = event.attempt
        self.state = event.after if event.after in words.STATES else ""
        kind = event.kind.replace(".", " ").replace("_", " ").capitalize()
        self.says = event.reason or ("" if self.state else kind)
        self.names_task = bool(self.task) and self.says.startswith(f"{self.task} ")


def _starts(attempt: Attempt, counts: Mapping[str, Mapping[str, int]]) -> tuple[progress.FirstStarts, list[str]]:
    tasks = Task.objects.filter(attempt=attempt)
    seen = tasks.aggregate(first=Min("container_started_at"), last=Max("container_started_at"))
    nodes = list(tasks.exclude(node="").order_by("node").values_list("node", flat=True).distinct())
    missing = sum(states.get(TaskState.STARTING, 0) for states in counts.values())
    doing = ""
    if missing:
        line = tasks.filter(state=TaskState.STARTING).exclude(progress="").values_list("progress", "node").first()
        doing = f"{line[0]} on {line[1]}" if line else ""
    return progress.FirstStarts(seen["first"], seen["last"], missing, doing), nodes


def _before(attempts: Sequence[Attempt], spec: JobSpec) -> Streak | None:
    return streak(((attempt.number, attempt.exit_code, attempt.exit) for attempt in attempts[1:]), spec.retry_count)
