"""Sends logs as server-sent events: first their lines so far, then new ones, until all have ended and all is sent.

    id: <s>:<offset>-...  of each log: start of the first line not yet sent whole; EventSource sends it back when it
                          reconnects
    event: lines          rows of one log, see ``Row.as_json``; a partial line comes again under its number when it has
                          grown
    event: skip           {"s", "from", "to", "lines"}: lines that a slow viewer misses (the page can load them)
    event: note           {"text"}: why nothing comes at the moment; empty when it goes on
    event: again          a task that waited has started: open the stream once more
    event: end            {"lines", "size"}: all is sent; EventSource must be closed
    : comment             every 15 s, so that proxies keep the connection

The server holds one batch for each viewer and reads the next one when the client has taken it. A slow viewer falls
behind and skips lines. Viewers who are at the same place share the batch: a thousand cost little more than one.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Iterable, Sequence
from contextlib import aclosing
from dataclasses import astuple, dataclass

from django.db import DatabaseError

from base.core.errors import LongshoreError, NoLog
from base.core.threads import in_thread
from clusters.engines.runtime import Stream
from clusters.models import Node
from jobs.logs.follow import LogFollower, hub
from jobs.logs.lines import EMPTY
from jobs.logs.places import current_place
from jobs.logs.read import Log, open_archive
from jobs.logs.spool import SpoolState
from jobs.logs.together.batches import Batch, LogCursor, batch_of, cursor_at, event, reaches
from jobs.logs.together.expression import Expression
from jobs.models import Task
from jobs.planning.lifecycle import TaskState

INTERVAL = 0.1  # seconds between two batches
HEARTBEAT = 15.0  # seconds between two comments
_SHARED = 64  # batches that are kept for other viewers of a log
LOOK_FOR_STARTED = 3.0  # seconds between two looks whether waiting tasks have started
_LOOK_FOR_SILENT = 3.0  # seconds between two looks at nodes, of all viewers of this process together
_silent: tuple[float, frozenset[str]] = (-_LOOK_FOR_SILENT, frozenset())  # when they were read, and their names


@dataclass(frozen=True, slots=True)
class WatchedLog:
    """A log that a client watches: source ``number`` of its page, from line ``line`` on, or from the line that holds
    byte ``offset``; without both from the first line on. ``node`` is where it is written, if it still is."""

    number: int
    task_id: int
    stream: Stream
    line: int | None = None
    offset: int | None = None
    node: str = ""


@dataclass(slots=True)
class _Viewed:
    """One log that a client watches, and how far the client is. ``rest``: it has ended, and this is all there is.
    ``cursor`` is None until the log is long enough for the place where the client wants to begin."""

    watched: WatchedLog
    follower: LogFollower | None = None
    rest: Log | None = None
    cursor: LogCursor | None = None
    looked: tuple[int, SpoolState] | None = None  # size and state at the last look, when there was nothing to send

    def has_news(self) -> bool:
        if self.rest is not None or self.follower is None:
            return True
        return self.looked != (self.follower.spool.size(), self.follower.spool.state())

    @property
    def problem(self) -> str:
        return self.rest.note if self.rest else self.looked[1].problem if self.looked else ""


@dataclass(frozen=True, slots=True)
class _Batch:
    """A batch that is being read for all who wait for it. ``seen``: size and state of the log before."""

    at: float
    seen: tuple[int, SpoolState]
    batch: asyncio.Future[Batch]

    def is_empty(self) -> bool:
        """Whether it is known that nothing was there: the log may have grown since."""
        if not self.batch.done():
            return False
        return self.batch.cancelled() or bool(self.batch.exception()) or not self.batch.result().events


async def live_events(
    watched: Sequence[WatchedLog], expression: Expression | None = None, waiting: Sequence[int] = ()
) -> AsyncGenerator[str]:
    """The events of these logs. ``waiting``: ids of tasks without a log yet, which will have to be watched."""
    viewer = _Viewer(expression, waiting)
    try:
        archived = await in_thread(_archived, watched)
        viewer.join(watched, archived)  # not in a thread: a viewer cancelled meanwhile would never be released
    except LongshoreError as error:
        viewer.leave()
        yield event("note", {"text": error.message})
        yield event("end", {"lines": 0, "size": 0})
        return
    try:
        async with aclosing(viewer.events()) as viewed:
            async for told in viewed:
                yield told
    finally:
        viewer.leave()


class _Viewer:
    """One client that watches."""

    def __init__(self, expression: Expression | None, waiting: Sequence[int]) -> None:
        self._expression = expression
        self._waiting = waiting
        self._loop = asyncio.get_running_loop()
        self._changed = asyncio.Event()
        self._woken = False
        self._sent_at = self._looked_at = time.monotonic()
        self._note = ""
        self._logs: list[_Viewed] = []

    def join(self, watched: Iterable[WatchedLog], archived: dict[int, Log]) -> None:
        """Follow those that are not archived. Raises TooManyLogs."""
        for wanted in watched:
            log = _Viewed(wanted, rest=archived.get(wanted.number))
            if log.rest is None:
                log.follower = hub.attach(wanted.task_id, wanted.stream)
                log.follower.subscribe(self._wake)
            self._logs.append(log)

    def leave(self) -> None:
        for log in self._logs:
            if log.follower is not None:
                log.follower.unsubscribe(self._wake)
                hub.release(log.follower)
                log.follower = None

    async def events(self) -> AsyncGenerator[str]:
        yield ": hello\n\n"
        todo = list(self._logs)
        while todo or self._waiting:
            self._woken = False
            self._changed.clear()
            sent = False
            for log in [log for log in todo if log.has_news()]:
                batch = await self._next(log)
                for told in batch.events:
                    sent = True
                    yield self._out(told, self._places())
                if batch.events:
                    continue
                if log.rest is not None:
                    todo.remove(log)
                elif log.looked and log.looked[1].ended:
                    log.rest = await in_thread(_rest_of, log)  # the archive may have more than the copy
            if (note := await self._problem()) != self._note:
                self._note = note
                yield self._out(event("note", {"text": note}))
            if await self._has_started():
                yield self._out(event("again", {}))
                return
            if todo or self._waiting:
                await self._pause(sent or any(log.rest for log in todo))
            if time.monotonic() - self._sent_at > HEARTBEAT:
                yield self._out(": still here\n\n")
        yield event("end", await in_thread(_totals, self._logs))

    async def _next(self, log: _Viewed) -> Batch:
        """What the client has not got of this log; moves the cursor behind it."""
        if log.follower is None or log.rest is not None:
            batch: Batch = await in_thread(self._batch, log, None)
        else:
            spool = log.follower.spool
            seen = spool.size(), spool.state()
            if log.cursor is None:
                batch = await in_thread(self._batch, log, seen[1])
            else:
                reading = self._reading(log.follower, log.cursor, log.watched.number, seen)
                batch, seen = await asyncio.shield(reading.batch), reading.seen
            log.looked = None if batch.events else seen
        log.cursor = batch.after
        return batch

    def _reading(self, follower: LogFollower, cursor: LogCursor, number: int, seen: tuple[int, SpoolState]) -> _Batch:
        """What follows this place in the log. All who come to it within INTERVAL, or while it is read, get the same: so
        they go on together, and a thousand of them read no more often than one."""
        shared, now = follower.shared, time.monotonic()
        key = (self._loop, astuple(cursor), number, self._expression)
        known: _Batch | None = shared.get(key)
        if known is not None and now - known.at < INTERVAL and (known.seen == seen or not known.is_empty()):
            return known
        while len(shared) >= _SHARED:
            shared.pop(next(iter(shared)), None)
        doing = in_thread(lambda: batch_of(follower.spool.view(), cursor, number, self._expression))
        shared[key] = reading = _Batch(now, seen, asyncio.ensure_future(doing))
        return reading

    def _batch(self, log: _Viewed, state: SpoolState | None) -> Batch:
        """Read it in a thread. ``state`` was read before the view, so the view has all that it speaks of."""
        view = log.rest.view if log.rest else log.follower.spool.view() if log.follower else None
        assert view is not None
        wanted, cursor = log.watched, log.cursor
        if cursor is None:
            is_there = state is None or state.caught_up or state.ended
            if not is_there and not reaches(view, wanted.line, wanted.offset):
                return Batch((), None)
            cursor = cursor_at(view, wanted.line, wanted.offset)
        return batch_of(view, cursor, wanted.number, self._expression)

    async def _problem(self) -> str:
        """Why nothing comes from one of the logs, or nothing. That its node is silent is told before what its engine's
        connection broke of: which of the two is noticed first is chance."""
        waits = {log.watched.node for log in self._logs if log.rest is None and log.looked}
        if gone := sorted(waits & await _silent_nodes()) if waits else []:
            return f"Node {gone[0]} does not answer. What is written there comes when it does."
        return next((log.problem for log in self._logs if log.problem), "")

    def _places(self) -> str:
        places = [(log.watched.number, log.cursor.offset) for log in self._logs if log.cursor]
        return "-".join(f"{number}:{offset}" for number, offset in places)

    async def _has_started(self) -> bool:
        if not self._waiting or time.monotonic() - self._looked_at < LOOK_FOR_STARTED:
            return False
        self._looked_at = time.monotonic()
        return await in_thread(_any_started, self._waiting)

    def _wake(self) -> None:
        """Called in the follower's thread for each chunk; calls the event loop once until the viewer has looked."""
        if not self._woken:
            self._woken = True
            try:
                self._loop.call_soon_threadsafe(self._changed.set)
            except RuntimeError:
                pass  # the event loop is closed: the process ends

    async def _pause(self, sent: bool) -> None:
        if sent:
            await asyncio.sleep(INTERVAL)
            return
        copies = all(log.follower.spool.copies for log in self._logs if log.follower)
        try:
            await asyncio.wait_for(self._changed.wait(), 1.0 if copies else INTERVAL)
        except TimeoutError:
            pass

    def _out(self, told: str, places: str = "") -> str:
        self._sent_at = time.monotonic()
        return f"id: {places}\n{told}" if places else told


