"""Real jobs while everything that can break is broken: none is lost, wrong, doubled, and nothing is left behind.

A small trial of tests.chaos on the database that has more ways to fail; ``make chaos`` runs large ones on both.
"""

from __future__ import annotations

import os
from contextlib import closing
from pathlib import Path

import pytest

from tests.bed.docker_bed import BedNode
from tests.bed.postgres_bed import Postgres
from tests.chaos import plan
from tests.chaos.trial import trial

pytestmark = [pytest.mark.docker, pytest.mark.postgres]
SEED = int(os.environ.get("CHAOS_SEED", "7"))
JOBS, FAULTS = 25, 9


@pytest.mark.timed
def test_jobs_end_as_they_must_whatever_is_killed_cut_frozen_or_filled(
    docker_nodes: list[BedNode], tmp_path: Path
) -> None:
    deeds = plan.throw(SEED, JOBS, FAULTS, "postgres", len(docker_nodes), haste=4)
    with closing(Postgres()) as server, trial(tmp_path, docker_nodes, server, SEED) as one:
        result = one.run(deeds)
    assert result.clean, result
    assert result.faults.total() >= FAULTS - 2, "a removal by hand may find nothing to remove"
