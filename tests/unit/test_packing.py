"""The cluster and the rules beside which ``make bench ARGS=packing`` measures placement."""

from __future__ import annotations

import pytest

from benchmarks.packing.measure import Longshore, possible
from benchmarks.packing.rules import RandomFit, Ruled, best_fit, dot_product, least_fragments
from benchmarks.packing.trace import NodeShape, Shape, Workload, nodes

SMALL, LARGE = NodeShape(8, 100, 1, "T4"), NodeShape(64, 800, 8, "G2")


def test_the_cluster_is_that_of_the_trace() -> None:
    assert len(nodes()) == 1213
    assert sum(node.gpus for node in nodes()) == 6212


@pytest.mark.parametrize("typed", [0.0, 0.1, 0.5, 1.0])
def test_so_many_gpu_tasks_name_a_type_as_are_asked_for(typed: float) -> None:
    tasks = [task for task in Workload(typed, 1).tasks(6212) if task.gpus]
    assert sum(task.gpu_type != "" for task in tasks) / len(tasks) == pytest.approx(typed, abs=0.05)
    assert sum(part for part, shape in Workload(typed, 1).shares() if shape.gpu_type) == pytest.approx(typed)


def test_a_small_task_goes_where_it_leaves_the_least() -> None:
    best = Ruled([SMALL, LARGE], best_fit([SMALL, LARGE]))
    assert best.place(Shape(8, 100, 1))
    assert best.place(Shape(64, 800, 8))


def test_a_task_goes_where_most_is_free_of_what_it_asks_for() -> None:
    dot = Ruled([SMALL, LARGE], dot_product([SMALL, LARGE]))
    assert dot.place(Shape(8, 100, 1))
    assert not dot.place(Shape(64, 800, 8))


def test_fragments_are_what_usual_tasks_cannot_use() -> None:
    usual = [(0.5, Shape(64, 800, 8)), (0.5, Shape(1, 1, 1, "T4"))]
    least = Ruled([LARGE, LARGE], least_fragments(usual))
    assert all(least.place(Shape(8, 100, 1)) for _ in range(8))
    assert least.place(Shape(64, 800, 8))


def test_nobody_allocates_more_than_is_possible() -> None:
    shapes = nodes()[::20]
    tasks = list(Workload(1 / 3, 2).tasks(sum(shape.gpus for shape in shapes)))
    most = possible(tasks, shapes)
    for placer in (Longshore(shapes), RandomFit(shapes, 2), Ruled(shapes, best_fit(shapes))):
        assert 0 < sum(task.gpus for task in tasks if placer.place(task)) <= most
    assert possible([Shape(1, 1, 3, "T4"), Shape(1, 1, 9)], [SMALL, LARGE]) == 9
