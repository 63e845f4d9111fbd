"""A stream is asked after its reader, whatever it does itself."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from types import SimpleNamespace

import pytest

from portal.shared.live import stream_access
from tests.helpers import LIMIT


@pytest.mark.parametrize("pause", [0.0, 3600.0])
def test_it_ends_whether_much_comes_or_nothing(monkeypatch: pytest.MonkeyPatch, pause: float) -> None:
    monkeypatch.setattr(stream_access, "EVERY", 0.1)
    ended = []

    async def events() -> AsyncGenerator[str]:
        try:
            while True:
                yield "x"
                await asyncio.sleep(pause)
        finally:
            ended.append(True)

    async def watch() -> int:
        seen: list[str] = []
        monkeypatch.setattr(stream_access, "_is_welcome", lambda request, may: not seen)
        async for event in stream_access.while_allowed(SimpleNamespace(), bool, events()):  # type: ignore[arg-type]
            seen.append(event)
        return len(seen)

    assert asyncio.run(asyncio.wait_for(watch(), LIMIT)) >= 1
    assert ended == [True]
