"""The threads of pages are shared: whoever asks for many slow pages waits for them alone."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

from portal.web.serving.bridge import Bridge


def test_many_slow_pages_for_one_address_keep_nobody_else_waiting() -> None:
    ended = threading.Event()

    def wsgi(environ: dict[str, Any], start: Any) -> list[bytes]:
        if environ["PATH_INFO"] == "/slow":
            ended.wait(20)
        start("200 OK", [])
        return [environ["REMOTE_ADDR"].encode()]

    async def asked() -> None:
        bridge = Bridge(wsgi, lambda environ: 0)
        slow = [asyncio.create_task(_get(bridge, "/slow", "10.0.0.1")) for _ in range(50)]
        slow += [asyncio.create_task(_get(bridge, "/slow", f"fd00::{number:x}")) for number in (16, 17)]
        await asyncio.sleep(0)
        assert await asyncio.wait_for(_get(bridge, "/", "10.0.0.2"), 5) == b"10.0.0.2"
        ended.set()
        assert [len(answer) for answer in await asyncio.gather(*slow)] == [8] * 52

    try:
        asyncio.run(asked())
    finally:
        ended.set()


async def _get(bridge: Bridge, path: str, address: str) -> bytes:
    body = bytearray()

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: dict[str, Any]) -> None:
        body.extend(message.get("body", b""))

    scope = {
        **{"type": "http", "http_version": "1.1", "method": "GET", "path": path, "query_string": b"", "headers": []},
        **{"server": ("portal", 80), "client": (address, 1), "scheme": "http"},
    }
    await bridge(scope, receive, send)
    return bytes(body)
