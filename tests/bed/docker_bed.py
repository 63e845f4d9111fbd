"""Real Docker hosts for tests, started by docker-bed.sh: each a bundle of namespaces with its own dockerd and sshd."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from tests.limits import LIMIT

SCRIPT = Path(__file__).with_name("docker-bed.sh")
PREFIX = "longshore-bed-"
PROGRAMS = ("dockerd", "containerd", "ip", "iptables", "nsenter", "unshare", "openssl", "ssh-keygen", "curl")


def missing() -> str:
    """Empty when this machine can run a bed, else why not."""
    if os.geteuid() != 0:
        return "a private Docker engine needs root"
    lacking = [program for program in PROGRAMS if not shutil.which(program)]
    if not (shutil.which("tini") or shutil.which("docker-init")):
        lacking.append("tini")
    return f"not installed: {', '.join(lacking)}" if lacking else ""


@dataclass(frozen=True)
class BedNode:
    """One Docker host. ``unix``, ``tls`` and ``ssh`` are its endpoints, the folders what the last two need."""

    bed: Bed
    number: int

    @property
    def name(self) -> str:
        return f"n{self.number}"

    @property
    def address(self) -> str:
        return f"{self.bed.network}.{10 + self.number}"

    @property
    def socket(self) -> Path:
        return self.bed.folder / "nodes" / self.name / "docker.sock"

    @property
    def unix(self) -> str:
        return f"unix://{self.socket}"

    @property
    def tls(self) -> str:
        return f"tcp://{self.address}:2376"

    @property
    def ssh(self) -> str:
        return f"ssh://root@{self.address}"

    @property
    def tls_dir(self) -> Path:
        return self.bed.folder / "tls" / "client"

    @property
    def ssh_dir(self) -> Path:
        return self.bed.folder / "home" / ".ssh"

    def fault(self, what: str) -> None:
        """cut, heal, kill-dockerd, stop-dockerd, start-dockerd, crash, boot, freeze, thaw, fill, drain:
        see docker-bed.sh."""
        self.bed.run(what, str(self.number))

    def run(self, *command: str) -> str:
        """The output of a command inside the host."""
        return self.bed.run("exec", str(self.number), *command)


class Bed:
    """A folder, a bridge and a subnet of its own, so that several sessions may run at once."""

    def __init__(self) -> None:
        bury_the_dead()
        pid = os.getpid()
        self.folder = Path(tempfile.mkdtemp(prefix=f"{PREFIX}{pid}-"))
        self.network = f"10.{100 + pid % 100}.{pid // 100 % 250}"
        self.bridge = f"ls{pid}"
        self._nodes = 0

    def up(self, nodes: int, **settings: str) -> list[BedNode]:
        """Nodes 1 to ``nodes``; those that run already stay. ``settings`` (BED_GPU="4") hold for the new ones."""
        if nodes > self._nodes:
            self.run("up", str(nodes), **settings)
            self._nodes = nodes
        return [BedNode(self, number) for number in range(1, nodes + 1)]

    def down(self) -> None:
        self.run("down", "--purge", "--now")
        shutil.rmtree(self.folder, ignore_errors=True)

    def run(self, *arguments: str, **settings: str) -> str:
        return _script(self.folder, self.network, self.bridge, *arguments, **settings)


def bury_the_dead() -> None:
    """Take down beds whose test session was killed before it could."""
    for folder in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        pid = int(folder.name.removeprefix(PREFIX).partition("-")[0])
        if not Path(f"/proc/{pid}").exists():
            network = f"10.{100 + pid % 100}.{pid // 100 % 250}"
            with contextlib.suppress(RuntimeError):  # another session does it at the same time
                _script(folder, network, f"ls{pid}", "down", "--purge", "--now")
            shutil.rmtree(folder, ignore_errors=True)


def _script(folder: Path, network: str, bridge: str, *arguments: str, **settings: str) -> str:
    own = {"BED_DIR": str(folder), "BED_NET": network, "BED_BR": bridge, "BED_TMPFS": "1"}
    done = subprocess.run(
        ["bash", str(SCRIPT), *arguments],
        env={**os.environ, **own, **settings},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=3 * LIMIT,  # the script's own limits come first, and say what they waited for
    )
    if done.returncode:
        raise RuntimeError(f"docker-bed.sh {' '.join(arguments)}: {done.stderr[-2000:]}")
    return done.stdout
