"""Runs programs with a terminal in containers of a Docker engine: execs with a tty."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TypeVar

from docker import APIClient
from docker.errors import APIError, NotFound

from clusters.engines.docker.attach.dial import Dialer, Pipe
from clusters.engines.docker.attach.hijack import hijack
from clusters.engines.docker.connect import CONNECT
from clusters.engines.docker.errors import translated
from clusters.engines.exec_terminal import STARTING, ExecTerminal, ending, pid_of, shell
from clusters.engines.runtime import FaultReason, RuntimeFault, gone

T = TypeVar("T")
Quick = Callable[[], AbstractContextManager[APIClient]]

# The size is set here where the image has stty, so that the first line is drawn for it already.
_BEGIN = 'stty cols "$1" rows "$2" 2>/dev/null; shift 2; echo $$; exec "$@"'
_PAUSES = (0.0, 0.05, 0.1, 0.2, 0.4, 0.8)  # until the engine has noticed an end that its stream told
_calls = ThreadPoolExecutor(8, thread_name_prefix="exec")  # quick questions; none waits for a program


class Terminals:
    """Those of one engine. ``quick`` gives a client for quick questions."""

    def __init__(self, endpoint: str, folder: Path | None, quick: Quick) -> None:
        self.endpoint = endpoint
        self._quick = quick
        self._dialer = Dialer(endpoint, folder)

    async def attach(
        self, name: str, argv: tuple[str, ...], env: Mapping[str, str], columns: int, rows: int
    ) -> DockerAttached:
        begin = shell(_BEGIN, str(columns), str(rows), *argv)
        exec_id, version = await self.call(
            lambda api: (created(api, name, begin, env, stdin=True, stdout=True, tty=True), api.api_version)
        )
        with translated(self.endpoint):
            pipe = await self._dialer.dial()
        try:
            async with asyncio.timeout(STARTING):
                pid, first = await self._begun(pipe, f"/v{version}/exec/{exec_id}/start")
        except TimeoutError:
            pipe.close()
            raise RuntimeFault("The engine started no shell in time.", reason=FaultReason.UNREACHABLE) from None
        except BaseException:
            pipe.close()
            raise
        attached = DockerAttached(self, name, exec_id, pipe, pid, first)
        await attached.resize(columns, rows)
        return attached

    async def hang_up(self, name: str, pid: int, mark: str) -> None:
        def run(api: APIClient) -> None:
            try:
                api.exec_start(created(api, name, ending(pid, mark), {}), detach=True)
            except (NotFound, RuntimeFault):
                return  # the container is gone, and what ran in it

        await self.call(run)

    async def call(self, function: Callable[[APIClient], T]) -> T:
        """What ``function`` gives, in a thread."""

        def run() -> T:
            with self._quick() as api:
                return function(api)

        return await asyncio.get_running_loop().run_in_executor(_calls, run)

    async def _begun(self, pipe: Pipe, path: str) -> tuple[int, bytes]:
        """The process id of the program, and the first bytes that it wrote."""
        with translated(self.endpoint):
            said = await hijack(pipe, path, {"Detach": False, "Tty": True})
            return await pid_of(said, pipe.read)


class DockerAttached(ExecTerminal):
    def __init__(self, terminals: Terminals, name: str, exec_id: str, pipe: Pipe, pid: int, first: bytes) -> None:
        super().__init__(name, pid, first, CONNECT)
        self._terminals, self._exec_id, self._pipe = terminals, exec_id, pipe

    async def write(self, data: bytes) -> None:
        self._check()
        with translated(self._terminals.endpoint):
            await self._pipe.write(data)

    async def resize(self, columns: int, rows: int) -> None:
        def run(api: APIClient) -> None:
            try:
                api.exec_resize(self._exec_id, height=rows, width=columns)
            except APIError:
                return  # it has ended

        if not self._ended:
            await self._terminals.call(run)

    async def exit_code(self) -> int | None:
        for pause in _PAUSES:
            await asyncio.sleep(pause)
            is_running, code = await self._terminals.call(self._look)
            if not is_running:
                return code
        return None

    async def _next(self) -> bytes:
        with translated(self._terminals.endpoint):
            return await self._pipe.read()

    async def _end(self) -> None:
        await self._terminals.hang_up(self._name, self.pid, "")

    async def _disconnect(self) -> None:
        self._pipe.close()

    def _look(self, api: APIClient) -> tuple[bool, int | None]:
        """Whether it runs, and its exit code."""
        try:
            seen = api.exec_inspect(self._exec_id)
            if seen["Running"]:
                return True, None
            lives = api.inspect_container(self._name)["State"]["Running"]
        except NotFound:
            return False, None
        return False, seen["ExitCode"] if lives else None


def created(
    api: APIClient,
    name: str,
    argv: list[str],
    env: Mapping[str, str],
    *,
    stdin: bool = False,
    stdout: bool = False,
    tty: bool = False,
) -> str:
    """The id of a new exec, with the streams that it has. Raises GONE when the container does not run."""
    try:
        made = api.exec_create(name, argv, stdin=stdin, tty=tty, stdout=stdout, stderr=tty, environment=dict(env))
    except NotFound:
        raise gone(name) from None
    except APIError as error:
        if error.status_code != 409:
            raise
        raise RuntimeFault(f"Container {name} does not run.", reason=FaultReason.GONE, permanent=True) from None
    return str(made["Id"])
