"""A job that names no type of GPUs leaves what is scarce to those who ask for it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clusters.placement.fit import Demand, NodeView, Placement, Wanted
from clusters.placement.free import FreeNodes
from clusters.placement.shares import named_gpus, wanted
from jobs.planning.queue.scene import Scene
from jobs.planning.turns import Move, turns
from tests.integration.test_costs import calls_of
from tests.unit.queue_model import NOW, Play, Played, node, shape

SCARCE: Wanted = {"A": 1.5, "B": 0.5}  # nobody asks for type C
OURS = {"dedicated_to": "a"}
HALL = {"labels": frozenset({("topology", "hall")})}
IMAGE = {"images": frozenset({"here"})}


def with_image(demands: Sequence[Demand]) -> list[Demand]:
    return [replace(demand, image="here") for demand in demands]


CASES = {
    "the least wanted type comes first": ([node("n1", "A"), node("n2", "BB"), node("n3", "CCCC")], shape(), ["n3"]),
    "then the fullest node": ([node("n1", "CCC"), node("n2", "CC"), node("n3", "A")], shape(), ["n2"]),
    "no place where there is none": ([node("n1", "A"), node("n2", "C")], shape(1, 1, 9), None),
    "a wanted type rather than none": ([node("n1", "AA"), node("n2", "C")], shape(gpus=2), ["n1"]),
    "who names a type gets it": ([node("n1", "A"), node("n2", "C")], shape(kind="A"), ["n1"]),
    "who needs no GPU goes where they are fewest": ([node("n1", "A"), node("n2", "CC")], shape(gpus=0), ["n1"]),
    "an image is pulled for it": ([node("n1", "A", **IMAGE), node("n2", "C")], with_image(shape()), ["n2"]),
    "of one type the node with the image": ([node("n1", "C"), node("n2", "CC", **IMAGE)], with_image(shape()), ["n2"]),
    "own nodes come first": ([node("n1", "A", **OURS), node("n2", "C")], shape(), ["n1"]),
    "own nodes come first for a gang too": (
        [node("n1", "A", **OURS), node("n2", "C"), node("n3", "C")],
        shape(2),
        ["n1", "n2"],
    ),
    "a gang is rather apart than on what is wanted": (
        [node("n1", "AA"), node("n2", "C"), node("n3", "C")],
        shape(2),
        ["n2", "n3"],
    ),
    "it takes no more of what is wanted than it must": (
        [node("n1", "AA"), node("n2", "B"), node("n3", "C")],
        shape(3),
        ["n2", "n3", "n1"],
    ),
    "of one type a gang is close together": (
        [node("n1", "C"), node("n2", "CC", **HALL), node("n3", "CC", **HALL), node("n4", "AAA")],
        shape(3),
        ["n2", "n2", "n3"],
    ),
    "on a mixed node the least wanted come first": ([node("n1", "AACC")], shape(gpus=2), ["n1"]),
}


@pytest.mark.parametrize("case", CASES)
def test_it_goes_to(case: str) -> None:
    nodes, demands, expected = CASES[case]
    for listed in (nodes, nodes[::-1]):
        places = FreeNodes(listed, wanted=SCARCE).place(demands, vc="a")
        assert (places and sorted(place.node for place in places)) == (expected and sorted(expected))


def test_of_a_mixed_node_it_gets_the_gpus_that_are_wanted_least() -> None:
    free = FreeNodes([node("n1", "ABCC")], wanted=SCARCE)
    taken = [free.place(shape(gpus=number)) for number in (2, 1, 1)]
    assert [places and places[0].gpu_ids for places in taken] == [("2", "3"), ("1",), ("0",)]


def test_a_node_to_avoid_is_the_last_whatever_its_type() -> None:
    for gang in (shape(), shape(2)):
        places = FreeNodes([node("n1", "AA"), node("n2", "CC")], wanted=SCARCE).place(gang, avoid=frozenset({"n2"}))
        assert places and {place.node for place in places} == {"n1"}


def test_room_to_come_is_set_aside_of_what_is_wanted_least() -> None:
    free = FreeNodes([node("n1", "AC")], wanted=SCARCE)
    free.set_aside(shape(), ["n1"])
    assert free.place(shape(kind="C")) is None
    assert free.place(shape(kind="A")) is not None


# --- the measure -----------------------------------------------------------------------------------------------------


def test_wanted_is_what_is_asked_for_of_what_there_is() -> None:
    nodes = [node("n1", "AA"), node("n2", "BBBB", offered=False), node("n3", "C")]
    assert wanted(nodes, {"A": 3, "B": 2, "gone": 7}) == {"A": 1.5, "B": 0.5}
    assert wanted(nodes, {}) == {}
    assert wanted(nodes[:1], {"A": 3}) == {}, "there is nothing else to take"


def test_jobs_of_a_shape_are_added_up_together() -> None:
    """However many wait, each shape is looked into once."""
    looked: list[int] = []

    class Shape(tuple[Demand, ...]):
        def __iter__(self) -> Iterator[Demand]:
            looked.append(id(self))
            return super().__iter__()

    one, other = Shape(shape(2, 4, kind="A")), Shape([*shape(kind="B"), *shape(1, 3, kind="A"), *shape(5)])
    assert named_gpus([one, other] * 1000) == {"A": 11_000, "B": 1000}
    assert len(looked) == 2


# --- properties ------------------------------------------------------------------------------------------------------

NODES = st.lists(st.tuples(st.sampled_from("ABC"), st.integers(1, 4), st.integers(1, 8)), min_size=1, max_size=5).map(
    lambda rows: [node(f"n{at}", kind * gpus, cpus) for at, (kind, gpus, cpus) in enumerate(rows)]
)
MIXED = st.lists(st.text("ABC", max_size=4), min_size=1, max_size=4).map(
    lambda rows: [node(f"n{at}", gpus) for at, gpus in enumerate(rows)]
)
WANTED = st.dictionaries(st.sampled_from("ABC"), st.sampled_from([0.25, 0.5, 1.0, 3.0]))
GANG = st.builds(shape, st.integers(1, 4), st.integers(1, 3), st.integers(1, 3))


def types(nodes: Sequence[NodeView], places: Sequence[Placement]) -> list[str]:
    of = {one.name: dict(one.gpus) for one in nodes}
    return [of[place.node][id] for place in places for id in place.gpu_ids]


@given(NODES, WANTED, st.lists(GANG, max_size=3), GANG)
def test_it_never_takes_what_is_wanted_while_less_wanted_types_have_room(
    nodes: list[NodeView], measure: Wanted, before: list[tuple[Demand, ...]], gang: tuple[Demand, ...]
) -> None:
    free = FreeNodes(nodes, wanted=measure)
    held = [free.place(each) for each in before]
    found = free.copy().place(gang)
    for most in [0.0, *measure.values()]:
        few = FreeNodes([one for one in nodes if measure.get(one.gpus[0][1], 0.0) <= most])
        for demands, places in zip(before, held, strict=True):
            few.take(demands if places else (), places or ())
        if few.place(gang) is not None:
            assert found and all(measure.get(kind, 0.0) <= most for kind in types(nodes, found))


@given(MIXED, WANTED, GANG, st.sampled_from("ABC"))
def test_who_names_a_type_fits_as_before(
    nodes: list[NodeView], measure: Wanted, gang: tuple[Demand, ...], kind: str
) -> None:
    typed = [replace(demand, gpu_type=kind) for demand in gang]
    assert FreeNodes(nodes, wanted=measure).place(typed) == FreeNodes(nodes).place(typed)


@given(MIXED, WANTED, GANG)
def test_what_is_wanted_never_decides_whether_it_fits(
    nodes: list[NodeView], measure: Wanted, gang: tuple[Demand, ...]
) -> None:
    assert (FreeNodes(nodes, wanted=measure).place(gang) is None) == (FreeNodes(nodes).place(gang) is None)


@given(NODES, WANTED, st.integers(1, 4), st.integers(1, 3))
def test_behind_it_those_fit_who_want_the_scarcest_type(
    nodes: list[NodeView], measure: Wanted, gpus: int, tasks: int
) -> None:
    """At least as well as if nobody had looked at types."""
    kind = max(measure, key=lambda kind: measure[kind], default="A")
    typed, fits = shape(tasks, 1, 0, kind), []
    for measure_ in (measure, {}):
        free = FreeNodes(nodes, wanted=measure_)
        free.place(shape(1, gpus))
        fits.append(free.place(typed) is not None)
    assert fits[0] or not fits[1]


@given(MIXED, st.sampled_from([0.5, 2.0]), st.lists(GANG, max_size=3))
def test_where_no_type_is_wanted_more_than_another_all_is_as_before(
    nodes: list[NodeView], measure: float, gangs: list[tuple[Demand, ...]]
) -> None:
    alike, before = FreeNodes(nodes, wanted=dict.fromkeys("ABC", measure)), FreeNodes(nodes)
    assert [alike.place(gang) for gang in gangs] == [before.place(gang) for gang in gangs]


@given(MIXED, WANTED, st.lists(GANG, max_size=3), st.randoms())
def test_the_same_world_has_the_same_places(
    nodes: list[NodeView], measure: Wanted, gangs: list[tuple[Demand, ...]], chance: object
) -> None:
    mixed = nodes[:]
    chance.shuffle(mixed)  # type: ignore[attr-defined]
    one, other = FreeNodes(nodes, wanted=measure), FreeNodes(mixed, wanted=dict(reversed(measure.items())))
    assert [one.place(gang) for gang in gangs] == [other.place(gang) for gang in gangs]


# --- turns -----------------------------------------------------------------------------------------------------------


def job(id: int, demands: tuple[Demand, ...], vc: str = "a") -> Played:
    return Played(id=id, vc=vc, username="a", name=f"j{id}", since=f"{id:06}", shape=demands)


def test_a_running_job_that_names_a_type_counts_as_one_that_waits() -> None:
    play = Play([node("n1", "AA"), node("n2", "BB")])
    play.waiting = [job(1, shape(kind="A"))]
    play.step()
    assert play.scene().wanted == {"A": 0.5}
    play.waiting = [job(2, shape()), job(3, shape(kind="A"))]
    assert play.scene().wanted == {"A": 1.0}
    [open_, named] = play.step()
    assert [turn.move for turn in (open_, named)] == [Move.GO, Move.GO]
    assert [turn.placements[0].node for turn in (open_, named)] == ["n2", "n1"]


def test_a_scene_where_a_job_asks_for_something_else() -> None:
    scene: Scene[Played] = Scene([node("n1", "A"), node("n2", "B")], NOW, named={"A": 3})
    assert scene.naming(shape(2, kind="B"), shape(kind="A")).named == {"A": 2, "B": 2}
    assert scene.naming(less=shape(3, kind="A")).wanted == {}


def test_a_long_queue_costs_no_more_where_types_are_wanted() -> None:
    """Calls of functions, of the round in which thousands of jobs of many shapes wait."""
    kinds = ["", "", "A", "B"]
    shapes = [shape(tasks, gpus, 1, kind) for tasks in (1, 4) for gpus in (1, 2, 3) for kind in kinds]
    play = Play([node(f"n{at}", "ABC"[at % 3] * 4) for at in range(30)])
    play.waiting = [job(id, shapes[id * 7 % len(shapes)]) for id in range(1, 3001)]
    calls = {}
    for scene in (play.scene(), replace(play.scene(), named={})):
        calls[bool(scene.wanted)], made = calls_of(lambda: list(turns(play.waiting, scene, only_tried=True)))  # noqa: B023
        assert any(turn.move is Move.GO for turn in made)
    assert calls[True] <= 1.1 * calls[False]


@given(st.lists(st.tuples(st.sampled_from(["", "A", "B"]), st.integers(1, 2)), min_size=1, max_size=8), st.randoms())
def test_the_same_queue_has_the_same_turns(wishes: list[tuple[str, int]], chance: object) -> None:
    nodes = [node("n1", "AA"), node("n2", "BB"), node("n3", "AABB"), node("n4", "C")]
    play, other = Play(nodes), Play(nodes)
    play.waiting = [job(id, shape(1, gpus, 1, kind)) for id, (kind, gpus) in enumerate(wishes, 1)]
    other.waiting = play.waiting[:]
    chance.shuffle(other.waiting)  # type: ignore[attr-defined]
    made = [[(turn.job.id, turn.move, turn.placements) for turn in each.turns()] for each in (play, other)]
    assert made[0] == made[1]
