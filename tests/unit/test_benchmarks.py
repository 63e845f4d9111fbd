"""What measurements name in the portal is there: they run too seldom to notice that it moved."""

from __future__ import annotations

import functools
import re
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import pytest

from benchmarks.faults import stage
from benchmarks.trace.probes import PROBES
from portal.wakes.lease import PATIENCE


@pytest.mark.parametrize(("module", "path"), [probe[:2] for probe in PROBES])
def test_every_step_that_is_traced_exists(module: str, path: str) -> None:
    assert callable(functools.reduce(getattr, path.split("."), import_module(module)))


def test_every_module_that_is_started_by_its_name_exists() -> None:
    root = Path(__file__).parents[2] / "benchmarks"
    named = {
        name for path in root.rglob("*.py") for name in re.findall(r"\"-m\", \"(benchmarks[\w.]+)", path.read_text())
    }
    assert named
    assert [name for name in sorted(named) if find_spec(name) is None] == []


def test_the_table_of_faults_names_the_lease_that_there_is() -> None:
    assert PATIENCE.total_seconds() == stage.LEASE
