"""The threads of pages are shared: whoever asks for many slow pages waits for them alone."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

from base.serving.bridge import UNTAKEN, Bridge, FairThreadPool
from tests.helpers import LIMIT


def test_many_slow_pages_for_one_address_keep_nobody_else_waiting() -> None:
    ended = threading.Event()

    def wsgi(environ: dict[str, Any], start: Any) -> list[bytes]:
        if environ["PATH_INFO"] == "/slow":
            ended.wait()
        start("200 OK", [])
        return [environ["REMOTE_ADDR"].encode()]

    async def asked() -> None:
        bridge = Bridge(wsgi, lambda environ: 0)
        slow = [asyncio.create_task(_get(bridge, "/slow", "10.0.0.1")) for _ in range(50)]
        slow += [asyncio.create_task(_get(bridge, "/slow", f"fd00::{number:x}")) for number in (16, 17)]
        await asyncio.sleep(0)
        try:
            assert await asyncio.wait_for(_get(bridge, "/", "10.0.0.2"), LIMIT) == b"10.0.0.2"
        finally:
            ended.set()
        assert [len(answer) for answer in await asyncio.gather(*slow)] == [8] * 52

    asyncio.run(asked())


def test_a_question_whose_client_has_left_is_not_worked_on_and_what_changes_something_is() -> None:
    may_end, done = threading.Event(), list[str]()

    def wsgi(environ: dict[str, Any], start: Any) -> list[bytes]:
        may_end.wait()
        done.append(environ["REQUEST_METHOD"] + environ["PATH_INFO"])
        start("200 OK", [])
        return [b"done"]

    async def asked() -> None:
        bridge = Bridge(wsgi, lambda environ: 0)
        busy = [asyncio.create_task(_get(bridge, "/busy", "10.0.0.1")) for _ in range(8)]
        await asyncio.sleep(0)
        left = [_get(bridge, "/left", "10.0.0.1", method=method, leaves=True) for method in ("GET", "HEAD", "POST")]
        tasks = [asyncio.create_task(each) for each in left]
        try:
            assert await asyncio.wait_for(asyncio.gather(*tasks[:2]), LIMIT) == [b"", b""]
        finally:
            may_end.set()
        await asyncio.gather(*busy, tasks[2])

    asyncio.run(asked())
    assert sorted(done) == ["GET/busy"] * 8 + ["POST/left"]


def test_an_address_that_does_not_take_large_answers_gets_no_more_of_them() -> None:
    made: list[str] = []

    def wsgi(environ: dict[str, Any], start: Any) -> list[bytes]:
        made.append(environ["REMOTE_ADDR"])
        start("200 OK", [])
        return [b"x" * (UNTAKEN // 2)]

    async def asked() -> None:
        bridge, takes = Bridge(wsgi, lambda environ: 0), asyncio.Event()
        slow = [asyncio.create_task(_get(bridge, "/", "10.0.0.1", takes=takes)) for _ in range(40)]
        await asyncio.wait_for(_until(lambda: len(made) >= 8), LIMIT)  # its share of the threads, all at once
        for _ in range(3):
            assert len(await asyncio.wait_for(_get(bridge, "/", "10.0.0.2"), LIMIT)) == UNTAKEN // 2
        assert made.count("10.0.0.1") <= 9  # one more began when the first of these eight had ended
        takes.set()
        assert [len(answer) for answer in await asyncio.gather(*slow)] == [UNTAKEN // 2] * 40

    asyncio.run(asked())
    assert made.count("10.0.0.1") == 40


def test_when_all_leave_too_much_untaken_those_wait_that_leave_something() -> None:
    async def asked() -> None:
        fair = FairThreadPool(16)
        for number in range(9):  # each a little less than it may
            fair.note_untaken(f"10.0.0.{number}", UNTAKEN - 1)
        waits = asyncio.create_task(_taken(fair, "10.0.0.0"))
        await asyncio.wait_for(_taken(fair, "10.0.1.1"), LIMIT)
        assert not waits.done()
        for number in (1, 2):
            fair.note_untaken(f"10.0.0.{number}", 1 - UNTAKEN)
        await asyncio.wait_for(waits, LIMIT)

    asyncio.run(asked())


async def _taken(fair: FairThreadPool, address: str) -> None:
    async with fair.take(address):
        pass


async def _until(is_so: Callable[[], bool]) -> None:
    while not is_so():
        await asyncio.sleep(0.01)


async def _get(
    bridge: Bridge,
    path: str,
    address: str,
    *,
    method: str = "GET",
    leaves: bool = False,
    takes: asyncio.Event | None = None,
) -> bytes:
    """The body of the answer. ``leaves``: the client is gone once it has asked. ``takes``: when it begins to read."""
    body, has_asked = bytearray(), False

    async def receive() -> dict[str, Any]:
        nonlocal has_asked
        if not has_asked:
            has_asked = True
            return {"type": "http.request", "body": b"", "more_body": False}
        if not leaves:
            await asyncio.get_running_loop().create_future()
        return {"type": "http.disconnect"}

    async def send(message: dict[str, Any]) -> None:
        if takes is not None and message.get("more_body"):
            await takes.wait()
        body.extend(message.get("body", b""))

    scope = {
        **{"type": "http", "http_version": "1.1", "method": method, "path": path, "query_string": b"", "headers": []},
        **{"server": ("portal", 80), "client": (address, 1), "scheme": "http"},
    }
    await bridge(scope, receive, send)
    return bytes(body)
