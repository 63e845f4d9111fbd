"""A private PostgreSQL: its files in a folder of its own, reachable only through a socket in that folder.

``DATABASE_URL=postgres pytest tests/api`` runs tests on one (see tests/settings.py).
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import gettempdir, mkdtemp

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


@contextmanager
def postgres() -> Iterator[str]:
    """The DATABASE_URL of a fresh server, which is ended and deleted afterwards."""
    bury_the_dead()
    folder = Path(mkdtemp(prefix=f"{PREFIX}{os.getpid()}-"))
    try:
        if os.geteuid() == 0:
            shutil.chown(folder, USER, USER)
        tools = programs()
        assert tools is not None
        _run(tools / "initdb", "--pgdata", folder / "data", "--username", USER, "--auth", "trust", "--no-sync")
        server = ["-D", folder / "data", "-k", folder, "-c", "listen_addresses=", "-c", "fsync=off"]
        process = subprocess.Popen([*_as_user(), tools / "postgres", *server], stderr=(folder / "log").open("wb"))
        try:
            _wait(tools, folder)
            yield f"postgres://{USER}@/{folder}/postgres"
        finally:
            _signal(folder, signal.SIGINT)
            process.wait(20)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def bury_the_dead() -> None:
    """End and delete servers whose test session was killed before it could."""
    for folder in Path(gettempdir()).glob(f"{PREFIX}*"):
        pid = folder.name.removeprefix(PREFIX).partition("-")[0]
        if pid.isdigit() and not Path("/proc", pid).exists():
            _signal(folder, signal.SIGQUIT)
            shutil.rmtree(folder, ignore_errors=True)


def _signal(folder: Path, which: int) -> None:
    """runuser passes nothing on: the server's own number is in the first line of its file."""
    try:
        os.kill(int((folder / "data" / "postmaster.pid").read_text().split()[0]), which)
    except (OSError, IndexError):
        pass  # it has ended, or never began


def _wait(tools: Path, folder: Path) -> None:
    from tests.helpers import until

    until(
        lambda: subprocess.run([tools / "pg_isready", "-h", folder, "-U", USER], capture_output=True).returncode == 0,
        timeout=30,
        what="PostgreSQL answers",
    )


def _run(*command: str | Path) -> None:
    done = subprocess.run([*_as_user(), *command], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr


def _as_user() -> list[str]:
    return ["runuser", "-u", USER, "--"] if os.geteuid() == 0 else []
