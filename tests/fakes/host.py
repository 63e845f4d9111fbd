"""The host of the fake engine: its containers, their time, and what a test does to it."""

from __future__ import annotations

import heapq
import tarfile
import threading
import time
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path

from clusters.engines.logs.chunks import CHUNK
from clusters.engines.logs.stamps import stamp
from clusters.engines.runtime import (
    LABEL_TASK,
    LOOK_CLOSER,
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
    stranger,
)
from tests.fakes.terminal import FakeTerminal

EXIT_TERM, EXIT_KILL = 143, 137


@dataclass(frozen=True, slots=True)
class Behaviour:
    """What a container does. With ``exit_code`` None it runs until ``finish`` or ``stop``; otherwise it ends with that
    code after ``seconds``. Faults are raised in place of the step that they belong to."""

    exit_code: int | None = None
    seconds: float = 0.0
    oom: bool = False
    stdout: tuple[bytes, ...] = ()
    stderr: tuple[bytes, ...] = ()
    ignores_term: bool = False
    saves: bool = False  # when it is told that it ends, and writes what it was told
    pull: tuple[Progress, ...] = ()
    pull_fault: RuntimeFault | None = None
    create_fault: RuntimeFault | None = None
    start_fault: RuntimeFault | None = None


@dataclass(slots=True)
class FakeContainer:
    request: ContainerRequest
    behaviour: Behaviour
    status: ContainerStatus
    files: dict[str, bytes] = field(default_factory=dict)
    log: dict[Stream, list[LogChunk]] = field(default_factory=lambda: {"stdout": [], "stderr": []})
    missed: ContainerStatus | None = None  # what the engine's list goes on saying of it, its end having been missed ...
    missed_at: float = 0.0  # ... then
    dropped: dict[Stream, int] = field(default_factory=dict)  # chunks of its log that the engine has thrown away
    given_again: int = 0  # how often the engine gives its log once more to those who follow it
    log_fault: RuntimeFault | None = None  # in place of the end of its log
    terminals: list[FakeTerminal] = field(default_factory=list)
    signals: list[str] = field(default_factory=list)  # that it was told its end by


