"""A pooler that keeps no sessions: the start says what to set, and with that everything works."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tests.acceptance.portal import ROOT, Portal, config, environment, portal_on, was_quick
from tests.bed.docker_bed import BedNode
from tests.bed.pgbouncer_bed import pgbouncer
from tests.bed.postgres_bed import Postgres
from tests.helpers import LIMIT, need

pytestmark = [pytest.mark.docker, pytest.mark.postgres]
ROLE = "ALTER ROLE postgres SET idle_in_transaction_session_timeout = '7s'"


@pytest.fixture
def server() -> Iterator[Postgres]:
    need("pgbouncer")
    server = Postgres()
    yield server
    server.close()


@pytest.fixture
def home() -> Iterator[Path]:
    with TemporaryDirectory(prefix="ls-", dir="/tmp") as folder:
        yield Path(folder)


def refused(home: Path, **more: str) -> str:
    """What ``up`` says, which ends."""
    settings = environment({"LONGSHORE_HOME": str(home), "LONGSHORE_APPS_BIND": "none", **more})
    command = [sys.executable, str(ROOT / "manage.py"), "up"]
    done = subprocess.run(command, env=settings, capture_output=True, text=True, timeout=LIMIT, cwd=ROOT)
    assert done.returncode != 0, done.stdout
    return done.stderr


def test_a_pooler_needs_the_address_of_the_server_beside_it(
    docker_engine: BedNode, home: Path, server: Postgres
) -> None:
    with pgbouncer(server) as pooled:
        assert "Set LONGSHORE_DATABASE_DIRECT to the address" in refused(home, DATABASE_URL=pooled)
        both = {"DATABASE_URL": pooled, "LONGSHORE_DATABASE_DIRECT": server.url}
        assert "ALTER ROLE postgres SET idle_in_transaction_session_timeout" in refused(home, **both)
        server.execute(ROLE)
        server.end_sessions()
        with portal_on(home, docker_engine, **both) as portal:
            names = [portal.submit(config(f"job-{number}", "echo hello")) for number in range(5)]
            assert {portal.wait_state(name)["state"] for name in names} == {"SUCCEEDED"}
            assert portal.log(names[0]) == "hello\n"
            assert_woken(portal)
            portal.wait_clean(docker_engine)


def assert_woken(portal: Portal) -> None:
    """Nobody waits for a slow poll: from the submission to the first pass it takes no longer than with the server."""
    name = portal.submit(config("soon"))
    portal.wait_state(name)
    ((seconds,),) = portal.rows(
        "SELECT extract(epoch FROM min(e.at) - j.created_at) FROM jobs_event e JOIN jobs_job j ON j.id = e.job_id"
        f" WHERE j.name = '{name}' AND e.kind = 'job.placed' GROUP BY j.id"
    )
    was_quick(float(seconds), 4, "from a submission to its placement")
