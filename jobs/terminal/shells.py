"""The shells that this web process has, on its event loop, and the round that looks after them.

A round comes every second while there are shells. It ends those that are idle or have no window any more, every other
time those of users who may not have them any more, and now and then those that nobody has: another process has left
them behind, or their engine did not answer when they were closed.
"""

from __future__ import annotations

import asyncio
import os
import re
import secrets
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import structlog
from django.conf import settings
from django.db import DatabaseError

from base.accounts.callers import Caller
from base.core.errors import NodeUnreachable
from base.core.threads import in_thread
from base.models import Terminal
from clusters.engines.attach import MARK
from clusters.engines.runtime import RuntimeFault
from clusters.engines.schemes import runtime_for
from jobs.models import Task
from jobs.terminal import records, relay
from jobs.terminal.shell import IDLE, WITHDRAWN, Shell

EVERY = 1.0  # seconds
_ASKED = 2  # rounds between two questions whose shells must end because a right is gone
_SAID = 15  # rounds between two writes that our shells live, and two looks for those that dead processes left
_AT_END = 1.0  # seconds for all shells when the process ends, and again for what is to be recorded
_RESTARTS = 1012  # the code of WebSockets for that
# The environment of an exec is what the container was made with; what only the start script needs is taken out, and the
# job's secrets, which never were in it, are read as the command reads them. bash where the image has it, else sh.
_SCRIPT = r"""
for at in 0 1 2 3 4 5 6 7 8 9; do unset "LONGSHORE_FILE_$at"; done
unset TINI_KILL_PROCESS_GROUP LONGSHORE_DEBUG_HOLD at
export PAI_WORK_DIR="${PAI_WORK_DIR:-$PWD}" LANG="${LANG:-C.UTF-8}"
[ ! -r /pai/secrets/job.sh ] || . /pai/secrets/job.sh
[ -z "$2" ] || exec /bin/sh -c "$2"
if command -v bash >/dev/null; then export PS1="\u@$1:\w\\$ "; exec bash; fi
export PS1="$1:\$PWD# "
exec /bin/sh
"""
_PLAIN = re.compile(r"[^A-Za-z0-9_.-]")
pool = ThreadPoolExecutor(4, thread_name_prefix="terminals")
log = structlog.get_logger()


class Shells:
    def __init__(self) -> None:
        self.owner = f"{os.getpid()}-{secrets.token_hex(4)}"
        self.loop = asyncio.get_running_loop()
        self._shells: dict[str, Shell] = {}
        self._records: set[asyncio.Task[None]] = set()
        self._looking: asyncio.Task[None] | None = None
        self._cleaning: asyncio.Task[None] | None = None  # apart from the rounds, which wait for no engine
        self._are_left = False  # shells that were closed and may still run
        self._rounds = 0
        self._door: Any = None  # for windows of other web processes

    def find(self, token: str) -> Shell | None:
        return self._shells.get(token)

    async def open(
        self, caller: Caller, task: Task, columns: int, rows: int, ip: str | None, command: str = ""
    ) -> Shell:
        """Start a shell, or this command of one. Raises Conflict when the user has as many as they may, NodeUnreachable
        when none can be started."""
        if self._door is None:
            self._door = await relay.listen(self.owner, self.find)
        row = await in_thread(records.reserve, caller, task, self.owner, pool=pool)
        try:
            engine = await in_thread(runtime_for, task.node, pool=pool)
            name = _PLAIN.sub("-", task.label)  # for the prompt
            argv = ("/bin/sh", "-c", _SCRIPT, "sh", name, command)
            env = {"TERM": "xterm-256color", MARK: row.token}
            attached = await engine.attach(task.container_name, argv, env=env, columns=columns, rows=rows)
        except RuntimeFault as fault:
            await in_thread(records.closed, row, fault.sentence, True, pool=pool)
            raise NodeUnreachable(fault.sentence) from fault
        except BaseException:
            await asyncio.shield(in_thread(records.closed, row, "It was not opened.", True, pool=pool))
            raise
        shell = Shell(row, caller, attached, settings.TERMINAL_IDLE, self._gone)
        self._shells[row.token] = shell
        self.ensure_running()
        await in_thread(records.opened, row, task, attached.pid, ip, pool=pool)
        return shell

    def ensure_running(self) -> None:
        """Run the rounds, until the process ends."""
        if self._looking is None or self._looking.done():
            self._looking = self.loop.create_task(self._look())

    async def close(self) -> None:
        """The process ends."""
        every = [
            self.loop.create_task(shell.end(_RESTARTS, "The portal starts anew.")) for shell in self._shells.values()
        ]
        for tasks in (every, self._records):
            if tasks:
                await asyncio.wait(tasks, timeout=_AT_END)
        if self._door is not None:
            self._door.close()

    def _gone(self, shell: Shell, why: str, has_ended: bool) -> None:
        self._shells.pop(shell.row.token, None)
        self._are_left |= not has_ended
        task = self.loop.create_task(self._record(shell.row, why, has_ended))
        self._records.add(task)
        task.add_done_callback(self._records.discard)

    async def _record(self, row: Terminal, why: str, has_ended: bool) -> None:
        try:
            await in_thread(records.closed, row, why, has_ended, pool=pool)
        except DatabaseError as error:  # the row is found later, as one of a process that died
            log.warning("a terminal's end was not recorded", exc_info=error)

    async def _look(self) -> None:
        while self._shells or self._are_left:
            await asyncio.sleep(EVERY)
            try:
                await self._round()
            except Exception as error:
                log.error("a round of terminals failed", exc_info=error)

    async def _round(self) -> None:
        self._rounds += 1
        for shell in list(self._shells.values()):
            if why := shell.due(time.monotonic()):
                self._end(shell, IDLE, why)
        if self._rounds % _ASKED == 0 and self._shells:
            shells = list(self._shells.values())
            try:
                for token, why in (await in_thread(records.withdrawn, shells, pool=pool)).items():
                    self._end(self._shells.get(token), WITHDRAWN, why)
            except DatabaseError:
                pass  # the rights are in the database, so none was taken while it is away
        if self._rounds % _SAID == 0:
            await in_thread(records.renew, list(self._shells), pool=pool)
            if self._cleaning is None or self._cleaning.done():
                self._cleaning = self.loop.create_task(self.clean_up())

    def _end(self, shell: Shell | None, code: int, why: str) -> None:
        if shell is not None:
            self.loop.create_task(shell.end(code, why))

    async def clean_up(self) -> None:
        """End the shells that nobody has. Those of an engine that does not answer are left for the next time."""
        away: set[str] = set()
        for row in await in_thread(records.left, pool=pool):
            if row.node in away:
                continue
            try:
                engine = await in_thread(runtime_for, row.node, pool=pool)
                await engine.hang_up(row.container, row.pid or 0, row.token)
            except RuntimeFault as fault:
                if not fault.permanent:
                    away.add(row.node)
                    continue
            await in_thread(records.ended, row, pool=pool)
        self._are_left = bool(away)


_mine: Shells | None = None


def own_shells() -> Shells:
    """Those of this process."""
    global _mine
    if _mine is None or _mine.loop is not asyncio.get_running_loop():
        _mine = Shells()
    return _mine
