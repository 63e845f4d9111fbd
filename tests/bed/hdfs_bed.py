"""A real HDFS for tests, one NameNode and one DataNode on loopback, started by hdfs-start.sh."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
from pathlib import Path

from tests.helpers import until
from tests.limits import LIMIT

SCRIPT = Path(__file__).with_name("hdfs-start.sh")
PREFIX = "longshore-hdfs-"
CACHE = Path.home() / ".cache" / "longshore" / "hdfs"  # as scripts/setup has it


def missing() -> str:
    """Empty when its parts are here (scripts/setup test fetches them), else why not."""
    return "" if list(CACHE.glob("lib-*/SHA256SUMS")) else "HDFS is not installed: scripts/setup test does it"


def client3_missing() -> str:
    """The same of Hadoop 3's client."""
    return "" if list(CACHE.glob("client-*/SHA256SUMS")) else "Hadoop 3's client is not installed: scripts/setup test"


class HdfsBed:
    """``url`` is the NameNode's, ``datanode`` the DataNode's HTTP address; ``user`` the superuser."""

    user = "hdfs"

    def __init__(self) -> None:
        bury_the_dead()
        self.folder = Path(tempfile.mkdtemp(prefix=f"{PREFIX}{os.getpid()}-"))
        try:
            self.start()
        except BaseException:
            self.close()
            raise

    def start(self) -> None:
        """Also after ``kill``: its files and ports are kept."""
        said = self._script("start")
        facts = dict(line.split("=", 1) for line in said.splitlines() if "=" in line)
        self.url, self.datanode = facts["WEBHDFS_URL"], facts["HDFS_DATANODE_URL"]
        self._pids = {"namenode": int(facts["HDFS_NAMENODE_PID"]), "datanode": int(facts["HDFS_DATANODE_PID"])}

    @property
    def store_url(self) -> str:
        return self.url.replace("http://", "webhdfs://")

    def kill(self) -> None:
        """Both servers, without a word."""
        for pid in self._pids.values():
            os.kill(pid, signal.SIGKILL)
        until(lambda: not any(_alive(pid) for pid in self._pids.values()), 10, what="HDFS is dead")
        self._script("stop")

    def freeze(self, server: str = "namenode") -> None:
        """It takes connections and says nothing."""
        os.kill(self._pids[server], signal.SIGSTOP)
        threads = Path(f"/proc/{self._pids[server]}/task")  # a busy machine stops them one after the other
        until(lambda: all("State:\tT" in (thread / "status").read_text() for thread in threads.iterdir()))

    def thaw(self, server: str = "namenode") -> None:
        os.kill(self._pids[server], signal.SIGCONT)

    def admin(self, *arguments: str) -> str:
        """``hdfs dfsadmin`` as the superuser."""
        return self._script("admin", *arguments)

    def fs(self, *arguments: str, user: str = "") -> str:
        """``hdfs dfs``, as the superuser if nobody else is named."""
        return self._script("fs", *arguments, user=user)

    def close(self) -> None:
        for pid in getattr(self, "_pids", {}).values():
            if _alive(pid):
                os.kill(pid, signal.SIGCONT)
        self._script("stop", check=False)
        shutil.rmtree(self.folder, ignore_errors=True)

    def _script(self, *arguments: str, check: bool = True, user: str = "") -> str:
        return _script(self.folder, *arguments, check=check, user=user or self.user)


def fs3(folder: Path, *arguments: str, user: str, check: bool = True) -> str:
    """Hadoop 3's ``hadoop fs`` with whole addresses; what it prints and, where it fails, says."""
    done = _run(folder, "fs3", *arguments, user=user)
    if check and done.returncode:
        raise RuntimeError(f"hadoop fs {' '.join(arguments)}: {done.stderr[-2000:]}")
    return done.stdout if check else f"{done.returncode}: {done.stdout}{done.stderr}"


def bury_the_dead() -> None:
    """End and delete those whose test session was killed before it could."""
    for folder in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        pid = folder.name.removeprefix(PREFIX).partition("-")[0]
        if pid.isdigit() and not Path("/proc", pid).exists():
            _script(folder, "stop", check=False)
            shutil.rmtree(folder, ignore_errors=True)


def _script(folder: Path, *arguments: str, check: bool = True, user: str = HdfsBed.user) -> str:
    done = _run(folder, *arguments, user=user)
    if check and done.returncode:
        raise RuntimeError(f"hdfs-start.sh {' '.join(arguments)}: {done.stderr[-2000:]}")
    return done.stdout


def _run(folder: Path, *arguments: str, user: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["bash", str(SCRIPT), str(CACHE), "--run-dir", str(folder), *arguments],
        env={"HDFS_WAIT_S": f"{2 * LIMIT:.0f}", **os.environ, "HDFS_SUPERUSER": user},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=3 * LIMIT,
    )


def _alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
