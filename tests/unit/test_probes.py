"""The trace of the benchmarks finds every function that it times."""

from __future__ import annotations

import functools
from importlib import import_module

import pytest

from benchmarks.trace.probes import PROBES


@pytest.mark.parametrize(("module", "path", "step"), PROBES)
def test_what_a_trace_times_is_there(module: str, path: str, step: str) -> None:
    assert callable(functools.reduce(getattr, path.split("."), import_module(module))), step
