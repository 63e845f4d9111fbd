"""Shows jobs as lines, for the list and the home page."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any
from urllib.parse import quote, urlencode

from django.db.models import Count, F, QuerySet, Sum
from django.db.models.fields.json import KT
from django.utils import timezone

from jobs import access, queries
from jobs.models import Attempt, Job, Task
from jobs.pages.reasons import waiting_reasons
from jobs.planning.forecast.words import briefly, current, moment, not_before
from jobs.planning.lifecycle import JobState, TaskState
from jobs.planning.streak import MANY, End, Streak, streak
from portal.accounts.viewer import Viewer
from portal.core import words


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


@dataclass(frozen=True, slots=True)
class JobRow(Named):
    """One line. ``state`` is the one that pages show, STOPPING included. The column Time is the time from ``start`` to
    ``end``: how long it has waited, runs, or ran."""

    id: int
    username: str
    name: str
    vc: str
    state: str
    counts: Mapping[str, int]  # tasks of the current attempt by state
    gpus: str  # "8 × A100"
    created_at: datetime
    start: datetime | None
    end: datetime | None
    place: str  # "1st in vision"; "" unless it waits
    happening: str
    next_try: datetime | None  # it failed, and then it is tried again
    is_warned: bool  # it failed in the same way several times
    retries: int
    has_run: bool  # else it has no log
    may_stop: bool
    action: tuple[str, str] | None = None  # the first change that its diagnosis offers, and the page that makes it
    sweep_id: int | None = None
    sweep: SweepRow | None = None  # the line stands for all jobs of it

    @property
    def part(self) -> str:
        """The id of the line's element, by which the live stream replaces it."""
        return f"job:{self.full_name}"


@dataclass(frozen=True, slots=True)
class SweepRow:
    """All jobs of a sweep as one line. ``counts`` are its jobs by the state that pages show."""

    id: int
    username: str
    name: str
    counts: Mapping[str, int]
    gpus: int
    may_stop: bool

    @property
    def url(self) -> str:
        return f"/sweeps/{quote(self.username)}/{quote(self.name)}"

    @property
    def total(self) -> int:
        return sum(self.counts.values())

    @property
    def state(self) -> str:
        """Of those that it has, the one that says most about it."""
        return next((state for state in _TELLING if self.counts.get(state)), JobState.STOPPED.value)


_TELLING = tuple(
    map(str, (JobState.RUNNING, JobState.WAITING, "STOPPING", JobState.FAILED, JobState.SUCCEEDED, JobState.STOPPED))
)


def job_url(username: str, name: str) -> str:
    return f"/jobs/{quote(username)}/{quote(name)}"


def change_url(username: str, name: str, change: Mapping[str, Any]) -> str:
    """The submit page with the job's config, changed in what a diagnosis offers."""
    return f"/submit?{urlencode({'from': f'{username}/{name}', 'change': json.dumps(change)})}"


def shown_state(state: str, execution: str) -> str:
    """The state that pages show: a live job that was asked to stop is STOPPING."""
    return queries.STOPPING if execution == Job.Execution.STOP and state in queries.LIVE else state


def gpu_text(total: int, gpu_type: str | None) -> str:
    return f"{total:,} × {gpu_type or 'any'}" if total else words.NOTHING


def with_gpu_type(jobs: QuerySet[Job, dict[str, Any]]) -> QuerySet[Job, dict[str, Any]]:
    more = {"not_before_at": F("not_before"), "stopper": F("stopped_by"), "of_sweep": F("sweep_id")}
    return jobs.annotate(gpu_type=KT("spec__gpuType"), **more)


def rows_of(jobs: Sequence[Mapping[str, Any]], viewer: Viewer) -> list[JobRow]:
    """Lines for dicts of ``with_gpu_type(queries.list_jobs(...))``. Three queries for any number of jobs, four more
    when one of them waits, and one more when one has failed and is tried again."""
    ids = [job["id"] for job in jobs]
    attempts = _current_attempts(ids)
    counts = _task_counts(attempts)
    progress = _progress(attempts)
    before = _earlier(jobs)
    reasons = waiting_reasons([job["id"] for job in jobs if job["state"] == JobState.WAITING])
    return [
        _row(
            job,
            attempts.get(job["id"], _NO_ATTEMPT)[1],
            counts.get(attempts.get(job["id"], _NO_ATTEMPT)[0], {}),
            *_happening(job, attempts.get(job["id"], _NO_ATTEMPT), progress, reasons, before.get(job["id"])),
            before.get(job["id"]),
            viewer,
        )
        for job in jobs
    ]


CAUSE = ("diagnosis__name", "diagnosis__task")  # columns of Attempt


def cause_words(name: str | None, task: str | None) -> str:
    """The cause of a failure for lists: nothing out of a log. Empty where it is not known."""
    return f"{name} in {task}" if name and task else name or ""


_NO_ATTEMPT: tuple[int, dict[str, Any]] = (0, {})
_Attempts = Mapping[int, tuple[int, dict[str, Any]]]  # job id -> (attempt id, exit)


def _current_attempts(ids: Iterable[int]) -> _Attempts:
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


