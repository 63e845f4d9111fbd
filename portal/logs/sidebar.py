"""Says what stands beside the lines of a log: its tasks and attempts, with their colours and times."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlencode

from django.utils import timezone

from base.core import words
from jobs.logs.together.sources import Source
from jobs.models import Attempt, Task
from portal.logs.choice import LogChoice, Shown

_COLOURS = 4
_NAMED = 4  # tasks of an attempt that are named with their nodes; of more only the numbers are said


def groups(choice: LogChoice, page: Shown) -> list[dict[str, Any]]:
    """[{"attempt", "span", "tasks": [{"label", "state", "url", "colour", "numbers", "lines", "on"}]}], the newest
    first."""
    counts = {log.source.number: log.times.count for log in page.together.logs}
    groups: dict[int, dict[int, dict[str, Any]]] = {}
    spans = {}
    for source in choice.sources:
        task = source.task
        spans[task.attempt.number] = _span(task.attempt, "%H:%M")
        tasks = groups.setdefault(task.attempt.number, {})
        row = tasks.setdefault(
            task.pk,
            {
                "label": task.label,
                "state": task.state,
                "url": f"{choice.page}?{urlencode({'task': task.label, 'attempt': task.attempt.number})}",
                "colour": colour(choice.sources, source),
                "numbers": [],
                "lines": 0,
                "on": False,
            },
        )
        row["numbers"].append(source.number)
        row["lines"] += counts.get(source.number, 0)
        row["on"] = row["on"] or source.number not in choice.hide
    return [
        {"attempt": number, "span": spans[number], "tasks": list(tasks.values())}
        for number, tasks in sorted(groups.items(), reverse=True)
    ]


def attempts(sources: Sequence[Source]) -> Mapping[int, str]:
    """Return {attempt: "Attempt 2 · 14:22:31 to 14:29:07 · worker-0 on gpu-03, worker-1 on gpu-04"}."""
    tasks: dict[int, dict[int, Task]] = {}
    for source in sources:
        tasks.setdefault(source.task.attempt.number, {})[source.task.pk] = source.task
    return {number: _attempt(list(of_attempt.values())) for number, of_attempt in tasks.items()}


def colour(sources: Sequence[Source], source: Source) -> int:
    """The fifth task has the colour of the first again."""
    labels = list(dict.fromkeys(each.task.label for each in sources))
    return labels.index(source.task.label) % _COLOURS + 1


def _attempt(tasks: Sequence[Task]) -> str:
    attempt = tasks[0].attempt
    placed = [task for task in tasks if task.node]
    if len(placed) <= _NAMED:
        where = ", ".join(f"{task.label} on {task.node}" for task in placed)
    else:
        where = f"{len(placed)} tasks on {words.count(len({task.node for task in placed}), 'node')}"
    return " · ".join(filter(None, (f"Attempt {attempt.number}", _span(attempt, "%H:%M:%S"), where)))


def _span(attempt: Attempt, shape: str) -> str:
    """ "14:22 to 14:29", with the day where that is another one than today's."""
    if attempt.launched_at is None:
        return ""
    began = timezone.localtime(attempt.launched_at)
    day = "" if began.date() == timezone.localdate() else f"{began.day} {began:%b} "
    if attempt.completed_at is None:
        return f"since {day}{began.strftime(shape)}"
    ended = timezone.localtime(attempt.completed_at)
    other = "" if ended.date() == began.date() else f"{ended.day} {ended:%b} "
    return f"{day}{began.strftime(shape)} to {other}{ended.strftime(shape)}"
