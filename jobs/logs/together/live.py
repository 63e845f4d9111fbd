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

from clusters.engines.runtime import Stream
from jobs.logs import silent
from jobs.logs.follow import Follower, hub
from jobs.logs.lines import LogView
from jobs.logs.places import current_place
from jobs.logs.read import Log, open_archive
from jobs.logs.spool import SpoolState
from jobs.logs.together.batches import Batch, Position, batch_of, cursor_at, reaches
from jobs.logs.together.batches import event as event_text
from jobs.logs.together.expression import Expression
from jobs.models import Task
from jobs.planning.lifecycle import TaskState
from portal.core.errors import LongshoreError, NoLog
from portal.core.threads import in_thread

INTERVAL = 0.1  # seconds between two batches
HEARTBEAT = 15.0  # seconds between two comments
_SHARED = 64  # batches that are kept for other viewers of a log
LOOK_FOR_STARTED = 3.0  # seconds between two looks whether waiting tasks have started


@dataclass(frozen=True, slots=True)
class Watched:
    """A log that a client watches: source ``number`` of its page, from line ``line`` on, or from the line that holds
    byte ``offset``; without both from the first line on. ``node`` is where it is written, if it still is."""

    number: int
    task_id: int
    stream: Stream
    line: int | None = None
    offset: int | None = None
    node: str = ""


@dataclass(slots=True)
class _Seen:
    """One log that a client watches, and how far the client is. ``rest``: it has ended, and this is all there is.
    ``cursor`` is None until the log is long enough for the place where the client wants to begin."""

    watched: Watched
    follower: Follower | None = None
    rest: Log | None = None
    cursor: Position | None = None
    looked: tuple[int, SpoolState] | None = None  # size and state at the last look, when there was nothing to send

    def has_news(self) -> bool:
        if self.rest is not None or self.follower is None:
            return True
        return self.looked != (self.follower.size(), self.follower.state())

    @property
    def problem(self) -> str:
        return self.rest.note if self.rest else self.looked[1].problem if self.looked else ""


@dataclass(frozen=True, slots=True)
class _Reading:
    """A batch that is being read for all who wait for it. ``seen``: size and state of the log before."""

    at: float
    seen: tuple[int, SpoolState]
    batch: asyncio.Future[Batch]

    def is_empty(self) -> bool:
        """Whether it is known that nothing was there: the log may have grown since."""
        return self.batch.done() and (self.batch.cancelled() or bool(self.batch.exception()) or not self._events())

    def _events(self) -> tuple[str, ...]:
        return self.batch.result().events


