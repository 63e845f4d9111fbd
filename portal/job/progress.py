"""Shows the steps and the strip of numbers on top of a job's page. It reads no database, only the clock."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from django.utils import timezone

from base.core import words
from jobs import queries
from jobs.config.spec import JobSpec
from jobs.metrics.use import AttemptUse
from jobs.models import Attempt, Job
from jobs.planning import exits
from jobs.planning.lifecycle import TASK_LIVE_STATES, JobState, TaskState
from jobs.planning.streak import read_exit
from portal.shared.look.strip import StripFigure


@dataclass(frozen=True, slots=True)
class JobStep:
    """One step. ``state``: the name of a state for its colour and icon, or "done" or "todo". ``at`` is shown as a time
    of day, ``since`` as a duration that grows, ``text`` behind either."""

    state: str
    name: str
    text: str = ""
    at: datetime | None = None
    since: datetime | None = None
    current: bool = False


@dataclass(frozen=True, slots=True)
class FirstStarts:
    """When the first and the last container of the current attempt started. ``missing``: how many placed tasks have not
    started yet."""

    first: datetime | None
    last: datetime | None
    missing: int
    doing: str = ""  # what a worker does for one of them


def steps(job: Job, attempts: Sequence[Attempt], starts: FirstStarts, state: str) -> list[JobStep]:
    """The steps of a job, from Submitted to its end. ``attempts`` are newest first."""
    current = attempts[0]
    done = [JobStep("done", "Submitted", at=job.created_at), *_history(attempts[1:])]
    if job.state == JobState.WAITING:
        name = "Stopping" if state == queries.STOPPING else "Waiting"
        return [*done, JobStep(state, name, since=job.queued_at, current=True), *_todo("Starting", "Running", "Ended")]
    placed = current.launched_at or (job.started_at if job.state == JobState.RUNNING else None)
    if placed:
        waited = words.duration((placed - max(current.created_at, job.queued_at)).total_seconds())
        done.append(JobStep("done", "Waited", waited))
    if job.state == JobState.RUNNING and starts.missing and state == JobState.RUNNING:
        doing = starts.doing or f"{words.count(starts.missing, 'task')} to go"
        starting = JobStep(TaskState.STARTING, "Starting", doing, since=placed, current=True)
        return [*done, starting, *_todo("Running", "Ended")]
    if placed and starts.last:
        done.append(JobStep("done", "Started", words.duration((starts.last - placed).total_seconds())))
    if job.state == JobState.RUNNING:
        name = "Stopping" if state == queries.STOPPING else "Running"
        return [*done, JobStep(state, name, since=starts.last or placed, current=True), *_todo("Ended")]
    return [*done, _end(job, placed)]


def _todo(*names: str) -> list[JobStep]:
    return [JobStep("todo", name) for name in names]


def strip(
    job: Job,
    spec: JobSpec,
    counts: Mapping[str, Mapping[str, int]],
    nodes: Sequence[str],
    attempts: Sequence[Attempt],
    place: int,
    use: AttemptUse | None = None,
) -> list[StripFigure]:
    """The numbers of a job: what is allocated of what it asks for while it lives, afterwards what it asked for; and
    what of it is used. ``counts``: tasks by role and state; ``place``: its place in the queue, 0 when it does not
    wait."""
    live, use_of = job.state in queries.LIVE, _in_use(use, spec)
    cells = [StripFigure("Place in the queue", words.ordinal(place), f"in {job.vc}")] if place else []
    if job.total_gpus:
        gpus = _cell(f"GPUs · {words.visible(spec.gpu_type or 'any type')}", _sums(spec, counts, "gpu_number"), live)
        cells.append(_used(gpus, use_of.get("gpu")))
    held, cores = _sums(spec, counts, "cpu_number")
    cells.append(_used(_cell("CPU", (held, cores), live, "core" if cores == 1 else "cores"), use_of.get("cpu")))
    memory = _cell("Memory", _sums(spec, counts, "memory_mb"), live, shown=words.memory)
    cells.append(_used(memory, use_of.get("memory")))
    if nodes:
        cells.append(StripFigure("Nodes", words.number(len(nodes)), small=words.listing(nodes)))
    if job.total_gpus and any(attempt.launched_at for attempt in attempts):
        cells.append(_gpu_hours(job, attempts))
    return [*cells, _retries(job, spec)]


def _cell(
    name: str, sums: tuple[int, int], live: bool, unit: str = "", shown: Callable[[int], str] = words.number
) -> StripFigure:
    held, asked = sums
    if not live:
        return StripFigure(name, shown(asked), unit)
    value, percent = shown(held) if held else "0", 100 * held / asked if asked else 0.0
    of = f"of {shown(asked)} {unit}".strip()
    return StripFigure(name, value, of, percent, f"{value} of {shown(asked)} allocated", "allocated")


def _used(cell: StripFigure, use: tuple[str, float] | None) -> StripFigure:
    """The cell with what is used of it, in words and as its bar."""
    if use is None:
        return cell
    says, percent = use
    return replace(cell, percent=min(100.0, percent), label=says, small=says)


def _in_use(use: AttemptUse | None, spec: JobSpec) -> dict[str, tuple[str, float]]:
    """What is used of gpu, cpu and memory, in words and in percent, as far as it was measured."""
    if use is None:
        return {}
    measured: dict[str, tuple[str, float]] = {}
    busy = f"busy {'now' if use.is_now else 'on average'}"
    if use.gpu is not None:
        measured["gpu"] = f"{use.gpu:.0f} % {busy}", use.gpu
    if use.cpu is not None:
        asked = sum(role.cpu_number * role.task_number for role in spec.task_roles)
        cores = f"{use.cpu:.1f}" if use.cpu < 10 else f"{use.cpu:,.0f}"
        measured["cpu"] = f"{cores} cores {busy}", 100 * use.cpu / max(1, asked)
    if use.memory is not None and use.memory_of:
        used, of = words.size(int(use.memory)), words.size(int(use.memory_of))
        says = f"{used} used now" if use.is_now else f"peak {used} of {of} in {use.task}"
        measured["memory"] = says, 100 * use.memory / use.memory_of
    return measured


def _sums(spec: JobSpec, counts: Mapping[str, Mapping[str, int]], field: str) -> tuple[int, int]:
    """(held by live tasks, asked for)"""
    held = asked = 0
    for role in spec.task_roles:
        size = getattr(role, field)
        held += size * sum(counts.get(role.name, {}).get(state, 0) for state in TASK_LIVE_STATES)
        asked += size * role.task_number
    return held, asked


def attempt_text(job: Job, spec: JobSpec) -> str:
    """``2 of 4``: the attempt and how many its retryCount allows; ``2`` when the cluster's faults led beyond that."""
    most = spec.retry_count + 1
    return f"{job.attempt_number} of {most}" if job.attempt_number <= most and most > 1 else str(job.attempt_number)


