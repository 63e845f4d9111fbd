"""A real Docker engine behind ``clusters.engines.measuring.Measurable``.

An engine of version 20.10 answers questions about usage once a second (its collector's tick), all that came meanwhile
at once. So questions go out over several connections, and then the answers are read: fifty containers take four
seconds, nearly all of it waiting.
"""

from __future__ import annotations

import json
import time
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from urllib.parse import quote

from clusters.engines.docker.meter.stats import usage_of
from clusters.engines.docker.meter.wire import SWITCHED, TROUBLE, Wire, Wires, unreachable
from clusters.engines.measuring import Usage
from clusters.engines.runtime import RuntimeFault

MOST_OUTPUT = 1 << 16  # bytes
_MALFORMED = (TypeError, ValueError, LookupError, AttributeError, OverflowError, RecursionError)


def meter(endpoint: str, folder: Path | None = None) -> DockerMeter:
    """The engine at ``endpoint``; ``folder`` has its keys. Nothing is sent yet."""
    return DockerMeter(endpoint, folder)


class DockerMeter:
    def __init__(self, endpoint: str, folder: Path | None = None) -> None:
        self.endpoint = endpoint
        self._wires = Wires(endpoint, folder)
        self._free: list[Wire] = []

    def usage(self, names: Sequence[str], seconds: float) -> dict[str, Usage]:
        end, waiting, found = time.monotonic() + seconds, deque(names), dict[str, Usage]()
        answered = False
        while waiting and time.monotonic() < end:
            asked = self._ask_some(waiting, end)
            for at, (wire, name) in enumerate(asked):
                try:
                    wire.patience(end - time.monotonic())
                    status, body = wire.answer()
                except TROUBLE as trouble:
                    self._drop(wire for wire, _ in asked[at:])
                    if not answered:
                        raise unreachable(self.endpoint, trouble) from trouble
                    return found
                answered = True
                self._free.append(wire)
                with suppress(*_MALFORMED):
                    if status == 200 and (one := usage_of(json.loads(body))) is not None:
                        found[name] = one
        return found

    def output(self, name: str, argv: Sequence[str], seconds: float) -> str:
        end = time.monotonic() + seconds
        body = json.dumps({"AttachStdout": True, "AttachStderr": False, "Cmd": list(argv)}).encode()
        status, made = self._post(f"/containers/{quote(name)}/exec", body, end)
        if status != 201:
            return ""
        try:
            id = quote(str(json.loads(made)["Id"]))
        except _MALFORMED:
            return ""
        status, stream = self._post(f"/exec/{id}/start", b'{"Detach":false,"Tty":false}', end, raw=True)
        if status != SWITCHED:
            return ""
        status, said = self._post(f"/exec/{id}/json", None, end)
        with suppress(*_MALFORMED):
            if status == 200 and json.loads(said)["ExitCode"] == 0:
                return _unframed(stream).decode(errors="replace")
        return ""

    def _ask_some(self, waiting: deque[str], end: float) -> list[tuple[Wire, str]]:
        """Send as many questions as there may be connections. One that the engine has closed meanwhile is opened anew.
        Raises UNREACHABLE when not one can be sent."""
        asked: list[tuple[Wire, str]] = []
        while waiting and len(asked) < self._wires.wide:
            name = waiting.popleft()
            try:
                asked.append((self._sent(f"/containers/{quote(name)}/stats?stream=false&one-shot=true", None), name))
            except (RuntimeFault, *TROUBLE) as trouble:
                if asked:  # as many as the engine takes
                    waiting.appendleft(name)
                    break
                self._wires.forget()
                raise trouble if isinstance(trouble, RuntimeFault) else unreachable(self.endpoint, trouble) from trouble
        return asked

    def _post(self, path: str, body: bytes | None, end: float, *, raw: bool = False) -> tuple[int, bytes]:
        """One question and its answer."""
        try:
            wire = self._sent(path, body, raw=raw)
        except TROUBLE as trouble:
            self._wires.forget()
            raise unreachable(self.endpoint, trouble) from trouble
        try:
            wire.patience(end - time.monotonic())
            status, read = wire.answer(MOST_OUTPUT)
        except TROUBLE as trouble:
            self._drop([wire])
            raise unreachable(self.endpoint, trouble) from trouble
        self._free.append(wire)
        return status, read

    def _sent(self, path: str, body: bytes | None, *, raw: bool = False) -> Wire:
        """A connection on which the question was sent."""
        wire = self._free.pop() if self._free else self._wires.open()
        if wire.sock is not None:
            try:
                wire.ask(path, body, raw=raw)
                return wire
            except TROUBLE:
                wire.close()
        wire.ask(path, body, raw=raw)
        return wire

    def _drop(self, wires: object) -> None:
        """These are broken, and who knows of the others."""
        for wire in [*wires, *self._free]:  # type: ignore[misc]
            wire.close()
        self._free.clear()
        self._wires.forget()


def _unframed(stream: bytes) -> bytes:
    """What is in the frames of a stream without a terminal: 8 bytes of head each, with the length at their end."""
    text, at = b"", 0
    while at + 8 <= len(stream):
        size = int.from_bytes(stream[at + 4 : at + 8], "big")
        if stream[at] == 1:
            text += stream[at + 8 : at + 8 + size]
        at += 8 + size
    return text
