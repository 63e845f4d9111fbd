"""Who ran when: told by the tasks themselves over a connection that lives as long as their container.

The witness listens on the loopback address inside every node's network, so a cut cable hides nothing from it and no
engine is asked. A connection's end is the container's end, however it came.
"""

from __future__ import annotations

import ctypes
import os
import socket
import threading
import time
from contextlib import suppress
from dataclasses import dataclass, field

from tests.bed.docker_bed import BedNode

PORT = 7
_CLONE_NEWNET = 0x40000000
# ``tries``: in how many earlier attempts this task said another code than 0. ``leave``: says its code, and ends.
PREAMBLE = f"""
mkfifo /tmp/say /tmp/heard; nc 127.0.0.1 {PORT} < /tmp/say > /tmp/heard & exec 3> /tmp/say 4< /tmp/heard
gpus=$(cd /dev; echo nvidia[0-9]*)
echo "begin $APP_ID $PAI_JOB_NAME $PAI_TASK_ROLE_NAME-$PAI_TASK_INDEX $gpus" >&3
read -r _ tries <&4
leave() {{ echo "end $1" >&3; read -r _ <&4; echo "end $1"; exit $1; }}
echo begin
"""


@dataclass
class Run:
    """One life of one container. Times are of time.monotonic(); ``ended`` None: it runs. ``said``: its exit code."""

    node: str
    app: str
    job: str
    task: str
    gpus: tuple[str, ...]
    began: float
    ended: float | None = None
    said: int | None = None

    def overlaps(self, other: Run) -> bool:
        """Half a second is what the end of a connection may take to be seen."""
        first, second = sorted((self, other), key=lambda run: run.began)
        return first.ended is None or second.began < first.ended - 0.5

    def __str__(self) -> str:
        until = "now" if self.ended is None else f"{self.ended:.1f}"
        return f"{self.app} {self.task} on {self.node} from {self.began:.1f} to {until}, said {self.said}"


@dataclass
class Witness:
    runs: list[Run] = field(default_factory=list)
    _listening: list[socket.socket] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def watch(self, node: BedNode) -> None:
        made: list[socket.socket] = []
        thread = threading.Thread(target=lambda: made.append(_inside(f"{node.bed.bridge}-{node.name}")))
        thread.start()
        thread.join()
        self._listening += made
        threading.Thread(target=self._accept, args=(made[0], node.name), daemon=True).start()

    def close(self) -> None:
        for listening in self._listening:
            with suppress(OSError):
                listening.shutdown(socket.SHUT_RDWR)
            listening.close()

    def of(self, job: str) -> list[Run]:
        return [run for run in list(self.runs) if run.job == job]

    def _accept(self, listening: socket.socket, node: str) -> None:
        with suppress(OSError):
            while True:
                threading.Thread(target=self._hear, args=(listening.accept()[0], node), daemon=True).start()

    def _hear(self, connection: socket.socket, node: str) -> None:
        run = None
        with suppress(OSError), connection, connection.makefile("rw") as lines:
            for line in lines:
                word, *rest = line.split()
                if word == "begin":
                    run, answer = self._begin(node, rest)
                elif run is not None:
                    run.said, answer = int(rest[0]), "bye"
                lines.write(f"{answer}\n")
                lines.flush()
        if run is not None:
            run.ended = time.monotonic()

    def _begin(self, node: str, told: list[str]) -> tuple[Run, str]:
        app, job, task, *gpus = told
        run = Run(
            node, app, job.partition("~")[2], task, tuple(gpu for gpu in gpus if "[" not in gpu), time.monotonic()
        )
        with self._lock:
            failed = {one.app for one in self.of(run.job) if one.task == task and one.app != app and one.said}
            self.runs.append(run)
        return run, f"tries {len(failed)}"


def _inside(network: str) -> socket.socket:
    """A listening socket in another network namespace. It changes the namespace of the thread that calls."""
    libc = ctypes.CDLL(None, use_errno=True)
    with open(f"/run/netns/{network}") as handle:
        if libc.setns(handle.fileno(), _CLONE_NEWNET):
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), network)
    return socket.create_server(("127.0.0.1", PORT), backlog=100)
