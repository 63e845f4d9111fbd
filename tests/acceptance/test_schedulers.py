"""A database that drops every connection blinds nobody; of two schedulers one acts, also when one was only asleep.

On real parts: engine, PostgreSQL, processes that are stopped. The engine's own events count how often each task ran.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import httpx
import pytest

from tests.acceptance.portal import ROOT, Portal, config, container_of, docker, portal_on
from tests.acceptance.witness import times, witness
from tests.bed.docker_bed import BedNode
from tests.bed.postgres_bed import Postgres
from tests.helpers import LIMIT, until

pytestmark = [pytest.mark.docker, pytest.mark.postgres]
FAILS_TWICE = ("FAILED", 255, 2)


@pytest.fixture
def postgres() -> Iterator[Postgres]:
    server = Postgres()
    yield server
    server.close()


@pytest.fixture
def home() -> Iterator[Path]:
    """A short one: sockets for wake-ups lie inside it then, beside whatever else is there."""
    with TemporaryDirectory(prefix="ls-", dir="/tmp") as folder:
        yield Path(folder)


def test_a_lost_connection_blinds_nobody(docker_engine: BedNode, postgres: Postgres, home: Path) -> None:
    with portal_on(home, docker_engine, DATABASE_URL=postgres.url) as portal:
        for number, trouble in enumerate((postgres.restart, postgres.end_sessions)):
            running = portal.submit(config(f"runs-{number}", "until [ -e /tmp/go ]; do sleep 0.1; done"))
            portal.wait_running(running)
            trouble()
            docker(docker_engine, "exec", container_of(docker_engine, running), "touch", "/tmp/go")
            assert after_trouble(portal, running) == "SUCCEEDED"
            later = submit_again(portal, f"later-{number}")
            assert after_trouble(portal, later) == "SUCCEEDED"
        until(lambda: healthz(portal)["status"] == "ok", 60, 0.2, what="all is well")
        until(lambda: healthz(portal)["threads"]["number"] >= 3, what="all threads that broke off run again")  # type: ignore[index]
        assert healthz(portal)["threads"]["late"] == []  # type: ignore[index]
        until(lambda: healthz(portal)["looks"]["oldestSeconds"] < 30, what="all nodes are looked at")  # type: ignore[index, operator]
        portal.wait_clean(docker_engine)


@pytest.mark.parametrize("database", ["sqlite", "postgres"])
def test_of_two_schedulers_one_acts(
    docker_engine: BedNode, request: pytest.FixtureRequest, home: Path, database: str
) -> None:
    server: Postgres | None = request.getfixturevalue("postgres") if database == "postgres" else None
    more = {"DATABASE_URL": server.url} if server else {}
    with portal_on(home, docker_engine, **more) as portal, witness(docker_engine, portal) as heard:
        with another_scheduler(portal) as second:
            names = [submit_failing(portal, f"one-{at}") for at in range(6)]  # each submission wakes both
            if server:
                server.end_sessions()
            assert {how_it_ended(portal, name) for name in names} == {FAILS_TWICE}
            holder = acting(portal)
            assert holder in {second, *portal.running("scheduler")}
            os.kill(holder, signal.SIGSTOP)
            try:
                while_it_sleeps = [submit_failing(portal, f"two-{at}") for at in range(4)]
                assert {how_it_ended(portal, name, 120) for name in while_it_sleeps} == {FAILS_TWICE}
                assert acting(portal) != holder
                again = [submit_failing(portal, f"three-{at}") for at in range(4)]
            finally:
                os.kill(holder, signal.SIGCONT)
            assert {how_it_ended(portal, name) for name in again} == {FAILS_TWICE}
            portal.wait_clean(docker_engine)
            assert healthz(portal)["invariants"] == {"healed": 0, "broken": 0}
        last = submit_failing(portal, "last")  # the second is gone, killed: nobody waits for its lease to lapse
        assert how_it_ended(portal, last) == FAILS_TWICE
        ran = times(heard(), "start")
    assert len(ran) == 2 * 15 and all(len(starts) == 1 for starts in ran.values()), ran


# --- helpers ---------------------------------------------------------------------------------------------------------


@contextmanager
def another_scheduler(portal: Portal) -> Iterator[int]:
    output = (portal.home / "second.txt").open("ab")
    command = [sys.executable, str(ROOT / "manage.py"), "runscheduler"]
    process = subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, env=portal.environment()
    )
    try:
        yield process.pid
    finally:
        process.kill()
        process.wait(LIMIT)
        output.close()


def acting(portal: Portal) -> int:
    """The process that holds the lease."""
    ((holder,),) = portal.rows("SELECT holder FROM portal_leaserow WHERE name = 'scheduler'")
    return int(holder.split()[1])


def submit_failing(portal: Portal, name: str) -> str:
    return portal.submit(config(name, "exit 3", retryCount=1))


def submit_again(portal: Portal, name: str) -> str:
    """Once the web process has its connections back."""
    return until(lambda: quietly(lambda: portal.submit(config(name))), 60, 0.2, what="a job is taken") or name


def after_trouble(portal: Portal, name: str) -> str:
    """How it ends, whatever the API answers until then."""
    ended = ("SUCCEEDED", "FAILED", "STOPPED")
    return until(
        lambda: (state := quietly(lambda: portal.state(name))) in ended and state, 60, 0.2, what=f"{name} ends"
    )


def quietly(ask: object) -> str:
    try:
        return str(ask())  # type: ignore[operator]
    except (AssertionError, httpx.HTTPError):
        return ""


def how_it_ended(portal: Portal, name: str, timeout: float = 60) -> tuple[str, int, int]:
    status = portal.wait_state(name, timeout=timeout)
    return status["state"], status["appExitCode"], len(portal.attempts(name))


def healthz(portal: Portal) -> dict[str, object] | dict[str, dict[str, object]]:
    return httpx.get(f"{portal.url}/healthz", timeout=LIMIT).json()  # type: ignore[no-any-return]
