"""Bodies of requests, read on the event loop: a request takes a thread when all of its body is there.

What comes without a login is small and stays in memory. Forms with files of those who have signed in go to a file in
LONGSHORE_HOME.
"""

from __future__ import annotations

import asyncio
import io
import tempfile
import weakref
from collections.abc import Awaitable, Callable
from typing import IO, Any

from django.conf import settings

from base.core.errors import DiskFull, TooLarge, TooManyAtOnce, TooSlow, is_disk_full

ANONYMOUS = 100 * 1024  # bytes without a login: what v1 takes
SIGNED_IN: int = settings.DATA_UPLOAD_MAX_MEMORY_SIZE
UPLOAD = 256 << 20  # bytes of a form of the Files page in a browser without our script, which takes the gateway
RATE = 16_384  # bytes a second a body must come with once PATIENCE is over
IN_MEMORY = 64 << 20  # bytes of all bodies being read; beyond it the one that was begun first breaks off
ON_DISK = 8  # files for bodies at once

Limit = Callable[[], Awaitable[int]]  # how much this client may send; asked when it is more than ANONYMOUS


class Gone(Exception):
    """The client closed the connection before all of the body had come."""


class RequestBody:
    """Pieces as they come. ``patience``: seconds to wait for the client, none of ours counted: for all of the body
    that ``rate`` bytes a second do not explain, or, without a rate, for each piece."""

    def __init__(self, receive: Any, patience: float, rate: int = 0) -> None:
        self._receive, self._patience, self._rate = receive, patience, rate
        self._waited = 0.0
        self._waiting: asyncio.Timeout | None = None
        self.size = 0
        self.ended = False

    async def piece(self) -> bytes:
        """Empty only at the end. Raises TooSlow, Gone."""
        while not self.ended:
            message = await self._message()
            self.ended = not message.get("more_body", False)
            if data := bytes(message.get("body", b"")):
                self.size += len(data)
                return data
        return b""

    def break_off(self) -> None:
        """Wait for the client no longer."""
        if self._waiting is not None:
            self._waiting.reschedule(0)

    async def _message(self) -> Any:
        loop = asyncio.get_running_loop()
        began = loop.time()
        earned = self.size / self._rate - self._waited if self._rate else 0
        try:
            async with asyncio.timeout(self._patience + earned) as self._waiting:
                message = await self._receive()
        except TimeoutError:
            raise TooSlow from None
        finally:
            self._waiting = None
        self._waited += loop.time() - began
        if message["type"] == "http.disconnect":
            raise Gone
        return message


def has_body(scope: Any) -> bool:
    return _declared(scope) != 0


async def read(scope: Any, receive: Any, limit: Limit) -> tuple[IO[bytes], int]:
    """All of the body, and its size; the caller closes it. Raises TooLarge, TooSlow, TooManyAtOnce, DiskFull, Gone."""
    declared = _declared(scope)
    if declared == 0:
        return io.BytesIO(), 0
    reading = _Reading(RequestBody(receive, settings.PATIENCE, RATE), limit)
    try:
        await reading.require(declared or 0)
        return await reading.all()
    except BaseException as error:
        reading.close()
        if is_disk_full(error):
            raise DiskFull from error
        raise
    finally:
        _held.note(reading.body, 0)


class _Reading:
    def __init__(self, body: RequestBody, limit: Limit) -> None:
        self.body = body
        self._limit, self._most = limit, ANONYMOUS
        self._block = bytearray()
        self._file: IO[bytes] | None = None

    async def require(self, size: int) -> None:
        if size > self._most:
            self._most = await self._limit()
        if size > self._most:
            raise TooLarge

    async def all(self) -> tuple[IO[bytes], int]:
        while piece := await self.body.piece():
            await self.require(self.body.size)
            self._block += piece
            if len(self._block) > SIGNED_IN:
                await self._write()
            _held.note(self.body, len(self._block))
        if self._file is None:
            return io.BytesIO(self._block), self.body.size
        await self._write()
        self._file.seek(0)
        return self._file, self.body.size

    def close(self) -> None:
        if self._file is not None:
            self._file.close()

    async def _write(self) -> None:
        if self._file is None:
            self._file = _new_file()
        await asyncio.to_thread(self._file.write, bytes(self._block))
        self._block.clear()


class _Held:
    """Bytes in memory of each body that is being read, the one begun first first."""

    def __init__(self) -> None:
        self._of: dict[RequestBody, int] = {}
        self._sum = 0

    def note(self, body: RequestBody, size: int) -> None:
        self._sum += size - self._of.get(body, 0)
        if size:
            self._of[body] = size
        else:
            self._of.pop(body, None)
        if self._sum > IN_MEMORY:
            next(iter(self._of)).break_off()


_held = _Held()
_files: weakref.WeakSet[IO[bytes]] = weakref.WeakSet()


def _new_file() -> IO[bytes]:
    if sum(not file.closed for file in _files) >= ON_DISK:
        raise TooManyAtOnce("Too many files are being uploaded at once. Try again in a few minutes.")
    file: IO[bytes] = tempfile.TemporaryFile(dir=settings.FILE_UPLOAD_TEMP_DIR)
    _files.add(file)
    return file


def _declared(scope: Any) -> int | None:
    """The body's length, None when it is not told before."""
    length = 0
    for name, value in scope["headers"]:
        if name == b"transfer-encoding":
            return None
        if name == b"content-length":
            length = int(value)
    return length
