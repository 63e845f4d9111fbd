"""A container engine in memory: same operations, same behaviour, no processes.

It passes the contract tests of the Docker runtime. Tests and the benchmark's thousand nodes run on it, so it is
thread-safe, starts no thread of its own, and a container costs one small record. What a container does is a
``Behaviour``, chosen by image and command. What happens to the engine is a method: ``finish``, ``cut``, ``heal``,
``power_loss``, ``fail_next``.
"""

from __future__ import annotations

import builtins
import socket
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import IO

from clusters.engines.attach import MARK
from clusters.engines.image_names import canonical
from clusters.engines.runtime import (
    LABEL_TASK,
    SAVED_FILE,
    TOLD_FILE,
    ContainerRequest,
    ContainerStatus,
    DiskUse,
    EngineInfo,
    FaultReason,
    LogChunk,
    Phase,
    Progress,
    RuntimeFault,
    Stream,
    gone,
    guard,
)
from tests.fakes.host import EXIT_KILL, EXIT_TERM, Behaviour, FakeContainer, again, unpacked
from tests.fakes.inventory import FakeInventory
from tests.fakes.terminal import FakeTerminal

__all__ = ["Behaviour", "FakeLog", "FakeRuntime"]


class FakeRuntime(FakeInventory):
    """One engine. Made as its host is: ``FakeRuntime(hostname="n1", gpu_ids=frozenset("01"))``."""

    gives_short_logs = False  # most tests break logs in their middle

    def info(self) -> EngineInfo:
        with self._changed:
            self._enter("info")
            return self.engine

    def list(self, *, doubted: bool = False) -> builtins.list[ContainerStatus]:
        with self._changed:
            self._enter("list")
            self._settle()
            if not self._watched:  # the first window begins where the last list ended
                self._events_seen = self._events
            return [self._listed(c, doubted) for c in self._containers.values() if LABEL_TASK in c.status.labels]

    def ensure(
        self,
        request: ContainerRequest,
        *,
        on_progress: Callable[[Progress], None] = lambda _: None,
        still_wanted: Callable[[], bool] = lambda: True,
    ) -> ContainerStatus:
        with self._changed:
            self._enter("ensure")
            behaviour = self._behaviour(request)
            found = self._find(request)
        if found is None:
            self._pull(request, behaviour, on_progress)
            guard(still_wanted)
            self.step(request.name, "create")
            found = self._create(request, behaviour)
        if found.status.phase is not Phase.CREATED:
            return found.status
        self.step(request.name, "put")
        with self._changed:
            self._enter()
            found.files.update({file.path: file.content for file in request.files})
            for path in request.tars:
                found.files.update(unpacked(path))
        guard(still_wanted)
        self.step(request.name, "start")
        return self._start(found)

    def tell(self, name: str, signal: str, note: str) -> bool:
        with self._changed:
            self._enter("tell")
            container = self._own(name)
            if container is None or container.status.phase is not Phase.RUNNING:
                return False
            if TOLD_FILE not in container.files:
                container.files.pop(SAVED_FILE, None)  # what was saved before counts no more
                container.files[TOLD_FILE] = note.encode()
            saved = SAVED_FILE in container.files
            if container.behaviour.saves and not saved:
                container.files[SAVED_FILE] = b""
                self._write(container, "stdout", container.files[TOLD_FILE])
            container.signals += [signal] if signal else []
            if signal == "SIGTERM" and not container.behaviour.ignores_term:
                kept = container.status.held_code if container.status.held else None
                self._exit(container, EXIT_TERM if kept is None else kept)
            return saved

    def stop(self, name: str, grace: int) -> None:
        with self._changed:
            self._enter("stop")
            container = self._own(name)
            if container and container.status.phase is Phase.RUNNING:
                told = EXIT_KILL if container.behaviour.ignores_term else EXIT_TERM
                kept = container.status.held_code if container.status.held else None
                self._exit(container, told if kept is None else kept)

    def remove(self, name: str, id: str = "") -> None:
        with self._changed:
            self._enter("remove")
            if self._own(name):
                for terminal in self._containers.pop(name).terminals:
                    terminal.end(None)
                self._event()

    def given_gpus(self, name: str) -> tuple[str, ...]:
        with self._changed:
            self._enter("given_gpus")
            return self.gives.get(name, ())

    def dial(self, address: str, port: int, container: str = "") -> socket.socket:
        """``listening`` says which listener of this machine stands for a port of the host."""
        with self._changed:
            self._enter("dial")
        if port not in self.listening:
            raise RuntimeFault(f"Nothing listens on port {port}.", reason=FaultReason.REFUSED)
        return socket.create_connection(self.listening[port])

    def logs(self, name: str, stream: Stream, *, since: str = "", follow: bool = False) -> FakeLog:
        with self._changed:
            self._enter("logs")
            if name not in self._containers:
                raise gone(name)
            return FakeLog(self, self._containers[name], stream, since, follow)

    def short_logs(self, name: str) -> Mapping[Stream, Sequence[LogChunk]] | None:
        if not self.gives_short_logs:
            return None
        with self._changed:
            self._enter("short_logs")
            if name not in self._containers:
                raise gone(name)
            container = self._containers[name]
        try:
            return {stream: list(FakeLog(self, container, stream, "", False)) for stream in container.log}
        except RuntimeFault:
            return None

    def wait_event(self, timeout: float, wake: Callable[[], None], images: Callable[[], None] = lambda: None) -> bool:
        deadline = time.monotonic() + timeout
        with self._changed:
            self._enter("wait_event")
            breaks, self._watched = self._breaks, True
        while True:
            with self._changed:
                self._await(lambda: self._breaks != breaks or self._has_news(), deadline)
                count, self._events_seen = self._events - self._events_seen, self._events
                has_images, self._images_seen = self.images != self._images_seen, set(self.images)
                broken = self._breaks != breaks
            for _ in range(count):
                wake()
            if has_images:
                images()
            if broken:
                return False
            if time.monotonic() >= deadline:
                return True

    def import_image(self, image: str, tar: IO[bytes], changes: tuple[str, ...]) -> None:
        with self._changed:
            self._enter("import_image")
            self.images.add(image)
            self._changed.notify_all()

    def image_names(self) -> frozenset[str]:
        with self._changed:
            self._enter("image_names")
            return frozenset(map(canonical, self.images))

    def disk_use(self) -> DiskUse:
        with self._changed:
            self._enter("disk_use")
            return self.disk

    async def attach(
        self, name: str, argv: tuple[str, ...], *, env: Mapping[str, str], columns: int, rows: int
    ) -> FakeTerminal:
        with self._changed:
            self._enter("attach")
            container = self._containers.get(name)
            if container is None or container.status.phase is not Phase.RUNNING:
                raise gone(name)
            made = FakeTerminal(len(container.terminals) + 100, argv, env, columns, rows)
            container.terminals.append(made)
            return made

    async def hang_up(self, name: str, pid: int, mark: str) -> None:
        with self._changed:
            self._enter("hang_up")
            container = self._containers.get(name)
            for terminal in container.terminals if container else ():
                if terminal.pid == pid and mark == terminal.env.get(MARK):
                    terminal.end(None)

    def keep(self, name: str, image: str, most: int) -> int:
        with self._changed:
            self._enter("keep")
            if name not in self._containers:
                raise gone(name)
            size = sum(map(len, self._containers[name].files.values()))
            if size > most:
                raise RuntimeFault(f"{name} has written too much to be kept.", reason=FaultReason.REFUSED)
            self.images.add(canonical(image))
            self._changed.notify_all()
            self.kept[canonical(image)] = dict(self._containers[name].files)
            return size

    def drop_image(self, image: str) -> None:
        with self._changed:
            self._enter("drop_image")
            self.images.discard(canonical(image))
            self._changed.notify_all()

    def _pull(self, request: ContainerRequest, behaviour: Behaviour, on_progress: Callable[[Progress], None]) -> None:
        with self._changed:
            present = request.image in self.images
        if present and request.pull == "absent":
            return
        self.step(request.name, "pull")
        for progress in behaviour.pull:
            on_progress(progress)
        with self._changed:
            self._enter()
            fault = behaviour.pull_fault
            if fault and not (present and fault.reason is FaultReason.REGISTRY_UNREACHABLE):
                raise again(fault)
            self.images.add(request.image)
            self._changed.notify_all()

    def _create(self, request: ContainerRequest, behaviour: Behaviour) -> FakeContainer:
        with self._changed:
            self._enter()
            if found := self._find(request):  # another worker was quicker
                return found
            if behaviour.create_fault:
                raise again(behaviour.create_fault)
            self._ids += 1
            status = ContainerStatus(
                f"{self.engine.hostname}-{self._ids:012x}", request.name, Phase.CREATED, dict(request.labels)
            )
            files = dict(self.kept.get(canonical(request.image), {}))
            self._containers[request.name] = FakeContainer(request, behaviour, status, files)
            self._event()
            return self._containers[request.name]

    def _start(self, container: FakeContainer) -> ContainerStatus:
        with self._changed:
            self._enter()
            if container.status.phase is not Phase.CREATED:
                return container.status
            name = container.request.name
            if self._containers.get(name) is not container:
                raise gone(name)
            fault = self._refusal(container)
            if fault is None:
                self._run(container)
                return container.status
            container.status = replace(container.status, error=fault.sentence)
        self.step(name, "discard")
        with self._changed:
            if self._containers.get(name) is container:
                del self._containers[name]
                self._event()
        raise fault