def _history(earlier: Sequence[Attempt]) -> list[JobStep]:
    if not earlier:
        return []
    last = earlier[0]
    name = f"Attempt {last.number}" if last.number == 1 else f"Attempts 1–{last.number}"
    end = last.completed_at or last.decided_at
    ran = words.duration((end - last.launched_at).total_seconds()) if end and last.launched_at else "did not start"
    exit_ = read_exit(last.exit_code, last.exit)
    why = "evicted" if exit_.code == exits.PREEMPTED else _phrase(exit_.sentence)
    text = f"{ran}, {why}" if why else ran
    has_failed = any(attempt.exit_code and attempt.exit_code != exits.PREEMPTED for attempt in earlier)
    state = JobState.FAILED if has_failed else "done"
    return [JobStep(state, name, text if last.number == 1 else f"last: {text}")]


def _end(job: Job, placed: datetime | None) -> JobStep:
    ran = ""
    if placed and job.completed_at:
        ran = f"after {words.duration((job.completed_at - placed).total_seconds())}"
    return JobStep(job.state, words.STATES[job.state].word, ran, at=job.completed_at)


def _phrase(sentence: str) -> str:
    first = sentence.partition(". ")[0].rstrip(".")
    return first[:1].lower() + first[1:] if first.startswith(("Node ", "The ", "No ")) else first


def _gpu_hours(job: Job, attempts: Sequence[Attempt]) -> StripFigure:
    now = timezone.now()
    spans = [(attempt.completed_at or now) - attempt.launched_at for attempt in attempts if attempt.launched_at]
    hours = sum(span.total_seconds() for span in spans) * job.total_gpus / 3600
    return StripFigure("Used so far" if job.state in queries.LIVE else "Used", words.hours(hours), "GPU-hours")


def _retries(job: Job, spec: JobSpec) -> StripFigure:
    free = job.platform_retries + job.resource_retries
    small = f"{free:,} more after faults of the cluster" if free else "faults of the cluster do not count"
    of = "of any number" if spec.retry_count < 0 else f"of {spec.retry_count:,}"
    return StripFigure("Retries used", words.number(job.user_retries), of, small=small)