async def events(
    watched: Sequence[Watched], expression: Expression | None = None, waiting: Sequence[int] = ()
) -> AsyncGenerator[str]:
    """The events of these logs. ``waiting``: ids of tasks without a log yet, which will have to be watched."""
    viewer = _Viewer(expression, waiting)
    try:
        archived = await in_thread(_archived, watched)
        viewer.join(watched, archived)  # not in a thread: a viewer cancelled meanwhile would never be released
    except LongshoreError as error:
        viewer.leave()
        yield event_text("note", {"text": error.message})
        yield event_text("end", {"lines": 0, "size": 0})
        return
    try:
        async with aclosing(viewer.events()) as viewed:
            async for event in viewed:
                yield event
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
        self._logs: list[_Seen] = []

    def join(self, watched: Iterable[Watched], archived: dict[int, Log]) -> None:
        """Raises TooManyLogs."""
        for one in watched:
            seen = _Seen(one, rest=archived.get(one.number))
            if seen.rest is None:
                seen.follower = hub.attach(one.task_id, one.stream)
                seen.follower.subscribe(self._wake)
            self._logs.append(seen)

    def leave(self) -> None:
        for one in self._logs:
            if one.follower is not None:
                one.follower.unsubscribe(self._wake)
                hub.release(one.follower)
                one.follower = None

    async def events(self) -> AsyncGenerator[str]:
        yield ": hello\n\n"
        todo = list(self._logs)
        while todo or self._waiting:
            self._woken = False
            self._changed.clear()
            sent = False
            for one in [one for one in todo if one.has_news()]:
                batch = await self._next(one)
                for event in batch.events:
                    sent = True
                    yield self._out(event, self._places())
                if batch.events:
                    continue
                if one.rest is not None:
                    todo.remove(one)
                elif one.looked and one.looked[1].ended:
                    one.rest = await in_thread(_rest_of, one)  # the archive may have more than the copy
            if (note := await self._problem()) != self._note:
                self._note = note
                yield self._out(event_text("note", {"text": note}))
            if await self._has_started():
                yield self._out(event_text("again", {}))
                return
            if todo or self._waiting:
                await self._pause(sent or any(one.rest for one in todo))
            if time.monotonic() - self._sent_at > HEARTBEAT:
                yield self._out(": still here\n\n")
        total = await in_thread(_totals, self._logs)
        yield event_text("end", total)

    async def _next(self, one: _Seen) -> Batch:
        """What the client has not got of this log; moves the cursor behind it."""
        if one.follower is None or one.rest is not None:
            batch: Batch = await in_thread(self._batch, one, None)
        else:
            seen = one.follower.size(), one.follower.state()
            if one.cursor is None:
                batch = await in_thread(self._batch, one, seen[1])
            else:
                reading = self._reading(one.follower, one.cursor, one.watched.number, seen)
                batch, seen = await asyncio.shield(reading.batch), reading.seen
            one.looked = None if batch.events else seen
        one.cursor = batch.after
        return batch

    def _reading(self, follower: Follower, cursor: Position, number: int, seen: tuple[int, SpoolState]) -> _Reading:
        """What follows this place in the log. All who come to it within INTERVAL, or while it is read, get the same: so
        they go on together, and a thousand of them read no more often than one."""
        shared, now = follower.shared, time.monotonic()
        key = (self._loop, astuple(cursor), number, self._expression)
        known: _Reading | None = shared.get(key)
        if known is not None and now - known.at < INTERVAL and (known.seen == seen or not known.is_empty()):
            return known
        while len(shared) >= _SHARED:
            shared.pop(next(iter(shared)), None)
        doing = in_thread(lambda: batch_of(follower.view(), cursor, number, self._expression))
        shared[key] = reading = _Reading(now, seen, asyncio.ensure_future(doing))
        return reading

    def _batch(self, one: _Seen, state: SpoolState | None) -> Batch:
        """In a thread. ``state`` was read before the view, so the view has all that it speaks of."""
        view = one.rest.view if one.rest else one.follower.view() if one.follower else None
        assert view is not None
        wanted, cursor = one.watched, one.cursor
        if cursor is None:
            is_there = state is None or state.caught_up or state.ended
            if not is_there and not reaches(view, wanted.line, wanted.offset):
                return Batch((), None)
            cursor = cursor_at(view, wanted.line, wanted.offset)
        return batch_of(view, cursor, wanted.number, self._expression)

    async def _problem(self) -> str:
        """Why nothing comes from one of the logs, or nothing."""
        if note := next((one.problem for one in self._logs if one.problem), ""):
            return note
        waits = {one.watched.node for one in self._logs if one.rest is None and one.looked}
        gone = sorted(waits & await silent.nodes()) if waits else []
        return f"Node {gone[0]} does not answer. What is written there comes when it does." if gone else ""

    def _places(self) -> str:
        places = [(one.watched.number, one.cursor.offset) for one in self._logs if one.cursor]
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
        copies = all(one.follower.copies for one in self._logs if one.follower)
        try:
            await asyncio.wait_for(self._changed.wait(), 1.0 if copies else INTERVAL)
        except TimeoutError:
            pass

    def _out(self, event: str, places: str = "") -> str:
        self._sent_at = time.monotonic()
        return f"id: {places}\n{event}" if places else event


def _archived(watched: Iterable[Watched]) -> dict[int, Log]:
    """The archived ones of these logs, by the number of their source. One of which nothing was kept is empty."""
    logs: dict[int, Log] = {}
    for one in watched:
        try:
            log = open_archive(current_place(one.task_id), one.stream)
        except NoLog as none:
            log = Log(LogView(0, 0, (), lambda offset, limit: b""), ended=True, note=none.message)
        if log is not None:
            logs[one.number] = log
    return logs


def _rest_of(one: _Seen) -> Log:
    archived = _archived([one.watched]).get(one.watched.number)
    if archived is not None and archived.view.size:
        return archived
    assert one.follower is not None
    return Log(one.follower.view(), ended=True, note=archived.note if archived else one.follower.state().problem)


def _totals(logs: Iterable[_Seen]) -> dict[str, int]:
    views = [one.rest.view for one in logs if one.rest]
    return {"lines": sum(view.line_count() for view in views), "size": sum(view.size for view in views)}


def _any_started(waiting: Sequence[int]) -> bool:
    return Task.objects.filter(pk__in=waiting).exclude(state=TaskState.WAITING).exists()