class FakeLog(Iterator[LogChunk]):
    """A log being read. ``close`` may come from another thread; the reader then ends."""

    def __init__(
        self, runtime: FakeRuntime, container: FakeContainer, stream: Stream, since: str, follow: bool
    ) -> None:
        self._runtime = runtime
        self._container = container
        self._stream = stream
        self._since = since
        self._follow = follow
        self._breaks = runtime._breaks
        self._next = container.dropped.get(stream, 0)
        self._beheaded = bool(container.dropped) and not since
        self._given_again = container.given_again
        self._closed = False

    def __next__(self) -> LogChunk:
        with self._runtime._changed:
            if self._follow:
                self._runtime._await(lambda: self._closed or self._has_more() or self._over(), None)
            if self._closed:
                raise StopIteration
            if not self._has_more():
                if fault := self._container.log_fault:
                    raise again(fault)
                raise StopIteration
            self._next += 1
            beheaded, self._beheaded = self._beheaded, False
            return replace(self._container.log[self._stream][self._next - 1], beheaded=beheaded)

    def close(self) -> None:
        with self._runtime._changed:
            self._closed = True
            self._runtime._changed.notify_all()

    def _has_more(self) -> bool:
        log = self._container.log[self._stream]
        if self._follow and self._given_again != self._container.given_again:
            self._given_again = self._container.given_again
            self._next = self._container.dropped.get(self._stream, 0)
        while self._next < len(log) and log[self._next].at < self._since:
            self._next += 1
        return self._next < len(log)

    def _over(self) -> bool:
        gone = self._runtime._containers.get(self._container.request.name) is not self._container
        return gone or self._container.status.phase is not Phase.RUNNING or self._runtime._breaks != self._breaks
