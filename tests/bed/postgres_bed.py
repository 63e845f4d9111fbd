"""A private PostgreSQL: its files in a folder of its own, reachable only through a socket in that folder.

``DATABASE_URL=postgres pytest tests/api`` runs tests on one (see tests/settings.py).
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import gettempdir, mkdtemp

from tests.limits import LIMIT

USER = "postgres"  # the server refuses to run as root
PREFIX = "longshore-postgres-"


def programs() -> Path | None:
    """The folder of initdb and postgres; Debian keeps them out of PATH."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    onpath = shutil.which("initdb")
    return found[-1].parent if found else Path(onpath).parent if onpath else None


def missing() -> str:
    """Empty when this machine can run one, else why not."""
    return "" if programs() else "postgresql is not installed"


class Postgres:
    """A fresh server. ``url`` is what DATABASE_URL takes; ``close`` ends and deletes it. ``listen``: an address of this
    machine where it listens as well, at ``port``, for everybody of that network; its URL is ``over_network``."""

    def __init__(self, listen: str = "", port: int = 5432) -> None:
        bury_the_dead()
        self.folder = Path(mkdtemp(prefix=f"{PREFIX}{os.getpid()}-"))
        self.url = f"postgres://{USER}@/{self.folder}/postgres"
        self.over_network = f"postgres://{USER}@{listen}:{port}/postgres"
        if os.geteuid() == 0:
            shutil.chown(self.folder, USER, USER)
        tools = programs()
        assert tools is not None
        self._tools = tools
        data = self.folder / "data"
        try:
            _run(tools / "initdb", "--pgdata", data, "--username", USER, "--auth", "trust", "--no-sync")
            with (data / "postgresql.conf").open("a") as file:
                file.write(f"listen_addresses='{listen}'\nport={port}\nmax_connections=300\n")
                file.write(f"unix_socket_directories='{self.folder}'\nfsync=off\n")
            if listen:
                with (data / "pg_hba.conf").open("a") as file:
                    file.write(f"host all all {listen}/24 trust\n")
            self._control("start")
        except BaseException:
            self.close()
            raise

    def database(self, name: str) -> str:
        """The address of a new database on it."""
        _run(self._tools / "createdb", "-h", self.folder, "-U", USER, name)
        return f"postgres://{USER}@/{self.folder}/{name}"

    def restart(self) -> None:
        """Every session is ended at once, and for a moment nobody answers."""
        self._control("restart", "-m", "fast")

    def end_sessions(self) -> None:
        """As an administrator, or a middle box that forgets connections, does."""
        ended = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE pid <> pg_backend_pid()"
        _run(self._tools / "psql", "-h", self.folder, "-U", USER, "-c", f"{ended} AND backend_type = 'client backend'")

    def execute(self, statement: str) -> None:
        _run(self._tools / "psql", "-h", self.folder, "-U", USER, "-c", statement)

    def freeze(self) -> None:
        """It takes connections and says nothing."""
        for pid in self._processes():
            os.kill(pid, signal.SIGSTOP)

    def thaw(self) -> None:
        for pid in self._processes():
            os.kill(pid, signal.SIGCONT)

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self.thaw()
        _end(self.folder, signal.SIGINT)
        shutil.rmtree(self.folder, ignore_errors=True)

    def _control(self, *what: str) -> None:
        data, log = self.folder / "data", self.folder / "log"
        _run(self._tools / "pg_ctl", *what, "-D", data, "-l", log, "-w", "-t", f"{LIMIT:.0f}")

    def _processes(self) -> list[int]:
        server = _server(self.folder)
        below = Path(f"/proc/{server}/task/{server}/children").read_text().split() if server else []
        return [pid for pid in (server, *map(int, below)) if pid]


@contextmanager
def postgres() -> Iterator[str]:
    """The DATABASE_URL of a fresh server, which is ended and deleted afterwards."""
    server = Postgres()
    try:
        yield server.url
    finally:
        server.close()


def bury_the_dead() -> None:
    """End and delete servers whose test session was killed before it could."""
    for folder in Path(gettempdir()).glob(f"{PREFIX}*"):
        pid = folder.name.removeprefix(PREFIX).partition("-")[0]
        if pid.isdigit() and not Path("/proc", pid).exists():
            _end(folder, signal.SIGQUIT)
            shutil.rmtree(folder, ignore_errors=True)


def _end(folder: Path, which: int) -> None:
    from tests.helpers import until

    if server := _server(folder):
        with contextlib.suppress(ProcessLookupError):
            os.kill(server, which)
        until(lambda: not Path("/proc", str(server)).exists(), 20, what="PostgreSQL has ended")


def _server(folder: Path) -> int:
    """Its process id, 0 if it does not run."""
    try:
        return int((folder / "data" / "postmaster.pid").read_text().split()[0])
    except (OSError, IndexError):
        return 0


def _run(*command: str | Path) -> None:
    done = subprocess.run(
        [*_as_user(), *command], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=2 * LIMIT
    )
    assert done.returncode == 0, done.stderr


def _as_user() -> list[str]:
    return ["runuser", "-u", USER, "--"] if os.geteuid() == 0 else []
