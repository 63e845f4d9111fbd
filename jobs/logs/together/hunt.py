"""Searches the logs of a job while a page waits, and goes on as long as they grow: server-sent events.

    event: found   {"hits": [[source, line, rank], ...], "counts": {source: lines}, "searched", "size", "done"}; the
                   counts are of all so far, hits are the new ones, as many of each source as a page can use
    event: end     nothing more will come
    : comment      every 15 s

No search holds a thread: all searches of a process share two, piece by piece in turn. Of all searches of one user
only a few pieces wait at a time, so that nobody waits long behind a user who searches much.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import AsyncGenerator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import chain, islice
from weakref import WeakValueDictionary

from base.core.threads import in_thread
from jobs.logs.follow import LogFollower, TooManyLogs, hub
from jobs.logs.together.batches import event
from jobs.logs.together.expression import Expression
from jobs.logs.together.search import matching_lines, pieces, whole_lines
from jobs.logs.together.sources import MergedLogs, Opened, Source, is_live, open_together

INTERVAL = 0.15  # seconds between two events
HEARTBEAT = 15.0
MOST = 10_000  # hits that a page gets; each source has an equal part of them
_THREADS = 2
_AHEAD = 4  # pieces of one user that wait for a thread or have one
_pool = ThreadPoolExecutor(_THREADS, thread_name_prefix="search")
_turns: WeakValueDictionary[tuple[asyncio.AbstractEventLoop, int], asyncio.Semaphore] = WeakValueDictionary()  # by user


async def hunt_events(sources: Sequence[Source], expression: Expression, user: int = 0) -> AsyncGenerator[str]:
    """The events, until all logs have ended and are searched. ``user``: the id of who searches, 0 for all guests."""
    turns = _turns.setdefault((asyncio.get_running_loop(), user), asyncio.Semaphore(_AHEAD))
    hunt = _Hunt(expression, turns)
    try:
        await in_thread(hunt.open, sources)
        async for told in hunt.events():
            yield told
    finally:
        hunt.close()


class _Hunt:
    """One search."""

    def __init__(self, expression: Expression, turns: asyncio.Semaphore) -> None:
        self._expression = expression
        self._turns = turns
        self._together = MergedLogs([])
        self._followers: dict[int, LogFollower] = {}  # by place in ``together``
        self._searched: list[int] = []  # bytes of each log
        self._counts: Counter[int] = Counter()
        self._fresh: list[tuple[int, int]] = []  # place, line
        self._listed: Counter[int] = Counter()
        self._closed = False

    def open(self, sources: Sequence[Source]) -> None:
        self._together = open_together(sources)
        self._searched = [0] * len(self._together.logs)
        for place, log in enumerate(self._together.logs):
            if not log.ended and is_live(log.source.task):
                try:
                    self._followers[place] = hub.attach(log.source.task.pk, log.source.stream)
                except TooManyLogs:
                    break
        if self._closed:  # the reader went away meanwhile
            self.close()

    def close(self) -> None:
        self._closed = True
        while self._followers:
            hub.release(self._followers.popitem()[1])

    async def events(self) -> AsyncGenerator[str]:
        said = time.monotonic()
        is_told = False  # that all has been searched
        while True:
            async for _ in self._search():
                if time.monotonic() - said > INTERVAL:
                    said, is_told = time.monotonic(), False
                    yield await in_thread(self._event, False)
            if self._fresh or not is_told:
                said, is_told = time.monotonic(), True
                yield await in_thread(self._event, True)
            if not self._followers:
                yield event("end", {})
                return
            if time.monotonic() - said > HEARTBEAT:
                said = time.monotonic()
                yield ": still here\n\n"
            await asyncio.sleep(INTERVAL)
            spools = [(follower.spool, self._searched[place]) for place, follower in self._followers.items()]
            if any(spool.size() > searched or spool.state().ended for spool, searched in spools):
                await in_thread(self._look)

    def _look(self) -> None:
        """See what has come, and let go of what has ended."""
        logs = list(self._together.logs)
        for place, follower in list(self._followers.items()):
            ended = follower.spool.state().ended  # read before the view, so that the view has all of it
            view = follower.spool.view()
            logs[place] = replace(logs[place], view=view, times=view.times or logs[place].times, ended=ended)
            if ended:
                hub.release(self._followers.pop(place))
        self._together = MergedLogs(logs)

    async def _search(self) -> AsyncGenerator[None]:
        """Search all that has not been. Yields after each piece."""
        todo = chain.from_iterable(
            ((place, log, begin, end) for begin, end in pieces(log.view, self._searched[place], _end(log)))
            for place, log in enumerate(self._together.logs)
        )
        working: set[asyncio.Future[tuple[int, int, int, list[int]]]] = set()
        more = True
        try:
            while more or working:
                while more and len(working) < _AHEAD:
                    if (piece := next(todo, None)) is None:
                        more = False
                    else:
                        working.add(asyncio.ensure_future(self._in_turn(*piece)))
                if not working:
                    return
                done, working = await asyncio.wait(working, return_when=asyncio.FIRST_COMPLETED)
                for searched in done:
                    self._take(*searched.result())
                yield
        finally:
            for search in working:
                search.cancel()

    async def _in_turn(self, place: int, log: Opened, begin: int, end: int) -> tuple[int, int, int, list[int]]:
        async with self._turns:
            return await asyncio.get_running_loop().run_in_executor(_pool, self._piece, place, log, begin, end)

    def _piece(self, place: int, log: Opened, begin: int, end: int) -> tuple[int, int, int, list[int]]:
        """Place, bytes, how many lines match, and the first of them: a piece of short lines has millions."""
        matching = matching_lines(log.view, self._expression, begin, end)
        first = list(islice(matching, MOST))
        return place, end - begin, len(first) + sum(1 for _ in matching), first

    def _take(self, place: int, searched: int, count: int, lines: list[int]) -> None:
        self._searched[place] += searched
        number = self._together.logs[place].source.number
        self._counts[number] += count
        room = max(100, MOST // len(self._together.logs)) - self._listed[place]
        fresh = lines[: max(0, room)]
        self._listed[place] += len(fresh)
        self._fresh += [(place, line) for line in fresh]

    def _event(self, done: bool) -> str:
        fresh, self._fresh = self._fresh, []
        order, logs = self._together.order, self._together.logs
        hits = [
            (logs[place].source.number, line, order.rank(place, line - 1))
            for place, line in fresh
            if line <= logs[place].times.count
        ]
        searched, size = sum(self._searched), self._together.size
        told = {"hits": hits, "counts": self._counts, "searched": searched, "size": size, "done": done}
        return event("found", told)


def _end(log: Opened) -> int:
    return log.view.size if log.ended else whole_lines(log.view)
