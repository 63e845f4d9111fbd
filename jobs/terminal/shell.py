"""One shell: a program in a container, the last that it wrote, and the window that shows it, if there is one.

The program outlives its window for WAITS seconds, so that a page can be loaded again. It is read only as fast as the
window takes what comes, so neither fills the memory of the other.

What a window gets: bytes of the program, and JSON texts
    {"shell", "from", "idle", "left"}   first: its token, the number of the byte that comes next, the seconds that it
                     may be idle and how many of them are left
    {"taken": n}     so many bytes that were typed have reached the engine
    {"left": n}      it ends in n seconds if nobody types
    {"exit": n}      it has ended with this code
What it sends: bytes that are typed, and
    {"resize": [columns, rows]}
    {"close": true}  the shell is not needed any more
    {"shown": n}     with ``flow``: so many bytes of the program are on the screen
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Protocol

from base.accounts.callers import Caller
from base.models import Terminal
from base.serving.sockets import Closed
from clusters.engines.attach import Attached
from clusters.engines.runtime import RuntimeFault
from jobs.terminal.replay import KEPT, Scrollback

WAITS = 60.0  # seconds for a window
WARNED = 60.0  # seconds before the end of an idle one
AHEAD = 128 * 1024  # bytes that the window may be behind
TYPED = 256 * 1024  # bytes that are typed and that the program has not taken
PIECE = 16 * 1024  # bytes
_LAST = 5.0  # seconds in which a window takes the last words of a shell
# Codes with which its window is closed; texts are for people.
ENDED, ELSEWHERE, IDLE, WITHDRAWN, LOST, REFUSED = 4000, 4001, 4002, 4003, 4004, 4005


class TerminalWindow(Protocol):
    """A WebSocket. Its methods raise Closed."""

    async def receive(self) -> bytes | str: ...

    async def send(self, data: bytes | str) -> None: ...

    async def close(self, code: int = 1000, reason: str = "") -> None: ...


class Shell:
    """``gone`` is called once, when nobody has it any more, with what is to be recorded and whether its program has
    ended; if not, the engine did not answer."""

    def __init__(
        self, row: Terminal, caller: Caller, attached: Attached, idle: float, gone: Callable[[Shell, str, bool], None]
    ) -> None:
        self.row, self.caller = row, caller
        self._attached, self._idle, self._gone = attached, idle, gone
        self._replay = Scrollback()
        self._view: View | None = None
        self._left_at = time.monotonic()  # when the last window went
        self._left_total = 0
        self._key_at = time.monotonic()
        self._warned = self._is_over = False
        self._news = asyncio.Condition()
        self._reading = asyncio.create_task(self._read())

    async def show(self, window: TerminalWindow, *, after: int | None, flow: bool) -> None:
        """Show the shell in this window, until either is closed. The window that showed it before is closed."""
        if self._is_over:
            await window.close(ENDED, "The shell has ended.")
            return
        view = View(self, window, self._replay.begin(after), flow=flow)
        before, self._view = self._view, view
        if before is not None:
            await before.close(ELSEWHERE, "This terminal was opened in another window.")
        try:
            idle, left = round(self._idle), round(self._idle_left(time.monotonic()))
            first = {"shell": self.row.token, "from": view.sent, "idle": idle, "left": left}
            await window.send(json.dumps(first))
            await self.taken()
            await view.run()
        except Closed:
            pass
        except RuntimeFault as fault:
            await self.end(LOST, fault.sentence)
        finally:
            if self._view is view:
                self._view, self._left_at, self._left_total = None, time.monotonic(), self._replay.total

    def due(self, now: float) -> str:
        """Why it has to end by itself; else empty. Tells the window when that comes near."""
        if self._view is None and now - self._left_at > WAITS:
            return "Its window was closed."
        left = self._idle_left(now)
        if left <= 0:
            return "It was idle."
        if left <= WARNED and not self._warned:
            self._warned = True
            self.send_message({"left": round(left)})
        return ""

    async def end(self, code: int, why: str, record: str = "") -> None:
        """Close the window with the code and ``why``, and hang up."""
        if self._is_over:
            return
        self._is_over = True
        if self._view is not None:
            await self._view.close(code, why)
        self._reading.cancel()
        has_ended = await self._attached.close()
        self._gone(self, record or why, has_ended)

    async def resize(self, columns: int, rows: int) -> None:
        with suppress(RuntimeFault):  # if the engine is lost, what is read or typed says so
            await self._attached.resize(columns, rows)

    def let_go(self) -> None:
        self._later(ENDED, "You closed it.")

    async def typed(self, data: bytes) -> None:
        self._key_at = time.monotonic()
        if self._warned:
            self._warned = False
            self.send_message({"left": round(self._idle)})
        await self._attached.write(data)

    async def written(self, after: int) -> bytes:
        """What comes after that many bytes, once there is something."""
        async with self._news:
            await self._news.wait_for(lambda: self._replay.total > after)
        return self._replay.since(after, PIECE)

    async def taken(self) -> None:
        """The window has taken something: the program may go on."""
        async with self._news:
            self._news.notify_all()

    def send_message(self, message: dict[str, Any]) -> None:
        if self._view is not None:
            self._view.send_message(message)

    async def _read(self) -> None:
        try:
            while data := await self._attached.read():
                self._replay.add(data)
                async with self._news:
                    self._news.notify_all()
                    await self._news.wait_for(self._has_room)
            code = await self._attached.exit_code()
            await self._shown()
            if code is not None and self._view is not None:
                await self._view.say({"exit": code})
        except RuntimeFault as fault:
            self._later(LOST, fault.sentence)
            return
        says = "The task has ended." if code is None else f"The shell ended with {code}."
        self._later(LOST if code is None else ENDED, says)

    def _later(self, code: int, why: str) -> None:
        """End it from outside of the task that reads, which the end cancels."""
        asyncio.get_running_loop().create_task(self.end(code, why))

    async def _shown(self) -> None:
        """Let the window take the last words, also one that is yet to come, as a command may end at once."""
        with suppress(TimeoutError):
            async with asyncio.timeout(_LAST), self._news:
                await self._news.wait_for(lambda: self._view is not None and self._view.sent >= self._replay.total)

    def _has_room(self) -> bool:
        behind = self._left_total if self._view is None else self._view.shown
        return self._replay.total - behind < (KEPT if self._view is None else AHEAD)

    def _idle_left(self, now: float) -> float:
        return self._key_at + self._idle - now


class View:
    """A window in which a shell is shown. With ``flow`` it says what is on its screen, and the shell waits for that."""

    def __init__(self, shell: Shell, window: TerminalWindow, begin: int, *, flow: bool) -> None:
        self.sent = self.shown = begin
        self._shell, self._window, self._flow = shell, window, flow
        self._typed: asyncio.Queue[bytes] = asyncio.Queue()
        self._waiting = 0  # bytes that are typed and not yet taken
        self._taken = 0
        self._room = asyncio.Event()
        self._message: dict[str, Any] = {}
        self._has_message = asyncio.Event()
        self._size: tuple[int, int] = (0, 0)  # that was asked for last
        self._has_size = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []

    async def run(self) -> None:
        """Run all its parts until one of them ends."""
        parts = (self._listen(), self._write(), self._type(), self._talk(), self._fit())
        self._tasks = [asyncio.create_task(part) for part in parts]
        try:
            done, _ = await asyncio.wait(self._tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            await self._stop()
        for task in done:
            if not task.cancelled() and (error := task.exception()) is not None:
                raise error

    async def close(self, code: int, why: str) -> None:
        await self._window.close(code, why)
        await self._stop()

    async def say(self, message: dict[str, Any]) -> None:
        with suppress(Closed):
            await self._window.send(json.dumps(message))

    def send_message(self, message: dict[str, Any]) -> None:
        """Send a message soon. Of fields that were not sent yet only the newest values go."""
        self._message |= message
        self._has_message.set()

    async def _stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._shell.taken()

    async def _listen(self) -> None:
        while True:
            message = await self._window.receive()
            if isinstance(message, str):
                await self._handle_message(message)
                continue
            self._waiting += len(message)
            self._typed.put_nowait(message)
            while self._waiting > TYPED:
                self._room.clear()
                await self._room.wait()

    async def _handle_message(self, text: str) -> None:
        try:
            message = json.loads(text)
        except (ValueError, RecursionError):
            return
        if not isinstance(message, dict):
            return
        if size := size_in(message.get("resize")):
            self._size = size
            self._has_size.set()
        if message.get("close") is True:
            self._shell.let_go()
        shown = message.get("shown")
        if self._flow and isinstance(shown, int) and self.shown < shown <= self.sent:
            self.shown = shown
            await self._shell.taken()

    async def _write(self) -> None:
        while True:
            data = await self._shell.written(self.sent)
            await self._window.send(data)
            self.sent += len(data)
            if not self._flow:
                self.shown = self.sent
            await self._shell.taken()

    async def _type(self) -> None:
        while True:
            data = await self._typed.get()
            for at in range(0, len(data), PIECE):
                piece = data[at : at + PIECE]
                await self._shell.typed(piece)
                self._waiting -= len(piece)
                self._taken += len(piece)
                self._room.set()
                if self._flow:
                    self.send_message({"taken": self._taken})

    async def _fit(self) -> None:
        """One size after the other, of those that were asked for meanwhile only the newest."""
        while True:
            await self._has_size.wait()
            self._has_size.clear()
            await self._shell.resize(*self._size)

    async def _talk(self) -> None:
        while True:
            await self._has_message.wait()
            message, self._message = self._message, {}
            self._has_message.clear()
            await self._window.send(json.dumps(message))


def size_in(asked: Any) -> tuple[int, int] | None:
    """Columns and rows, if that is what was asked for."""
    if isinstance(asked, (list, tuple)) and len(asked) == 2 and all(type(number) is int for number in asked):
        columns, rows = asked
        return (columns, rows) if 1 <= columns <= 1000 and 1 <= rows <= 1000 else None
    return None
