"""Every part of ``make bench`` runs, each as small as it can be made: who measures finds them whole."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from benchmarks.__main__ import NEEDS, PARTS
from benchmarks.sizes import TINY
from tests.acceptance.portal import ROOT, environment
from tests.helpers import LIMIT

# Those on Kubernetes are in the lane that has it: tests/kubernetes/test_benchmarks.py.
HERE = [
    pytest.param(part, marks=[getattr(pytest.mark, need) for need in NEEDS.get(part, ())])
    for part in PARTS
    if "kubernetes" not in NEEDS.get(part, ())
]


@pytest.fixture(scope="module")
def said(request: pytest.FixtureRequest) -> str:
    """By one run of all parts that are tried in this session: they share what they need."""
    mine = (item for item in request.session.items if isinstance(item, pytest.Function) and item.path == request.path)
    return run(*(item.callspec.params["part"] for item in mine))


@pytest.mark.parametrize("part", HERE)
def test_the_part_has_figures(said: str, part: str) -> None:
    check(said, part)


def run(*parts: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks", *parts],
        cwd=ROOT,
        env=environment({TINY: "1"}),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=8 * LIMIT,  # they share the machine with all other lanes
    )
    return done.stdout


def check(said: str, part: str) -> None:
    """Its figures are there and are numbers."""
    _, _, mine = said.partition(f"\n[{part}]\n")
    mine, _, _ = mine.partition("\n\n")
    assert "Traceback" not in mine, mine
    figures = [line for line in mine.splitlines() if re.match(r"  .{46} .*\d", line)]
    assert figures, mine or said
    assert not re.search(r"\b(nan|inf)\b", "\n".join(figures)), mine
