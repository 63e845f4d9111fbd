"""A container engine in memory: same operations, same manners, no processes.

Passes the contract tests of ``docker_runtime``. Tests and the benchmark's thousand nodes run on it, so it is
thread-safe, starts no thread of its own, and a container costs one small record. What a container does is a
``Behaviour``, chosen by image and command; what the world does to the engine is a method: ``finish``, ``cut``,
``heal``, ``power_loss``, ``fail_next``.
"""

from __future__ import annotations

import builtins
import heapq
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import IO

from clusters.runtime import (
    LABEL_TASK,
    ContainerRequest,
    ContainerStatus,
    EngineInfo,
    FaultReason,
    LogChunk,
    Phase,
    Progress,
    RuntimeFault,
    Stream,
)

CHUNK = 64 * 1024
EXIT_TERM, EXIT_KILL, EXIT_POWER_LOSS, EXIT_OOM = 143, 137, 255, 137


@dataclass(frozen=True, slots=True)
class Behaviour:
    """What a container does once asked for. ``exit_code`` None runs until ``finish`` or ``stop``; otherwise it ends
    with that code after ``seconds``. Faults are raised in place of the step they belong to."""

    exit_code: int | None = None
    seconds: float = 0.0
    oom: bool = False
    stdout: tuple[bytes, ...] = ()
    stderr: tuple[bytes, ...] = ()
    ignores_term: bool = False
    pull: tuple[Progress, ...] = ()
    pull_fault: RuntimeFault | None = None
    create_fault: RuntimeFault | None = None
    start_fault: RuntimeFault | None = None


@dataclass(slots=True)
class _Container:
    request: ContainerRequest
    behaviour: Behaviour
    status: ContainerStatus
    files: dict[str, bytes] = field(default_factory=dict)
    log: dict[Stream, builtins.list[LogChunk]] = field(default_factory=lambda: {"stdout": [], "stderr": []})


