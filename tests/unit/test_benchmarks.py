"""What measurements name in the portal is there: they run too seldom to notice that it moved."""

from __future__ import annotations

import functools
from importlib import import_module

import pytest

from benchmarks.probes import PROBES


@pytest.mark.parametrize(("module", "path"), [probe[:2] for probe in PROBES])
def test_every_step_that_is_traced_exists(module: str, path: str) -> None:
    assert callable(functools.reduce(getattr, path.split("."), import_module(module)))
