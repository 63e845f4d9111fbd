"""Who gets the next thread, so that whoever sends what is slow keeps nobody else waiting.

An address takes a thread only while more of them are free than it has already. So one alone has half of them at most,
two have three quarters, and it takes five to have all of sixteen. Those that wait are served address by address.
"""

from __future__ import annotations

import asyncio
from collections import Counter, OrderedDict, deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class Fair:
    """Of so many threads. Used on one event loop."""

    def __init__(self, threads: int) -> None:
        self._free = threads
        self._held: Counter[str] = Counter()
        self._waiting: OrderedDict[str, deque[asyncio.Future[None]]] = OrderedDict()

    @asynccontextmanager
    async def take(self, address: str) -> AsyncIterator[None]:
        """Waits until this address may have one, and has it until the block ends."""
        await self._get(address)
        try:
            yield
        finally:
            self._give_back(address)

    async def _get(self, address: str) -> None:
        if address not in self._waiting and self._may(address):
            self._count(address, 1)
            return
        turn = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(address, deque()).append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self._give_back(address)
            raise

    def _may(self, address: str) -> bool:
        return self._free > self._held[address]

    def _count(self, address: str, number: int) -> None:
        self._free -= number
        self._held[address] += number
        if not self._held[address]:
            del self._held[address]

    def _give_back(self, address: str) -> None:
        self._count(address, -1)
        while (turn := self._next()) is not None:
            turn.set_result(None)

    def _next(self) -> asyncio.Future[None] | None:
        """Who gets the thread that is free, counted as theirs already. Its address is the last to be asked again."""
        for address in [address for address in self._waiting if self._may(address)]:
            turns = self._waiting.pop(address)
            while turns and turns[0].cancelled():
                turns.popleft()
            if not turns:
                continue
            turn = turns.popleft()
            if turns:
                self._waiting[address] = turns
            self._count(address, 1)
            return turn
        return None
