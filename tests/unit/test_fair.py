"""Threads are shared by addresses: who is slow takes them from nobody else."""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import AsyncExitStack

from base.serving.bridge import FairThreadPool


class Slow:
    """Addresses that send what never ends."""

    def __init__(self, threads: int) -> None:
        self.fair = FairThreadPool(threads)
        self.has: Counter[str] = Counter()
        self.tasks: dict[str, list[asyncio.Task[None]]] = {}

    async def send(self, address: str, number: int) -> int:
        """How many threads the address has after so many requests more."""

        async def one() -> None:
            async with self.fair.take(address):
                self.has[address] += 1
                try:
                    await asyncio.Event().wait()
                finally:
                    self.has[address] -= 1

        self.tasks.setdefault(address, []).extend(asyncio.create_task(one()) for _ in range(number))
        await settled()
        return self.has[address]

    async def stop(self, address: str, number: int) -> None:
        for task in [self.tasks[address].pop(0) for _ in range(number)]:
            task.cancel()
        await settled()

    async def end(self) -> None:
        for address, tasks in self.tasks.items():
            await self.stop(address, len(tasks))


async def settled() -> None:
    for _ in range(50):
        await asyncio.sleep(0)


def test_two_addresses_together_leave_threads_to_others() -> None:
    async def play() -> None:
        slow = Slow(16)
        assert [await slow.send(address, 100) for address in "abcde"] == [8, 4, 2, 1, 1]
        await slow.end()

    asyncio.run(play())


def test_those_that_wait_are_served_address_by_address() -> None:
    async def play() -> None:
        slow = Slow(4)
        await slow.send("a", 50)
        assert (await slow.send("b", 50), await slow.send("c", 1), await slow.send("d", 1)) == (1, 1, 0)
        await slow.stop("a", 1)
        assert (slow.has["a"], slow.has["d"]) == (1, 1)
        await slow.end()

    asyncio.run(play())


def test_nothing_is_lost_when_those_who_have_and_those_who_wait_go() -> None:
    async def play() -> None:
        slow = Slow(16)
        for address in "ab":
            await slow.send(address, 30)
        for address in "ab":
            await slow.stop(address, 30)
        assert not slow.has.total()
        assert await slow.send("c", 30) == 8
        await slow.end()
        async with AsyncExitStack() as stack:
            for number in range(16):
                await stack.enter_async_context(slow.fair.take(str(number)))

    asyncio.run(play())
