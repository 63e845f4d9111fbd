"""The same for programs on an event loop: each call waits in a thread of its own, and not the loop."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any, cast

from .api import Client, Config
from .jobs import RemoteJob
from .words import ENDS, JobStanding, LogText


class AsyncClient:
    """As ``Client``, with ``await``; its jobs are ``AsyncJob``."""

    def __init__(self, url: str = "", token: str = "") -> None:
        self.client = Client(url, token)

    async def jobs(self, **which: Any) -> list[AsyncJob]:
        return [AsyncJob(job) for job in await asyncio.to_thread(self.client.jobs, **which)]

    def job(self, name: str) -> AsyncJob:
        return AsyncJob(self.client.job(name))

    async def submit(self, config: Config) -> AsyncJob:
        return AsyncJob(await asyncio.to_thread(self.client.submit, config))

    async def run(self, command: str, **asked: Any) -> AsyncJob:
        return AsyncJob(await asyncio.to_thread(self.client.run, command, **asked))

    async def copy(self, source: str, target: str, **how: Any) -> int:
        return await asyncio.to_thread(self.client.copy, source, target, **how)


class AsyncJob:
    """As ``RemoteJob``, which is its ``job``."""

    def __init__(self, job: RemoteJob) -> None:
        self.job, self.name = job, job.name

    async def status(self) -> JobStanding:
        return await asyncio.to_thread(self.job.status)

    async def wait(self, timeout: float | None = None) -> JobStanding:
        """Raises TimeoutError."""
        return await asyncio.wait_for(self._ended(), timeout)

    async def _ended(self, every: float = 2.0) -> JobStanding:
        patiently, status = self.job.transport.patiently, self.job.status
        while (found := await asyncio.to_thread(patiently, status))["state"] not in ENDS:  # noqa: ASYNC110 - nothing here is told of the end
            await asyncio.sleep(every)
        return cast(JobStanding, found)

    async def why(self) -> dict[str, Any]:
        return await asyncio.to_thread(self.job.why)

    async def stop(self, *, now: bool = False) -> None:
        await asyncio.to_thread(self.job.stop, now=now)

    async def logs(self, **which: Any) -> AsyncIterator[LogText]:
        lines = self.job.logs(**which)
        while (line := await asyncio.to_thread(next, lines, None)) is not None:
            yield line
