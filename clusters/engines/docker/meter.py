"""A real Docker engine behind ``clusters.engines.measuring.Measurable``.

An engine of version 20.10 answers questions about usage once a second (its collector's tick), all that came meanwhile
at once. So several are asked at the same time, each on a connection of its own: fifty containers take four seconds,
nearly all of it waiting.
"""

from __future__ import annotations

import asyncio
import json
import os
import weakref
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from urllib.parse import quote

from clusters.engines.docker.attach.dial import PipeDialer
from clusters.engines.docker.attach.execs import DockerExec, PipeHttp
from clusters.engines.docker.stats import usage_of
from clusters.engines.docker.ways import MALFORMED, SSH_SESSIONS
from clusters.engines.measuring import ContainerUsage
from clusters.engines.runtime import FaultReason, RuntimeFault

MOST_OUTPUT = 1 << 16  # bytes
WIDE = 16  # connections at once; over SSH fewer


class DockerMeter:
    """The engine at ``endpoint``; ``folder`` has its keys. Nothing is sent yet."""

    def __init__(self, endpoint: str, folder: Path | None = None) -> None:
        self.endpoint = endpoint
        self._dialer = PipeDialer(endpoint, folder)
        self._wide = SSH_SESSIONS if endpoint.startswith("ssh://") else WIDE
        self._free: list[PipeHttp] = []
        self._runner = asyncio.Runner()
        weakref.finalize(self, _close, self._runner)

    def usage(self, names: Sequence[str], seconds: float) -> dict[str, ContainerUsage]:
        waiting, usages = deque(names), dict[str, ContainerUsage]()
        answers, troubles = [], list[Exception]()

        async def ask_on() -> None:
            """Ask for one after the other, until a connection breaks: the others go on."""
            try:
                while waiting:
                    name = waiting.popleft()
                    status, body = await self._ask(f"/containers/{quote(name)}/stats?stream=false&one-shot=true")
                    answers.append(status)
                    with suppress(*MALFORMED):
                        if status == 200 and (usage := usage_of(json.loads(body))) is not None:
                            usages[name] = usage
            except Exception as trouble:  # whatever the libraries of its way raise
                troubles.append(trouble)

        async def ask_all() -> None:
            async with asyncio.timeout(seconds):
                await asyncio.gather(*(ask_on() for _ in range(min(self._wide, len(names)))))

        try:
            self._runner.run(ask_all())
        except TimeoutError as late:
            troubles.append(late)
        if troubles and not answers:
            raise self._unreachable(troubles[0]) from troubles[0]
        return usages

    def output(self, name: str, argv: Sequence[str], seconds: float) -> str:
        async def ask() -> str:
            async with asyncio.timeout(seconds):
                return await self._output(name, argv)

        try:
            return self._runner.run(ask())
        except Exception as trouble:
            raise self._unreachable(trouble) from trouble

    async def _output(self, name: str, argv: Sequence[str]) -> str:
        try:
            program = await DockerExec.created(self._dialer, name, argv)
            said = b""
            try:
                while len(said) < MOST_OUTPUT and (data := await program.read()):
                    said += data
            finally:
                program.close()
            state = await program.state()
        except RuntimeFault as fault:
            if fault.reason is FaultReason.UNREACHABLE:
                raise
            return ""
        return said[:MOST_OUTPUT].decode(errors="replace") if state and state.get("ExitCode") == 0 else ""

    async def _ask(self, path: str) -> tuple[int, bytes]:
        """One question and its answer, on a connection that nobody uses now; a new one where the engine has closed
        those."""
        while self._free:
            with suppress(OSError, EOFError):
                return await self._asked(self._free.pop(), path)
        return await self._asked(PipeHttp(await self._dialer.dial()), path)

    async def _asked(self, http: PipeHttp, path: str) -> tuple[int, bytes]:
        try:
            answer = await http.ask(path)
        except BaseException:
            http.pipe.close()
            raise
        if http.is_open:
            self._free.append(http)
        else:
            http.pipe.close()
        return answer

    def _unreachable(self, why: Exception) -> RuntimeFault:
        if isinstance(why, RuntimeFault):
            return why
        said = os.strerror(why.errno) if isinstance(why, OSError) and why.errno else str(why) or "it did not answer"
        sentence = f"The Docker engine at {self.endpoint} cannot be measured: {said}"
        return RuntimeFault(sentence, reason=FaultReason.UNREACHABLE)


def _close(runner: asyncio.Runner) -> None:
    """What a meter leaves behind. A loop that Python clears away by itself may have lost its sockets before, and says
    so on the process's output."""
    if not runner.get_loop().is_running():
        runner.close()
