"""Writes a ContainerRequest in Docker's words, and sends what no engine may keep: its secrets."""

from __future__ import annotations

import io
import re
import shlex
import tarfile
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from docker import APIClient
from docker.types import DeviceRequest, LogConfig, Mount, Ulimit

from clusters.engines.docker.connect import SLOW, ask
from clusters.engines.docker.errors import translated
from clusters.engines.runtime import LABEL_HOLD, LOG_MARK, NOTICE_FOLDER, ContainerRequest, File, Progress

EVERY = 1.0  # seconds between two reports of progress
CPU_PERIOD = 100_000  # microseconds
# A quota, not NanoCpus: the engine refuses NanoCpus above its own count of cores, a quota it does not.
# Large files: while one is followed and rotated, Docker 20.10 may give all of it once more (seen once in many runs).
LOG = LogConfig(type="json-file", config={"max-size": "128m", "max-file": "4"})
FUSE = "/dev/fuse"
INFINIBAND = "/dev/infiniband"  # a folder: all that is in it
AZURE = ("/var/lib/hyperv", "/etc/dat.conf")  # where programs find out how to use it
SPOOL = 8 << 20
# Files that the container writes itself reach it as variables, of which none may have more than 128 kB on Linux.
HANDED = "LONGSHORE_FILE_"
MOST_HANDED = 120_000
ALL_SENT = "."
# As of a container that was lost with its host (status.LOST_WITH_HOST): a start whose secrets did not arrive whole is
# tried again like that one.
NOT_ARRIVED = 255
LABEL_MARK = "longshore.log"
_UNPRINTABLE = re.compile(rb"[^ -\[\]-~]")  # and the backslash
UPGRADE = {"Connection": "Upgrade", "Upgrade": "tcp"}
HOLD_CHECK = 5  # seconds between two looks for the hold file


def create_arguments(api: APIClient, request: ContainerRequest, *, fuse: bool) -> dict[str, Any]:
    """Keyword arguments of ``APIClient.create_container``. ``fuse``: give /dev/fuse to a ``pai`` container."""
    bridge = request.network == "bridge"
    handed = handed_files(request)
    secrets = [file.path for file in secrets_of(request)]
    return {
        "image": request.image,
        "name": request.name,
        "entrypoint": [],  # an empty list, not None: the image's own is cleared
        "command": [*_writing(handed, secrets), *request.argv],
        "stdin_open": bool(secrets),
        "stop_signal": "SIGTERM",  # what programs are promised, whatever the image says
        "environment": {**request.env, **{f"{HANDED}{at}": text for at, (_, text) in enumerate(handed)}},
        "labels": _labels(request, marked=bool(handed or secrets)),
        "healthcheck": _held_check(request.hold_file) if request.hold_file else {"test": ["NONE"]},
        "ports": [(port, "tcp") for port in request.ports] if bridge else None,
        "host_config": api.create_host_config(
            init=True,  # reaps zombies, which count into the pids limit, and makes TERM work for any program
            cpu_period=CPU_PERIOD,
            cpu_quota=max(1000, round(request.cpus * CPU_PERIOD)),
            mem_limit=request.memory_mb << 20,
            memswap_limit=request.memory_mb << 20,
            shm_size=request.shm_mb << 20,
            oom_score_adj=1000,  # a node short of memory ends a job before its own services (v1 contract, 5.4)
            tmpfs=dict.fromkeys(_memory_folders([*dict(handed), *secrets]), "mode=1777,size=1m"),
            pids_limit=request.pids_limit,
            device_requests=_gpus(request),
            log_config=LOG,
            network_mode=request.network,
            port_bindings={f"{port}/tcp": port for port in request.ports} if bridge else None,
            **_security(request, fuse),
        ),
    }


def _memory_folders(paths: Iterable[str]) -> list[str]:
    """The folders of files that the container writes at its start, and that of its notice."""
    return [NOTICE_FOLDER, *(path.rpartition("/")[0] for path in paths)]


def _labels(request: ContainerRequest, *, marked: bool) -> dict[str, str]:
    """Images may have labels, also with our names, and health checks: they are overridden."""
    return {LABEL_HOLD: "", **request.labels, LABEL_MARK: "marked" if marked else ""}


def handed_files(request: ContainerRequest) -> list[tuple[str, str]]:
    """(path, text) of the files that the container writes itself; all of them or none. An engine unpacks an archive in
    a process of its own, which takes as long as starting the container."""
    files = [file for file in request.files if file.handed]
    try:
        texts = [(file.path, file.content.decode()) for file in files]
    except UnicodeDecodeError:
        return []
    fit = all(len(file.content) <= MOST_HANDED and b"\0" not in file.content for file in files)
    return texts if fit else []


def archived_files(request: ContainerRequest) -> list[File]:
    """The files that are put into the container: neither written by it nor secret."""
    handed = dict(handed_files(request))
    return [file for file in request.files if file.path not in handed and not file.secret]


def secrets_of(request: ContainerRequest) -> list[File]:
    """The files that are sent to the container when it starts."""
    return [file for file in request.files if file.secret]


def secret_lines(secrets: Iterable[File]) -> bytes:
    """One line for each secret, which printf unfolds, and one that says that there are no more."""
    return b"".join(_folded(file.content) + b"\n" for file in secrets) + f"{ALL_SENT}\n".encode()