def _archived(watched: Iterable[WatchedLog]) -> dict[int, Log]:
    """Those of these logs that are archived, by the number of their source. One of which nothing was kept is empty."""
    logs: dict[int, Log] = {}
    for wanted in watched:
        try:
            log = open_archive(current_place(wanted.task_id), wanted.stream)
        except NoLog as none:
            log = Log(EMPTY, ended=True, note=none.message)
        if log is not None:
            logs[wanted.number] = log
    return logs


def _rest_of(log: _Viewed) -> Log:
    archived = _archived([log.watched]).get(log.watched.number)
    if archived is not None and archived.view.size:
        return archived
    assert log.follower is not None
    return Log(
        log.follower.spool.view(), ended=True, note=archived.note if archived else log.follower.spool.state().problem
    )


def _totals(logs: Iterable[_Viewed]) -> dict[str, int]:
    views = [log.rest.view for log in logs if log.rest]
    return {"lines": sum(view.line_count() for view in views), "size": sum(view.size for view in views)}


def _any_started(waiting: Sequence[int]) -> bool:
    return Task.objects.filter(pk__in=waiting).exclude(state=TaskState.WAITING).exists()


async def _silent_nodes() -> frozenset[str]:
    """The names of the nodes that do not answer now. A log that stands still looks like one whose task is quiet. The
    connection to its engine takes a minute to notice that nobody is there; the scheduler notices within seconds, and
    writes it down."""
    global _silent
    at, names = _silent
    if time.monotonic() - at < _LOOK_FOR_SILENT:
        return names
    _silent = time.monotonic(), names  # nobody else asks meanwhile
    names = await in_thread(_read_silent)
    _silent = time.monotonic(), names
    return names


def _read_silent() -> frozenset[str]:
    try:
        return frozenset(Node.objects.filter(health=Node.Health.UNREACHABLE).values_list("name", flat=True))
    except DatabaseError:
        return frozenset()