def _task_counts(attempts: _Attempts) -> dict[int, dict[str, int]]:
    """{attempt id: {state: tasks}}"""
    tasks = Task.objects.filter(attempt_id__in=[pk for pk, _ in attempts.values()])
    counts: dict[int, dict[str, int]] = {}
    for attempt, state, number in tasks.values_list("attempt_id", "state").annotate(number=Count("id")):
        counts.setdefault(attempt, {})[state] = number
    return counts


def _progress(attempts: _Attempts) -> dict[int, str]:
    """{attempt id: what a worker does for one of its starting tasks}"""
    tasks = Task.objects.filter(attempt_id__in=[pk for pk, _ in attempts.values()], state=TaskState.STARTING)
    doing = tasks.exclude(progress="").values_list("attempt_id", "progress", "node")[:1000]
    return {attempt: f"{text[:1].upper()}{text[1:]} on {node}" for attempt, text, node in doing}


def _row(
    job: Mapping[str, Any],
    exit: Mapping[str, Any],
    counts: Mapping[str, int],
    place: str,
    happening: str,
    before: Streak | None,
    viewer: Viewer,
) -> JobRow:
    state = shown_state(job["state"], job["execution"])
    waiting = job["state"] == JobState.WAITING
    return JobRow(
        id=job["id"],
        username=job["username"],
        name=job["name"],
        vc=job["vc"],
        state=state,
        counts=counts,
        gpus=gpu_text(job["total_gpus"], job["gpu_type"]),
        created_at=job["created_at"],
        start=job["queued_at"] if waiting else job["started_at"],
        end=None if job["state"] in queries.LIVE else job["completed_at"],
        place=place,
        happening=happening if access.may_read_story(viewer, job["username"]) else "",
        next_try=_next_try(job) if state == JobState.WAITING else None,
        is_warned=state in queries.LIVE and before is not None and before.is_warned,
        retries=job["user_retries"] + job["platform_retries"] + job["resource_retries"],
        has_run=job["started_at"] is not None or job["attempt_number"] > 1,
        may_stop=access.may_stop(viewer, job["username"], job["state"], job["execution"]),
        action=_action(job, exit) if job["state"] == JobState.FAILED and job["username"] == viewer.username else None,
        sweep_id=job["of_sweep"],
    )


def _action(job: Mapping[str, Any], exit: Mapping[str, Any]) -> tuple[str, str] | None:
    first = next(iter(exit.get("actions", ())), None)
    return (str(first["label"]), change_url(job["username"], job["name"], first["change"])) if first else None


def with_sweeps(rows: Sequence[JobRow], viewer: Viewer) -> list[JobRow]:
    """The lines, of which those of a sweep stand for all its jobs. One query, when there is a sweep."""
    ids = {row.sweep_id for row in rows if row.sweep_id is not None}
    if not ids:
        return list(rows)
    found = {each.id: each for each in sweeps_of(ids, viewer)}
    return [replace(row, sweep=found.get(row.sweep_id or 0)) for row in rows]


def sweeps_of(ids: Collection[int], viewer: Viewer) -> list[SweepRow]:
    """The lines of these sweeps, by one query."""
    jobs = queries.visible_jobs().filter(sweep__in=ids).order_by()
    counted = jobs.values_list("sweep_id", "sweep__username", "sweep__name", "state", "execution")
    found: dict[int, SweepRow] = {}
    for id, username, name, state, execution, number, gpus in counted.annotate(Count("id"), Sum("total_gpus")):
        known = found.get(id, SweepRow(id, username, name, {}, 0, False))
        shown = shown_state(state, execution)
        found[id] = replace(
            known,
            counts={**known.counts, shown: known.counts.get(shown, 0) + number},
            gpus=known.gpus + (gpus or 0),
            may_stop=known.may_stop or access.may_stop(viewer, username, state, execution),
        )
    return list(found.values())


def _happening(
    job: Mapping[str, Any],
    attempt: tuple[int, dict[str, Any]],
    progress: Mapping[int, str],
    reasons: Mapping[int, tuple[str, str]],
    before: Streak | None,
) -> tuple[str, str]:
    """(place in the queue, what is happening)"""
    state = shown_state(job["state"], job["execution"])
    by = f" by {job['stopper']}" if job["stopper"] else ""
    if state == queries.STOPPING:
        return "", f"Stop asked{by}"
    if state == JobState.STOPPED:
        return "", f"Stopped{by}"
    if state == JobState.FAILED:
        return "", str(
            attempt[1].get("cause") or attempt[1].get("reason") or attempt[1].get("exit", {}).get("sentence") or ""
        )
    why = _said_of(before) if before else ""
    if state == JobState.WAITING and _next_try(job):
        return "", why
    if state == JobState.WAITING:
        place, reason = reasons.get(job["id"], ("", ""))
        return place, " ".join(part for part in (why, _likely(job["forecast"]), reason) if part)
    doing = progress.get(attempt[0], "")
    return "", why if before and before.is_warned and not doing else doing


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
    later: datetime | None = job["not_before_at"]
    return later if later and later > timezone.now() else None
