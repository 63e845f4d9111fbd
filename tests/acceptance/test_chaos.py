"""Real jobs while everything that can break is broken: none is lost, wrong, doubled, and nothing is left behind.

A small trial of tests.chaos on each database; ``make chaos`` runs large ones.
"""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from tests.acceptance.portal import config, portal_on
from tests.bed.docker_bed import BedNode
from tests.bed.postgres_bed import Postgres
from tests.chaos import plan
from tests.chaos.trial import trial
from tests.helpers import until

pytestmark = pytest.mark.docker
SEED = int(os.environ.get("CHAOS_SEED", "7"))
JOBS, FAULTS = 25, 9


@pytest.mark.timed
@pytest.mark.parametrize("database", ["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def test_jobs_end_as_they_must_whatever_is_killed_cut_frozen_or_filled(
    docker_nodes: list[BedNode], tmp_path: Path, database: str
) -> None:
    server = Postgres() if database == "postgres" else None
    try:
        deeds = plan.throw(SEED, JOBS, FAULTS, database, len(docker_nodes), haste=4)
        with trial(tmp_path, docker_nodes, server, SEED) as one:
            result = one.run(deeds)
    finally:
        if server is not None:
            server.close()
    assert result.clean, result
    assert result.faults.total() >= FAULTS - 2, "a removal by hand may find nothing to remove"


def test_work_goes_on_when_the_workers_are_killed(docker_engine: BedNode, tmp_path: Path) -> None:
    """Also a second time, and with an order in hand."""
    with portal_on(tmp_path, docker_engine) as portal:
        for nth in range(2):
            (victim,) = until(lambda: portal.running("workers"), 30, 0.1, what="they run")
            name = portal.submit(config(f"beside-{nth}"))
            os.kill(victim, signal.SIGKILL)
            assert portal.wait_state(name)["state"] == "SUCCEEDED"
            assert portal.wait_state(portal.submit(config(f"after-{nth}")))["state"] == "SUCCEEDED"
        portal.wait_clean(docker_engine)
