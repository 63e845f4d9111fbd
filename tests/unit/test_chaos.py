"""What the trial by chaos rests on: its dice and its judge. The trial itself is an acceptance test."""

from __future__ import annotations

from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import pytest

from tests.chaos import judge, plan
from tests.chaos.judge import Verdict
from tests.chaos.witness import Run

DATABASES = ("sqlite", "postgres")


@pytest.mark.parametrize("database", DATABASES)
def test_the_same_seed_gives_the_same_deeds_and_each_job_once(database: str) -> None:
    deeds = plan.throw(7, 60, 30, database)
    assert deeds == plan.throw(7, 60, 30, database) != plan.throw(8, 60, 30, database)
    assert len({deed.where for deed in deeds if deed.what == "submit"}) == 60
    assert len([deed for deed in deeds if deed.what not in ("submit", "stop", "delete")]) == 30


@pytest.mark.parametrize("database", DATABASES)
@pytest.mark.parametrize("seed", range(10))
def test_a_place_is_whole_again_before_its_next_fault_and_every_kind_comes(database: str, seed: int) -> None:
    deeds = plan.throw(seed, 100, 40, database)
    for place in ("", "1", "2", "3"):
        mine = [deed for deed in deeds if deed.where == place and deed.what != plan.RM]
        assert all(one.at + one.lasts < two.at for one, two in pairwise(mine)), place
    kinds = {*plan.NODE_FAULTS, *plan.PORTAL_FAULTS, *plan.DATABASE_FAULTS[database], plan.RM}
    assert kinds <= {deed.what for deed in deeds}
    faults = [deed.what for deed in deeds if deed.where == "" and deed.what != plan.RM]
    assert faults[-1] in plan.DATABASE_FAULTS[database]


def run(app: str, node: str, began: float, ended: float | None, **more: Any) -> Run:
    return Run(node, app, "job", "main-0", more.get("gpus", ()), began, ended)


@pytest.mark.parametrize(
    ("runs", "doubled", "again", "outlived"),
    [
        ([run("a1", "n1", 0, 5), run("a2", "n1", 6, 9)], 0, 0, 0),
        ([run("a1", "n1", 0, 5), run("a1", "n2", 4, 9)], 1, 0, 0),
        ([run("a1", "n1", 0, None), run("a1", "n1", 4, 9)], 1, 0, 0),
        ([run("a1", "n1", 0, 5), run("a1", "n1", 6, 9)], 0, 1, 0),
        ([run("a1", "n1", 0, 50), run("a2", "n1", 6, 9)], 1, 0, 0),
        ([run("a1", "n1", 0, 50), run("a2", "n2", 6, 9)], 0, 0, 1),
    ],
)
def test_the_judge_tells_two_lives_at_once_from_one_after_the_other(
    runs: list[Run], doubled: int, again: int, outlived: int
) -> None:
    verdict = Verdict()
    judge.count_runs(verdict, runs, SimpleNamespace(removed=set()))  # type: ignore[arg-type]
    assert (len(verdict.found["doubled"]), len(verdict.again), verdict.outlived) == (doubled, again, outlived)


def test_the_judge_sees_a_gpu_that_was_given_twice() -> None:
    one, two = run("a1", "n1", 0, 5, gpus=("nvidia0",)), run("b1", "n1", 3, 9, gpus=("nvidia0", "nvidia1"))
    two.job = "other"
    verdict = Verdict()
    judge.count_runs(verdict, [one, two], SimpleNamespace(removed=set()))  # type: ignore[arg-type]
    assert len(verdict.found["doubled"]) == 1 and not verdict.clean
