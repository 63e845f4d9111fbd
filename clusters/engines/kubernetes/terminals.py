"""Programs with a terminal in containers of pods: an exec with a tty.

A cluster goes on with an exec when its connection is closed, and has no call to end it. So a program is started by a
small script that first says its process id, and is ended by another exec that signals it.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from contextlib import suppress

from clusters.engines.attach import GRACE, MARK
from clusters.engines.kubernetes import spec
from clusters.engines.kubernetes.connect import CONNECT, Cluster
from clusters.engines.kubernetes.errors import Refused
from clusters.engines.kubernetes.execs import Exec, output_of
from clusters.engines.kubernetes.status import read
from clusters.engines.runtime import FaultReason, Phase, RuntimeFault, gone

# An exec has no environment of its own: the variables come as arguments. The size is set where the image has stty.
_BEGIN = """
n=$3; stty cols "$1" rows "$2" 2>/dev/null; shift 3
while [ "$n" -gt 0 ]; do export "$1"; shift; n=$((n-1)); done
unset n; echo $$; exec "$@"
"""
_END = """
[ -z "$2" ] || case "$(tr '\\000' '\\n' <"/proc/$1/environ" 2>/dev/null)" in *"$3=$2"*) ;; *) exit ;; esac
kill -HUP "$1" && kill -CONT "$1" && sleep "$4"; kill -KILL "$1"
"""
_PID = re.compile(rb"(\d{1,9})\r?\n")
_LONGEST_START = 4096  # bytes of what comes in place of a process id
_STARTING = 20.0  # seconds
_ENDING = 20.0
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
        begin = ["/bin/sh", "-c", _BEGIN, "sh", str(columns), str(rows), str(len(variables)), *variables, *argv]
        program = await self._begun(name, begin)
        try:
            async with asyncio.timeout(_STARTING):
                pid, first = await _pid_of(program)
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
        end = ["/bin/sh", "-c", _END, "sh", str(pid), mark, MARK, str(GRACE)]
        try:
            await output_of(self._cluster, spec.pod_name(name), end, _ENDING)
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


class KubernetesAttached:
    def __init__(self, terminals: Terminals, name: str, program: Exec, pid: int, first: bytes) -> None:
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
            with suppress(RuntimeFault):  # it has ended
                await self._program.resize(columns, rows)

    async def exit_code(self) -> int | None:
        """A program that was killed may have been so with its container, whose end is known a little later."""
        code = self._program.code
        for pause in _PAUSES if code is not None and code > _SIGNALS else (0.0,):
            await asyncio.sleep(pause)
            if not await self._terminals.runs(self._name):
                return None
        return code

    async def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        try:
            if not self._ended:
                async with asyncio.timeout(CONNECT):
                    await self._terminals.hang_up(self._name, self.pid, "")
        except (TimeoutError, RuntimeFault):
            pass  # the cluster does not answer; whoever opened it may try again later
        finally:
            self._ended = True
            await self._program.close()

    def _check(self) -> None:
        if self._closed:
            raise gone(self._name)


async def _pid_of(program: Exec) -> tuple[int, bytes]:
    """The process id of the program, and the first bytes that it wrote."""
    said = b""
    while not (found := _PID.match(said)):
        more = await program.read() if len(said) < _LONGEST_START else b""
        if not more:
            text = " ".join(said.decode(errors="replace").split())[:200] or "it hung up"
            missing = f"No shell could be started in the container: {text}"
            raise RuntimeFault(missing, reason=FaultReason.COMMAND_MISSING, permanent=True)
        said += more
    return int(found[1]), said[found.end() :]