@contextmanager
def secrets_sent(api: APIClient, endpoint: str, request: ContainerRequest) -> Iterator[None]:
    """The start in the block gets its secrets over the container's standard input. No engine stores what passes there,
    so neither ``docker inspect``, nor an environment, nor the node's disk has them afterwards.

    The shell that stands before the container's own command reads them, and leaves the command an empty standard input.
    They are sent right before the start, and the engine holds them back until then, so no container waits for them.
    When a created container is adopted they are sent again: its shell reads them once."""
    if not (secrets := secrets_of(request)):
        yield
        return
    with translated(endpoint, "start"):
        path, streams = f"/containers/{request.name}/attach", {"stdin": 1, "stream": 1}
        response = ask(api, path, streams, method="post", headers=UPGRADE, stream=True, timeout=SLOW)
    with response:
        with translated(endpoint, "start"):
            _socket(api, response).sendall(secret_lines(secrets))
        yield


def archive(files: Iterable[File]) -> IO[bytes]:
    """A tar of the files, to unpack at /. Folders have no entry of their own, so those of the image keep their mode.
    A file object, never bytes: paramiko sends bytes in quadratic time."""
    files = tuple(files)
    large = sum(len(file.content) for file in files) > SPOOL
    spool: IO[bytes] = tempfile.TemporaryFile() if large else io.BytesIO()
    with tarfile.open(fileobj=spool, mode="w") as tar:
        for file in files:
            entry = tarfile.TarInfo(file.path.lstrip("/"))
            entry.size, entry.mode = len(file.content), file.mode
            tar.addfile(entry, io.BytesIO(file.content))
    spool.seek(0)
    return spool


class TarUpload(io.FileIO):
    """A tar of this machine's disk on its way into a container, never in memory as a whole. ``on_progress`` is called
    as the engine takes it; what it raises ends the transfer."""

    def __init__(self, path: Path, on_progress: Callable[[Progress], None]) -> None:
        super().__init__(path)
        self._on_progress = on_progress
        self._size, self._reported_at = path.stat().st_size, time.monotonic()

    def read(self, size: int | None = -1, /) -> bytes:
        if time.monotonic() - self._reported_at >= EVERY:
            self._reported_at, done = time.monotonic(), self.tell()
            text = f"copying files into the container: {done / 1e6:.0f} of {self._size / 1e6:.0f} MB"
            self._on_progress(Progress(done, self._size, text))
        return super().read(size)


def _writing(handed: Sequence[tuple[str, str]], secrets: Sequence[str]) -> list[str]:
    """What comes before the container's own arguments: a shell that marks the beginning of the log, writes the files,
    forgets them and becomes the command."""
    if not (handed or secrets):
        return []
    names = [f"{HANDED}{at}" for at in range(len(handed))]
    lines = [f"echo '{LOG_MARK}'", f"echo '{LOG_MARK}' >&2"]
    lines += [f'printf %s "${name}" >{shlex.quote(path)}' for name, (path, _) in zip(names, handed, strict=True)]
    lines += [f"unset {' '.join(names)}"] if names else []
    lines += [_reading(secrets)] if secrets else []
    return ["/bin/sh", "-c", "\n".join([*lines, 'exec "$@" </dev/null']), "start"]


def _reading(paths: Iterable[str]) -> str:
    """Shell commands that write ``secret_lines`` to these paths, readable by their own user alone. They need no program
    besides sh."""
    steps = [f'IFS= read -r line && printf %b "$line" >{shlex.quote(path)}' for path in paths]
    steps.append(f'IFS= read -r line && [ "$line" = {ALL_SENT} ]')
    return f"(umask 077; {' && '.join(steps)}) || exit {NOT_ARRIVED}"


def _folded(content: bytes) -> bytes:
    """Any bytes as one line of printable ASCII, as printf's %b reads it."""
    return _UNPRINTABLE.sub(lambda found: b"\\0%03o" % ord(found[0]), content)


def _held_check(path: str) -> dict[str, Any]:
    """The engine's own health check reports the hold, as an event and in its list: nobody has to look inside. It prints
    the code that the command ended with."""
    file = shlex.quote(path)
    return {
        "test": ["CMD", "/bin/sh", "-c", f"[ -e {file} ] || exit 0; read -r code <{file}; echo $code; exit 1"],
        "interval": HOLD_CHECK * 10**9,
        "timeout": 30 * 10**9,
        "retries": 1,
    }


def _gpus(request: ContainerRequest) -> list[DeviceRequest] | None:
    # By id: a count always means the first ones, and the engine reserves none.
    return [DeviceRequest(device_ids=list(request.gpu_ids), capabilities=[["gpu"]])] if request.gpu_ids else None


def _security(request: ContainerRequest, fuse: bool) -> dict[str, Any]:
    """Only where somebody is to look around is seccomp off: a job cannot weaken the default profile so far."""
    mounting = request.security == "pai"
    devices = [*([FUSE] if mounting and fuse else []), *([INFINIBAND] if request.rdma else [])]
    less = ["apparmor=unconfined", *(["seccomp=unconfined"] if request.hold_file else [])]
    return {
        "cap_drop": ["ALL"],
        "cap_add": request.capabilities,
        "security_opt": less if mounting else ["no-new-privileges"],
        "devices": [f"{device}:{device}:rwm" for device in devices] or None,
        "ulimits": [Ulimit(name="memlock", soft=-1, hard=-1)] if request.rdma else None,
        "mounts": [Mount(path, path, "bind", read_only=True) for path in AZURE] if request.rdma else None,
    }


def _socket(api: APIClient, response: Any) -> Any:
    """The socket of a connection that the engine has turned into a stream of bytes."""
    stream = api._get_raw_response_socket(response)  # knows where each transport has it
    return getattr(stream, "_sock", stream)
