"""The geometry of the timeline."""

from __future__ import annotations

from portal.reports.drawing import LANE, MOST_THIN, OVERVIEW, THIN, HeldSpan, draw, use


def held(id: int, begin: float, end: float, *gpus: str, **more: str) -> HeldSpan:
    return HeldSpan(id, "a/job", "a/job, w-0", more.get("css", "busy"), gpus, begin, end)


def test_a_job_is_a_bar_over_the_gpus_that_it_held() -> None:
    drawn = draw(["0", "1", "2", "3"], [held(1, 0.25, 0.5, "1", "2")], 10)
    (bar,) = drawn.bars
    assert (drawn.height, bar.x, bar.width, bar.y, bar.height) == (4 * LANE, "25.00%", "25.00%", LANE + 1, 2 * LANE - 2)
    assert bar.label == "a/job"


def test_gpus_that_lie_apart_are_bars_of_their_own() -> None:
    assert [bar.y for bar in draw(["0", "1", "2", "3"], [held(1, 0, 1, "0", "3")], 10).bars] == [1, 3 * LANE + 1]


def test_what_is_too_narrow_is_drawn_in_one_path_and_no_link() -> None:
    drawn = draw(["0"], [held(at, at / 1000, at / 1000 + 0.0001, "0") for at in range(500)], 10)
    assert drawn.bars == []
    assert drawn.paths["busy"].count("M") == 500


def test_only_the_longest_are_links() -> None:
    drawn = draw(["0", "1"], [held(1, 0, 0.2, "0"), held(2, 0, 0.9, "1"), held(3, 0.3, 0.7, "0")], 2)
    assert sorted(bar.id for bar in drawn.bars) == [2, 3]
    assert drawn.paths["busy"].count("M") == 1


def test_jobs_without_gpu_share_a_lane_when_they_do_not_overlap() -> None:
    drawn = draw(["0", "1"], [held(1, 0, 0.5), held(2, 0.5, 1), held(3, 0.2, 0.4)], 10)
    assert [bar.y for bar in drawn.bars] == [2 * LANE + 1, 2 * LANE + 1, 2 * LANE + THIN + 1]
    crowd = draw([], [held(at, 0, 1) for at in range(99)], 99)
    assert crowd.height == THIN * MOST_THIN


def test_a_gpu_that_the_node_has_no_more_is_a_lane_below() -> None:
    (bar,) = draw(["0"], [held(1, 0, 1, "7")], 10).bars
    assert bar.y == LANE + 1


def test_the_use_of_a_node_is_a_line() -> None:
    line = use(["0", "1"], [held(1, 0, 0.5, "0", "1"), held(2, 0.5, 0.75, "0")])
    assert line == f"M0 {OVERVIEW}H0V2H500V13H750V24H1000V24z"
    assert use(["0"], []) == ""
    assert use([], [held(1, 0, 1)]) == f"M0 {OVERVIEW}H0V2H1000V24z"
