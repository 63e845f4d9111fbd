"""What terminals share where an engine runs their programs by execs.

Such an engine goes on with an exec when its connection is closed, and has no call to end it. So a program is started by
a small script that first says its process id, and is ended by another exec that signals it.
"""

from __future__ import annotations

import asyncio
import re
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping
from typing import Protocol

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


async def pid_of(read: Callable[[], Awaitable[bytes]]) -> tuple[int, bytes]:
    """The process id that the script says first, and the first bytes that the program wrote. Raises COMMAND_MISSING
    when something else comes."""
    said = b""
    while not (line := _PID.match(said)):
        more = await read() if len(said) < _LONGEST_START else b""
        if not more:
            text = short(said.decode(errors="replace")) or "it hung up"
            missing = f"No shell could be started in the container: {text}"
            raise RuntimeFault(missing, reason=FaultReason.COMMAND_MISSING, permanent=True)
        said += more
    return int(line[1]), said[line.end() :]


class Program(Protocol):
    """An exec with a terminal, whose methods are as those of ``Attached``, but that ``close`` only ends the connection:
    the program may go on."""

    async def read(self) -> bytes: ...

    async def write(self, data: bytes) -> None: ...

    async def resize(self, columns: int, rows: int) -> None: ...

    async def exit_code(self) -> int | None: ...

    async def close(self) -> None: ...


class ExecTerminals(ABC):
    """The terminals of one engine. ``patience``: seconds that the end of a program may take it."""

    patience: float

    async def attach(
        self, name: str, argv: tuple[str, ...], *, env: Mapping[str, str], columns: int, rows: int
    ) -> ExecTerminal:
        program = await self._begin(name, argv, env, columns, rows)
        try:
            async with asyncio.timeout(STARTING):
                pid, first = await pid_of(program.read)
        except TimeoutError:
            await program.close()
            raise RuntimeFault("The engine started no shell in time.", reason=FaultReason.UNREACHABLE) from None
        except BaseException:
            await program.close()
            raise
        attached = ExecTerminal(self, name, program, pid, first)
        await attached.resize(columns, rows)
        return attached

    @abstractmethod
    async def _begin(
        self, name: str, argv: tuple[str, ...], env: Mapping[str, str], columns: int, rows: int
    ) -> Program:
        """A program that says its process id first, and becomes ``argv`` then."""

    @abstractmethod
    async def hang_up(self, name: str, pid: int, mark: str) -> None:
        """As Attachable.hang_up; ``mark`` "" ends any program of this id."""


class ExecTerminal:
    """A program of the container ``name`` as ``Attached`` has it. ``first``: the bytes that it has written so far."""

    def __init__(self, terminals: ExecTerminals, name: str, program: Program, pid: int, first: bytes) -> None:
        self.pid = pid
        self._terminals, self._name, self._program, self._first = terminals, name, program, first
        self._ended = self._closed = False

    async def read(self) -> bytes:
        data, self._first = self._first, b""
        if not data and not self._ended:
            self._check()
            data = await self._program.read()
            self._ended = not data
        return data

    async def write(self, data: bytes) -> None:
        self._check()
        await self._program.write(data)

    async def resize(self, columns: int, rows: int) -> None:
        if not self._ended and not self._closed:
            await self._program.resize(columns, rows)

    async def exit_code(self) -> int | None:
        return await self._program.exit_code()

    async def close(self) -> bool:
        if self._closed:
            return self._ended
        self._closed = True
        try:
            if not self._ended:
                async with asyncio.timeout(self._terminals.patience):
                    await self._terminals.hang_up(self._name, self.pid, "")
                self._ended = True
        except (TimeoutError, RuntimeFault):
            pass  # the engine does not answer
        finally:
            await self._program.close()
        return self._ended

    def _check(self) -> None:
        """Raises GONE when it is closed."""
        if self._closed:
            raise gone(self._name)
