"""The shells that this web process has, on its event loop, and the round that looks after them.

A round comes every second while there are shells. It ends those that are idle or have no window any more, every other
time those of users who may not have them any more, and now and then those that another process has left behind.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import structlog
from django.conf import settings
from django.db import DatabaseError

from clusters.engines.runtime import RuntimeFault
from clusters.engines.schemes import runtime_for
from jobs.terminal import program, records, relay
from jobs.terminal.place import Place
from jobs.terminal.shell import IDLE, WITHDRAWN, Shell
from portal.accounts.callers import Caller
from portal.core.errors import NodeUnreachable
from portal.core.threads import in_thread
from portal.models import Terminal

EVERY = 1.0  # seconds
_ASKED = 2  # rounds between two questions whose shells must end because a right is gone
_SAID = 15  # rounds between two writes that our shells live, and two looks for those that dead processes left
_AT_END = 1.0  # seconds for all shells when the process ends, and again for what is to be recorded
_RESTARTS = 1012  # the code of WebSockets for that
pool = ThreadPoolExecutor(4, thread_name_prefix="terminals")
log = structlog.get_logger()


class Shells:
    def __init__(self) -> None:
        self.owner = f"{os.getpid()}-{secrets.token_hex(4)}"
        self.loop = asyncio.get_running_loop()
        self._shells: dict[str, Shell] = {}
        self._records: set[asyncio.Task[None]] = set()
        self._looking: asyncio.Task[None] | None = None
        self._rounds = 0
        self._door: Any = None  # for windows of other web processes

    def find(self, token: str) -> Shell | None:
        return self._shells.get(token)

    async def open(self, caller: Caller, place: Place, columns: int, rows: int, ip: str | None) -> Shell:
        """Raises Conflict when the user has as many as they may, NodeUnreachable when none can be started."""
        if self._door is None:
            self._door = await relay.listen(self.owner, self.find)
        row = await in_thread(records.reserve, caller, place, self.owner, pool=pool)
        try:
            engine = await in_thread(runtime_for, place.node, pool=pool)
            argv, env = program.argv(place.label), program.env(row.token)
            attached = await engine.attach(place.container, argv, env=env, columns=columns, rows=rows)
        except RuntimeFault as fault:
            await in_thread(records.closed, row, fault.sentence, pool=pool)
            raise NodeUnreachable(fault.sentence) from fault
        except BaseException:
            await asyncio.shield(in_thread(records.closed, row, "It was not opened.", pool=pool))
            raise
        shell = Shell(row, caller, attached, settings.TERMINAL_IDLE, self._ended)
        self._shells[row.token] = shell
        self.keep()
        await in_thread(records.opened, row, place, attached.pid, ip, pool=pool)
        return shell

    def keep(self) -> None:
        """Run the rounds, until the process ends."""
        if self._looking is None or self._looking.done():
            self._looking = self.loop.create_task(self._look())

    async def close(self) -> None:
        """The process ends."""
        every = [self.loop.create_task(shell.end(_RESTARTS, "The portal starts anew.")) for shell in self._every()]
        for tasks in (every, self._records):
            if tasks:
                await asyncio.wait(tasks, timeout=_AT_END)
        if self._door is not None:
            self._door.close()

    def _ended(self, shell: Shell, why: str) -> None:
        self._shells.pop(shell.row.token, None)
        task = self.loop.create_task(self._record(shell.row, why))
        self._records.add(task)
        task.add_done_callback(self._records.discard)

    async def _record(self, row: Terminal, why: str) -> None:
        try:
            await in_thread(records.closed, row, why, pool=pool)
        except DatabaseError as error:  # the row is removed later, as one of a process that died
            log.warning("a terminal's end was not recorded", exc_info=error)

    async def _look(self) -> None:
        while self._shells:
            await asyncio.sleep(EVERY)
            try:
                await self._round()
            except Exception as error:
                log.error("a round of terminals failed", exc_info=error)

    async def _round(self) -> None:
        self._rounds += 1
        for shell in self._every():
            if why := shell.due(time.monotonic()):
                self._end(shell, IDLE, why)
        if self._rounds % _ASKED == 0 and self._shells:
            held = [records.Held(shell.row, shell.caller) for shell in self._every()]
            try:
                for token, why in (await in_thread(records.withdrawn, held, pool=pool)).items():
                    self._end(self._shells.get(token), WITHDRAWN, why)
            except DatabaseError:
                pass  # the rights are in the database, so none was taken while it is away
        if self._rounds % _SAID == 0:
            await in_thread(records.renew, list(self._shells), pool=pool)
            await self.sweep()

    def _every(self) -> list[Shell]:
        return list(self._shells.values())

    def _end(self, shell: Shell | None, code: int, why: str) -> None:
        if shell is not None:
            self.loop.create_task(shell.end(code, why))

    async def sweep(self) -> None:
        """End the shells of processes that died."""
        for row in await in_thread(records.take_lost, pool=pool):
            try:
                engine = await in_thread(runtime_for, row.node, pool=pool)
                await engine.hang_up(row.container, row.pid or 0, row.token)
            except RuntimeFault:
                pass  # it ends with its container


_mine: Shells | None = None


def mine() -> Shells:
    """Those of this process."""
    global _mine
    if _mine is None or _mine.loop is not asyncio.get_running_loop():
        _mine = Shells()
    return _mine
