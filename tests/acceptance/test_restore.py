"""docs/run/backup.md, done: a portal that runs jobs is backed up under load, destroyed, and restored in another folder,
on a real engine."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.acceptance.portal import (
    ROOT,
    Portal,
    config,
    container_of,
    containers,
    docker,
    environment,
    portal_on,
)
from tests.bed.docker_bed import BedNode
from tests.bed.postgres_bed import Postgres
from tests.helpers import LIMIT, until

pytestmark = pytest.mark.docker
COMMANDS = re.findall(r"^    (.+)$", (ROOT / "docs" / "run" / "backup.md").read_text(), re.MULTILINE)


def run(portal: Portal, folder: Path, *words: str) -> str:
    """The one command of the page with all these words, as it stands there, in ``folder``. Returns what it printed."""
    (command,) = [line for line in COMMANDS if all(word in line for word in words)]
    done = subprocess.run(
        ["bash", "-euc", command],
        cwd=folder,
        env=environment(portal.settings),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=LIMIT,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


@pytest.fixture
def desk(tmp_path: Path) -> Path:
    """A folder in which the page's commands work: that of a release, as far as they look."""
    (tmp_path / ".venv/bin").mkdir(parents=True)
    (tmp_path / ".venv/bin/python").write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    (tmp_path / ".venv/bin/python").chmod(0o755)
    (tmp_path / "manage.py").symlink_to(ROOT / "manage.py")
    return tmp_path


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def databases(request: pytest.FixtureRequest) -> Iterator[list[dict[str, str]]]:
    """Settings of two databases: one that is lost, and a new one."""
    if request.param == "sqlite":
        yield [{}, {}]
        return
    server = Postgres()
    try:
        yield [{"DATABASE_URL": server.database(f"portal_{uuid.uuid4().hex[:8]}")} for _ in range(2)]
    finally:
        server.close()


@contextmanager
def load(portal: Portal) -> Iterator[list[str]]:
    """Somebody submits short jobs, one after the other. Yields the names of those that were accepted."""
    accepted: list[str] = []
    stop = threading.Event()

    def submit() -> None:
        while not stop.is_set():
            name = f"load-{len(accepted)}"
            portal.submit(config(name, f"echo {name}"))
            accepted.append(name)
            stop.wait(0.5)

    thread = threading.Thread(target=submit)
    thread.start()
    try:
        yield accepted
    finally:
        stop.set()
        thread.join()


def test_jobs_go_on_after_the_portal_and_its_folder_are_gone(
    docker_engine: BedNode, desk: Path, databases: list[dict[str, str]]
) -> None:
    lost, new = desk / "lost", desk / "new"
    lost.mkdir(mode=0o700)
    with portal_on(lost, docker_engine, **databases[0]) as portal:
        waits = "echo begin; until [ -e /tmp/go ]; do sleep 0.1; done; echo end"
        runs, ends = (portal.submit(config(name, waits)) for name in ("runs", "ends"))
        before = {name: portal.wait_running(name)["containerId"] for name in (runs, ends)}
        run(portal, desk, "token_urlsafe")
        with load(portal) as accepted:
            until(lambda: len(accepted) > 3, what="a load")
            sure = list(accepted)
            assert "is whole" in run(portal, desk, "backup --files", "elsewhere.backup")
        later = portal.submit(config("later", "echo wrong; sleep 600"))
        portal.wait_running(later)
        portal.kill()
        shutil.rmtree(lost)
        docker(docker_engine, "exec", container_of(docker_engine, ends), "touch", "/tmp/go")

        (desk / "elsewhere.backup").rename(desk / "longshore.backup")
        portal.move(new, **databases[1])
        assert "This release can restore it." in run(portal, desk, "restore --check")
        restored = run(portal, desk, "manage.py restore --passphrase-file passphrase longshore.backup")
        assert "Restored: " in restored and "may still run" in restored
        portal.start()
        assert portal.job(ends)["jobStatus"]["state"] == "RUNNING", "nobody has said yet that the other one is gone"
        assert "goes on now" in run(portal, desk, "restore --old-is-gone")
        other = portal.submit(config("later", "echo right"))  # name and row numbers of one that is forgotten
        assert portal.wait_state(other)["state"] == "SUCCEEDED"
        assert portal.log(other) == "right\n"
        assert portal.task(runs)["containerId"] == before[runs], "it runs on"
        docker(docker_engine, "exec", container_of(docker_engine, runs), "touch", "/tmp/go")
        for name in (runs, ends):
            assert portal.wait_state(name)["state"] == "SUCCEEDED"
            assert portal.task(name)["containerId"] == before[name]
            assert portal.log(name) == "begin\nend\n"
        for name in sure:
            assert portal.wait_state(name)["state"] == "SUCCEEDED"
            assert portal.log(name) == f"{name}\n"
        until(lambda: containers(docker_engine, portal) == [], 90, 0.5, what="what belongs to nobody is removed")
        assert portal.http.get(f"{portal.url}/healthz").json()["invariants"] == {"healed": 0, "broken": 0}
