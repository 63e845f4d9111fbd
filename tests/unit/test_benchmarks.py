"""What a run of ``make bench`` says at its end. (tests/acceptance/test_benchmarks.py runs every part.)"""

from __future__ import annotations

import sys
from collections.abc import Callable

import pytest

from base.wakes.lease import PATIENCE
from benchmarks import __main__ as program
from benchmarks.faults import stage
from benchmarks.growth.measure import FLOOR, exponent
from benchmarks.report import Report


def late(report: Report) -> None:
    report.add("  answers", "9 s", "1 s yesterday", "< 1 s", False)
    report.add("memory", "3 MB", "", "< 5 MB", True)


def broken(report: Report) -> None:
    pytest.fail("nothing answers")  # as tests.helpers.until does


@pytest.mark.parametrize(("parts", "code"), [((late,), 0), ((broken, late), 1)])
def test_only_what_breaks_is_a_failure_and_the_rest_still_runs(
    parts: tuple[Callable[[Report], None], ...],
    code: int,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(program, "ALONE", {part.__name__: part for part in parts})
    monkeypatch.setattr(program, "PARTS", tuple(program.ALONE))
    monkeypatch.setattr(sys, "argv", ["bench", *program.ALONE])
    assert program.main() == code
    said = capsys.readouterr().out
    assert "1 of 2 targets were missed:\n  late: answers 9 s, target < 1 s\n" in said
    assert ("These parts broke, as is told above: broken\n" in said) is bool(code)
    assert "late 0; 0 in all" in said


def test_the_table_of_faults_names_the_lease_that_there_is() -> None:
    assert PATIENCE.total_seconds() == stage.LEASE


@pytest.mark.parametrize(
    ("costs", "told"),
    [
        ((1.0, 1.0, 1.0), 0),
        ((1.0, 10.0, 100.0), 1),
        ((1.0, 10.0, 1000.0), 2),  # the step from which on it is quadratic
        ((1.0, 100.0, 100.0), 2),
        ((FLOOR / 1000, FLOOR / 10, FLOOR), 0),  # too little to be measured
    ],
)
def test_growth_is_the_exponent_of_the_steepest_step(costs: tuple[float, ...], told: float) -> None:
    assert exponent((10, 100, 1000), list(costs)) == pytest.approx(told)
