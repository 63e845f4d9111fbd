"""A log as server-sent events: what is there, then what is written, until the task has ended and all is sent.

    id: <offset>          start of the first line not yet sent whole; EventSource sends it back when it reconnects
    event: lines          [{"number", "text", "start", "end", "partial"?, "note"?, "kind"?}, ...]; a partial line comes
                          again under its number when it has grown
    event: skip           {"from", "to", "lines"}: too far behind, these lines are left out (the page can load them)
    event: note           {"text"}: why nothing comes at the moment; empty when it goes on
    event: end            {"lines", "size"}: all is sent; EventSource must be closed
    : comment             every 15 s, so that proxies keep the connection

A viewer holds one batch: the next is read when the last one was taken by the client, so a slow one falls behind and
skips, and a hundred of them cost a hundred batches.
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
BEHIND_BYTES, BEHIND_LINES = 1 << 20, 5000  # a viewer with more than this before him skips ...
KEPT_LINES = 500  # ... to this many before the end
HEARTBEAT = 15.0


@dataclass(slots=True)
class Position:
    """Where a viewer is: the next line to send begins at ``offset``; of it the bytes up to ``shown`` were sent."""

    offset: int
    number: int
    shown: int = 0


async def events(
    task_id: int, stream: Stream, *, line: int | None = None, offset: int | None = None
) -> AsyncGenerator[str]:
    """From line ``line``, or from the line that holds byte ``offset``, on; from the first without either."""
    try:
        archived = await in_thread(_archived, task_id, stream)
        if archived is not None:
            async for event in _send_rest(archived, _cursor(archived.view, line, offset)):
                yield event
            return
        follower = hub.attach(task_id, stream)  # here: in a thread a cancelled viewer would never be released
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
    def __init__(self, follower: Follower) -> None:
        self._follower = follower
        self._loop = asyncio.get_running_loop()
        self._changed = asyncio.Event()
        self._woken = False
        self._said = time.monotonic()
        self._problem = ""

    async def events(self, line: int | None, offset: int | None) -> AsyncGenerator[str]:
        self._follower.subscribe(self._wake)
        try:
            yield ": hello\n\n"
            cursor: Position | None = None
            while True:
                self._woken = False
                self._changed.clear()
                state = self._follower.state()  # before the view: what it says is in the view
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
                if time.monotonic() - self._said > HEARTBEAT:
                    yield self._out(": still here\n\n")
        finally:
            self._follower.unsubscribe(self._wake)
        archived = await in_thread(_archived, self._follower.task_id, self._follower.stream)
        rest = archived or Log(await in_thread(self._follower.view), ended=True)
        async for event in _send_rest(rest, cursor or _cursor(rest.view, line, offset)):
            yield event

    def _wake(self) -> None:
        """From the follower's thread, for each chunk: at most one call of the loop until it has been looked at."""
        if not self._woken:
            self._woken = True
            try:
                self._loop.call_soon_threadsafe(self._changed.set)
            except RuntimeError:
                pass  # the loop is closed: the process ends

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
        self._said = time.monotonic()
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
    """A spool that was dropped and is filled again may not be where the viewer was before."""
    return view.size >= offset if offset is not None else view.newlines + 1 >= (line or 1)


def _cursor(view: LogView, line: int | None, offset: int | None) -> Position:
    """An offset wins: it is what a viewer who was here before sends. Any number is taken, also a made-up one."""
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
    # A line of which a part was shown is not left so.
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
    """The lines to leave out, if there are too many before the viewer."""
    if view.size - cursor.offset <= BEHIND_BYTES and view.newlines - cursor.number <= BEHIND_LINES:
        return None
    target = view.newlines + 2 - KEPT_LINES
    if target <= cursor.number:
        return None  # a few lines, very long ones: they are cut anyway
    return {"from": cursor.number, "to": target - 1, "lines": target - cursor.number}


def _event(kind: str, data: Any, offset: int | None = None) -> str:
    place = "" if offset is None else f"id: {offset}\n"
    return f"{place}event: {kind}\ndata: {json.dumps(data, separators=(',', ':'))}\n\n"


def _archived(task_id: int, stream: Stream) -> Log | None:
    return open_archive(current_place(task_id), stream)
