"""The parts of ``make bench`` that need a cluster: see tests/acceptance/test_benchmarks.py."""

from __future__ import annotations

import pytest

from benchmarks.__main__ import NEEDS
from tests.acceptance.test_benchmarks import check, run


@pytest.mark.parametrize("part", [part for part, needs in NEEDS.items() if "kubernetes" in needs])
def test_the_part_has_figures(part: str) -> None:
    check(run(part), part)
