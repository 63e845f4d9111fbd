"""What Longshore asks of a container engine: eight operations, their values and their errors.

Pure: no Docker, no Django. ``docker.runtime`` speaks to a real engine, ``fake.runtime`` to a dictionary; both pass the
same contract tests (tests/contract_runtime.py). Names follow from identity, so every operation may be repeated:
``ensure`` adopts a container that is already there, ``stop`` and ``remove`` of one that is gone succeed.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import StrEnum
from pathlib import Path
from typing import IO, TYPE_CHECKING, Literal, Protocol

from clusters.engines.attach import Attachable

if TYPE_CHECKING:
    from socket import socket

Stream = Literal["stdout", "stderr"]

# The labels by which Longshore knows its own containers. Nothing without LABEL_TASK is ever touched.
LABEL_INSTANCE = "longshore.instance"  # which portal made it: two portals may share one engine
LABEL_JOB = "longshore.job"  # user~job
LABEL_APP = "longshore.app"  # application id of the attempt: no two attempts share it, not even after a restore
LABEL_ATTEMPT = "longshore.attempt"  # number
LABEL_TASK = "longshore.task"  # the owner of the allocation: the id of the task's row. An unknown one makes a stranger
LABEL_EPOCH = "longshore.epoch"  # claim epoch of the start order that created it
LABEL_GPUS = "longshore.gpus"  # "0,2": what it holds can be read from itself when nobody knows it any more
LABEL_PORTS = "longshore.ports"  # "30000,30001"
LABEL_HOLD = "longshore.hold"  # "1": its health check reports a hold, see ContainerRequest.hold_file


# Exit codes by which the start script of jobs says what engines get wrong: that the kernel killed the command for its
# memory, that a port of the task was taken before the command could run, that the command ended by itself after TERM
# had come, and that it ended with a code that else means an end from outside. What the command ended with is in
# EXIT_FILE, with " told" behind it if TERM had come. It is empty until then, and missing where the image's user cannot
# write (then a command that had been told ended with 0). Edges read both (``read_script``), so nobody else sees them.
KILLED_FOR_MEMORY, FOUND_PORT_TAKEN, TOLD_TO_END = 222, 224, 225
OWN_CODES = {220: 137, 221: 143, 223: 255}
OUR_CODES = (KILLED_FOR_MEMORY, FOUND_PORT_TAKEN, TOLD_TO_END, *OWN_CODES)
TERMINATED = 143  # the code of what TERM has ended
EXIT_FILE = "/pai/log/exit-code"
# How a container learns that it will be ended, and says that it has saved: two files, in memory, where any user may
# write. The container is somebody's own, so what it says there is believed of that container alone.
NOTICE_FOLDER = "/pai/notice"
TOLD_FILE = f"{NOTICE_FOLDER}/told"  # why it ends and how long it has; there from the notice on
SAVED_FILE = f"{NOTICE_FOLDER}/saved"  # touched whenever it has saved
HAS_SAVED = 42  # the exit code of ``telling``
TELLING = 5.0  # seconds after which nobody waits for ``telling`` any more
# What a container writes to both streams before anything else. Engines throw the beginning of a long log away without a
# word: a log that does not begin with this has lost it.
LOG_MARK = "-- Longshore: here the log begins --"
# What root is left with: enough for package managers, servers, sshd. Docker's own default has NET_RAW beside it, which
# on the host's network reads what others send, and MKNOD, SETFCAP and SETPCAP, which nothing in a job needs.
CAPABILITIES = (
    *("CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "SETGID", "SETUID", "SYS_CHROOT"),
    *("NET_BIND_SERVICE", "AUDIT_WRITE"),
)
LARGE = 500_000  # bytes of all tars: more does not go through the API of an engine that stands for many hosts
LOOK_CLOSER = 30.0  # seconds; see ContainerRuntime.list


class RuntimeFault(Exception):
    """The engine could not do what it was asked to.

    ``permanent``: the same request would fail in the same way (a wrong image name), so trying again does not help.
    ``reason`` is the class of the fault for the exit table; ``sentence`` is for the user. ``late``: the engine was
    asked and has not answered in time, so it may only be busy.
    """

    def __init__(self, sentence: str, *, reason: FaultReason, permanent: bool = False, late: bool = False) -> None:
        super().__init__(sentence)
        self.late = late
        self.sentence = sentence
        self.reason = reason
        self.permanent = permanent


class FaultReason(StrEnum):
    UNREACHABLE = "unreachable"  # the engine does not answer; it may have done what was asked
    IMAGE_MISSING = "image_missing"  # repository or tag does not exist
    IMAGE_DENIED = "image_denied"  # the registry wants (other) credentials
    IMAGE_NAME = "image_name"  # not a valid image reference
    REGISTRY_UNREACHABLE = "registry_unreachable"
    REGISTRY_UNKNOWN = "registry_unknown"  # nor has any node an image of it: perhaps there is none of that name
    PULL_FAILED = "pull_failed"  # anything else while pulling
    PORT_TAKEN = "port_taken"  # something outside Longshore listens on a port of the request
    GPU_MISSING = "gpu_missing"  # the engine cannot hand out the GPUs
    GPU_DRIVER = "gpu_driver"  # the image wants a newer driver than the node has
    COMMAND_MISSING = "command_missing"  # the image has no shell to run the command with
    NODE_BROKEN = "node_broken"  # the node itself lacks what any start needs: room on its disk, a program of Docker
    REFUSED = "refused"  # any other refusal of create or start
    GONE = "gone"  # the container does not exist
    WITHDRAWN = "withdrawn"  # the caller's guard was false: not an error of the engine


def gone(name: str) -> RuntimeFault:
    return RuntimeFault(f"There is no container {name}.", reason=FaultReason.GONE, permanent=True)


def stranger(name: str) -> RuntimeFault:
    return RuntimeFault(
        f"A container named {name} that Longshore did not make is in the way.", reason=FaultReason.REFUSED
    )


def guard(still_wanted: Callable[[], bool]) -> None:
    """Raises WITHDRAWN when ``still_wanted`` (the guard of ``ensure``) is false."""
    if not still_wanted():
        raise RuntimeFault("The start was withdrawn.", reason=FaultReason.WITHDRAWN)


class Phase(StrEnum):
    CREATED = "created"  # its process never ran; also while it is removed after a refused start
    RUNNING = "running"
    EXITED = "exited"  # its process ran and has ended, with an exit code


@dataclass(frozen=True, slots=True)
class File:
    """One file that is in the container before its process starts; ``path`` is absolute.

    ``handed``: only the process that starts needs it, the image has /bin/sh, and its folder has no other files. Then
    the container may write the file itself, into memory, which takes half the time. No secrets: everybody who may look
    into the container's environment can read it.

    ``secret``: as ``handed``, but it is stored nowhere else. The file is 0600 of the user that the container runs as,
    and has some 50 kB at most.
    """

    path: str
    content: bytes
    mode: int = 0o644
    handed: bool = False
    secret: bool = False


@dataclass(frozen=True, slots=True)
class ContainerRequest:
    """Everything needed to make one container. Sizes are in MB (2**20 bytes), CPU in cores."""

    name: str
    image: str
    argv: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    grace: int = 0  # seconds that it asks for to end in, for an engine on which others may end it
    files: tuple[File, ...] = ()
    hold_file: str = ""  # for debugging: ``held`` while this file, with an exit code, exists. Needs LABEL_HOLD
    tars: tuple[Path, ...] = ()  # on this host's disk; unpacked at / before its process starts
    addresses: tuple[str, ...] = ()  # signed, of the same tars, for an engine that cannot be handed what is LARGE
    cpus: float = 1.0
    memory_mb: int = 100
    shm_mb: int = 64
    pids_limit: int = 4096
    disk_mb: int = 0  # that it may write, its code included, where the engine can limit it; 0: all there is
    gpu_ids: tuple[str, ...] = ()
    host: str = ""  # where it shall run, as an engine with several hosts calls it
    network: Literal["host", "bridge"] = "host"
    ports: tuple[int, ...] = ()  # published with equal numbers when network is bridge
    security: Literal["default", "pai"] = "default"  # v1 contract, 5.4
    rdma: bool = False  # the node's InfiniBand: v1 contract, 5.9
    pull: Literal["absent", "always"] = "absent"
    auth: tuple[str, str] | None = None  # registry user and password, used for this pull only

    @property
    def capabilities(self) -> list[str]:
        """v1 contract, 5.4: users of the profile ``pai`` mount file systems from their command, and debuggers work
        where somebody is to look around."""
        debugging = ["SYS_PTRACE"] if self.hold_file else []
        mounting = ["SYS_ADMIN", "DAC_READ_SEARCH"] if self.security == "pai" else []
        return [*CAPABILITIES, *debugging, *(["IPC_LOCK"] if self.rdma else []), *mounting]


@dataclass(frozen=True, slots=True)
class ContainerStatus:
    """One container as the engine reports it. ``exit_code`` is the command's own; None while it runs, and where nobody
    knows it. ``oom_killed`` alone is not a failure: a child may have been killed while the job went on to end with 0
    (measured on Docker 20.10)."""

    id: str
    name: str
    phase: Phase
    labels: Mapping[str, str]
    exit_code: int | None = None
    lost: bool = False  # it ended with its host
    evicted: str = ""  # why its host put an end to it, in the host's words
    node: str = ""  # where it is, of an engine that stands for several nodes
    oom_killed: bool = False
    error: str = ""
    started_at: datetime | None = None
    finished_at: datetime | None = None
    port_taken: bool = False  # its command did not run, as something else listens on a port of the task
    paused: bool = False  # somebody has frozen what runs in it
    by_itself: bool = False  # its command ended with this code; nobody outside has ended the container
    held: bool = False  # its command has failed, and it goes on for somebody to look at it
    held_code: int | None = None  # with this code, if that is known


def read_script(status: ContainerStatus, written: str | None, *, told_inside: bool = False) -> ContainerStatus:
    """The status of an ended container with what its start script says of the end. ``written``: what is in EXIT_FILE,
    None without one. It is believed where an engine lost the container, and where one that died says 0 of it.
    ``told_inside``: TERM came from a process of the container, as by ``kill 0``, so its end is its own."""
    code, _, more = (written or "").partition(" ")
    own, was_told = int(code) if code.isdigit() else None, more == "told"
    if status.exit_code == TOLD_TO_END and (was_told or own != TOLD_TO_END):
        return replace(status, exit_code=(own or 0) if told_inside else TERMINATED)
    if status.exit_code == KILLED_FOR_MEMORY and own != KILLED_FOR_MEMORY:
        return replace(status, exit_code=137, oom_killed=True)
    if status.exit_code == FOUND_PORT_TAKEN and own != FOUND_PORT_TAKEN:
        return replace(status, port_taken=True)
    if status.exit_code in OWN_CODES and own != status.exit_code:
        return replace(status, exit_code=OWN_CODES[status.exit_code], by_itself=True)
    if own is not None and (status.lost or status.exit_code == 0):
        return replace(status, exit_code=TERMINATED if was_told else own, lost=False)
    if written is not None and own is None and status.exit_code == 0:
        return replace(status, exit_code=None, lost=True)
    return status


@dataclass(frozen=True, slots=True)
class EngineInfo:
    """What the engine says of its host. ``swarm_worker`` and ``kubelet`` make it unfit as a node."""

    engine_id: str
    hostname: str
    version: str
    cpus: int
    memory_mb: int
    swarm_worker: bool = False
    kubelet: bool = False


# Times the seconds after which a silent node is lost: so long may the API of a cluster be away, and an engine be too
# busy to answer on a host that takes connections.
AWAY, SLOW = 10, 5


@dataclass(frozen=True, slots=True)
class Look:
    """What the engine of a node said. A look that failed has the containers of the last one that did not. Times are
    those of ``base.core.clock.monotonic_now``."""

    node: str  # of an engine with several nodes one of them, until ``of``
    at: datetime  # right before the list was asked for: later changes may not be in it
    reachable: bool
    containers: Mapping[str, ContainerStatus] = field(default_factory=dict)  # by name
    since: datetime | None = None  # when it stopped answering
    reason: str = ""
    info: EngineInfo | None = None  # of the first look after it began to answer
    answers_since: datetime | None = None  # when it began to answer again, if it was seen not to
    away: bool = False  # an engine with several nodes does not answer: nothing is known of the nodes themselves
    slow: bool = False  # it does not answer in time, and its host takes connections
    silent: bool = False  # it answers, and does not hear of this node: the containers are those that it knows of
    heard_at: datetime | None = None  # when it last did what it was ordered to, though its list was not answered

    def of(self, node: str) -> Look:
        """The part of the Look that is about one node of the engine."""
        if node == self.node and not any(status.node for status in self.containers.values()):
            return self
        here = {name: status for name, status in self.containers.items() if status.node in ("", node)}
        return replace(self, node=node, containers=here)

    def lost_at(self, lost_after: float) -> datetime:
        """When a node that does not answer counts as lost, which is ``lost_after`` seconds after it fell silent. The
        tasks of a cluster run on without its API, and those of a busy engine too: they are given longer."""
        seconds = lost_after * (AWAY if self.away else SLOW if self.slow else 1)
        since = self.since or self.at
        return max(since, self.heard_at or since) + timedelta(seconds=seconds)


@dataclass(frozen=True, slots=True)
class DiskUse:
    """Bytes on an engine's disk: of all that holds its data, or of images and containers alone, where nobody knows how
    large the disk is."""

    used: int
    total: int | None = None


@dataclass(frozen=True, slots=True)
class LogChunk:
    """A piece of one stream's log, in order. ``at`` is the engine's stamp (RFC 3339 with nanoseconds) of its first
    byte; lines with later stamps may follow in it, those with earlier stamps begin a chunk of their own. All parts of a
    line longer than 16 KiB have one stamp, so a place in a log is a stamp and the number of bytes read since the first
    byte with that stamp. ``beheaded``: the engine has thrown away what was written before this chunk. ``times``: the
    stamp, in nanoseconds, of each line that is in ``data``, whole or in part; empty when all have the chunk's."""

    at: str
    data: bytes
    beheaded: bool = False
    times: Sequence[int] = ()


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a pull is; bytes over all layers known so far."""

    done: int
    total: int
    text: str


def telling(note: str, and_then: str = "") -> list[str]:
    """A program for a container, which writes the note, unless one is there already, and ends with HAS_SAVED if the
    container has saved since. (Many a shell compares whole seconds, so what saved in the same one counts.)
    ``and_then``: shell commands in between."""
    writing = f"[ -s {TOLD_FILE} ] || (umask 022; printf %s {shlex.quote(note)} >{TOLD_FILE})"
    lines = [writing, and_then, f"[ ! -e {SAVED_FILE} ] || [ {TOLD_FILE} -nt {SAVED_FILE} ] || exit {HAS_SAVED}"]
    return ["/bin/sh", "-c", "\n".join(filter(None, lines))]


class ContainerRuntime(Protocol):
    """One engine. Every method may be called from several threads and raises only ``RuntimeFault``."""

    def info(self) -> EngineInfo: ...

    def list(self, *, doubted: bool = False) -> list[ContainerStatus]:
        """Return every container with LABEL_TASK, running or not. An engine may miss the end of a container (its disk
        is full). Then the end is noticed LOOK_CLOSER seconds later, or by the next list with ``doubted``. A fault that
        is ``late`` says besides that the host still takes connections."""

    def ensure(
        self,
        request: ContainerRequest,
        *,
        on_progress: Callable[[Progress], None] = lambda _: None,
        still_wanted: Callable[[], bool] = lambda: True,
    ) -> ContainerStatus:
        """Pull if absent, create, put files, start. A container of that name is adopted: one that was created is
        started, one that runs or has ended is returned as it is (what has ended is never started again).
        ``still_wanted`` is asked right before create (after the pull) and right before start; False raises WITHDRAWN.
        When start is refused, the created container is removed before the error is raised."""

    def tell(self, name: str, signal: str, note: str) -> bool:
        """Tell what runs in a container that it will be ended: write ``note`` into TOLD_FILE, unless one is there
        already, and send the signal ("SIGTERM"; "": none). It does not wait for the end. Returns whether the container
        has touched SAVED_FILE since it was told; False also for one that is gone or does not run. Where the files
        cannot be used the signal is sent all the same."""

    def stop(self, name: str, grace: int) -> None:
        """TERM, then KILL after ``grace`` seconds. Succeeds also when it is gone or does not run."""

    def remove(self, name: str, id: str = "") -> None:
        """Remove it with its anonymous volumes, by force. Succeeds also when it is gone. ``id``: what ``ensure`` said
        of it, where that is known; an engine need not be asked then whether it is one of Longshore's."""

    def logs(self, name: str, stream: Stream, *, since: str = "", follow: bool = False) -> Iterator[LogChunk]:
        """The stream's log from the chunk stamped ``since`` on (inclusive). With ``follow`` it ends when the container
        does. Chunks have at most 64 KiB. Where the engine cannot read on, REFUSED is raised. Engines may give a part of
        a followed log twice when they rotate it; then stamps go back, as they do when the node's clock is set back.
        Close the iterator to give the connection back."""

    def wait_event(self, timeout: float, wake: Callable[[], None], images: Callable[[], None] = lambda: None) -> bool:
        """Watch the engine's events for at most ``timeout`` seconds, and call ``wake`` at each about a Longshore
        container, ``images`` where it has got or lost an image, if it tells of them. True when the window ended in
        order, False when the engine ended the stream."""


