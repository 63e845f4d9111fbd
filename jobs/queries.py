"""Reads jobs, for pages and API alike. Deleted jobs are left out; no function's query count grows with the rows."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from datetime import datetime, timedelta
from functools import cache
from typing import Any

from django.conf import settings
from django.db.models import Count, Exists, OuterRef, Q, QuerySet, Subquery, Value

from base.core.bulk import all_values, chunks, columns_of, first_where, found, made_of, values_of
from base.core.errors import NoJob
from base.core.words import whole
from jobs.models import Attempt, Event, Job, Task
from jobs.planning.lifecycle import JOB_END_STATES, TASK_LIVE_STATES, JobState, TaskState
from jobs.planning.streak import End

STOPPING = "STOPPING"  # no state of the table: a live job that was asked to stop
LIVE = (JobState.WAITING.value, JobState.RUNNING.value)
VERY_MANY = 20_000  # ended jobs; nobody notices the time that counting fewer takes
ENDED_FOR = 10.0  # seconds for which their number is remembered
_MOST_REMEMBERED = 64  # filters
_STOPPING = Q(state__in=LIVE, execution=Job.Execution.STOP)

# What a line of the list needs: never the config or the spec.
LIST_FIELDS = (
    *("id", "username", "name", "vc", "state", "execution", "attempt_number"),
    *("user_retries", "platform_retries", "resource_retries", "exit_code", "is_legacy"),
    *("total_tasks", "total_roles", "total_gpus", "gpu_type"),
    *("created_at", "queued_at", "started_at", "completed_at", "changed_at"),
    *("forecast", "not_before", "stopped_by", "sweep_id"),
)
# What the v1 list needs of it: times are dear to read when there are 100,000 lines.
_NOT_IN_V1 = {"gpu_type", "queued_at", "started_at", "changed_at", "forecast", "not_before", "stopped_by", "sweep_id"}
_V1_FIELDS = tuple(name for name in LIST_FIELDS if name not in _NOT_IN_V1)


LONGEST_KEYWORD = 255  # characters, as the longest name has; SQLite refuses a search for more than 50,000


@dataclass(frozen=True, slots=True)
class JobFilter:
    """Which jobs a list has; an empty field means any. ``keyword`` is searched in name, user and virtual cluster.
    ``since`` leaves out jobs that were submitted before. ``sweep`` is user~name. ``folded``: of the jobs of one sweep
    that the filter leaves in only the last is in a list; counts are of all.

    ``state`` is a JobState or STOPPING. As in v1, WAITING and RUNNING include jobs that are stopping. With ``shown_as``
    they do not: the state is then the one that pages show, and each job has exactly one.
    """

    username: str = ""
    vc: str = ""
    state: str = ""
    keyword: str = ""
    shown_as: bool = False
    since: datetime | None = None
    sweep: str = ""
    folded: bool = False


_ended: dict[JobFilter, tuple[float, dict[str, int]]] = {}  # when they were counted, and how many of each state


def visible_jobs() -> QuerySet[Job]:
    return Job.objects.filter(deleted_at__isnull=True)


def live_jobs() -> QuerySet[Job]:
    """The visible jobs that have not ended, in no order."""
    return visible_jobs().filter(state__in=LIVE).order_by()


SORTS = {"newest": "-created_at", "oldest": "created_at", "ended": "-completed_at"}  # each has an index


def list_jobs(which: JobFilter = JobFilter(), sort: str = "newest") -> QuerySet[Job, dict[str, Any]]:
    """Dicts of LIST_FIELDS in one of SORTS; by end it is of those that have ended. Slice it for a page, ``iterator()``
    it for all, ``count()`` it."""
    jobs = _filtered(which)
    if sort == "ended":
        jobs = jobs.filter(completed_at__isnull=False)
    if which.folded:
        later = jobs.filter(sweep=OuterRef("sweep"), id__gt=OuterRef("id")).order_by()
        jobs = jobs.filter(Q(sweep__isnull=True) | ~Exists(later))
    rows: QuerySet[Job, dict[str, Any]] = jobs.order_by(*order_of(sort)).values(*LIST_FIELDS)
    return rows


def read_jobs(rows: QuerySet[Job, dict[str, Any]], most: int) -> list[dict[str, Any]]:
    """The first rows of a ``list_jobs``: the same as its slice, with less work."""
    first = values_of(rows.values_list(*LIST_FIELDS)[:most])
    return [dict(zip(LIST_FIELDS, values, strict=True)) for values in first]


def with_exit(rows: QuerySet[Job, dict[str, Any]]) -> QuerySet[Job, dict[str, Any]]:
    """The rows with ``exit``: how their last attempt ended, null where it has not."""
    last = Attempt.objects.filter(job=OuterRef("id"), number=OuterRef("attempt_number"))
    return rows.annotate(exit=Subquery(last.values("exit__exit")[:1]))


def order_of(sort: str) -> tuple[str, str]:
    field = SORTS[sort]
    return field, "-id" if field.startswith("-") else "id"


def iterate_jobs(which: JobFilter, at_once: int) -> Iterator[dict[str, Any]]:
    """All of the list for the v1 answer, ``at_once`` rows in memory. Each query starts where the last one ended, so
    none stays open."""
    jobs = list_jobs(which).values_list(*_V1_FIELDS)
    rows = _v1_rows(jobs[:at_once])
    while rows:
        yield from rows
        if len(rows) < at_once:
            return
        at, last = rows[-1]["created_at"], rows[-1]["id"]
        older = Q(created_at__lt=at) | Q(created_at=at, id__lt=last)
        rows = _v1_rows(jobs.filter(older, created_at__lte=at)[:at_once])


def _v1_rows(jobs: QuerySet[Job, tuple[Any, ...]]) -> list[dict[str, Any]]:
    return [dict(zip(_V1_FIELDS, values, strict=True)) for values in values_of(jobs)]


def count_by_state(which: JobFilter = JobFilter()) -> dict[str, int]:
    """How many jobs are in each state that pages show, STOPPING included. The filter's own state is ignored.

    Live jobs are counted each time. Counting a few million ended jobs takes a second, so the number of very many ended
    jobs is up to ENDED_FOR seconds old."""
    which = replace(which, state="", folded=False)
    ended, jobs = _ended_lately(which), _filtered(which).order_by()
    rows = jobs.filter(state__in=LIVE).values_list("state", "execution").annotate(number=Count("*"))
    if ended is None:  # those by their state alone, as they lie in the index: by both they would be sorted
        alike = jobs.filter(state__in=JOB_END_STATES).annotate(any=Value("")).values_list("state", "any")
        rows = rows.union(alike.annotate(number=Count("*")), all=True)
    counts = dict.fromkeys([*(state.value for state in JobState), STOPPING], 0) | (ended or {})
    for state, execution, number in rows:
        counts[STOPPING if execution == Job.Execution.STOP else state] += number
    if ended is None:
        _remember_ended(which, {state: number for state, number in counts.items() if state in JOB_END_STATES})
    return counts


def _ended_lately(which: JobFilter) -> dict[str, int] | None:
    counted_at, ended = _ended.get(which, (0.0, {}))
    return ended if ended and time.monotonic() - counted_at < ENDED_FOR else None


def _remember_ended(which: JobFilter, ended: dict[str, int]) -> None:
    if sum(ended.values()) >= VERY_MANY:
        if len(_ended) >= _MOST_REMEMBERED:
            _ended.clear()
        _ended[which] = time.monotonic(), ended


def get_job(username: str, name: str, *, mine: str = "") -> Job:
    """Return the visible job of that user. ``name`` may be ``user~job`` when ``username`` is empty. Raises NoJob, which
    names the job as it was asked for.

    A plain name without ``username`` (v1's ``/jobs/:name``) means the job of the user ``mine`` with that name, else the
    only legacy job with it, else the only job with it.
    """
    asked = name
    if "~" in name and not username:
        username, _, name = name.partition("~")
    if "\x00" in username + name:  # PostgreSQL refuses to look for it
        raise NoJob(f"Job {asked} is not found.")
    named = "deleted_at IS NULL AND username = %s AND name = %s"
    job = first_where(Job, named, username, name) if username else _by_name_alone(name, mine)
    if job is None:
        raise NoJob(f"Job {asked} is not found.")
    return job


def job_and_attempt(username: str, name: str) -> tuple[Job, Attempt]:
    """The visible job of that user, and its current attempt, by one statement. Raises NoJob."""
    both = found(_with_attempt(), username, name)
    number = len(Job._meta.concrete_fields)
    for job, attempt in zip(made_of(Job, both.part(0, number)), made_of(Attempt, both.part(number)), strict=True):
        return job, attempt
    raise NoJob(f"Job {name} is not found.")


@cache
def _with_attempt() -> str:
    return f"""
        SELECT {columns_of(Job, "j")}, {columns_of(Attempt, "a")}
        FROM jobs_job j JOIN jobs_attempt a ON a.job_id = j.id AND a.number = j.attempt_number
        WHERE j.username = %s AND j.name = %s AND j.deleted_at IS NULL
    """  # noqa: S608 - our own names


def named(username: str, names: Sequence[str]) -> list[Job]:
    """Return the visible jobs of a user that have these names, without their configs; one statement for 500."""
    wanted = sorted({name for name in names if "\x00" not in username + name})  # PostgreSQL refuses to look for it
    rows = visible_jobs().filter(username=username).defer("config", "spec")
    return [job for some in chunks(wanted) for job in rows.filter(name__in=some).order_by("id")]


def free_name(username: str, name: str) -> str:
    """The user's next free job name after ``name``, which counts on where it ends with a number: ``train-3`` of
    ``train-2``."""
    taken = set(
        visible_jobs()
        .filter(username=username, name__startswith=name.rstrip("0123456789").rstrip("-"))
        .values_list("name", flat=True)[:2000]
    )
    stem, number, free = name, 2, name
    head, dash, tail = name.rpartition("-")
    if dash and (last := whole(tail, 5)) and not tail.startswith("0"):
        stem, number = head, last + 1
    while free in taken:
        free = f"{stem}-{number}"
        number += 1
    return free


def current_attempt(job: Job) -> Attempt:
    return get_attempt(job, job.attempt_number)


def get_attempt(job: Job, number: int) -> Attempt:
    """Return attempt ``number`` of the job. Raises NoJob when there was none."""
    attempt = first_where(Attempt, "job_id = %s AND number = %s", job.pk, number)
    if attempt is None:
        raise NoJob(f"Attempt {number} of job {job.name} is not found.")
    return attempt


def list_attempts(job: Job) -> QuerySet[Attempt]:
    """The attempts of a job, newest first."""
    return Attempt.objects.filter(job=job).order_by("-number")


def earlier_ends(job: Job, most: int = 100) -> list[End]:
    """How the attempts before the current one ended, newest first."""
    ended = Attempt.objects.filter(job=job, number__lt=job.attempt_number).order_by("-number")
    return list(ended.values_list("number", "exit_code", "exit")[:most])


@dataclass(slots=True)
class TaskRow:
    """What a detail tells of a task: these columns of it. A job may have 100,000 of them."""

    role: str
    index: int
    state: str
    node: str
    address: str
    ports: Mapping[str, Sequence[int]]
    gpu_ids: Sequence[str]
    exit_code: int | None
    exit: Mapping[str, Any]
    progress: str
    held_at: datetime | None
    told_at: datetime | None

    @property
    def label(self) -> str:
        return f"{self.role}-{self.index}"


_LINES = f"""
    SELECT {", ".join(f'"{field.name}"' for field in fields(TaskRow))} FROM jobs_task WHERE attempt_id = %s ORDER BY id
"""  # noqa: S608 - our own names


def list_tasks(attempt: Attempt) -> list[TaskRow]:
    """The tasks of an attempt: roles in config order, then by index."""
    return all_values(Task, TaskRow, _LINES, attempt.pk)


def gpus_of(username: str) -> dict[str, set[str]]:
    """{node: ids} of the GPUs that the user's running jobs have; none for a guest, whose name is empty."""
    return by_node(gpus_held(username))


def gpus_held(username: str) -> list[tuple[str, str, list[str]]]:
    """(virtual cluster, node, ids) of the GPUs of each running task of the user."""
    if not username:
        return []
    running = Job.objects.filter(username=username, state=JobState.RUNNING, deleted_at__isnull=True).values("id")
    live = Task.objects.filter(job__in=running, state__in=TASK_LIVE_STATES).exclude(gpu_ids=[])
    return list(live.values_list("job__vc", "node", "gpu_ids"))


def by_node(held: Iterable[tuple[str, str, list[str]]]) -> dict[str, set[str]]:
    own: dict[str, set[str]] = {}
    for _, node, gpus in held:
        own.setdefault(node, set()).update(map(str, gpus))
    return own


def held_tasks(job: Job) -> list[Task]:
    """The tasks of the current attempt that are kept for debugging and that nobody has released yet."""
    kept = Task.objects.filter(job=job, attempt__number=job.attempt_number, state=TaskState.RUNNING)
    return list(kept.filter(held_at__isnull=False, released_at__isnull=True).order_by("id"))


def held_until(task: Task | TaskRow) -> datetime | None:
    """When the container of a task that is kept for debugging ends by itself; None for any other task."""
    if task.held_at is None or task.state != TaskState.RUNNING:
        return None
    return task.held_at + timedelta(seconds=settings.DEBUG_HOLD)


def killed_at(job: Job, attempt: Attempt, task: Task | TaskRow) -> datetime | None:
    """When a task that has been told to end is killed at the latest; None for any other."""
    if task.told_at is None or task.state != TaskState.STOPPING:
        return None
    return task.told_at + timedelta(seconds=0 if job.stops_now else attempt.grace)


def list_events(job: Job, *, after: int = 0) -> QuerySet[Event]:
    """The events of a job whose id is greater than ``after``, oldest first."""
    return Event.objects.filter(job=job, id__gt=after).order_by("id")


def _filtered(which: JobFilter) -> QuerySet[Job]:
    jobs = visible_jobs()
    if which.username:
        jobs = jobs.filter(username=which.username)
    if which.vc:
        jobs = jobs.filter(vc=which.vc)
    if which.state == STOPPING:
        jobs = jobs.filter(_STOPPING)
    elif which.state:
        jobs = jobs.filter(state=which.state)
        if which.shown_as and which.state in LIVE:
            jobs = jobs.filter(execution=Job.Execution.START)
    if which.sweep:
        username, _, name = which.sweep.partition("~")
        jobs = jobs.filter(sweep__username=username, sweep__name=name)
    if which.since:
        jobs = jobs.filter(created_at__gte=which.since)
    if which.keyword:
        has = Q(name__icontains=which.keyword) | Q(username__icontains=which.keyword) | Q(vc__icontains=which.keyword)
        jobs = jobs.filter(has)
    return jobs


def _by_name_alone(name: str, mine: str) -> Job | None:
    own = visible_jobs().filter(username=mine, name=name).first() if mine else None
    if own is not None:
        return own
    two = list(visible_jobs().filter(name=name).order_by("-is_legacy", "id")[:2])
    is_only = len(two) == 1 or (two and two[0].is_legacy > two[1].is_legacy)
    return two[0] if is_only else None