class FakeRuntime:
    """One engine. ``step(name, what)`` is called without the lock before "pull", "create", "put" and "start": a test
    raises there to play a worker's death."""

    def __init__(
        self,
        *,
        hostname: str = "fake",
        cpus: int = 64,
        memory_mb: int = 1 << 20,
        gpu_ids: frozenset[str] | None = None,
        images: frozenset[str] = frozenset(),
        default: Behaviour = Behaviour(),
        step: Callable[[str, str], None] = lambda name, what: None,
    ) -> None:
        self.engine = EngineInfo(f"fake:{hostname}", hostname, "20.10-fake", cpus, memory_mb)
        self.gpu_ids = gpu_ids  # None: whatever is asked for exists
        self.images = set(images)
        self.taken_ports: set[int] = set()  # by something outside Longshore
        self.calls: Counter[str] = Counter()
        self.step = step
        self._default = default
        self._rules: list[tuple[str, str, Behaviour]] = []
        self._faults: dict[str, deque[RuntimeFault]] = {}
        self._containers: dict[str, _Container] = {}
        self._changed = threading.Condition()
        self._reachable = True
        self._breaks = 0  # how often the engine ended its streams
        self._events = self._events_seen = 0
        self._watched = False
        self._stamp = self._ids = 0
        self._due: list[tuple[float, int, _Container]] = []  # heap of the ends to come

    # --- what the world does ---------------------------------------------------------------------------------------

    def behave(self, behaviour: Behaviour, *, image: str = "", contains: str = "") -> None:
        """From now on containers of ``image`` ("" = any) whose command has ``contains`` in it behave so; the newest
        rule that fits wins."""
        with self._changed:
            self._rules.insert(0, (image, contains, behaviour))

    def finish(self, name: str, code: int = 0, *, oom: bool = False, error: str = "") -> None:
        """The container's process ends now."""
        with self._changed:
            self._exit(self._containers[name], code, oom=oom, error=error)

    def print(self, name: str, data: bytes, stream: Stream = "stdout") -> None:
        """The container writes to its log."""
        with self._changed:
            self._write(self._containers[name], stream, data)
            self._changed.notify_all()

    def cut(self) -> None:
        """The engine cannot be reached any more; its containers go on."""
        with self._changed:
            self._reachable = False
            self._break_streams()

    def heal(self) -> None:
        with self._changed:
            self._reachable = True
            self._changed.notify_all()

    def power_loss(self) -> None:
        """The host lost its power and is back: nothing runs any more, event history is gone."""
        with self._changed:
            for container in self._containers.values():
                if container.status.phase is Phase.RUNNING:
                    self._exit(container, EXIT_POWER_LOSS)
            self._events_seen = self._events
            self._break_streams()

    def vanish(self, name: str) -> None:
        """Somebody removed the container behind our back."""
        with self._changed:
            del self._containers[name]
            self._event()

    def fail_next(self, operation: str, fault: RuntimeFault) -> None:
        """The next call of ``operation`` raises ``fault`` before it does anything; several queue up."""
        with self._changed:
            self._faults.setdefault(operation, deque()).append(fault)

    def request_of(self, name: str) -> ContainerRequest:
        """What the container was made from."""
        return self._containers[name].request

    def files_of(self, name: str) -> dict[str, bytes]:
        """The files put into the container, by path."""
        return dict(self._containers[name].files)

    # --- the seven operations --------------------------------------------------------------------------------------

    def info(self) -> EngineInfo:
        with self._changed:
            self._enter("info")
            return self.engine

    def list(self) -> builtins.list[ContainerStatus]:
        with self._changed:
            self._enter("list")
            self._settle()
            if not self._watched:  # the first window begins where the last list ended
                self._events_seen = self._events
            return [c.status for c in self._containers.values() if LABEL_TASK in c.status.labels]

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
            _guard(still_wanted)
            self.step(request.name, "create")
            found = self._create(request, behaviour)
        if found.status.phase is not Phase.CREATED:
            return found.status
        self.step(request.name, "put")
        with self._changed:
            self._enter()
            found.files.update({file.path: file.content for file in request.files})
        _guard(still_wanted)
        self.step(request.name, "start")
        return self._start(found)

    def stop(self, name: str, grace: int) -> None:
        with self._changed:
            self._enter("stop")
            container = self._own(name)
            if container and container.status.phase is Phase.RUNNING:
                self._exit(container, EXIT_KILL if container.behaviour.ignores_term else EXIT_TERM)

    def remove(self, name: str) -> None:
        with self._changed:
            self._enter("remove")
            if self._own(name):
                del self._containers[name]
                self._event()

    def logs(self, name: str, stream: Stream, *, since: str = "", follow: bool = False) -> FakeLog:
        with self._changed:
            self._enter("logs")
            if name not in self._containers:
                raise _gone(name)
            return FakeLog(self, self._containers[name], stream, since, follow)

    def wait_event(self, timeout: float, wake: Callable[[], None]) -> bool:
        deadline = time.monotonic() + timeout
        with self._changed:
            self._enter("wait_event")
            breaks, self._watched = self._breaks, True
        while True:
            with self._changed:
                self._await(lambda: self._breaks != breaks or self._events > self._events_seen, deadline)
                count, self._events_seen = self._events - self._events_seen, self._events
                broken = self._breaks != breaks
            for _ in range(count):
                wake()
            if broken:
                return False
            if time.monotonic() >= deadline:
                return True

    def has_image(self, image: str) -> bool:
        with self._changed:
            self._enter("has_image")
            return image in self.images

    def import_image(self, image: str, tar: IO[bytes], changes: tuple[str, ...]) -> None:
        with self._changed:
            self._enter("import_image")
            self.images.add(image)

    # --- inside: all but _pull, _create and _start want the lock held ----------------------------------------------

    def _enter(self, operation: str = "") -> None:
        if operation:
            self.calls[operation] += 1
        if not self._reachable:
            raise RuntimeFault(
                f"The Docker engine {self.engine.hostname} does not answer.", reason=FaultReason.UNREACHABLE
            )
        if self._faults.get(operation):
            raise self._faults[operation].popleft()
        self._settle()

    def _behaviour(self, request: ContainerRequest) -> Behaviour:
        command = " ".join(request.argv)
        for image, contains, behaviour in self._rules:
            if image in ("", request.image) and contains in command:
                return behaviour
        return self._default

    def _find(self, request: ContainerRequest) -> _Container | None:
        found = self._containers.get(request.name)
        if found and found.status.labels.get(LABEL_TASK) != request.labels.get(LABEL_TASK):
            raise _stranger(request.name)
        return found

    def _own(self, name: str) -> _Container | None:
        found = self._containers.get(name)
        if found and LABEL_TASK not in found.status.labels:
            raise _stranger(name)
        return found

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
                raise _again(fault)
            self.images.add(request.image)

    def _create(self, request: ContainerRequest, behaviour: Behaviour) -> _Container:
        with self._changed:
            self._enter()
            if found := self._find(request):  # another worker was quicker
                return found
            if behaviour.create_fault:
                raise _again(behaviour.create_fault)
            self._ids += 1
            status = ContainerStatus(
                f"{self.engine.hostname}-{self._ids:012x}", request.name, Phase.CREATED, dict(request.labels)
            )
            self._containers[request.name] = _Container(request, behaviour, status)
            self._event()
            return self._containers[request.name]

    def _start(self, container: _Container) -> ContainerStatus:
        with self._changed:
            self._enter()
            if container.status.phase is not Phase.CREATED:
                return container.status
            name = container.request.name
            if self._containers.get(name) is not container:
                raise _gone(name)
            if fault := self._refusal(container):
                del self._containers[name]
                self._event()
                raise fault
            self._run(container)
            return container.status

    def _refusal(self, container: _Container) -> RuntimeFault | None:
        request = container.request
        if container.behaviour.start_fault:
            return _again(container.behaviour.start_fault)
        if request.network == "bridge":
            published = {
                port
                for other in self._containers.values()
                if other.status.phase is Phase.RUNNING and other.request.network == "bridge"
                for port in other.request.ports
            }
            for port in sorted(set(request.ports) & (self.taken_ports | published)):
                return RuntimeFault(f"Port {port} is already taken on the node.", reason=FaultReason.PORT_TAKEN)
        if self.gpu_ids is not None and (missing := set(request.gpu_ids) - self.gpu_ids):
            return RuntimeFault(f"The node has no GPU {min(missing)}.", reason=FaultReason.GPU_MISSING)
        return None

    def _run(self, container: _Container) -> None:
        does = container.behaviour
        container.status = replace(container.status, phase=Phase.RUNNING, started_at=datetime.now(UTC))
        for line in does.stdout:
            self._write(container, "stdout", line)
        for line in does.stderr:
            self._write(container, "stderr", line)
        self._event()
        if does.exit_code is not None:
            heapq.heappush(self._due, (time.monotonic() + does.seconds, self._events, container))
            self._settle()

    def _settle(self) -> None:
        while self._due and self._due[0][0] <= time.monotonic():
            _, _, container = heapq.heappop(self._due)
            if container.status.phase is Phase.RUNNING:
                self._exit(container, container.behaviour.exit_code or 0, oom=container.behaviour.oom)

    def _exit(self, container: _Container, code: int, *, oom: bool = False, error: str = "") -> None:
        container.status = replace(
            container.status,
            phase=Phase.EXITED,
            exit_code=code,
            oom_killed=oom,
            error=error,
            finished_at=datetime.now(UTC),
        )
        self._event()

    def _write(self, container: _Container, stream: Stream, data: bytes) -> None:
        self._stamp = max(time.time_ns(), self._stamp + 1)
        at = f"{datetime.fromtimestamp(self._stamp // 10**9, UTC):%Y-%m-%dT%H:%M:%S}.{self._stamp % 10**9:09d}Z"
        for start in range(0, len(data), CHUNK):
            container.log[stream].append(LogChunk(at, data[start : start + CHUNK]))

    def _event(self) -> None:
        self._events += 1
        self._changed.notify_all()

    def _break_streams(self) -> None:
        self._breaks += 1
        self._changed.notify_all()

    def _await(self, happened: Callable[[], bool], deadline: float | None) -> None:
        """Wait until ``happened``; ends of containers that fall due meanwhile are brought about on the way."""
        while not happened():
            ends = [self._due[0][0]] if self._due else []
            until = min([*ends, *([deadline] if deadline is not None else [])], default=None)
            left = None if until is None else until - time.monotonic()
            if left is None or left > 0:
                self._changed.wait(left)
            self._settle()
            if deadline is not None and time.monotonic() >= deadline:
                return