class Engine(ContainerRuntime, Attachable, Protocol):
    """What a scheme of clusters.engines.schemes connects to: beside the eight operations it has images and the room
    that they take, short logs, ways to ports, and terminals."""

    def import_image(self, image: str, tar: IO[bytes], changes: tuple[str, ...]) -> None: ...

    def image_names(self) -> frozenset[str]:
        """The names of all images, as in clusters.engines.image_names."""

    def short_logs(self, name: str) -> Mapping[Stream, Sequence[LogChunk]] | None:
        """The whole log of a container that has ended, by one question. None where ``logs`` has to be asked for each
        stream: it is long, or this engine does not give both at once, or not to the end."""

    def disk_use(self) -> DiskUse:
        """The DiskUse of the engine. It may take long, as the engine adds up files."""

    def keep(self, name: str, image: str, most: int) -> int:
        """Make an image of a container that has ended: its files and its environment; returns the bytes that the
        container has written. Raises RuntimeFault: REFUSED when these are more than ``most``, GONE."""

    def drop_image(self, image: str) -> None:
        """Remove the image. Succeeds also when it is gone, or when a container uses it: then only its name goes."""

    def dial(self, address: str, port: int, container: str = "") -> socket:
        """A connection to a TCP port of the host, whose ``address`` this is. Over SSH it is a channel of the connection
        on which the engine is reached; of another engine whose ports are shut to us it goes through the engine and
        ``container``, which has the port. So nothing else of the host need be open. Raises RuntimeFault: REFUSED when
        nothing listens on the port, UNREACHABLE when the host does not answer."""

    def given_gpus(self, name: str) -> tuple[str, ...]:
        """The ids of the GPUs that a running container was given; empty where the container has those that it was asked
        for by id, and where nobody knows."""
