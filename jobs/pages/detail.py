"""Shows a job's page: head, steps, cause, strip, and one context for each tab. The number of queries does not grow with
the number of tasks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

from django.db.models import Count, Max, Min
from django.utils import timezone

from jobs import access, order, queries
from jobs.config import web_pages
from jobs.config.spec import JobSpec
from jobs.metrics.use import together
from jobs.models import Attempt, Event, Job, Task
from jobs.pages import cause, progress
from jobs.pages.rows import job_url, shown_state
from jobs.pages.tasks import role_views, without_story
from jobs.planning import exits
from jobs.planning.lifecycle import JobState, TaskState
from jobs.planning.streak import Streak, streak
from jobs.planning.turns import Turn
from jobs.rewind.services import Kept, kept_of
from jobs.scheduling.explain import turn_of, waiting_reason
from jobs.scheduling.queue import Queued
from portal.accounts.viewer import Viewer
from portal.core import words

TABS = ("tasks", "logs", "metrics", "events", "attempts", "config", "ssh", "terminal", "web")
_NAMES = {"ssh": "SSH", "web": "Web pages"}
MOST_EVENTS = 100
MOST_ATTEMPTS = 100
MOST_KEPT = 3


@dataclass(frozen=True, slots=True)
class KeptTasks:
    """Tasks whose command failed and whose containers are kept for debugging. ``until``: when the first of them
    ends."""

    labels: list[str]
    until: datetime

    @property
    def says(self) -> str:
        return words.listing(self.labels)


@dataclass(frozen=True, slots=True)
class Tab:
    key: str
    name: str
    url: str
    count: int | None = None
    current: bool = False


@dataclass(slots=True)
class Detail:
    """What a job's page shows above its tabs."""

    job: Job
    spec: JobSpec
    state: str
    url: str
    attempts: Sequence[Attempt]  # newest first
    counts: Mapping[str, Mapping[str, int]]  # of the current attempt: role -> state -> tasks
    steps: Sequence[progress.Step]
    strip: Sequence[progress.Cell]
    cause: cause.Cause | None
    before: Streak | None  # how the attempts before this one failed, while the job lives
    attempt_text: str
    held: KeptTasks | None
    kept: Sequence[Kept]  # failed tasks that can be opened again
    may_write: bool
    place_url: str  # of the page on which its place in the queue is changed; empty for those who may not
    may_read_story: bool
    may_read_logs: bool
    may_read_config: bool
    now: datetime = field(default_factory=timezone.now)

    @property
    def is_live(self) -> bool:
        return self.job.state in queries.LIVE

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
        names = [one.job.rpartition("~")[2] for one in self.spec.asked.depends_on] if self.may_read_story else []
        return [(name, job_url(self.job.username, name)) for name in names]

    @property
    def may_run(self) -> str:
        """How long it may run, while it waits."""
        seconds = self.spec.asked.max_run_seconds
        return words.duration(seconds) if seconds is not None and self.job.state == JobState.WAITING else ""


def detail(job: Job, viewer: Viewer) -> Detail:
    """The page of a job, without its story (jobs.access) when the viewer may not read that."""
    spec = JobSpec.from_json(job.spec)
    attempts = list(queries.list_attempts(job)[:MOST_ATTEMPTS])
    counts = task_counts(attempts[0])
    state = shown_state(job.state, job.execution)
    may_read_story = access.may_read_story(viewer, job.username)
    starts, nodes = _starts(attempts[0], counts)
    if not may_read_story:
        starts = replace(starts, doing="")
    turn = turn_of(job)
    is_live = job.state in queries.LIVE
    before = _before(attempts, spec) if may_read_story and is_live else None
    has_run = may_read_story and job.state != JobState.WAITING
    use = together(attempts[0], spec, is_live=is_live) if has_run else None
    return Detail(
        job=job,
        spec=spec,
        state=state,
        url=job_url(job.username, job.name),
        attempts=attempts,
        counts=counts,
        steps=progress.steps(job, attempts if may_read_story else attempts[:1], starts, state),
        strip=progress.strip(job, spec, counts, nodes, attempts, turn.place if turn else 0, use),
        cause=_cause(job, state, attempts, turn, before, viewer) if may_read_story else None,
        before=before,
        attempt_text=progress.attempt_text(job, spec),
        held=_held(job, spec) if may_read_story else None,
        kept=kept_of(job)[:MOST_KEPT] if may_read_story and job.state == JobState.FAILED else (),
        may_write=access.may_write(viewer, job),
        place_url=f"{job_url(job.username, job.name)}/place" if order.may_prioritize(viewer, job) else "",
        may_read_story=may_read_story,
        may_read_logs=access.may_read_logs(viewer, job),
        may_read_config=access.may_read_config(viewer, job),
    )


def _held(job: Job, spec: JobSpec) -> KeptTasks | None:
    """The tasks that are kept for debugging; the database is asked only for jobs with isDebug."""
    kept = queries.held_tasks(job) if spec.is_debug and job.state == JobState.RUNNING else []
    if not kept:
        return None
    return KeptTasks([task.label for task in kept], min(end for task in kept if (end := queries.held_until(task))))