class FakeHost:
    """``step(name, what)`` is called without the lock before "pull", "create", "put", "start", and before "discard" of
    a container whose start was refused: a test raises there to play a worker's death. Public methods are what the world
    does; the others want the lock held."""

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
        self.listening: dict[int, tuple[str, int]] = {}  # {port of the host: the address that answers for it}
        self.gpu_ids = gpu_ids  # None: whatever is asked for exists
        self.images = set(images)
        self.kept: dict[str, dict[str, bytes]] = {}  # files of images that were made of containers
        self.disk = DiskUse(0)
        self.taken_ports: set[int] = set()  # by something outside Longshore
        self.disk_full = False  # then its list misses the ends of containers
        self.calls: Counter[str] = Counter()
        self.gives: dict[str, tuple[str, ...]] = {}  # GPUs that it has chosen itself, by container
        self.step = step
        self._default = default
        self._rules: list[tuple[str, str, Behaviour]] = []
        self._faults: dict[str, deque[RuntimeFault]] = {}
        self._containers: dict[str, FakeContainer] = {}
        self._changed = threading.Condition()
        self._reachable, self._slow = True, False
        self._breaks = 0  # how often the engine ended its streams
        self._events = self._events_seen = 0
        self._images_seen = set(images)
        self._watched = False
        self._stamp = self._ids = self._behind = 0
        self._due: list[tuple[float, int, FakeContainer]] = []  # heap of the ends to come

    def behave(self, behaviour: Behaviour, *, image: str = "", contains: str = "") -> None:
        """From now on containers of ``image`` ("" = any) whose command has ``contains`` in it behave so; the newest
        rule that fits wins."""
        with self._changed:
            self._rules.insert(0, (image, contains, behaviour))

    def finish(self, name: str, code: int = 0, *, oom: bool = False, error: str = "") -> None:
        """The container's process ends now."""
        with self._changed:
            self._exit(self._containers[name], code, oom=oom, error=error)

    def hold(self, name: str, code: int = 1) -> None:
        """The command ended with ``code``; the container is kept until somebody stops it."""
        with self._changed:
            container = self._containers[name]
            container.status = replace(container.status, held=True, held_code=code)
            self._event()

    def print(self, name: str, data: bytes, stream: Stream = "stdout") -> None:
        """The container writes to its log."""
        with self._changed:
            self._write(self._containers[name], stream, data)
            self._changed.notify_all()

    def turn_clock_back(self, seconds: float) -> None:
        with self._changed:
            self._behind += int(seconds * 10**9)
            self._stamp = 0

    def rotate(self, name: str) -> None:
        """The engine throws away what the container wrote so far."""
        with self._changed:
            container = self._containers[name]
            container.dropped = {stream: len(chunks) for stream, chunks in container.log.items()}

    def give_log_again(self, name: str) -> None:
        """To those who follow it now, as an engine may do that has just rotated it."""
        with self._changed:
            self._containers[name].given_again += 1
            self._changed.notify_all()

    def damage_log(self, name: str) -> None:
        """The engine cannot read it to its end any more."""
        with self._changed:
            self._containers[name].log_fault = RuntimeFault(
                "The engine cannot read the log to its end: invalid character", reason=FaultReason.REFUSED
            )

    def cut(self) -> None:
        """The engine cannot be reached any more; its containers go on."""
        with self._changed:
            self._reachable = False
            self._break_streams()

    def slow_down(self) -> None:
        """Who asks for its list gets no answer in time any more; all else it does, and its host takes connections."""
        with self._changed:
            self._slow = True

    def heal(self) -> None:
        with self._changed:
            self._reachable, self._slow = True, False
            self._changed.notify_all()

    def power_loss(self) -> None:
        """The host lost its power and is back: nothing runs any more, event history is gone."""
        with self._changed:
            for container in self._containers.values():
                if container.status.phase is Phase.RUNNING:
                    self._exit(container, None)
            self._events_seen = self._events
            self._break_streams()

    def restart(self, name: str) -> None:
        """Somebody ran ``docker restart``: the same container, with another process."""
        with self._changed:
            container = self._containers[name]
            container.status = replace(container.status, started_at=datetime.now(UTC))
            self._event()

    def pause(self, name: str, *, paused: bool = True) -> None:
        """Somebody ran ``docker pause``, or ``docker unpause``."""
        with self._changed:
            container = self._containers[name]
            container.status = replace(container.status, paused=paused)
            self._event()

    def vanish(self, name: str) -> None:
        """Somebody removed the container behind our back."""
        with self._changed:
            for terminal in self._containers.pop(name).terminals:
                terminal.end(None)
            self._event()

    def fail_next(self, operation: str, fault: RuntimeFault) -> None:
        """The next call of ``operation`` raises ``fault`` before it does anything; several queue up."""
        with self._changed:
            self._faults.setdefault(operation, deque()).append(fault)

    def request_of(self, name: str) -> ContainerRequest:
        """What the container was made from."""
        return self._containers[name].request

    def signals_of(self, name: str) -> list[str]:
        """The signals by which the container was told that it ends."""
        return list(self._containers[name].signals)

    def touch(self, name: str, path: str) -> None:
        """The container writes a file."""
        with self._changed:
            self._containers[name].files[path] = b""

    def files_of(self, name: str) -> dict[str, bytes]:
        """The files put into the container, by path."""
        return dict(self._containers[name].files)

    def _enter(self, operation: str = "") -> None:
        if operation:
            self.calls[operation] += 1
        if not self._reachable:
            raise RuntimeFault(
                f"The Docker engine {self.engine.hostname} does not answer.", reason=FaultReason.UNREACHABLE
            )
        if self._slow and operation in ("list", "info"):
            sentence = f"The Docker engine {self.engine.hostname} cannot be reached: it did not answer in time."
            raise RuntimeFault(sentence, reason=FaultReason.UNREACHABLE, late=True)
        if self._faults.get(operation):
            raise self._faults[operation].popleft()
        self._settle()

    def _behaviour(self, request: ContainerRequest) -> Behaviour:
        command = " ".join(request.argv)
        for image, contains, behaviour in self._rules:
            if image in ("", request.image) and contains in command:
                return behaviour
        return self._default

    def _find(self, request: ContainerRequest) -> FakeContainer | None:
        found = self._containers.get(request.name)
        if found and found.status.labels.get(LABEL_TASK) != request.labels.get(LABEL_TASK):
            raise stranger(request.name)
        return found

    def _own(self, name: str) -> FakeContainer | None:
        found = self._containers.get(name)
        if found and LABEL_TASK not in found.status.labels:
            raise stranger(name)
        return found

    def _refusal(self, container: FakeContainer) -> RuntimeFault | None:
        request = container.request
        if container.behaviour.start_fault:
            return again(container.behaviour.start_fault)
        if request.network == "bridge":
            published = {
                port
                for other in self._containers.values()
                if other.status.phase is Phase.RUNNING and other.request.network == "bridge"
                for port in other.request.ports
            }
            for port in sorted(set(request.ports) & (self.taken_ports | published)):
                return RuntimeFault(f"Port {port} is already taken on the node.", reason=FaultReason.PORT_TAKEN)
        if "all" in request.gpu_ids and not self.gpu_ids:
            return RuntimeFault("The node cannot hand out the task's GPUs.", reason=FaultReason.GPU_MISSING)
        if self.gpu_ids is not None and (missing := set(request.gpu_ids) - self.gpu_ids - {"all"}):
            return RuntimeFault(f"The node has no GPU {min(missing)}.", reason=FaultReason.GPU_MISSING)
        return None

    def _run(self, container: FakeContainer) -> None:
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

    def _listed(self, container: FakeContainer, doubted: bool) -> ContainerStatus:
        """What the list says of it."""
        if container.missed and (doubted or time.monotonic() - container.missed_at >= LOOK_CLOSER):
            container.missed = None
        return container.missed or container.status

    def _exit(self, container: FakeContainer, code: int | None, *, oom: bool = False, error: str = "") -> None:
        """``code`` None: it is lost with its host."""
        if self.disk_full:
            container.missed, container.missed_at = container.status, time.monotonic()
        container.status = replace(
            container.status,
            phase=Phase.EXITED,
            exit_code=code,
            lost=code is None,
            oom_killed=oom,
            error=error,
            finished_at=datetime.now(UTC),
        )
        for terminal in container.terminals:
            terminal.end(None)
        self._event()

    def _write(self, container: FakeContainer, stream: Stream, data: bytes) -> None:
        self._stamp = max(time.time_ns() - self._behind, self._stamp + 1)
        at = stamp(self._stamp)
        for start in range(0, len(data), CHUNK):
            container.log[stream].append(LogChunk(at, data[start : start + CHUNK]))

    def _event(self) -> None:
        self._events += 1
        self._changed.notify_all()

    def _has_news(self) -> bool:
        return self._events > self._events_seen or self.images != self._images_seen

    def _break_streams(self) -> None:
        self._breaks += 1
        for container in self._containers.values():
            for terminal in container.terminals:
                terminal.break_off()
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


def again(fault: RuntimeFault) -> RuntimeFault:
    return RuntimeFault(fault.sentence, reason=fault.reason, permanent=fault.permanent)


def unpacked(tar: Path) -> dict[str, bytes]:
    """The files of a tar by their path in the container."""
    with tarfile.open(tar) as archive:
        files = ((member, archive.extractfile(member)) for member in archive if member.isfile())
        return {f"/{member.name}": content.read() for member, content in files if content is not None}
