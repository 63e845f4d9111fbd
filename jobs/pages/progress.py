"""Shows the steps and the strip of numbers on top of a job's page. It reads no database, only the clock."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from django.utils import timezone

from jobs import queries
from jobs.config.spec import JobSpec
from jobs.metrics.use import Together
from jobs.models import Attempt, Job
from jobs.planning import exits
from jobs.planning.lifecycle import TASK_LIVE, JobState, TaskState
from portal.core import words


@dataclass(frozen=True, slots=True)
class Step:
    """One step. ``state``: the name of a state for its colour and icon, or "done" or "todo". ``at`` is shown as a time
    of day, ``since`` as a duration that grows, ``text`` behind either."""

    state: str
    name: str
    text: str = ""
    at: datetime | None = None
    since: datetime | None = None
    current: bool = False


@dataclass(frozen=True, slots=True)
class Cell:
    """One number of the strip. ``percent`` draws a bar when it is not None."""

    name: str
    value: str
    of: str = ""
    percent: float | None = None
    label: str = ""
    small: str = ""


@dataclass(frozen=True, slots=True)
class Starts:
    """When the first and the last container of the current attempt started. ``missing``: how many placed tasks have not
    started yet."""

    first: datetime | None
    last: datetime | None
    missing: int
    doing: str = ""  # what a worker does for one of them


def steps(job: Job, attempts: Sequence[Attempt], starts: Starts, state: str) -> list[Step]:
    """The steps of a job, from Submitted to its end. ``attempts`` are newest first."""
    current = attempts[0]
    done = [Step("done", "Submitted", at=job.created_at), *_history(attempts[1:])]
    if job.state == JobState.WAITING:
        waiting = Step(state, "Stopping" if state == queries.STOPPING else "Waiting", since=job.queued_at, current=True)
        return [*done, waiting, Step("todo", "Starting"), Step("todo", "Running"), Step("todo", "Ended")]
    placed = current.launched_at or (job.started_at if job.state == JobState.RUNNING else None)
    if placed:
        waited = words.duration((placed - max(current.created_at, job.queued_at)).total_seconds())
        done.append(Step("done", "Waited", waited))
    if job.state == JobState.RUNNING:
        return [*done, *_running(placed, starts, state)]
    if placed and starts.last:
        done.append(Step("done", "Started", f"{words.duration((starts.last - placed).total_seconds())}"))
    return [*done, _end(job, placed)]


def strip(
    job: Job,
    spec: JobSpec,
    counts: Mapping[str, Mapping[str, int]],
    nodes: Sequence[str],
    attempts: Sequence[Attempt],
    place: int,
    use: Together | None = None,
) -> list[Cell]:
    """The numbers of a job: what is allocated of what it asks for while it lives, afterwards what it asked for; and
    what of it is used. ``counts``: tasks by role and state; ``place``: its place in the queue, 0 when it does not
    wait."""
    live = job.state in queries.LIVE
    cells = [Cell("Place in the queue", words.ordinal(place), f"in {job.vc}")] if place else []
    if job.total_gpus:
        held, gpus = _sums(spec, counts, "gpu_number")
        cells.append(_used(_cell(f"GPUs · {spec.gpu_type or 'any type'}", held, gpus, live, ""), _busy_gpus(use)))
    held, cores = _sums(spec, counts, "cpu_number")
    cells.append(_used(_cell("CPU", held, cores, live, "core" if cores == 1 else "cores"), _busy_cores(use, cores)))
    cells.append(_used(_memory_cell(*_sums(spec, counts, "memory_mb"), live), _used_memory(use)))
    if nodes:
        cells.append(Cell("Nodes", words.number(len(nodes)), small=words.listing(nodes)))
    if job.total_gpus and any(attempt.launched_at for attempt in attempts):
        cells.append(_gpu_hours(job, attempts))
    return [*cells, _retries(job, spec)]


def _used(cell: Cell, use: tuple[str, float] | None) -> Cell:
    """The cell with what is used of it, in words and as its bar."""
    if use is None:
        return cell
    says, percent = use
    return replace(cell, percent=min(100.0, percent), label=says, small=says)


def _busy_gpus(use: Together | None) -> tuple[str, float] | None:
    if use is None or use.gpu is None:
        return None
    return f"{use.gpu:.0f} % busy {'now' if use.is_now else 'on average'}", use.gpu


def _busy_cores(use: Together | None, asked: int) -> tuple[str, float] | None:
    if use is None or use.cpu is None:
        return None
    cores = f"{use.cpu:.1f}" if use.cpu < 10 else f"{use.cpu:,.0f}"
    return f"{cores} cores busy {'now' if use.is_now else 'on average'}", 100 * use.cpu / max(1, asked)


def _used_memory(use: Together | None) -> tuple[str, float] | None:
    if use is None or use.memory is None or not use.memory_of:
        return None
    percent = 100 * use.memory / use.memory_of
    used = words.size(int(use.memory))
    says = f"{used} used now" if use.is_now else f"peak {used} of {words.size(int(use.memory_of))} in {use.task}"
    return says, percent


def _sums(spec: JobSpec, counts: Mapping[str, Mapping[str, int]], field: str) -> tuple[int, int]:
    """(held by live tasks, asked for)"""
    held = asked = 0
    for role in spec.task_roles:
        size = getattr(role, field)
        held += size * sum(counts.get(role.name, {}).get(state, 0) for state in TASK_LIVE)
        asked += size * role.task_number
    return held, asked


def attempt_text(job: Job, spec: JobSpec) -> str:
    """``2 of 4``: the attempt and how many its retryCount allows; ``2`` when the cluster's faults led beyond that."""
    most = spec.retry_count + 1
    return f"{job.attempt_number} of {most}" if job.attempt_number <= most and most > 1 else str(job.attempt_number)


