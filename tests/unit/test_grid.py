"""The grid of nodes: what one task lacks on each of them."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clusters.placement.fit import Mark, NodeView, PortDemand
from clusters.placement.free import FreeNodes
from clusters.placement.grid import grid
from tests.unit.test_placement import HDD, SSD, gang, node

CASES = {
    "enough of everything": (node(gpus="AA"), gang(gpus=2), []),
    "GPUs are short": (node(gpus="AAA", used_gpus=frozenset("0")), gang(gpus=4), ["2 GPUs"]),
    "of a type": (node(gpus="AAV"), gang(gpus=3, kind="A"), ["1 A GPU"]),
    "another type": (node(gpus="VV"), gang(gpus=1, kind="A"), ["GPUs of type A"]),
    "cores and memory": (node(cpus=4, memory_mb=1024), gang(cpus=6, memory_mb=3072), ["2 cores", "2 GB of memory"]),
    "a label": (node(labels=HDD), gang(labels=SSD), ["label disk=ssd"]),
    "a fixed port": (node(), gang(ports=(PortDemand("x", 22, 1),)), ["the ports asked for"]),
    "not offered": (node(offered=False, why_not="cordoned"), gang(), ["cordoned"]),
    "marked": (node(marks=(Mark("start", "It starts nothing."),)), gang(), ["It starts nothing."]),
    "used beyond what it has": (node(used_cpus=99), gang(), ["1 core"]),
}


@pytest.mark.parametrize("case", CASES)
def test_a_row_names_what_is_missing(case: str) -> None:
    one, demands, missing = CASES[case]
    assert [row.missing for row in grid([one], demands)] == [missing]


def test_the_nodes_that_lack_least_come_first_for_each_role() -> None:
    nodes = [node("n1", gpus="V"), node("n2", gpus="A", offered=False), node("n3", gpus="A"), node("n4", gpus="AA")]
    nodes.append(node("n5", gpus="AA", used_gpus=frozenset("0")))
    found = grid(nodes, [*gang(2, gpus=2, kind="A"), *gang(role="a")])
    assert [row.node for row in found if row.role == "w"] == ["n4", "n5", "n3", "n1", "n2"]
    assert [row.role for row in found] == ["a"] * 5 + ["w"] * 5


nodes = st.builds(
    node,
    cpus=st.integers(1, 4),
    memory_mb=st.integers(50, 300),
    gpus=st.text("AV", max_size=3),
    offered=st.booleans(),
    labels=st.sampled_from([SSD, HDD, frozenset()]),
    marks=st.sampled_from([(), (Mark("gpus", "No driver."),)]),
    used_cpus=st.integers(0, 4),
)
tasks = st.builds(
    gang,
    count=st.just(1),
    cpus=st.integers(1, 4),
    memory_mb=st.integers(50, 300),
    gpus=st.integers(0, 3),
    kind=st.sampled_from(["", "A"]),
    labels=st.sampled_from([SSD, frozenset()]),
)


@given(one=nodes, task=tasks)
def test_a_row_lacks_nothing_exactly_where_one_task_would_be_placed(one: NodeView, task: list) -> None:  # type: ignore[type-arg]
    (row,) = grid([replace(one, why_not="" if one.offered else "cordoned")], task)
    barred = bool(one.marks) and task[0].gpus > 0
    placed = FreeNodes([one]).place(task) is not None and not barred
    assert (not row.missing) == placed
