"""What a window says to its shell, when it is no word of ours."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from jobs.terminal.shell import View
from tests.helpers import LIMIT


class Window:
    """Sends these messages, and then nothing."""

    def __init__(self, messages: list[bytes | str]) -> None:
        self.messages = iter(messages)

    async def receive(self) -> bytes | str:
        await asyncio.sleep(0)
        message = next(self.messages, None)
        return message if message is not None else await asyncio.Future()

    async def send(self, data: bytes | str) -> None: ...

    async def close(self, code: int = 1000, reason: str = "") -> None: ...


class SlowShell:
    """Its engine answers a new size when it is told to."""

    def __init__(self) -> None:
        self.sizes: list[tuple[int, int]] = []
        self.answers, self.heard = asyncio.Event(), asyncio.Event()

    async def resize(self, columns: int, rows: int) -> None:
        self.sizes.append((columns, rows))
        await self.answers.wait()

    async def typed(self, data: bytes) -> None:
        self.heard.set()

    async def written(self, after: int) -> bytes:
        return await asyncio.Future()

    async def taken(self) -> None: ...


def test_of_many_sizes_only_the_newest_is_asked_of_the_engine_and_keys_do_not_wait_for_it() -> None:
    async def sizes() -> list[tuple[int, int]]:
        shell = SlowShell()
        asked: list[bytes | str] = [f'{{"resize": [{columns}, 24]}}' for columns in range(1, 1001)]
        view = View(cast("Any", shell), Window([*asked, b"ls"]), 0, flow=True)
        running = asyncio.create_task(view.run())
        await asyncio.wait_for(shell.heard.wait(), LIMIT)
        shell.answers.set()
        while len(shell.sizes) < 2:
            await asyncio.sleep(0)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        return shell.sizes

    assert asyncio.run(sizes()) == [(1, 24), (1000, 24)]


@pytest.mark.parametrize("text", ["", "{", "[" * 100_000, '{"a":' * 100_000, "1" * 10_000, '{"resize": [1e999, 1]}'])
def test_what_is_no_message_is_passed_over(text: str) -> None:
    view = View(cast("Any", None), cast("Any", None), 0, flow=True)
    asyncio.run(view._handle_message(text))
    assert not view._has_size.is_set() and view.shown == 0
