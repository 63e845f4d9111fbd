"""The geometry of plots."""

from __future__ import annotations

import pytest

from portal.reports.drawing import HEIGHT, axis, columns, nice_top


@pytest.mark.parametrize(("most", "top"), [(0, 1), (0.03, 0.04), (1, 1), (7, 8), (81, 100), (750, 800), (801, 1000)])
def test_the_axis_ends_at_a_round_number(most: float, top: float) -> None:
    assert nice_top(most) == pytest.approx(top)


def test_the_axis_has_five_labels() -> None:
    assert axis(800) == ["800", "600", "400", "200", "0"]


def test_columns_stand_on_each_other() -> None:
    first, second = columns({"c1": [5.0, 0.0], "c2": [5.0, 0.0]}, 10.0)
    assert (first.css, float(first.y)) == ("c1", HEIGHT / 2)
    assert (second.css, float(second.y)) == ("c2", 0.0)
    assert first.x == second.x == "5.000%"
