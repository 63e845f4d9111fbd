"""The server sleeps between requests, and wakes up when it is told to end."""

from __future__ import annotations

import asyncio
import signal
import threading

import uvicorn

from base.serving import server
from tests.helpers import LIMIT


def test_it_sleeps_until_it_is_told_to_end() -> None:
    serving = server.SleepingServer(uvicorn.Config("nothing:here"))

    async def run() -> None:
        looping = asyncio.create_task(serving.main_loop())
        await asyncio.sleep(0)  # until it sleeps
        threading.Thread(target=serving.handle_exit, args=(signal.SIGTERM, None)).start()
        await asyncio.wait_for(looping, LIMIT)

    asyncio.run(run())
    assert serving.should_exit
