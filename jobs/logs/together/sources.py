"""Opens the logs of many tasks at once, as one: in the order of their times."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from base.core.errors import NodeUnreachable, NoLog
from clusters.engines.runtime import Stream
from jobs.logs.follow import LogFollower, TooManyLogs, hub
from jobs.logs.lines import EMPTY, LogView
from jobs.logs.places import LogPhase, place_of
from jobs.logs.read import Log, open_log
from jobs.logs.text import TextLine
from jobs.logs.times import Times, no_times
from jobs.logs.together.expression import Expression
from jobs.logs.together.order import LineOrder
from jobs.models import Task

MOST = 400  # streams that are shown as one
_GLANCE = 2.0  # seconds in all that are waited for logs on their way; the page's event stream brings the rest


@dataclass(frozen=True, slots=True)
class Source:
    """One stream of one task: its ``number`` among all that were asked for."""

    number: int
    task: Task
    stream: Stream

    @property
    def name(self) -> str:
        """worker-0.1.o: task, attempt, and o or e for stdout or stderr; with a line behind it, a permalink."""
        return f"{self.task.label}.{self.task.attempt.number}.{self.stream[3]}"


@dataclass(frozen=True, slots=True)
class LogRow:
    """One line among those of several logs. ``at``: its stamp in nanoseconds. ``marks``: what matches, see
    ``Expression.spans``."""

    line: TextLine
    source: int
    at: int
    marks: Sequence[tuple[int, int]] = ()

    def as_json(self) -> dict[str, Any]:
        """What pages get: ``Line.as_json``, with ``s``, the source's number, and its stamp: ``time`` in milliseconds,
        ``ns`` behind it."""
        time, rest = divmod(self.at, 1_000_000)
        row = {**self.line.as_json(), "s": self.source, "time": time, "ns": rest}
        return {**row, "marks": self.marks} if self.marks else row


def rows_of(
    lines: Iterable[TextLine], source: int, times: Iterable[int], expression: Expression | None
) -> list[LogRow]:
    """The lines with their times, which may be fewer than the lines and the other way round."""
    spans = expression.spans if expression else lambda text: ()
    return [LogRow(line, source, at, spans(line.text)) for line, at in zip(lines, times, strict=False)]


@dataclass(frozen=True, slots=True)
class Opened:
    """A source with its log as it is now. ``note``: why there is none, or why a part is missing."""

    source: Source
    view: LogView
    times: Times
    ended: bool
    note: str = ""


class MergedLogs:
    """Several logs as one. A line's place among all is its rank, from 0."""

    def __init__(self, logs: Sequence[Opened]) -> None:
        self.logs = logs
        self._by_number = {log.source.number: place for place, log in enumerate(logs)}

    @cached_property
    def order(self) -> LineOrder:
        return LineOrder([log.times for log in self.logs])

    @property
    def total(self) -> int:
        return self.order.total

    @property
    def size(self) -> int:
        return sum(log.view.size for log in self.logs)

    def rank_of(self, number: int, line: int) -> int | None:
        """The rank of line ``line`` (from 1) of source ``number``; None when it is not there."""
        place = self._by_number.get(number)
        if place is None or not 1 <= line <= self.logs[place].times.count:
            return None
        return self.order.rank(place, line - 1)

    def rows(self, rank: int, count: int, expression: Expression | None = None) -> list[LogRow]:
        """The lines from ``rank`` on, with what matches in them. Fewer at the end, and where they are long."""
        wanted = self.order.lines(rank, count)
        ready = {place: iter(self._rows(place, wanted, expression)) for place in {place for place, _ in wanted}}
        rows: list[LogRow] = []
        for place, _ in wanted:
            row = next(ready[place], None)
            if row is None:
                break
            rows.append(row)
        return rows

    def _rows(self, place: int, wanted: list[tuple[int, int]], expression: Expression | None) -> list[LogRow]:
        """The wanted lines of one log, which follow each other."""
        numbers = [line for log, line in wanted if log == place]
        log = self.logs[place]
        lines = log.view.lines(numbers[0] + 1, len(numbers))
        return rows_of(lines, log.source.number, log.times.of(numbers[0], len(lines)), expression)


def open_together(sources: Sequence[Source]) -> MergedLogs:
    """Their logs as they are now. One that cannot be read is empty, and its note says why. The logs of running tasks
    are copied beside each other, and waited for together for some seconds at most."""
    followers: list[LogFollower] = []
    try:
        for source in sources:
            if is_live(source.task):
                followers.append(hub.attach(source.task.pk, source.stream))
    except TooManyLogs:
        pass  # those that follow say it themselves
    until = time.monotonic() + _GLANCE
    try:
        return MergedLogs([_open(source, max(0.0, until - time.monotonic())) for source in sources])
    finally:
        for follower in followers:
            hub.release(follower)


def is_live(task: Task) -> bool:
    return place_of(task).phase in (LogPhase.STARTING, LogPhase.RUNNING)


def _open(source: Source, patience: float) -> Opened:
    try:
        log = open_log(source.task, source.stream, stale=True, patience=patience)
    except (NoLog, NodeUnreachable, TooManyLogs) as error:
        ended = isinstance(error, NoLog) and place_of(source.task).phase is LogPhase.ENDED
        return Opened(source, EMPTY, no_times(0, 0), ended, error.message)
    return Opened(source, log.view, times_of(log, source.task), log.ended, log.note)


def times_of(log: Log, task: Task) -> Times:
    """When each line was written. A log that was archived without times has that of the task's start for all."""
    count, times = log.view.line_count(), log.view.times
    if times is not None and times.count >= count:
        return Times(count, times.tops, times.read, times.name)
    started = task.container_started_at or task.attempt.launched_at or task.attempt.created_at
    return no_times(count, int(started.timestamp() * 1000) * 1_000_000)
