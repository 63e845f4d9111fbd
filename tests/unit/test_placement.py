"""Placement: named cases, and the properties that hold for every cluster and every gang."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clusters.engines.image_names import canonical, registry_of
from clusters.placement.blockers import blockers
from clusters.placement.fit import Demand, Mark, NodeView, Placement, PortDemand, bars, idle, in_force
from clusters.placement.free import FreeNodes
from clusters.placement.never import never_fits
from clusters.placement.topology import Labels

PORTS = (PortDemand("http", 0, 1), PortDemand("ssh", 0, 1))
RACK = frozenset({("topology", "rack-1")})
SSD, HDD = frozenset({("disk", "ssd")}), frozenset({("disk", "hdd")})


def node(name: str = "n1", cpus: int = 8, memory_mb: int = 16000, gpus: str = "", **values: object) -> NodeView:
    """``gpus="AAV"``: two of type A, one of type V."""
    listed = tuple((str(at), kind) for at, kind in enumerate(gpus))
    base = NodeView(name, f"10.0.0.{name[1:]}", cpus, memory_mb, listed, 30000, 30099, fixed_ports=((6000, 6100),))
    return replace(base, **values)  # type: ignore[arg-type]


def gang(count: int = 1, cpus: int = 1, memory_mb: int = 100, gpus: int = 0, kind: str = "", role: str = "w",
         ports: tuple[PortDemand, ...] = PORTS, image: str = "",
         labels: Labels = frozenset()) -> list[Demand]:  # fmt: skip
    asked = (cpus, memory_mb, gpus, kind, ports, image, labels)
    return [Demand(f"{role}-{at}", role, at, *asked) for at in range(count)]


def where(places: list[Placement] | None) -> list[str] | None:
    return None if places is None else [place.node for place in places]


CASES = {
    "a task goes to the tightest node": ([node("n1", gpus="AAAA"), node("n2", gpus="A")], gang(gpus=1), ["n2"]),
    "a task without GPU spares the GPU nodes": ([node("n1", gpus="AA"), node("n2")], gang(), ["n2"]),
    "a gang is packed": ([node("n1", gpus="AA"), node("n2", gpus="AA")], gang(2, gpus=1), ["n1", "n1"]),
    "a gang is spread where it must": ([node("n1", gpus="A"), node("n2", gpus="A")], gang(2, gpus=1), ["n1", "n2"]),
    "a gang is close together though tighter nodes are there": (
        [node("n1", gpus="A"), node("n2", gpus="A"), node("n3", gpus="AAA")],
        gang(2, gpus=1),
        ["n3", "n3"],
    ),
    "a gang that needs several nodes stays in one topology": (
        [node("n1", gpus="A"), node("n2", gpus="AA", labels=RACK), node("n3", gpus="AA", labels=RACK)],
        gang(3, gpus=1),
        ["n2", "n2", "n3"],
    ),
    "a gang is whole or nothing": ([node("n1", gpus="A"), node("n2", gpus="A")], gang(3, gpus=1), None),
    "the type of GPU counts": ([node("n1", gpus="VV"), node("n2", gpus="A")], gang(gpus=1, kind="A"), ["n2"]),
    "types are not mixed up": ([node("n1", gpus="VA")], gang(gpus=2, kind="A"), None),
    "any type when none is asked for": ([node("n1", gpus="VA")], gang(gpus=2), ["n1"]),
    "memory counts": ([node("n1", memory_mb=150)], gang(2, memory_mb=100), None),
    "CPU counts": ([node("n1", cpus=2)], gang(3), None),
    "a node that is not offered gets nothing": ([node("n1", offered=False)], gang(), None),
    "what is used is not given twice": ([node("n1", gpus="AA", used_gpus=frozenset({"0"}))], gang(gpus=2), None),
    "a node without the labels gets nothing": ([node("n1", labels=HDD), node("n2")], gang(labels=SSD), None),
    "a node with the labels is found": (
        [node("n1", gpus="A"), node("n2", labels=SSD | {("x", "")})],
        gang(2, labels=SSD),
        ["n2", "n2"],
    ),
    "all labels are needed": ([node("n1", labels=SSD)], gang(labels=SSD | {("rack", "7")}), None),
    "a packing that best fit alone misses": (
        [node("n1", cpus=8, gpus="AA"), node("n2", cpus=2, gpus="AAA")],
        [*gang(gpus=2, role="a"), *gang(cpus=4, gpus=1, role="b")],
        ["n2", "n1"],
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_it_places(case: str) -> None:
    nodes, demands, expected = CASES[case]
    assert where(FreeNodes(nodes).place(demands)) == expected


HAS = {"images": frozenset({"lab/a:1"})}
NO_GPUS, NO_PULL, NO_START = Mark("gpus", "No."), Mark("pull", "No.", "lab:5000"), Mark("start", "No.")

FEW_AND_MANY_CORES = [node("n1", cpus=8, gpus="AAAA"), node("n2", cpus=32, gpus="AAAA")]
PREFERENCES: dict[str, tuple[list[NodeView], list[Demand], str, list[str] | None]] = {
    "a node with the image comes first, however roomy": (
        [node("n1", cpus=2), node("n2", **HAS)],
        gang(image="lab/a:1"),
        "",
        ["n2"],
    ),
    "of nodes with the image the tightest": (
        [node("n1", **HAS), node("n2", cpus=4, **HAS)],
        gang(image="lab/a:1"),
        "",
        ["n2"],
    ),
    "another tag is another image": ([node("n1", **HAS), node("n2", cpus=4)], gang(image="lab/a:2"), "", ["n2"]),
    "where the image is but no room, another node pulls it": (
        [node("n1", used_cpus=8, **HAS), node("n2")],
        gang(image="lab/a:1"),
        "",
        ["n2"],
    ),
    "a gang takes the nodes with the image as far as they go": (
        [node("n1"), node("n2", cpus=1, **HAS), node("n3", cpus=1, **HAS)],
        gang(3, image="lab/a:1"),
        "",
        ["n2", "n3", "n1"],
    ),
    "a gang stays whole or nothing": ([node("n1", cpus=1, **HAS)], gang(2, image="lab/a:1"), "", None),
    "many cores leave the other GPUs theirs": (FEW_AND_MANY_CORES, gang(cpus=6, gpus=1), "", ["n2"]),
    "few cores leave the node that has many": (FEW_AND_MANY_CORES, gang(cpus=2, gpus=1), "", ["n1"]),
    "the node that just refused comes last": ([node("n1", cpus=2), node("n2")], gang(), "n1", ["n2"]),
    "it comes last although it has the image": ([node("n1", **HAS), node("n2")], gang(image="lab/a:1"), "n1", ["n2"]),
    "with nothing else it is taken again": ([node("n1"), node("n2", cpus=1)], gang(cpus=2), "n1", ["n1"]),
    "what is avoided need not be registered": ([node("n1")], gang(), "n7", ["n1"]),
    "a node marked for GPUs gets no GPU task": ([node("n1", gpus="A", marks=(NO_GPUS,))], gang(gpus=1), "", None),
    "a node marked for GPUs gets others": ([node("n1", gpus="A", marks=(NO_GPUS,))], gang(), "", ["n1"]),
    "a node marked for a registry pulls nothing from it": (
        [node("n1", marks=(NO_PULL,)), node("n2", cpus=64)],
        gang(image="lab:5000/b:1"),
        "",
        ["n2"],
    ),
    "a node marked for a registry runs what it has of it": (
        [node("n1", marks=(NO_PULL,), images=frozenset({"lab:5000/b:1"})), node("n2")],
        gang(image="lab:5000/b:1"),
        "",
        ["n1"],
    ),
    "a node marked for a registry pulls from others": ([node("n1", marks=(NO_PULL,))], gang(image="b:1"), "", ["n1"]),
    "a node marked for starts gets nothing": ([node("n1", marks=(NO_START,)), node("n2", cpus=64)], gang(), "", ["n2"]),
    "a node that cannot reach the portal gets tasks": ([node(marks=(Mark("portal", ""),))], gang(), "", ["n1"]),
    "a mark counts for a node to avoid too": ([node("n1", marks=(NO_START,))], gang(), "n1", None),
}


@pytest.mark.parametrize("case", PREFERENCES)
def test_it_prefers(case: str) -> None:
    nodes, demands, avoid, expected = PREFERENCES[case]
    assert where(FreeNodes(nodes).place(demands, avoid=frozenset(avoid.split()))) == expected
    assert where(FreeNodes(nodes[::-1]).place(demands, avoid=frozenset(avoid.split()))) == expected


@pytest.mark.parametrize(("vc", "expected"), [("c", "n2"), ("a", "n1"), ("", "n1")])
def test_a_dedicated_node_is_the_first_choice_of_its_virtual_cluster_and_serves_no_other(
    vc: str, expected: str
) -> None:
    nodes = [node("n1", cpus=4), node("n2", dedicated_to="c")]
    assert where(FreeNodes(nodes).place(gang(), vc=vc)) == [expected]
    assert FreeNodes(nodes[1:]).place(gang(), vc="a") is None


def test_marks_lapse() -> None:
    now = datetime(2026, 11, 20, 12, tzinfo=UTC)
    lapsed, lasting, of_a_clock_set_back = (
        Mark("start", "No.", until=now + timedelta(seconds=after)) for after in (0, 1, 86_400)
    )
    shown = in_force([node(marks=(lapsed, lasting, of_a_clock_set_back, NO_GPUS)), node("n2")], now)
    assert [one.marks for one in shown] == [(lasting, NO_GPUS), ()]


@pytest.mark.parametrize(
    ("image", "listed", "registry"),
    [
        ("ubuntu", "ubuntu:latest", "docker.io"),
        ("docker.io/library/ubuntu:22.04", "ubuntu:22.04", "docker.io"),
        ("index.docker.io/lab/a", "lab/a:latest", "docker.io"),
        ("lab/a:1", "lab/a:1", "docker.io"),
        ("localhost/a", "localhost/a:latest", "localhost"),
        ("lab:5000/x/a:1", "lab:5000/x/a:1", "lab:5000"),
        ("lab:5000/a", "lab:5000/a:latest", "lab:5000"),
        ("reg.lab/a:1@sha256:ab", "reg.lab/a@sha256:ab", "reg.lab"),
        ("", ":latest", "docker.io"),
    ],
)
def test_an_image_is_named_as_engines_list_it(image: str, listed: str, registry: str) -> None:
    assert (canonical(image), registry_of(image)) == (listed, registry)


def test_ports_come_from_the_node_s_range_and_are_never_shared() -> None:
    places = FreeNodes([node()]).place(gang(3))
    assert places is not None
    ports = [port for place in places for numbers in place.ports.values() for port in numbers]
    assert len(set(ports)) == 6
    assert all(30000 <= port <= 30099 for port in ports)


def test_two_jobs_in_a_row_do_not_get_the_same_ports() -> None:
    first, second = (FreeNodes([node()]).place(gang(), salt=salt) for salt in (1, 2))
    assert first and second
    assert first[0].ports["http"] != second[0].ports["http"]


def test_fixed_ports_keep_tasks_apart() -> None:
    fixed = (PortDemand("tb", 6006, 2),)
    assert where(FreeNodes([node("n1")]).place(gang(2, ports=fixed))) is None
    places = FreeNodes([node("n1"), node("n2")]).place(gang(2, ports=fixed))
    assert places is not None
    assert sorted(place.node for place in places) == ["n1", "n2"]
    assert all(place.ports == {"tb": [6006, 6007]} for place in places)


@pytest.mark.parametrize(
    ("begin", "number", "given"),
    [(22, 1, False), (5999, 2, False), (6000, 101, True), (30000, 100, True), (30099, 2, False), (65535, 1, False)],
)
def test_fixed_ports_are_those_that_the_node_gives_out(begin: int, number: int, given: bool) -> None:
    fixed = gang(ports=(PortDemand("x", begin, number),))
    assert (where(FreeNodes([node()]).place(fixed)) is not None) == given
    assert bool(blockers([node()], fixed)) != given
    assert (never_fits([node()], fixed) is None) == given


def test_a_fixed_port_that_no_node_gives_out_is_told_apart_from_a_taken_one() -> None:
    [refused] = blockers([node()], gang(ports=(PortDemand("x", 22, 1),)))
    assert (refused.kind, refused.sentence) == ("ports", "No node gives out port 22; w asks for exactly that.")
    [taken] = blockers([node(used_ports=frozenset({6006}))], gang(ports=(PortDemand("x", 6006, 1),)))
    assert taken.sentence == "Port 6006 is taken on every node; w asks for exactly that."


def test_a_node_without_enough_free_ports_is_passed_over() -> None:
    used = frozenset(range(30000, 30099))
    assert where(FreeNodes([node("n1", used_ports=used), node("n2")]).place(gang())) == ["n2"]


# --- why not ---------------------------------------------------------------------------------------------------------


def kinds(nodes: Sequence[NodeView], demands: Sequence[Demand]) -> list[str]:
    return [blocker.kind for blocker in blockers(nodes, demands)]


def test_every_blocker_is_told_not_only_the_first() -> None:
    busy = node("n1", cpus=8, gpus="A", used_cpus=8, used_memory_mb=16000, used_gpus=frozenset({"0"}))
    assert kinds([busy], gang(gpus=1)) == ["gpus", "cpu", "memory"]


def test_a_gang_is_told_what_it_needs_and_what_there_is() -> None:
    (one,) = blockers([node(cpus=1)], gang(2))
    assert one.sentence.endswith("They need 2 CPU cores in the right pieces; 1 CPU core is free, on 1 node.")
    (three,) = blockers([node("n1", gpus="AA"), node("n2", gpus="A")], gang(2, gpus=2))
    assert three.sentence.endswith("4 GPUs in the right pieces; 3 GPUs are free, on 2 nodes.")


def test_a_blocker_names_the_numbers_and_the_nearest_nodes() -> None:
    nodes = [node("n1", gpus="AAAA", used_gpus=frozenset({"0", "1"})), node("n2", gpus="AAA")]
    (blocker,) = blockers(nodes, gang(gpus=4, kind="A"))
    assert (
        blocker.sentence == "Each task of w needs 4 A GPUs on one node; the most that is free is 3 on n2 and 2 on n1."
    )
    assert (blocker.need, blocker.have, blocker.node) == ("4", "3", "n2")


def test_pieces_that_lie_on_different_nodes_are_told_apart() -> None:
    assert kinds([node("n1", gpus="A", cpus=1), node("n2", cpus=8)], gang(cpus=4, gpus=1)) == ["node"]


def test_a_node_that_is_away_is_named_when_it_would_help() -> None:
    nodes = [node("n1"), node("n2", gpus="AA", offered=False, why_not="unreachable since 14:21")]
    assert kinds(nodes, gang(gpus=2)) == ["gpus", "nodes"]


def test_a_job_that_waits_for_a_marked_node_says_so() -> None:
    until = datetime(2026, 11, 20, 12, 5, tzinfo=UTC)
    refusing = Mark("gpus", "Node n1 cannot hand out GPUs: no driver.", until=until)
    (blocker,) = blockers([node("n1", gpus="AA", marks=(refusing,)), node("n2")], gang(gpus=1))
    assert blocker.sentence == (
        f"Node n1 cannot hand out GPUs: no driver. It is tried again at {until.astimezone():%H:%M}."
    )
    assert (blocker.kind, blocker.node, blocker.until) == ("marked", "n1", until.isoformat())
    assert never_fits([node("n1", gpus="A", marks=(refusing,))], gang(gpus=1)) is None, "a mark lapses"


def test_a_marked_node_that_is_full_is_not_the_reason() -> None:
    full = node("n1", gpus="A", used_gpus=frozenset({"0"}), marks=(NO_GPUS,))
    assert kinds([full, node("n2", gpus="A", used_gpus=frozenset({"0"}))], gang(gpus=1)) == ["gpus"]


def test_nodes_without_the_labels_are_named_with_what_they_have_instead() -> None:
    nodes = [node("n1", labels=HDD), node("n2"), node("n3", labels=SSD, offered=False, why_not="cordoned")]
    found = blockers(nodes, gang(labels=SSD))
    assert found[0].sentence == "No node offered now has the label disk=ssd: n1 has disk=hdd; n2 has no disk."
    assert (found[0].kind, found[0].need) == ("labels", "disk=ssd")
    assert [blocker.sentence for blocker in found[1:]] == ["Node n3 is cordoned, so nothing is placed on it."]


def test_a_full_node_with_the_labels_is_the_reason_and_so_are_the_free_ones_without() -> None:
    nodes = [node("n1", labels=SSD, used_cpus=8), node("n2"), node("n3", offered=False)]
    cpu, elsewhere = blockers(nodes, gang(2, labels=SSD))
    assert (cpu.kind, cpu.node) == ("cpu", "n1")
    assert elsewhere.sentence == "n2 has room for it, but not the label disk=ssd."


def test_what_no_registered_node_is_labelled_can_never_run() -> None:
    labels = SSD | {("rack", "7")}
    never = never_fits([node("n1", labels=HDD), node("n2", labels=SSD)], gang(labels=labels))
    assert never is not None
    assert never.kind == "never"
    assert never.sentence == (
        "No registered node has the labels disk=ssd, rack=7: n2 has no rack; n1 has disk=hdd, and no rack."
    )
    assert "8 CPU cores of the 9" in str(
        never_fits([node("n1", labels=SSD), node("n2", cpus=20)], gang(cpus=9, labels=SSD))
    )


def test_no_node_at_all() -> None:
    assert kinds([], gang()) == ["nodes"]
    assert never_fits([], gang()) is None, "the first node may come any minute"


@pytest.mark.parametrize(
    ("nodes", "demands", "said"),
    [
        ([node("n1", gpus="A"), node("n2", gpus="AAA")], gang(gpus=4), "The nearest is n2: it has 3 GPUs of the 4"),
        ([node("n1", gpus="VVVV")], gang(gpus=1, kind="A"), "it has 0 A GPUs of the 1 asked for"),
        ([node("n1")], gang(cpus=9), "8 CPU cores of the 9 asked for"),
        ([node("n1")], gang(9), "room for 8 w tasks at once; the job asks for 9"),
        ([node("n1", gpus="AAAA")], gang(2, gpus=4), "room for 1 w task at once; the job asks for 2"),
        ([node("n1")], [*gang(5, role="a"), *gang(5, role="b")], "10 CPU cores at once; all nodes together have 8"),
        ([node("n1")], gang(ports=(PortDemand("x", 0, 101),)), "No registered node could ever run w"),
    ],
)
def test_what_could_never_run_is_told_with_the_nearest_node(
    nodes: list[NodeView], demands: list[Demand], said: str
) -> None:
    blocker = never_fits(nodes, demands)
    assert blocker is not None
    assert said in blocker.sentence


# --- properties ------------------------------------------------------------------------------------------------------

SOME_NODES = st.lists(
    st.builds(
        lambda *row: row,
        st.integers(1, 6),
        st.integers(1, 8),
        st.text("AV", max_size=4),
        st.sets(st.integers(0, 3)),
        st.booleans(),
        st.sets(st.sampled_from(["lab/a:1", "lab:5000/b:1"])),
        st.sets(st.sampled_from([NO_GPUS, NO_PULL, NO_START]), max_size=1),
        st.sampled_from([frozenset(), SSD, SSD | {("rack", "7")}]),
    ),
    max_size=4,
).map(
    lambda rows: [
        node(
            f"n{at}",
            cpus,
            memory * 100,
            gpus,
            used_gpus=frozenset(map(str, used)),
            offered=offered or at == 0,
            images=frozenset(images),
            marks=tuple(marks),
            labels=labels,
        )
        for at, (cpus, memory, gpus, used, offered, images, marks, labels) in enumerate(rows)
    ]
)
SOME_NAMES = st.frozensets(st.sampled_from(["n0", "n1", "n2", "n3"]))
SOME_PORTS = st.sampled_from([PORTS, (PortDemand("tb", 6006, 2), *PORTS), (PortDemand("many", 0, 40),)])
SOME_GANG = st.lists(
    st.tuples(st.integers(1, 3), st.integers(1, 3), st.integers(1, 4), st.integers(0, 2), SOME_PORTS),
    min_size=1,
    max_size=3,
).flatmap(
    lambda roles: st.tuples(
        st.sampled_from(["", "A"]), st.sampled_from(["lab/a:1", "lab:5000/b:1"]), st.sampled_from([frozenset(), SSD])
    ).map(
        lambda asked: [
            demand
            for at, (count, cpus, memory, gpus, ports) in enumerate(roles)
            for demand in gang(count, cpus, memory * 100, gpus, asked[0] if gpus else "", f"r{at}", ports, *asked[1:])
        ]
    )
)


def assert_allowed(nodes: Sequence[NodeView], placed: Sequence[tuple[Demand, Placement]]) -> None:
    for one in nodes:
        here = [(demand, place) for demand, place in placed if place.node == one.name]
        gpus = [gpu for _, place in here for gpu in place.gpu_ids]
        ports = [port for _, place in here for numbers in place.ports.values() for port in numbers]
        assert not here or one.offered
        assert one.used_cpus + sum(demand.cpus for demand, _ in here) <= one.cpus or not here
        assert one.used_memory_mb + sum(demand.memory_mb for demand, _ in here) <= one.memory_mb or not here
        assert len(set(gpus)) == len(gpus)
        assert not set(gpus) & one.used_gpus
        assert len(set(ports)) == len(ports)
        assert not set(ports) & one.used_ports
        for demand, place in here:
            assert bars(one, demand) is None
            assert demand.labels <= one.labels
            assert len(place.gpu_ids) == demand.gpus
            types = {kind for id, kind in one.gpus if id in place.gpu_ids}
            assert not demand.gpu_type or types <= {demand.gpu_type}
            assert {label: len(numbers) for label, numbers in place.ports.items()} == {
                port.label: port.number for port in demand.ports
            }


@given(SOME_NODES, st.lists(SOME_GANG, max_size=6), SOME_NAMES)
def test_nothing_is_ever_given_twice_and_no_gang_is_half_placed(
    nodes: list[NodeView], gangs: list[list[Demand]], avoid: frozenset[str]
) -> None:
    free, placed = FreeNodes(nodes), []
    for salt, demands in enumerate(gangs):
        places = free.place(demands, salt, avoid)
        if places is not None:
            assert [(place.role, place.index) for place in places] == [(d.role, d.index) for d in demands]
            placed += list(zip(demands, places, strict=True))
    assert_allowed(nodes, placed)


@given(SOME_NODES, SOME_GANG)
def test_a_refused_gang_leaves_the_room_as_it_was(nodes: list[NodeView], demands: list[Demand]) -> None:
    free, fresh = FreeNodes(nodes), FreeNodes(nodes)
    if free.place(demands * 3) is None:
        assert where(free.place(demands)) == where(fresh.place(demands))


@given(SOME_NODES, st.lists(SOME_GANG, max_size=4), st.integers(0, 2))
def test_a_copy_with_other_use_is_like_a_new_room_and_leaves_the_first_as_it_was(
    nodes: list[NodeView], gangs: list[list[Demand]], busy: int
) -> None:
    others = [
        replace(one, used_cpus=one.cpus // 2, used_gpus=frozenset(id for id, _ in one.gpus[:1])) if at < busy else one
        for at, one in enumerate(nodes)
    ]
    free, made, fresh = FreeNodes(nodes), FreeNodes(nodes), FreeNodes(others)
    copy = made.copy(others)
    assert [copy.place(gang, 3) for gang in gangs] == [fresh.place(gang, 3) for gang in gangs]
    for gang in gangs:
        made.copy().place(gang)
    assert [free.place(gang, 3) for gang in gangs] == [made.place(gang, 3) for gang in gangs]


@given(SOME_NODES, SOME_GANG)
def test_the_same_input_gives_the_same_answer(nodes: list[NodeView], demands: list[Demand]) -> None:
    assert FreeNodes(nodes).place(demands, 3) == FreeNodes(nodes).place(demands, 3)


@settings(max_examples=60)
@given(SOME_NODES, SOME_GANG.filter(lambda demands: len(demands) <= 5))
def test_it_finds_a_place_whenever_there_is_one(nodes: list[NodeView], demands: list[Demand]) -> None:
    def fits(choice: Sequence[NodeView]) -> bool:
        return all(
            FreeNodes([one]).place([demand for demand, at in zip(demands, choice, strict=True) if at is one])
            is not None
            for one in nodes
            if any(at is one for at in choice)
        )

    possible = any(fits(choice) for choice in itertools.product(nodes, repeat=len(demands)))
    assert (FreeNodes(nodes).place(demands) is not None) == possible


@given(SOME_NODES, SOME_GANG, SOME_NAMES)
def test_what_is_preferred_never_decides_whether_it_fits(
    nodes: list[NodeView], demands: list[Demand], avoid: frozenset[str]
) -> None:
    plain = [replace(one, images=frozenset() if not one.marks else one.images) for one in nodes]
    assert (FreeNodes(nodes).place(demands, avoid=avoid) is None) == (FreeNodes(plain).place(demands) is None)


@given(SOME_NODES, SOME_GANG)
def test_reasons_are_given_exactly_when_it_does_not_fit(nodes: list[NodeView], demands: list[Demand]) -> None:
    assert bool(blockers(nodes, demands)) == (FreeNodes(nodes).place(demands) is None)


@given(SOME_NODES.filter(bool), SOME_GANG)
def test_never_is_only_said_of_what_idle_nodes_cannot_hold(nodes: list[NodeView], demands: list[Demand]) -> None:
    if never_fits(nodes, demands) is not None:
        assert FreeNodes([idle(one) for one in nodes]).place(demands) is None


def test_one_of_a_thing_is_said_so() -> None:
    (blocker,) = blockers([node("n1", used_cpus=8)], gang())
    assert blocker.sentence == "Each task of w needs 1 CPU core on one node; none is free now."


def test_a_node_that_is_away_is_named_only_where_it_could_run_a_task() -> None:
    away = {"offered": False, "why_not": "cordoned"}
    nodes = [node("n1", gpus="AA", used_gpus=frozenset("0")), node("n2", **away), node("n3", gpus="AA", **away)]
    assert [one.node for one in blockers(nodes, gang(gpus=2)) if one.kind == "nodes"] == ["n3"]
