"""Hosts that run a portal each, on one PostgreSQL: namespaces with an address, processes, a /tmp and a LONGSHORE_HOME
of their own, on the bridge of a bed of Docker nodes.

All have the same LONGSHORE_HOME by name and the same host name, as clones of one machine do; what they share is what
their settings say, and the folder ``shared``.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import httpx

from tests.bed.docker_bed import Bed
from tests.helpers import until
from tests.limits import LIMIT

ROOT = Path(__file__).resolve().parents[2]
HOME, SHARED, PORT = "/media/home", "/media/shared", 9186
DISK = "64m"  # of each host, for its LONGSHORE_HOME
KEYS = {"LONGSHORE_SECRET_KEY": "s" * 40, "LONGSHORE_TOKEN_KEY": "t" * 40}  # the same on all hosts
_UNSHARE = ("unshare", "--mount", "--pid", "--uts", "--ipc", "--fork", "--kill-child", "--mount-proc", "--")


class PortalHost:
    """One of them. ``folder`` has, seen from outside, its home and its output."""

    def __init__(self, bed: Bed, number: int, around: Path, settings: Mapping[str, str]) -> None:
        self.bed, self.number, self.around = bed, number, around
        self.name = f"host{number}"
        self.address = f"{bed.network}.{100 + number}"
        self.url = f"http://{self.address}:{PORT}"
        self.folder = around / self.name
        self.home, self.output = self.folder / "home", self.folder / "output.txt"
        self.settings = {
            "LONGSHORE_HOME": HOME,
            "LONGSHORE_BIND": f"{self.address}:{PORT}",
            "LONGSHORE_APPS_BIND": "none",
            "DOCKER_HOST": "none",
            **settings,
        }
        self.http = httpx.Client(base_url=f"{self.url}/api/v1", timeout=LIMIT)
        self.process: subprocess.Popen[bytes] | None = None
        self._net = f"{bed.bridge}-h{number}"
        if has_clocks():
            self.settings |= {"CLOCK_FILE": f"{HOME}/clock"}
        self.home.mkdir(parents=True)
        _run("mount", "-t", "tmpfs", "-o", f"size={DISK},mode=0700", "none", str(self.home))
        for folder in (self.home / "store", self.folder / "tmp", around / "shared" / "store"):
            folder.mkdir(parents=True, exist_ok=True)
        self.set_clock(0)
        self._wire()

    # --- life --------------------------------------------------------------------------------------------------------

    def start(self, **more: str) -> None:
        """Turn it on: ``manage.py up``. Returns at once."""
        clock = f"env LD_PRELOAD={SHARED}/clock.so" if has_clocks() else ""
        inside = [
            "mount -t tmpfs none /media",
            f"mkdir -p {HOME} {SHARED}",
            f"mount --bind {self.home} {HOME}",
            f"mount --bind {self.around}/shared {SHARED}",
            f"mount --bind {self.around}/shared/store {HOME}/store",
            *([f"mount --bind {self.folder}/tmp /tmp"] if not _needs_tmp() else []),
            "hostname portal",
            "ip link set lo up",
            f"exec {clock} {sys.executable} {ROOT}/manage.py up",
        ]
        with self.output.open("ab") as output:
            self.process = subprocess.Popen(
                [*self._enter(), *_UNSHARE, "sh", "-ec", "; ".join(inside)],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env=self._environment(more),
                cwd="/",
                start_new_session=True,
            )

    def wait_ready(self) -> None:
        until(lambda: "is ready: http" in self.text() or self.has_ended(), 90, 0.2, f"{self.name} is ready")
        assert not self.has_ended(), self.text()

    def has_ended(self) -> bool:
        return self.process is None or self.process.poll() is not None

    def text(self) -> str:
        return self.output.read_text() if self.output.exists() else ""

    def power_off(self) -> None:
        """Every process dies at once, and nothing is said to anybody: not one packet leaves any more."""
        self.unplug()
        self.kill()

    def kill(self) -> None:
        """SIGKILL of all its processes; its kernel ends their connections."""
        if self.process is not None:
            self.process.kill()  # unshare; the first process of the namespace dies with it, and so do all others
            self.process.wait(LIMIT)
            self.process = None

    def freeze(self) -> None:
        for pid in self.processes():
            _signal(pid, signal.SIGSTOP)

    def thaw(self) -> None:
        for pid in self.processes():
            _signal(pid, signal.SIGCONT)

    def close(self) -> None:
        self.http.close()
        self.thaw()
        self.kill()
        subprocess.run(["ip", "link", "del", self._veth], capture_output=True, check=False)
        subprocess.run(["ip", "netns", "del", self._net], capture_output=True, check=False)
        subprocess.run(["umount", "-l", str(self.home)], capture_output=True, check=False)

    def fill_disk(self) -> None:
        """Its LONGSHORE_HOME has not one byte left."""
        with contextlib.suppress(OSError), (self.home / "ballast").open("ab", buffering=0) as file:
            while True:
                file.write(bytes(4096))

    def make_room(self) -> None:
        (self.home / "ballast").unlink()

    def set_clock(self, seconds: int) -> None:
        """Its time of day is so many seconds ahead from now on, for new hosts as for processes that run."""
        with open(os.open(self.home / "clock", os.O_WRONLY | os.O_CREAT, 0o600), "wb") as file:
            file.write(seconds.to_bytes(8, sys.byteorder, signed=True))

    # --- its network -------------------------------------------------------------------------------------------------

    def unplug(self) -> None:
        _run("ip", "link", "set", self._veth, "down")

    def plug(self) -> None:
        _run("ip", "link", "set", self._veth, "up")

    def cut(self, *addresses: str) -> None:
        """Nothing passes between it and these addresses."""
        for address in addresses:
            for chain, flag in (("OUTPUT", "-d"), ("INPUT", "-s")):
                _run(*self._enter(), "iptables", "-w", "-A", chain, flag, address, "-j", "DROP")

    def heal(self) -> None:
        _run(*self._enter(), "iptables", "-w", "-F")

    # --- its processes and its client --------------------------------------------------------------------------------

    def processes(self) -> dict[int, str]:
        """Command lines by process id, as seen from outside."""
        if self.has_ended():
            return {}
        assert self.process is not None
        below = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        if not below:
            return {}
        inside = _namespace(below[0])
        pids = [each.name for each in Path("/proc").iterdir() if each.name.isdigit()]
        mine = [pid for pid in pids if inside and _namespace(pid) == inside]
        return {int(pid): line for pid in mine if (line := _line(pid))}

    def running(self, who: str) -> list[int]:
        return sorted(pid for pid, line in self.processes().items() if who in line)

    def sign_in(self, password: str) -> None:
        answer = self.http.post("/token", json={"username": "admin", "password": password})
        self.http.headers["Authorization"] = f"Bearer {answer.json()['token']}"

    def health(self) -> dict[str, Any]:
        found: dict[str, Any] = httpx.get(f"{self.url}/healthz", timeout=LIMIT).json()
        return found

    # --- helpers -----------------------------------------------------------------------------------------------------

    @property
    def _veth(self) -> str:
        return f"{self.bed.bridge}-w{self.number}"

    def _wire(self) -> None:
        _run("ip", "netns", "add", self._net)
        _run("ip", "link", "add", self._veth, "type", "veth", "peer", "name", "eth0", "netns", self._net)
        _run("ip", "link", "set", self._veth, "master", self.bed.bridge)
        _run("ip", "link", "set", self._veth, "up")
        for line in ("link set lo up", f"addr add {self.address}/24 dev eth0", "link set eth0 up"):
            _run("ip", "-n", self._net, *line.split())

    def _enter(self) -> list[str]:
        return ["nsenter", f"--net=/run/netns/{self._net}", "--"]

    def _environment(self, more: Mapping[str, str]) -> dict[str, str]:
        foreign = ("LONGSHORE_", "DJANGO_", "DATABASE_URL")
        kept = {name: value for name, value in os.environ.items() if not name.startswith(foreign)}
        return {**kept, "PYTHONPATH": str(ROOT), **self.settings, **more}


class PortalHosts:
    """A number of hosts on the bridge of the bed, and their shared folder."""

    def __init__(self, bed: Bed, number: int, **settings: str) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="ls-hosts-"))
        (self.folder / "shared").mkdir()
        if has_clocks():
            source, library = Path(__file__).with_name("clock.c"), self.folder / "shared" / "clock.so"
            _run("cc", "-shared", "-fPIC", "-O2", "-o", str(library), str(source))
        shared = {"LONGSHORE_METRICS": f"{SHARED}/metrics", **KEYS}
        self.all = [PortalHost(bed, at + 1, self.folder, {**shared, **settings}) for at in range(number)]

    def start(self) -> None:
        """All at once, as after a power cut."""
        for host in self.all:
            host.start()
        for host in self.all:
            host.wait_ready()
        for host in self.all:
            host.sign_in(self.password)

    @property
    def password(self) -> str:
        """Of admin, as the host that began first has written it down."""
        (password,) = [path.read_text().strip() for path in self.folder.glob("**/secrets/admin-password")]
        return password

    def close(self) -> None:
        for host in self.all:
            host.close()
        shutil.rmtree(self.folder, ignore_errors=True)


def has_clocks() -> bool:
    """Whether the clocks of hosts can be set: that takes a C compiler."""
    return shutil.which("cc") is not None


def _needs_tmp() -> bool:
    """Whether the tree or its Python are in /tmp, where a host has a folder of its own else."""
    return any(str(path).startswith("/tmp/") for path in (ROOT, Path(sys.executable).resolve()))


def _namespace(pid: str) -> str:
    with contextlib.suppress(OSError):
        return os.readlink(f"/proc/{pid}/ns/pid")
    return ""


def _line(pid: str) -> str:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    return ""


def _signal(pid: int, which: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, which)


def _run(*command: str) -> None:
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=LIMIT)
    assert done.returncode == 0, f"{shlex.join(command)}: {done.stderr}"
