"""Runs programs with a terminal in containers of pods: execs with a tty."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import suppress

from clusters.engines.exec_terminal import STARTING, ExecTerminal, ending, pid_of, shell
from clusters.engines.kubernetes import spec
from clusters.engines.kubernetes.connect import CONNECT, Cluster
from clusters.engines.kubernetes.errors import Refused
from clusters.engines.kubernetes.execs import Exec, output_of
from clusters.engines.kubernetes.status import read
from clusters.engines.runtime import FaultReason, Phase, RuntimeFault

# An exec has no environment of its own: the variables come as arguments. The size is set where the image has stty.
_BEGIN = """
n=$3; stty cols "$1" rows "$2" 2>/dev/null; shift 3
while [ "$n" -gt 0 ]; do export "$1"; shift; n=$((n-1)); done
unset n; echo $$; exec "$@"
"""
_ENDING = 20.0  # seconds
_SIGNALS = 128  # exit codes beyond are ends by a signal
_PAUSES = (0.0, 0.5, 1.0, 1.5)


class Terminals:
    """Those of one cluster."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    async def attach(
        self, name: str, argv: tuple[str, ...], env: Mapping[str, str], columns: int, rows: int
    ) -> KubernetesAttached:
        variables = [f"{key}={value}" for key, value in env.items()]
        begin = shell(_BEGIN, str(columns), str(rows), str(len(variables)), *variables, *argv)
        program = await self._begun(name, begin)
        try:
            async with asyncio.timeout(STARTING):
                pid, first = await pid_of(b"", program.read)
        except TimeoutError:
            await program.close()
            raise RuntimeFault("The cluster started no shell in time.", reason=FaultReason.UNREACHABLE) from None
        except BaseException:
            await program.close()
            raise
        attached = KubernetesAttached(self, name, program, pid, first)
        await attached.resize(columns, rows)
        return attached

    async def hang_up(self, name: str, pid: int, mark: str) -> None:
        try:
            await output_of(self._cluster, spec.pod_name(name), ending(pid, mark), _ENDING)
        except Refused:
            if await self.runs(name):
                raise

    async def runs(self, name: str) -> bool:
        def look() -> bool:
            try:
                pod = self._cluster.ask("GET", self._cluster.here("pods", spec.pod_name(name)))
            except Refused:
                return False
            return read(pod, self._cluster.name).phase is Phase.RUNNING

        return await asyncio.to_thread(look)

    async def _begun(self, name: str, argv: list[str]) -> Exec:
        try:
            return await Exec.begin(self._cluster, spec.pod_name(name), argv, tty=True)
        except Refused:
            if await self.runs(name):
                raise
        raise RuntimeFault(f"Container {name} does not run.", reason=FaultReason.GONE, permanent=True)


class KubernetesAttached(ExecTerminal):
    def __init__(self, terminals: Terminals, name: str, program: Exec, pid: int, first: bytes) -> None:
        super().__init__(name, pid, first, CONNECT)
        self._terminals, self._program = terminals, program

    async def write(self, data: bytes) -> None:
        self._check()
        await self._program.write(data)

    async def resize(self, columns: int, rows: int) -> None:
        if not self._ended and not self._closed:
            with suppress(RuntimeFault):  # it has ended
                await self._program.resize(columns, rows)

    async def exit_code(self) -> int | None:
        """A killed program may have been killed together with its container, whose end is known a little later: then
        there is no exit code."""
        code = self._program.code
        for pause in _PAUSES if code is not None and code > _SIGNALS else (0.0,):
            await asyncio.sleep(pause)
            if not await self._terminals.runs(self._name):
                return None
        return code

    async def _next(self) -> bytes:
        return await self._program.read()

    async def _end(self) -> None:
        await self._terminals.hang_up(self._name, self.pid, "")

    async def _disconnect(self) -> None:
        await self._program.close()
