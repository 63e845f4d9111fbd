"""Sends a log as server-sent events: first its lines so far, then new ones, until the task has ended and all are sent.

    id: <offset>          start of the first line not yet sent whole; EventSource sends it back when it reconnects
    event: lines          [{"number", "text", "start", "end", "partial"?, "note"?, "kind"?}, ...]; a partial line comes
                          again under its number when it has grown
    event: skip           {"from", "to", "lines"}: lines that a slow viewer misses (the page can load them)
    event: note           {"text"}: why nothing comes at the moment; empty when it goes on
    event: end            {"lines", "size"}: all is sent; EventSource must be closed
    : comment             every 15 s, so that proxies keep the connection

The server holds one batch for each viewer and reads the next one when the client has taken it. A slow viewer falls
behind and skips lines; a hundred viewers cost a hundred batches.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

from clusters.engines.runtime import Stream
from jobs.logs.follow import Follower, hub
from jobs.logs.lines import LogView
from jobs.logs.places import current_place
from jobs.logs.read import Log, open_archive
from portal.core.errors import LongshoreError
from portal.core.threads import in_thread

BATCH_LINES = 500
BATCH_BYTES = 64 * 1024
INTERVAL = 0.1  # seconds between two batches
BEHIND_BYTES, BEHIND_LINES = 1 << 20, 5000  # a viewer that has more than this to come ...
KEPT_LINES = 500  # ... skips to so many lines before the end
HEARTBEAT = 15.0  # seconds between two comments


@dataclass(slots=True)
class Position:
    """How far a viewer is: the next line to send is line ``number``, which begins at ``offset`` and was sent up to byte
    ``shown``."""

    offset: int
    number: int
    shown: int = 0


async def events(
    task_id: int, stream: Stream, *, line: int | None = None, offset: int | None = None
) -> AsyncGenerator[str]:
    """The events from line ``line`` on, or from the line that holds byte ``offset``; without both, from the first line
    on."""
    try:
        archived = await in_thread(_archived, task_id, stream)
        if archived is not None:
            async for event in _send_rest(archived, _cursor(archived.view, line, offset)):
                yield event
            return
        follower = hub.attach(task_id, stream)  # not in a thread: a viewer cancelled meanwhile would never be released
    except LongshoreError as error:
        yield _event("note", {"text": error.message})
        yield _event("end", {"lines": 0, "size": 0})
        return
    try:
        async with aclosing(_Viewer(follower).events(line, offset)) as viewed:
            async for event in viewed:
                yield event
    finally:
        hub.release(follower)


class _Viewer:
    """One client that watches a live log."""

    def __init__(self, follower: Follower) -> None:
        self._follower = follower
        self._loop = asyncio.get_running_loop()
        self._changed = asyncio.Event()
        self._woken = False
        self._sent_at = time.monotonic()
        self._problem = ""

    async def events(self, line: int | None, offset: int | None) -> AsyncGenerator[str]:
        self._follower.subscribe(self._wake)
        try:
            yield ": hello\n\n"
            cursor: Position | None = None
            while True:
                self._woken = False
                self._changed.clear()
                state = self._follower.state()  # read before the view, so that the view has all the state speaks of
                view = await in_thread(self._follower.view)
                if cursor is None and (state.caught_up or state.ended or _reaches(view, line, offset)):
                    cursor = _cursor(view, line, offset)
                if state.problem != self._problem:
                    self._problem = state.problem
                    yield self._out(_event("note", {"text": state.problem}))
                sent = False
                for event in await in_thread(_batch, view, cursor) if cursor is not None else ():
                    sent = True
                    yield self._out(event)
                if state.ended and not sent:
                    break
                await self._pause(sent)
                if time.monotonic() - self._sent_at > HEARTBEAT:
                    yield self._out(": still here\n\n")
        finally:
            self._follower.unsubscribe(self._wake)
        archived = await in_thread(_archived, self._follower.task_id, self._follower.stream)
        rest = archived or Log(await in_thread(self._follower.view), ended=True)
        async for event in _send_rest(rest, cursor or _cursor(rest.view, line, offset)):
            yield event

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
        patience = HEARTBEAT if self._follower.copies else INTERVAL
        try:
            await asyncio.wait_for(self._changed.wait(), min(patience, 1.0))
        except TimeoutError:
            pass

    def _out(self, event: str) -> str:
        self._sent_at = time.monotonic()
        return event


async def _send_rest(log: Log, cursor: Position) -> AsyncGenerator[str]:
    while batch := await in_thread(_batch, log.view, cursor):
        for event in batch:
            yield event
        await asyncio.sleep(INTERVAL)
    if log.note:
        yield _event("note", {"text": log.note})
    yield _event("end", {"lines": await in_thread(log.view.line_count), "size": log.view.size})


def _reaches(view: LogView, line: int | None, offset: int | None) -> bool:
    """Whether the log has the line or offset. A spool that was dropped and is filled again may still be shorter than
    the viewer's position."""
    return view.size >= offset if offset is not None else view.newlines + 1 >= (line or 1)


def _cursor(view: LogView, line: int | None, offset: int | None) -> Position:
    """The viewer's position at the start. The offset wins over the line: a client that reconnects sends it. Both may be
    any number."""
    number = view.number_at(offset) if offset is not None else max(1, min(line or 1, view.newlines + 1))
    return Position(view.start_of(number), number)


def _batch(view: LogView, cursor: Position) -> list[str]:
    """The next events, none when all is sent; moves ``cursor`` behind them."""
    if view.size <= max(cursor.offset, cursor.shown):
        return []
    skip = _skip(view, cursor)
    if skip and not cursor.shown:
        cursor.offset, cursor.number = view.start_of(skip["to"] + 1), skip["to"] + 1
        return [_event("skip", skip, cursor.offset)]
    # A line that was shown in part is completed before any skip.
    lines = view.lines_at(cursor.offset, cursor.number, 1 if skip else BATCH_LINES, BATCH_BYTES)
    if not lines:
        return []
    last = lines[-1]
    if last.partial:
        cursor.offset, cursor.number, cursor.shown = last.start, last.number, last.end
    else:
        cursor.offset, cursor.number, cursor.shown = last.end, last.number + 1, 0
    return [_event("lines", [line.as_json() for line in lines], cursor.offset)]


def _skip(view: LogView, cursor: Position) -> dict[str, int] | None:
    """The lines to leave out; None when the viewer is not far behind."""
    if view.size - cursor.offset <= BEHIND_BYTES and view.newlines - cursor.number <= BEHIND_LINES:
        return None
    target = view.newlines + 2 - KEPT_LINES
    if target <= cursor.number:
        return None  # few lines, but long ones: they are cut anyway
    return {"from": cursor.number, "to": target - 1, "lines": target - cursor.number}


def _event(kind: str, data: Any, offset: int | None = None) -> str:
    place = "" if offset is None else f"id: {offset}\n"
    return f"{place}event: {kind}\ndata: {json.dumps(data, separators=(',', ':'))}\n\n"


def _archived(task_id: int, stream: Stream) -> Log | None:
    return open_archive(current_place(task_id), stream)
