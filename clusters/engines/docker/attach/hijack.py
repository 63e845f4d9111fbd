"""Asks an engine over a pipe to start an exec, and turns the HTTP connection into the exec's own stream.

Docker's API calls this hijacking: the answer is 101, and what follows it are the bytes of the terminal
(https://docs.docker.com/engine/api/v1.41/#tag/Exec/operation/ExecStart).
"""

from __future__ import annotations

import json
from typing import Any

import h11

from clusters.engines.docker.attach.dial import Pipe
from clusters.engines.faults import short
from clusters.engines.runtime import FaultReason, RuntimeFault

_MOST = 64 * 1024  # bytes of a refusal


async def hijack(pipe: Pipe, path: str, body: dict[str, Any]) -> bytes:
    """The first bytes of the stream, which may be none. Raises RuntimeFault when the engine refuses."""
    content = json.dumps(body).encode()
    headers = [
        ("Host", "docker"),
        ("Content-Type", "application/json"),
        ("Content-Length", str(len(content))),
        ("Connection", "Upgrade"),
        ("Upgrade", "tcp"),
    ]
    connection = h11.Connection(h11.CLIENT)
    asked = (h11.Request(method="POST", target=path, headers=headers), h11.Data(content), h11.EndOfMessage())
    await pipe.write(b"".join(filter(None, map(connection.send, asked))))
    try:
        return await _answer(pipe, connection)
    except h11.RemoteProtocolError as error:
        raise _refused(f"it answered no HTTP: {error}") from error


async def _answer(pipe: Pipe, connection: h11.Connection) -> bytes:
    status, said = 0, b""
    while True:
        event = connection.next_event()
        if event is h11.NEED_DATA:
            connection.receive_data(await pipe.read())
        elif isinstance(event, h11.InformationalResponse) and event.status_code == 101:
            return connection.trailing_data[0]
        elif isinstance(event, h11.Response):
            status = event.status_code
        elif isinstance(event, h11.Data) and len(said) < _MOST:
            said += bytes(event.data)
        elif isinstance(event, (h11.EndOfMessage, h11.ConnectionClosed)) or event is h11.PAUSED:
            raise _refused(f"{status}: {said.decode(errors='replace')}" if status else "it hung up.")


def _refused(text: str) -> RuntimeFault:
    return RuntimeFault(f"The engine opened no terminal: {short(text)}", reason=FaultReason.REFUSED)