def _history(earlier: Sequence[Attempt]) -> list[Step]:
    if not earlier:
        return []
    last = earlier[0]
    name = f"Attempt {last.number}" if last.number == 1 else f"Attempts 1–{last.number}"
    end = last.completed_at or last.decided_at
    ran = words.duration((end - last.launched_at).total_seconds()) if end and last.launched_at else "did not start"
    why = _phrase(last.exit)
    text = f"{ran}, {why}" if why else ran
    has_failed = any(one.exit_code and one.exit_code != exits.PREEMPTED for one in earlier)
    state = JobState.FAILED if has_failed else "done"
    return [Step(state, name, text if last.number == 1 else f"last: {text}")]


def _running(placed: datetime | None, starts: Starts, state: str) -> list[Step]:
    name = {queries.STOPPING: "Stopping"}.get(state, "Running")
    if starts.missing and state == JobState.RUNNING:
        doing = starts.doing or f"{words.count(starts.missing, 'task')} to go"
        starting = Step(TaskState.STARTING, "Starting", doing, since=placed, current=True)
        return [starting, Step("todo", "Running"), Step("todo", "Ended")]
    done = []
    if placed and starts.last:
        done.append(Step("done", "Started", words.duration((starts.last - placed).total_seconds())))
    return [*done, Step(state, name, since=starts.last or placed, current=True), Step("todo", "Ended")]


def _end(job: Job, placed: datetime | None) -> Step:
    ran = ""
    if placed and job.completed_at:
        ran = f"after {words.duration((job.completed_at - placed).total_seconds())}"
    return Step(job.state, words.STATES[job.state].word, ran, at=job.completed_at)


def _phrase(exit: Mapping[str, Any]) -> str:
    sentence = str(exit.get("reason") or (exit.get("exit") or {}).get("sentence") or "")
    first = sentence.partition(". ")[0].rstrip(".")
    return first[:1].lower() + first[1:] if first.startswith(("Node ", "The ", "No ")) else first


def _cell(name: str, held: int, asked: int, live: bool, unit: str) -> Cell:
    if not live:
        return Cell(name, words.number(asked), unit)
    percent = 100 * held / asked if asked else 0.0
    of = f"of {words.number(asked)} {unit}".strip()
    return Cell(name, words.number(held), of, percent, f"{held} of {asked} allocated", "allocated")


def _memory_cell(held: int, asked: int, live: bool) -> Cell:
    if not live:
        return Cell("Memory", words.memory(asked))
    percent = 100 * held / asked if asked else 0.0
    label = f"{words.memory(held)} of {words.memory(asked)} allocated"
    return Cell("Memory", words.memory(held) if held else "0", f"of {words.memory(asked)}", percent, label, "allocated")


def _gpu_hours(job: Job, attempts: Sequence[Attempt]) -> Cell:
    now = timezone.now()
    spans = [(one.completed_at or now) - one.launched_at for one in attempts if one.launched_at]
    hours = sum(span.total_seconds() for span in spans) * job.total_gpus / 3600
    return Cell("Used so far" if job.state in queries.LIVE else "Used", words.hours(hours), "GPU-hours")


def _retries(job: Job, spec: JobSpec) -> Cell:
    free = job.platform_retries + job.resource_retries
    small = f"{free:,} more after faults of the cluster" if free else "faults of the cluster do not count"
    of = "of any number" if spec.retry_count < 0 else f"of {spec.retry_count:,}"
    return Cell("Retries used", words.number(job.user_retries), of, small=small)
