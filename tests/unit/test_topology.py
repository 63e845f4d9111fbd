"""The tasks of a gang lie close together, by the paths that the label ``topology`` of nodes is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from clusters.placement.blockers import blockers
from clusters.placement.fit import Demand, NodeView, Placement, idle
from clusters.placement.free import FreeNodes
from clusters.placement.grid import grid
from clusters.placement.never import never_fits
from clusters.placement.topology import LEVEL_NODE, NEAREST, Topology, path_of
from tests.helpers import examples
from tests.integration.test_costs import calls_of
from tests.unit.queue_model import NOW, Play, Played, shape
from tests.unit.queue_model import node as plain

HALL, RACK, NODE = (Topology(level, True) for level in (1, 2, LEVEL_NODE))


def at(path: str, name: str, gpus: str = "AAAA", used: int = 0, **values: Any) -> NodeView:
    labels = frozenset({("topology", path)} if path else ())
    return plain(name, gpus, labels=labels, used_gpus=frozenset(map(str, range(used))), **values)


def gang(tasks: int, gpus: int = 1, topology: Topology = NEAREST, **values: Any) -> list[Demand]:
    return [replace(demand, topology=topology) for demand in shape(tasks, gpus, **values)]


def where(places: Sequence[Placement] | None) -> list[str] | None:
    return None if places is None else sorted({place.node for place in places})


def racks(*used: int) -> list[NodeView]:
    """Racks of two nodes with four GPUs each, of which so many are taken; two racks are a hall."""
    return [
        at(f"hall{1 + rack // 2}/rack{rack}", f"n{rack}{each}", used=taken)
        for rack, taken in enumerate(used)
        for each in "ab"
    ]


CASES: dict[str, tuple[list[NodeView], list[Demand], list[str] | None]] = {
    "one free rack rather than two halves": (racks(2, 2, 2, 0), gang(8), ["n3a", "n3b"]),
    "the fullest rack that has room": (racks(0, 2, 1, 0), gang(4), ["n0a"]),
    "a rack before a hall": (racks(2, 3, 4, 1), gang(5), ["n3a", "n3b"]),
    "one hall where no rack will do": (racks(1, 2, 2, 2), gang(8), ["n2a", "n2b", "n3a", "n3b"]),
    "the fewest racks where no hall will do": (racks(2, 0, 4, 0), gang(16), ["n1a", "n1b", "n3a", "n3b"]),
    "the smallest of those that hold the rest": (
        racks(2, 0, 3, 0),
        gang(18),
        ["n1a", "n1b", "n2a", "n2b", "n3a", "n3b"],
    ),
    "one node where it fits": ([*racks(2, 2), at("", "n9")], gang(4), ["n9"]),
    "those without the label last": ([at("", "n0", "AAA"), *racks(2, 2)], gang(5), ["n0a", "n0b", "n1a"]),
    "any node rather than none": ([at("", "n0", "AAA"), *racks(2, 2)], gang(11), ["n0", "n0a", "n0b", "n1a", "n1b"]),
    "in a hall the fewest racks": (
        [
            *(at(f"h1/r{rack}", f"n{rack}", "A" * gpus) for rack, gpus in enumerate([1, 1, 1, 4, 3])),
            at("h2/r9", "n9", ""),
        ],
        gang(7),
        ["n3", "n4"],
    ),
    "a hall is enough where that is preferred": (
        [at("h1/r1", "n1", "AA"), at("h1/r2", "n2", "AAA"), *(at(f"h2/r{k}", f"n{k}", "AA" * 2) for k in (3, 4))],
        gang(5, topology=Topology(1)),
        ["n1", "n2"],
    ),
    "a required rack": (racks(2, 2, 1, 1), gang(6, topology=RACK), ["n2a", "n2b"]),
    "no rack, so it waits": (racks(2, 2, 2, 2), gang(5, topology=RACK), None),
    "a required hall": (racks(2, 2, 2, 3), gang(8, topology=HALL), ["n0a", "n0b", "n1a", "n1b"]),
    "in the required hall one rack": (racks(2, 2, 1, 1), gang(6, topology=HALL), ["n2a", "n2b"]),
    "none without the label": ([at("", "n0", "A" * 8), at("h1", "n1", "A" * 8)], gang(8, topology=RACK), None),
    "one task needs the label too": ([at("h1", "n0"), at("h1/r1", "n1", "A" * 8)], gang(1, topology=RACK), ["n1"]),
    "all on one node": ([*racks(0, 0), at("", "n9", "A" * 6)], gang(3, 2, topology=NODE), ["n9"]),
    "not on two": (racks(0, 0), gang(3, 2, topology=NODE), None),
    "without GPUs too": (
        [at("h1/r1", "n1", "", cpus=1), at("h1/r1", "n2", "", cpus=2), at("h1/r2", "n3", "", cpus=2)],
        gang(3, 0, topology=RACK),
        ["n1", "n2"],
    ),
    "a node that is avoided where nothing else will do": (racks(2, 2), gang(4, topology=RACK), ["n1a", "n1b"]),
}


@pytest.mark.parametrize("case", CASES)
def test_it_goes_to(case: str) -> None:
    nodes, demands, expected = CASES[case]
    for listed in (nodes, nodes[::-1]):
        avoid = frozenset({"n0a"} if "avoided" in case else ())
        assert where(FreeNodes(listed).place(demands, avoid=avoid)) == expected


def test_what_is_avoided_is_taken_where_the_required_domain_is_nowhere_else() -> None:
    found = FreeNodes(racks(2, 4)).place(gang(4, topology=RACK), avoid=frozenset({"n0a"}))
    assert where(found) == ["n0a", "n0b"]


@pytest.mark.parametrize(("value", "path"), [("hall1/rack3", ("hall1", "rack3")), ("/a//b/", ("a", "b")), ("", ())])
def test_a_path_has_parts(value: str, path: tuple[str, ...]) -> None:
    assert path_of(frozenset({("topology", value), ("disk", "ssd")})) == path


# --- why not ---------------------------------------------------------------------------------------------------------


def test_it_says_which_domain_is_nearest_and_what_is_missing_there() -> None:
    [told] = blockers(racks(2, 3, 2, 1), gang(8, topology=RACK))
    assert told.kind == "topology"
    assert told.sentence == (
        "Its tasks must all be in one domain of level 2 of the label topology (extras.topology.require). "
        "The nearest is hall2/rack3, with room for 6 of 8 w tasks: 2 GPUs more must come free there."
    )
    [one_node] = blockers(racks(0), gang(3, 2, topology=NODE))
    assert one_node.sentence.startswith(
        "Its tasks must all be on one node (extras.topology.require). The nearest is n0a"
    )


def test_where_not_even_all_nodes_have_room_both_is_said() -> None:
    assert [told.kind for told in blockers(racks(3, 3), gang(5, topology=RACK))] == ["gang", "topology"]


def test_a_level_that_no_node_has_is_never_met() -> None:
    for demands in (gang(1, topology=Topology(3, True)), gang(2, topology=Topology(3, True))):
        never = never_fits(racks(0), demands)
        assert never is not None and never.kind == "never"
        assert never.sentence.endswith("but no registered node has that label with 3 parts: n0a has hall1/rack0.")
        assert [told.kind for told in blockers(racks(0), demands)] == ["topology"]


def test_what_is_larger_than_each_domain_is_never_met() -> None:
    never = never_fits(racks(0, 0), gang(9, topology=RACK))
    assert never is not None and never.sentence.endswith(
        "and none could ever hold them. Of the largest: All nodes of hall1/rack0 together have room for 8 w tasks at "
        "once; the job asks for 9."
    )
    assert never_fits(racks(0, 0), gang(9, topology=HALL)) is None


def test_the_grid_shows_the_label_that_is_missing() -> None:
    rows = grid([at("h1", "n1"), at("h1/r1", "n2")], gang(2, topology=RACK))
    assert [(row.node, row.labels.short) for row in rows] == [("n2", ""), ("n1", "label topology of 2 parts")]
    assert rows[0].labels.have == "topology=h1/r1"


# --- reservations ----------------------------------------------------------------------------------------------------


def job(id: int, tasks: int, gpus: int = 1, topology: Topology = NEAREST, **values: Any) -> Played:
    return Played(id=id, vc="a", since=f"{id:03}", shape=tuple(gang(tasks, gpus, topology)), **values)


def filled(topology: Topology, *ends: int) -> Play:
    """Racks of two nodes that are full, until these seconds; and a gang of a rack's size that waits."""
    play = Play(racks(*[0] * (len(ends) // 2)))
    play.waiting = [job(at, 1, 4, seconds=end, most=end) for at, end in enumerate(ends, 1)]
    play.step()
    assert len(play.running) == len(ends)
    play.waiting = [job(9, 8, topology=topology, seconds=9_000)]
    return play


@pytest.mark.parametrize("topology", [RACK, NEAREST, HALL])
def test_room_is_kept_in_the_domain_in_which_it_comes_first(topology: Topology) -> None:
    play = filled(topology, 300, 400, 100, 400)
    [turn] = play.turns()
    assert turn.reservation is not None
    where = {job.id: places[0].node for job, places in play.running.values()}
    assert (
        turn.reservation.names
        == {
            RACK: ["n0a", "n0b"],
            HALL: sorted([where[1], where[3]]),
            NEAREST: sorted([where[1], where[3]]),
        }[topology]
    )


def test_a_reservation_of_a_required_domain_is_met() -> None:
    """Others come all the time; each node that comes free there stays free for the gang, though two nodes of other
    racks come free before."""
    play = filled(RACK, 300, 400, 100, 900, 200, 900)
    for id in range(10, 60):
        play.waiting.append(job(id, 1, seconds=500))
        play.step(10)
    assert (play.started[9] - NOW).total_seconds() == 400
    assert where(play.running[9][1]) == ["n0a", "n0b"]


# --- properties ------------------------------------------------------------------------------------------------------

PATHS = ["", "h1", "h1/r1", "h1/r2", "h2/r1", "h2/r1/s1", "h2/r1/s2"]
NODES = st.lists(
    st.tuples(st.sampled_from(PATHS), st.text("AB", max_size=4), st.integers(1, 6), st.integers(0, 2), st.booleans()),
    min_size=1,
    max_size=6,
).map(
    lambda rows: [
        at(path, f"n{number}", gpus, min(used, len(gpus)), cpus=cpus, offered=offered or not number)
        for number, (path, gpus, cpus, used, offered) in enumerate(rows)
    ]
)
TOPOLOGIES = st.builds(Topology, st.sampled_from([1, 2, 3, LEVEL_NODE]), st.just(True))
GANGS = st.tuples(
    st.integers(1, 4), st.integers(0, 2), st.integers(0, 2), st.integers(0, 2), st.sampled_from(["", "A"])
).map(
    lambda row: [
        *shape(row[0], row[1], 1, row[4]),
        *(replace(one, role="ps", task=f"ps-{one.index}") for one in shape(row[2], row[3], 2, row[4])),
    ]
)
AVOID = st.frozensets(st.sampled_from(["n0", "n1", "n2"]))


def asking(demands: Sequence[Demand], topology: Topology) -> list[Demand]:
    return [replace(demand, topology=topology) for demand in demands]


def in_domains(nodes: Sequence[NodeView], topology: Topology) -> list[list[NodeView]]:
    parts: dict[object, list[NodeView]] = {}
    for one in nodes:
        path = path_of(one.labels)
        if topology.level == LEVEL_NODE or len(path) >= topology.level:
            parts.setdefault(one.name if topology.level == LEVEL_NODE else path[: topology.level], []).append(one)
    return list(parts.values())


@given(NODES, GANGS, TOPOLOGIES, AVOID)
def test_all_tasks_are_in_one_required_domain_and_one_is_found_whenever_there_is_one(
    nodes: list[NodeView], demands: list[Demand], topology: Topology, avoid: frozenset[str]
) -> None:
    parts = in_domains(nodes, topology)
    found = FreeNodes(nodes).place(asking(demands, topology), avoid=avoid)
    possible = any(FreeNodes(part).place(demands) is not None for part in parts)
    assert (found is not None) == possible
    used = {place.node for place in found or ()}
    assert not used or any(used <= {one.name for one in part} for part in parts)


@given(NODES, GANGS, st.integers(0, 4), AVOID)
def test_what_is_only_preferred_never_decides_whether_it_fits(
    nodes: list[NodeView], demands: list[Demand], level: int, avoid: frozenset[str]
) -> None:
    found = FreeNodes(nodes).place(asking(demands, Topology(level)), avoid=avoid)
    without = [replace(one, labels=frozenset()) for one in nodes]
    assert (found is None) == (FreeNodes(without).place(demands) is None)


@given(NODES, GANGS, st.one_of(TOPOLOGIES, st.builds(Topology, st.integers(0, 3))), AVOID)
def test_the_same_world_gives_the_same_places_and_leaves_what_it_should(
    nodes: list[NodeView], demands: list[Demand], topology: Topology, avoid: frozenset[str]
) -> None:
    asked = asking(demands, topology)
    free, other = FreeNodes(nodes), FreeNodes(nodes[::-1])
    found = free.place(asked, 3, avoid)
    assert found == other.place(asked, 3, avoid)
    if found is not None:
        free.give_back(asked, found)
    assert [free.place(asked, 4, avoid), free.place(demands, 5)] == [
        (fresh := FreeNodes(nodes)).place(asked, 4, avoid),
        fresh.place(demands, 5),
    ]


@given(NODES, GANGS, st.integers(1, 3))
def test_where_one_preferred_domain_has_room_a_gang_with_gpus_is_in_one(
    nodes: list[NodeView], demands: list[Demand], level: int
) -> None:
    offered = [one for one in nodes if one.offered]
    parts = [part for part in in_domains(offered, Topology(level)) if FreeNodes(part).place(demands) is not None]
    found = FreeNodes(nodes).place(asking(demands, Topology(level)))
    if parts and any(demand.gpus for demand in demands) and len(demands) > 1:
        used = {place.node for place in found or ()}
        assert len(used) == 1 or any(used <= {one.name for one in part} for part in parts)


@given(NODES, GANGS, TOPOLOGIES)
def test_every_blocker_is_true(nodes: list[NodeView], demands: list[Demand], topology: Topology) -> None:
    asked = asking(demands, topology)
    told = blockers(nodes, asked)
    assert bool(told) == (FreeNodes(nodes).place(asked) is None)
    if told and {one.kind for one in told} == {"topology"}:
        assert FreeNodes(nodes).place(demands) is not None
    if never_fits(nodes, asked) is not None:
        assert FreeNodes([idle(one) for one in nodes]).place(asked) is None


# --- what it costs ---------------------------------------------------------------------------------------------------


def test_where_no_node_has_the_label_it_costs_what_it_did() -> None:
    nodes = [plain(f"n{number:03}", "A" * (number % 5)) for number in range(200)]
    free, fitting = FreeNodes(nodes), gang(6, 2)
    free.copy().place(fitting)
    assert calls_of(lambda: free.copy().place(fitting))[0] < 1_400


def test_where_nodes_have_it_the_work_grows_with_the_nodes() -> None:
    def calls(number: int, topology: Topology) -> int:
        nodes = [at(f"h{one // 64}/r{one // 8}", f"n{one:04}", "A" * 4, used=2) for one in range(number)]
        free = FreeNodes(nodes)
        return calls_of(lambda: free.copy().place(gang(17, topology=topology)))[0]

    for topology in (RACK, NEAREST, HALL, NODE):
        assert calls(800, topology) < 5 * calls(200, topology)


# --- in the queue ----------------------------------------------------------------------------------------------------

JOBS = st.lists(
    st.builds(
        job,
        st.just(0),
        st.integers(1, 6),
        st.integers(1, 3),
        st.sampled_from([NEAREST, RACK, HALL, NODE]),
        seconds=st.integers(1, 60),
    ),
    min_size=1,
    max_size=8,
)


@settings(max_examples=examples(60), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(JOBS, st.booleans())
def test_starts_and_reservations_keep_to_required_domains_and_all_start(listed: list[Played], known: bool) -> None:
    play = Play(racks(0, 0, 0, 0))
    for id, one in enumerate(listed, 1):
        if FreeNodes(play.nodes).place(one.shape) is not None:
            play.waiting.append(replace(one, id=id, since=f"{id:03}", most=one.seconds if known else None))
    could = {one.id for one in play.waiting}
    labels = {one.name: one.labels for one in play.nodes}
    for _ in range(80):
        for turn in play.step(10):
            topology, kept = turn.job.shape[0].topology, turn.reservation
            for names in ([place.node for place in turn.placements], kept.nodes if kept else ()):
                domains = {topology.domain(name, labels[name]) for name in names}
                assert len(domains) <= 1 or not topology.is_required
    assert could == play.started.keys()