def tabs(shown: Detail, current: str) -> list[Tab]:
    """The tabs of the page; without the job's story only the first."""
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
        for key in (TABS if shown.may_read_story else TABS[:1])
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
    number = _number(params.get("attempt")) or shown.job.attempt_number
    chosen = next((attempt for attempt in shown.attempts if attempt.number == number), shown.attempts[0])
    counts = shown.counts if chosen is shown.attempts[0] else task_counts(chosen)
    roles = role_views(shown.spec, chosen, counts, params.get("role", ""), _number(params.get("start")))
    if not shown.may_read_story:
        roles = [without_story(role) for role in roles]
    return {"roles": roles, "chosen": chosen}


def events_tab(shown: Detail, params: Mapping[str, str]) -> dict[str, Any]:
    """The events, newest first; ``?before=`` has an event id as cursor, ``?task=`` and ``?kind=`` are filters."""
    events = Event.objects.filter(job=shown.job).order_by("-id")
    kind, task, before = params.get("kind", ""), params.get("task", ""), _number(params.get("before"))
    if kind:
        events = events.filter(kind__startswith=f"{kind}.")
    if task:
        events = events.filter(task=task)
    if before:
        events = events.filter(id__lt=before)
    rows = list(events[: MOST_EVENTS + 1])
    return {
        "events": [EventLine(event) for event in rows[:MOST_EVENTS]],
        "older": rows[MOST_EVENTS - 1].pk if len(rows) > MOST_EVENTS else 0,
        "before": before,
        "kind": kind,
        "task": task,
        "kinds": ("job", "attempt", "task", "node"),
    }


def attempts_tab(shown: Detail) -> dict[str, Any]:
    nodes: dict[int, list[str]] = {}
    used = Task.objects.filter(attempt__in=[attempt.pk for attempt in shown.attempts]).exclude(node="")
    for attempt, node in used.order_by("attempt_id", "node").values_list("attempt_id", "node").distinct():
        nodes.setdefault(attempt, []).append(node)
    return {"lines": [_attempt_line(shown, attempt, nodes.get(attempt.pk, [])) for attempt in shown.attempts]}


@dataclass(frozen=True, slots=True)
class AttemptLine:
    attempt: Attempt
    state: str
    word: str  # in place of the state's own
    why: str
    code: str
    nodes: str
    end: datetime | None
    followed: str


def _attempt_line(shown: Detail, attempt: Attempt, nodes: Sequence[str]) -> AttemptLine:
    why, code = cause.short(attempt)
    was_evicted = attempt.exit_code == exits.PREEMPTED
    if attempt.number == shown.job.attempt_number:
        state = shown.state
    elif attempt.exit_code == 0:
        state = JobState.SUCCEEDED
    else:
        state = JobState.STOPPED if was_evicted else JobState.FAILED
    word = "Evicted" if was_evicted and state == JobState.STOPPED else ""
    end = attempt.completed_at or attempt.decided_at
    return AttemptLine(attempt, state, word, why, code, words.listing(nodes), end, str(attempt.exit.get("next", "")))


class EventLine:
    """An Event in words: its reason, else the new state or the kind."""

    def __init__(self, event: Event) -> None:
        self.id, self.at, self.task, self.node, self.actor = event.pk, event.at, event.task, event.node, event.actor
        self.attempt = event.attempt
        self.state = event.after if event.after in words.STATES else ""
        self.says = event.reason or ("" if self.state else self._kind(event))
        self.names_task = bool(self.task) and self.says.startswith(f"{self.task} ")

    @staticmethod
    def _kind(event: Event) -> str:
        return event.kind.replace(".", " ").replace("_", " ").capitalize()


def _starts(attempt: Attempt, counts: Mapping[str, Mapping[str, int]]) -> tuple[progress.Starts, list[str]]:
    tasks = Task.objects.filter(attempt=attempt)
    seen = tasks.aggregate(first=Min("container_started_at"), last=Max("container_started_at"))
    nodes = list(tasks.exclude(node="").order_by("node").values_list("node", flat=True).distinct())
    missing = sum(states.get(TaskState.STARTING, 0) for states in counts.values())
    doing = ""
    if missing:
        line = tasks.filter(state=TaskState.STARTING).exclude(progress="").values_list("progress", "node").first()
        doing = f"{line[0]} on {line[1]}" if line else ""
    return progress.Starts(seen["first"], seen["last"], missing, doing), nodes


def _before(attempts: Sequence[Attempt], spec: JobSpec) -> Streak | None:
    return streak(((one.number, one.exit_code, one.exit) for one in attempts[1:]), spec.retry_count)


def _cause(
    job: Job, state: str, attempts: Sequence[Attempt], turn: Turn[Queued] | None, before: Streak | None, viewer: Viewer
) -> cause.Cause | None:
    may_read_logs = access.may_read_logs(viewer, job)
    if state == JobState.WAITING:
        next_try = job.not_before if job.not_before and job.not_before > timezone.now() else None
        shown = cause.waiting(waiting_reason(job, turn, before), before, next_try)
        return cause.between(shown, job, attempts[1], may_read_logs=may_read_logs) if before else shown
    if state == JobState.FAILED:
        return cause.failed(job, attempts[0], may_read_logs=may_read_logs)
    return cause.stopped(job, attempts[0]) if state == JobState.STOPPED else None


def _number(text: str | None) -> int:
    return int(text) if text and text.isascii() and text.isdigit() and len(text) < 19 else 0