class FakeLog(Iterator[LogChunk]):
    """A log being read. ``close`` may come from another thread; the reader then ends."""

    def __init__(self, runtime: FakeRuntime, container: _Container, stream: Stream, since: str, follow: bool) -> None:
        self._runtime = runtime
        self._container = container
        self._log = container.log[stream]
        self._follow = follow
        self._breaks = runtime._breaks
        self._next = next((i for i, chunk in enumerate(self._log) if chunk.at >= since), len(self._log))
        self._closed = False

    def __next__(self) -> LogChunk:
        with self._runtime._changed:
            if self._follow:
                self._runtime._await(lambda: self._closed or self._next < len(self._log) or self._over(), None)
            if self._closed or self._next >= len(self._log):
                raise StopIteration
            self._next += 1
            return self._log[self._next - 1]

    def close(self) -> None:
        with self._runtime._changed:
            self._closed = True
            self._runtime._changed.notify_all()

    def _over(self) -> bool:
        gone = self._runtime._containers.get(self._container.request.name) is not self._container
        return gone or self._container.status.phase is not Phase.RUNNING or self._runtime._breaks != self._breaks


def _guard(still_wanted: Callable[[], bool]) -> None:
    if not still_wanted():
        raise RuntimeFault("The start was withdrawn.", reason=FaultReason.WITHDRAWN)


def _again(fault: RuntimeFault) -> RuntimeFault:
    return RuntimeFault(fault.sentence, reason=fault.reason, permanent=fault.permanent)


def _gone(name: str) -> RuntimeFault:
    return RuntimeFault(f"There is no container {name}.", reason=FaultReason.GONE, permanent=True)


def _stranger(name: str) -> RuntimeFault:
    return RuntimeFault(
        f"A container named {name} that Longshore did not make is in the way.", reason=FaultReason.REFUSED
    )
