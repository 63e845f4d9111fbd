"""The rings that touch the database, once more on a real PostgreSQL."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.bed.postgres_bed import postgres

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.postgres
def test_everything_that_touches_the_database_passes_on_postgresql() -> None:
    with postgres() as address:
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "tests/integration", "tests/api", "-p", "no:cacheprovider"],
            cwd=ROOT,
            env={**os.environ, "DATABASE_URL": address},
            capture_output=True,
            text=True,
            timeout=600,
        )
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
