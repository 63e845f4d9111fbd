"""A shell in memory, for terminals of the fake engine: it types back what it is sent, and knows a few commands.

    echo WORDS    exit CODE    stty size    sleep SECONDS    wc -c (counts what is typed until Ctrl-D)
    yes (writes without end)    $NAME (in words: a variable of its environment)

Ctrl-C ends a command, Ctrl-D the shell. As in a real terminal it waits while nobody reads what it has written.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping

from clusters.engines.attach import PIECE
from clusters.engines.runtime import FaultReason, RuntimeFault

_ROOM = 1 << 18  # bytes written that nobody has read; with more it waits
_INTERRUPT, _END = 3, 4  # Ctrl-C, Ctrl-D


class FakeTerminal:
    def __init__(self, pid: int, argv: tuple[str, ...], env: Mapping[str, str], columns: int, rows: int) -> None:
        self.pid, self.argv, self.env, self.size = pid, argv, env, (columns, rows)
        self._loop = asyncio.get_running_loop()
        self._written = bytearray()
        self._line = bytearray()  # what is typed and not yet a command
        self._counted: int | None = None  # bytes, while `wc` runs
        self._command: asyncio.Task[None] | None = None  # one that takes time
        self._changed = asyncio.Event()
        self._code: int | None = None
        self._is_over = self._is_broken = self._is_closed = False
        if any("/no/such" in word for word in argv):
            self._write(b"sh: 1: exec: /no/such: not found\r\n")
            self._end(127)
        else:
            self._prompt()

    async def read(self) -> bytes:
        while not self._written and not self._is_over:
            await self._wait()
        if self._is_broken:
            raise _silent()
        data = bytes(self._written[:PIECE])
        del self._written[:PIECE]
        self._wake()
        return data

    async def write(self, data: bytes) -> None:
        for byte in data:
            while len(self._written) > _ROOM and not self._is_over and byte not in (_INTERRUPT, _END):
                await self._wait()
            if self._is_broken or self._is_closed:
                raise _silent()
            if not self._is_over:
                self._type(byte)

    async def resize(self, columns: int, rows: int) -> None:
        self.size = columns, rows

    async def exit_code(self) -> int | None:
        return self._code

    async def close(self) -> bool:
        self._is_closed = True
        self._end(None)
        return not self._is_broken

    def end(self, code: int | None) -> None:
        """From any thread: its container has ended, or somebody hangs up."""
        self._call(lambda: self._end(code))

    def break_off(self) -> None:
        """From any thread: the engine cannot be reached any more."""

        def broken() -> None:
            self._is_broken = not self._is_over
            self._end(None)

        self._call(broken)

    def _call(self, function: object) -> None:
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(function)  # type: ignore[arg-type]

    # --- the terminal ------------------------------------------------------------------------------------------------

    def _type(self, byte: int) -> None:
        if byte == _INTERRUPT:
            self._write(b"^C\r\n")
            self._stop()
            self._prompt()
        elif byte == _END and not self._line:
            self._finish()
        elif byte in b"\r\n":
            self._write(b"\r\n")
            line, self._line = bytes(self._line), bytearray()
            self._take(line)
        elif byte != _END:
            self._line.append(byte)
            self._write(bytes([byte]))

    def _take(self, line: bytes) -> None:
        if self._counted is not None:
            self._counted += len(line) + 1
        elif self._command is None:
            self._run(line.decode(errors="replace"))

    def _finish(self) -> None:
        """The end of what is typed: for a command that reads it, else for the shell."""
        if self._counted is None:
            self._end(0)
            return
        self._write(b"%d\r\n" % self._counted)
        self._counted = None
        self._prompt()

    def _run(self, line: str) -> None:
        name, _, rest = line.strip().partition(" ")
        if name == "exit":
            self._end(int(rest or 0))
            return
        if name == "wc":
            self._counted = 0
            return
        if name in ("sleep", "yes"):
            self._command = self._loop.create_task(self._last(name, rest))
            return
        columns, rows = self.size
        words = re.sub(r"\$(\w+)", lambda found: self.env.get(found[1], ""), rest)
        said = {"echo": words, "stty": f"{rows} {columns}"}
        self._write(f"{said.get(name, f'sh: {name}: not found')}\r\n".encode() if name else b"")
        self._prompt()

    async def _last(self, name: str, rest: str) -> None:
        """A command that takes time."""
        if name == "sleep":
            await asyncio.sleep(float(rest))
        while name == "yes":
            while len(self._written) > _ROOM:
                await self._wait()
            self._write(b"y\r\n" * 1000)
            await asyncio.sleep(0)
        self._command = None
        self._prompt()

    def _stop(self) -> None:
        self._line.clear()
        self._counted = None
        if self._command is not None:
            self._command.cancel()
            self._command = None

    def _end(self, code: int | None) -> None:
        if not self._is_over:
            self._stop()
            self._code, self._is_over = code, True
            self._wake()

    def _prompt(self) -> None:
        self._write(b"$ ")

    def _write(self, data: bytes) -> None:
        self._written += data
        self._wake()

    def _wake(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    async def _wait(self) -> None:
        await self._changed.wait()


def _silent() -> RuntimeFault:
    return RuntimeFault("The engine does not answer.", reason=FaultReason.UNREACHABLE)
