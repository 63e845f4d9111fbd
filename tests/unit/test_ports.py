"""Sets of ports as bits do what sets of numbers do."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from clusters.placement import ports
from clusters.placement.fit import Demand, NodeView, PortDemand
from clusters.placement.free import FreeNodes

PORTS = st.frozensets(st.integers(0, 500), max_size=450)


@given(PORTS, st.integers(0, 50), st.integers(0, 400), st.integers(0, 10_000), st.integers(0, 350))
def test_free_ports_are_those_that_one_finds_who_counts(
    taken: frozenset[int], first: int, more: int, start: int, number: int
) -> None:
    last, size = first + more, more + 1
    free = [port for at in range(size) if (port := first + (start + at) % size) not in taken]
    assert ports.choose(ports.bits(taken), first, last, start, number) == free[:number]
    assert ports.count(ports.bits(taken), first, last) == len(free)


@given(PORTS)
def test_a_set_has_a_bit_for_each_of_its_ports_in_whatever_order_they_come(taken: frozenset[int]) -> None:
    expected = sum(1 << port for port in taken)
    assert ports.bits(taken) == ports.bits(sorted(taken)) == ports.bits(sorted(taken)[:100]) | expected == expected


def test_every_port_of_a_node_can_be_given_out_and_no_port_twice() -> None:
    node = NodeView("n1", "10.0.0.1", 1000, 10**6, (), 30_000, 30_999, fixed_ports=((80, 80),))
    wanted = (PortDemand("a", 0, 3), PortDemand("web", 0, 2), PortDemand("fixed", 30_500, 5))
    first = Demand("w-0", "w", 0, 1, 1, 0, "", wanted)
    others = [Demand(f"v-{at}", "v", at, 1, 1, 0, "", (PortDemand("a", 0, 10),)) for at in range(99)]
    places = FreeNodes([node]).place([first, *others], 7)
    assert places is not None
    given = [port for place in places for some in place.ports.values() for port in some]
    assert sorted(given) == list(range(30_000, 31_000))
    assert places[0].ports["fixed"] == list(range(30_500, 30_505))
    assert (
        FreeNodes([node]).place([first, *others, Demand("u-0", "u", 0, 1, 1, 0, "", (PortDemand("a", 0, 1),))]) is None
    )


def test_a_fixed_port_counts_among_those_that_the_same_task_cannot_choose() -> None:
    node = NodeView("n1", "10.0.0.1", 10, 100, (), 30_000, 30_001)
    wanted = (PortDemand("fixed", 30_000, 1), PortDemand("free", 0, 2))
    assert FreeNodes([node]).place([Demand("w-0", "w", 0, 1, 1, 0, "", wanted)]) is None
