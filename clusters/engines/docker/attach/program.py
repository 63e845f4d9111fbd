"""Runs programs with a terminal in containers of a Docker engine: execs with a tty."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from clusters.engines.docker.attach.dial import PipeDialer
from clusters.engines.docker.attach.execs import DockerExec
from clusters.engines.docker.errors import translated
from clusters.engines.docker.ways import CONNECT
from clusters.engines.exec_terminal import ExecTerminals, ending, shell
from clusters.engines.runtime import FaultReason, RuntimeFault

# The size is set here where the image has stty, so that the first line is drawn for it already.
_BEGIN = 'stty cols "$1" rows "$2" 2>/dev/null; shift 2; echo $$; exec "$@"'
_PAUSES = (0.0, 0.05, 0.1, 0.2, 0.4, 0.8)  # until the engine has noticed an end that its stream told


class DockerTerminals(ExecTerminals):
    """The terminals of one engine."""

    patience = CONNECT
    endpoint: str
    _dialer: PipeDialer

    async def hang_up(self, name: str, pid: int, mark: str) -> None:
        try:
            with translated(self.endpoint):
                program = await DockerExec.created(self._dialer, name, ending(pid, mark))
                await program.detach()
        except RuntimeFault as fault:
            if fault.reason is not FaultReason.GONE:  # the container, and what ran in it
                raise

    async def _begin(
        self, name: str, argv: tuple[str, ...], env: Mapping[str, str], columns: int, rows: int
    ) -> DockerProgram:
        begin = shell(_BEGIN, str(columns), str(rows), *argv)
        with translated(self.endpoint):
            program = await DockerExec.created(self._dialer, name, begin, env=env, stdin=True, tty=True)
        return DockerProgram(self.endpoint, name, program)


class DockerProgram:
    """A program with a terminal."""

    def __init__(self, endpoint: str, container: str, program: DockerExec) -> None:
        self._endpoint, self._container, self._program = endpoint, container, program

    async def read(self) -> bytes:
        with translated(self._endpoint):
            return await self._program.read()

    async def write(self, data: bytes) -> None:
        with translated(self._endpoint):
            await self._program.write(data)

    async def resize(self, columns: int, rows: int) -> None:
        with translated(self._endpoint):
            await self._program.resize(columns, rows)

    async def exit_code(self) -> int | None:
        with translated(self._endpoint):
            for pause in _PAUSES:
                await asyncio.sleep(pause)
                state = await self._program.state()
                if state is None or not state["Running"]:
                    lives = state is not None and await self._program.lives_on(self._container)
                    return state["ExitCode"] if state and lives else None
        return None

    async def close(self) -> None:
        self._program.close()
