"""What terminals share where an engine runs their programs by execs.

Such an engine goes on with an exec when its connection is closed, and has no call to end it. So a program is started by
a small script that first says its process id, and is ended by another exec that signals it.
"""

from __future__ import annotations

import asyncio
import re
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable

from clusters.engines.attach import GRACE, MARK
from clusters.engines.faults import short
from clusters.engines.runtime import FaultReason, RuntimeFault, gone

STARTING = 20.0  # seconds until a program must have said its process id
_END = """
[ -z "$2" ] || case "$(tr '\\000' '\\n' <"/proc/$1/environ" 2>/dev/null)" in *"$3=$2"*) ;; *) exit ;; esac
kill -HUP "$1" && kill -CONT "$1" && sleep "$4"; kill -KILL "$1"
"""
_PID = re.compile(rb"(\d{1,9})\r?\n")
_LONGEST_START = 4096  # bytes of what comes in place of a process id


def shell(script: str, *arguments: str) -> list[str]:
    """The command that runs ``script`` with ``arguments`` as its $1, $2 ..."""
    return ["/bin/sh", "-c", script, "sh", *arguments]


def ending(pid: int, mark: str) -> list[str]:
    """The command that ends a program of the same container. ``mark``: only if it has this MARK; "" ends any."""
    return shell(_END, str(pid), mark, MARK, str(GRACE))


async def pid_of(said: bytes, read: Callable[[], Awaitable[bytes]]) -> tuple[int, bytes]:
    """The process id that the script says first, and the first bytes that the program wrote. ``said``: what has arrived
    already. Raises COMMAND_MISSING when something else comes."""
    while not (found := _PID.match(said)):
        more = await read() if len(said) < _LONGEST_START else b""
        if not more:
            text = short(said.decode(errors="replace")) or "it hung up"
            missing = f"No shell could be started in the container: {text}"
            raise RuntimeFault(missing, reason=FaultReason.COMMAND_MISSING, permanent=True)
        said += more
    return int(found[1]), said[found.end() :]


class ExecTerminal(ABC):
    """A program of the container ``name`` as ``Attached`` has it, but for what each engine does in its own way.
    ``first``: the bytes that it has written so far. ``patience``: seconds that its end may take the engine."""

    def __init__(self, name: str, pid: int, first: bytes, patience: float) -> None:
        self.pid = pid
        self._name, self._first, self._patience = name, first, patience
        self._ended = self._closed = False

    async def read(self) -> bytes:
        data, self._first = self._first, b""
        if not data and not self._ended:
            self._check()
            data = await self._next()
            self._ended = not data
        return data

    async def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        try:
            if not self._ended:
                async with asyncio.timeout(self._patience):
                    await self._end()
        except (TimeoutError, RuntimeFault):
            pass  # the engine does not answer; whoever opened it may try again later
        finally:
            self._ended = True
            await self._disconnect()

    def _check(self) -> None:
        """Raises GONE when it is closed."""
        if self._closed:
            raise gone(self._name)

    @abstractmethod
    async def _next(self) -> bytes:
        """The next bytes that the program writes; nothing when it has ended."""

    @abstractmethod
    async def _end(self) -> None:
        """End the program."""

    @abstractmethod
    async def _disconnect(self) -> None:
        """Close the connection."""
