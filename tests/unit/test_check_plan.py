"""What a check of the cluster reads from what became of its jobs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from clusters.placement.fit import NodeView
from jobs.checking.plan import ON_PURPOSE, JobAddress, NodeCheck, SecondJob, judge, looking, peers_of, serving, why_not
from jobs.config.spec import read_value

SERVED = [JobAddress(f"n{number}", f"10.0.0.{number}", 30000 + number) for number in (1, 2, 3)]


def node(name: str = "n1", gpus: int = 0) -> NodeView:
    return NodeView(name, "10.0.0.1", 8, 8000, tuple((str(gpu), "") for gpu in range(gpus)), 30000, 39999)


def log(me: str, *failed: str, gpus: int = 0, ssh: str = "") -> str:
    lines = [f"peer {one.node} {'failed' if one.node in failed else 'ok'}" for one in SERVED if one.node != me]
    return "\n".join([*lines, *([ssh] if ssh else []), f"gpus {gpus}", f"seen by {me}\n"])


def seen(text: str | None, *, attempts: int = 2, code: int | None = ON_PURPOSE, gpus: int = 0) -> SecondJob:
    return SecondJob(text, attempts, code, gpus)


def rows(found: dict[str, SecondJob]) -> dict[str, NodeCheck]:
    return {one.node: judge(one.node, "", peers_of(one.node, SERVED), found, SERVED) for one in SERVED}


@pytest.mark.parametrize(
    ("used", "said"),
    [
        ({}, ""),
        ({"used_cpus": 6}, ""),
        ({"used_cpus": 7}, "2 free cores and 200 MB"),
        ({"used_memory_mb": 7900}, "2 free cores"),
        ({"offered": False, "why_not": "cordoned"}, "cordoned"),
    ],
)
def test_a_node_without_room_for_both_jobs_is_not_checked(used: dict[str, Any], said: str) -> None:
    why = why_not(replace(node(), **used))
    assert (said in why) if said else why == ""


def test_all_is_well() -> None:
    found = rows({one.node: seen(log(one.node)) for one in SERVED})
    assert all(row.works for row in found.values())
    assert found["n1"].cells == ["ok", "ok", "ok", "–", "–", "ok", "ok"]


def test_ports_that_nobody_reaches_are_that_nodes_fault() -> None:
    found = rows({"n1": seen(log("n1", "n2")), "n2": seen(log("n2")), "n3": seen(log("n3", "n2"))})
    assert found["n2"].says == [
        "ports: Its port at 10.0.0.2:30002 is not reached from n1, n3."
        " Open the node's port range between the nodes, and check the node's address."
    ]
    assert found["n1"].works
    assert found["n3"].works


def test_a_node_that_reaches_nobody_is_to_blame_for_that_itself() -> None:
    found = rows({"n1": seen(log("n1", "n2", "n3")), "n2": seen(log("n2")), "n3": seen(log("n3"))})
    assert [name for name, row in found.items() if not row.works] == ["n1"]
    assert list(found["n1"].failed) == ["peers"]


def test_a_cluster_in_which_nobody_reaches_anybody_does_not_work() -> None:
    found = rows({one.node: seen(log(one.node, "n1", "n2", "n3")) for one in SERVED})
    assert not any(row.works for row in found.values())


def test_of_two_nodes_the_one_that_is_not_reached_is_to_blame() -> None:
    two = SERVED[:2]
    found = {"n1": seen("peer n2 failed\nseen by n1\n"), "n2": seen("peer n1 ok\nseen by n2\n")}
    assert [judge(one.node, "", peers_of(one.node, two), found, two).works for one in two] == [True, False]


def test_a_container_without_its_gpu_is_told() -> None:
    found = rows({"n1": seen(log("n1", gpus=1), gpus=1), "n2": seen(log("n2", gpus=0), gpus=1), "n3": seen(log("n3"))})
    assert (found["n1"].cell("gpu"), found["n2"].cell("gpu"), found["n3"].cell("gpu")) == ("ok", "failed", "–")


def test_sshd_counts_only_where_the_image_has_one() -> None:
    found = rows({"n1": seen(log("n1", ssh="ssh n2 ok")), "n2": seen(log("n2", ssh="ssh n3 failed"))})
    assert (found["n1"].cell("ssh"), found["n2"].cell("ssh")) == ("ok", "failed")


@pytest.mark.parametrize(
    ("one", "part"),
    [
        (seen(None), "log"),
        (seen("peer n2 ok\npeer n3 ok\n"), "log"),
        (seen(log("n1"), attempts=1), "retry"),
        (seen(log("n1"), code=0), "retry"),
    ],
)
def test_logs_and_retries_that_are_missing_are_told(one: SecondJob, part: str) -> None:
    assert part in rows({"n1": one, "n2": seen(log("n2")), "n3": seen(log("n3"))})["n1"].failed


def test_a_node_on_which_nothing_starts_says_why() -> None:
    row = judge("n4", "The node's disk is full.", (), {}, SERVED)
    assert row.cells == ["failed", "–", "–", "–", "–", "–", "–"]
    assert row.says[0].startswith("start: The node's disk is full.")


def test_each_node_reaches_the_next_ones_and_never_itself() -> None:
    many = [JobAddress(f"n{number}", "a", 1) for number in range(20)]
    assert [one.node for one in peers_of("n18", many)] == ["n19", "n0", "n1", "n2", "n3"]
    assert peers_of("n0", many[:1]) == []


def test_its_configs_are_accepted() -> None:
    for config in (serving(node(gpus=2), "1", "i:1", 60), looking(node(gpus=2), "1", "i:1", 60, SERVED[1:])):
        spec = read_value(config)
        assert dict(spec.asked.node_labels) == {"longshore/node": "n1"}
        assert spec.asked.max_run_seconds == 60
