"""Speaks HTTP with an engine over a pipe, question after question, and runs programs in containers by execs.

Docker's API calls it hijacking when a connection turns into the stream of an exec: the answer is 101, and what follows
it are the bytes of the program (https://docs.docker.com/engine/api/v1.41/#tag/Exec/operation/ExecStart). A question
costs a tenth of what it takes the docker library.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote

import h11

from clusters.engines.docker.attach.dial import Pipe, PipeDialer
from clusters.engines.docker.ways import QUICK
from clusters.engines.faults import ANY_STEP, START, of_text, short
from clusters.engines.runtime import FaultReason, RuntimeFault, gone

_SWITCHED = 101  # the status of an answer that is a raw stream
_MOST = 1 << 20  # bytes of an answer; the rest of a longer one is thrown away
_HEAD = 8  # bytes before each piece of an exec without a terminal: which stream it is of, and its length in the last 4
_STDOUT = 1
_LONGEST = 1 << 20  # bytes of a piece; no engine sends as many


class PipeHttp:
    """Raises what the pipe raises, EOFError, and RuntimeFault for what is no HTTP."""

    def __init__(self, pipe: Pipe) -> None:
        self.pipe = pipe
        self._http = h11.Connection(h11.CLIENT)

    @property
    def is_open(self) -> bool:
        """Whether there may be another question."""
        return self._http.our_state is h11.DONE and self._http.their_state is h11.DONE

    async def ask(self, path: str, body: dict[str, Any] | None = None, *, upgrade: bool = False) -> tuple[int, bytes]:
        """The status and the content of the answer; of a raw stream its first bytes, which may be none."""
        if self._http.our_state is h11.DONE:
            self._http.start_next_cycle()
        content = b"" if body is None else json.dumps(body).encode()
        headers = [("Host", "docker")]
        if body is not None:
            headers += [("Content-Type", "application/json"), ("Content-Length", str(len(content)))]
        if upgrade:
            headers += [("Connection", "Upgrade"), ("Upgrade", "tcp")]
        asked = h11.Request(method="GET" if body is None else "POST", target=path, headers=headers)
        parts = (asked, h11.Data(content), h11.EndOfMessage()) if content else (asked, h11.EndOfMessage())
        await self.pipe.write(b"".join(filter(None, map(self._http.send, parts))))
        try:
            return await self._answer()
        except h11.RemoteProtocolError as error:
            raise RuntimeFault(f"The engine answered no HTTP: {error}", reason=FaultReason.UNREACHABLE) from error

    async def _answer(self) -> tuple[int, bytes]:
        status, said = 0, bytearray()
        while True:
            event = self._http.next_event()
            if event is h11.NEED_DATA:
                self._http.receive_data(await self.pipe.read())
            elif isinstance(event, h11.InformationalResponse) and event.status_code == _SWITCHED:
                return _SWITCHED, self._http.trailing_data[0]
            elif isinstance(event, h11.Response):
                status = event.status_code
            elif isinstance(event, h11.Data):
                said += event.data[: _MOST - len(said)]
            elif isinstance(event, h11.EndOfMessage):
                return status, bytes(said)
            elif isinstance(event, h11.ConnectionClosed) or event is h11.PAUSED:
                raise EOFError("it hung up")


class DockerExec:
    """A program of a container, on a pipe of its own. The first read starts it. Raises RuntimeFault where the engine
    refuses, and what its way raises."""

    def __init__(self, dialer: PipeDialer, http: PipeHttp, id: str, *, tty: bool) -> None:
        self._dialer, self._http, self._tty = dialer, http, tty
        self._path = f"/exec/{quote(id)}"
        self._is_started = False
        self._rest = bytearray()  # what has been read already

    @classmethod
    async def created(
        cls,
        dialer: PipeDialer,
        container: str,
        argv: Sequence[str],
        *,
        env: Mapping[str, str] | None = None,
        stdin: bool = False,
        tty: bool = False,
    ) -> DockerExec:
        """Raises GONE when the container does not run."""
        variables = [f"{name}={value}" for name, value in (env or {}).items()]
        streams = {"AttachStdin": stdin, "AttachStdout": True, "AttachStderr": tty, "Tty": tty}
        http = PipeHttp(await dialer.dial())
        try:
            async with asyncio.timeout(QUICK):
                body = {**streams, "Cmd": list(argv), "Env": variables}
                status, said = await http.ask(f"/containers/{quote(container)}/exec", body)
            if status == 404:
                raise gone(container)
            if status == 409:
                raise RuntimeFault(f"Container {container} does not run.", reason=FaultReason.GONE, permanent=True)
            return cls(dialer, http, str(_read(status, said, 201).get("Id")), tty=tty)
        except BaseException:
            http.pipe.close()
            raise

    async def detach(self) -> None:
        """Start the program and leave it alone."""
        try:
            async with asyncio.timeout(QUICK):
                _read(*await self._http.ask(f"{self._path}/start", {"Detach": True}), 200)
        finally:
            self.close()

    async def read(self) -> bytes:
        """The next bytes that it writes to its standard output, or to its terminal; nothing at the end."""
        if not self._is_started:
            self._is_started = True
            started = {"Detach": False, "Tty": self._tty}
            status, said = await self._http.ask(f"{self._path}/start", started, upgrade=True)
            if status != _SWITCHED:
                raise _refused(status, said.decode(errors="replace"))
            self._rest += said
        if not self._tty:
            return await self._framed()
        data, self._rest = bytes(self._rest), bytearray()
        return data or await self._http.pipe.read()

    async def write(self, data: bytes) -> None:
        await self._http.pipe.write(data)

    async def resize(self, columns: int, rows: int) -> None:
        await self._ask(f"{self._path}/resize?h={rows}&w={columns}", {})

    async def state(self) -> dict[str, Any] | None:
        """What the engine says of it; None where it knows nothing of it any more."""
        status, said = await self._ask(f"{self._path}/json")
        return None if status == 404 else _read(status, said, 200)

    async def lives_on(self, container: str) -> bool:
        """Whether the container of the program runs."""
        status, said = await self._ask(f"/containers/{quote(container)}/json")
        return status != 404 and bool(_read(status, said, 200)["State"]["Running"])

    def close(self) -> None:
        """Close the pipe; the program may go on."""
        self._http.pipe.close()

    async def _ask(self, path: str, body: dict[str, Any] | None = None) -> tuple[int, bytes]:
        """Ask a question beside the stream of the program."""
        async with asyncio.timeout(QUICK):
            http = PipeHttp(await self._dialer.dial())
            try:
                return await http.ask(path, body)
            finally:
                http.pipe.close()

    async def _framed(self) -> bytes:
        while True:
            while len(self._rest) < _HEAD or len(self._rest) < _HEAD + self._length:
                data = await self._http.pipe.read()
                if not data or self._length > _LONGEST:
                    return b""
                self._rest += data
            stream, end = self._rest[0], _HEAD + self._length
            data = bytes(self._rest[_HEAD:end])
            del self._rest[:end]
            if stream == _STDOUT and data:
                return data

    @property
    def _length(self) -> int:
        return int.from_bytes(self._rest[4:_HEAD], "big")


def _read(status: int, said: bytes, wanted: int) -> dict[str, Any]:
    text = said.decode(errors="replace")
    if status != wanted:
        raise of_text((*ANY_STEP, *START), text) or _refused(status, text)
    try:
        answer = json.loads(text or "{}")
    except (ValueError, RecursionError):
        answer = None
    if not isinstance(answer, dict):
        raise _refused(status, text)
    return answer


def _refused(status: int, text: str) -> RuntimeFault:
    return RuntimeFault(f"The engine ran no program: {short(f'{status}: {text}')}", reason=FaultReason.REFUSED)
