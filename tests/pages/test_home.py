"""The home page: a user's share of the GPUs, and what an admin should look at."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client

from base.models import User
from clusters.models import Allocation, Node, VcGrant, VirtualCluster
from jobs.models import Job, Task
from tests.builders import make_job, make_node

Browse = Callable[[User | None], Client]
Count = Callable[[Callable[[], object]], int]


def a_shared_cluster() -> Node:
    """Of eight GPUs nlp is guaranteed four and uses six, of which alice has one; default has the other four."""
    node = make_node("gpu-01", gpus=8)
    nlp = VirtualCluster.objects.create(name="nlp", capacity=50, max_capacity=100)
    VirtualCluster.objects.create(name="vision", capacity=0, max_capacity=0)
    VcGrant.objects.create(vc=nlp, username="alice")
    for number in range(5):
        _holds(make_job("bob", f"b-{number}", state="RUNNING", gpus=1, node=node, vc="nlp"), str(number))
    _holds(make_job("alice", "mine", state="RUNNING", gpus=1, node=node, vc="nlp"), "7")
    return node


def _holds(job: Job, gpu: str) -> None:
    task = Task.objects.get(job=job)
    Task.objects.filter(pk=task.pk).update(gpu_ids=[gpu])
    Allocation.objects.filter(owner=str(task.pk)).update(gpu_ids=[gpu])


def test_it_says_what_is_mine_and_what_is_borrowed_in_each_of_my_virtual_clusters(browse: Browse, alice: User) -> None:
    a_shared_cluster()
    page = browse(alice).get("/")
    found = {one.vc: (one.mine, one.used, one.guaranteed, one.borrowed, one.free) for one in page.context["shares"]}
    assert found == {"nlp": (1, 6, 4, 2, 2), "default": (0, 0, 4, 0, 2)}
    assert "6 of 4 in use," in page.content.decode() and browse(None).get("/").context["shares"] == []


def test_my_share_ends_at_a_ceiling_a_cap_and_the_nodes_of_others(browse: Browse, alice: User) -> None:
    node = a_shared_cluster()
    nlp = VirtualCluster.objects.filter(name="nlp")
    for limit in ({"gpu_ceiling": 7}, {"gpu_ceiling": None, "user_gpus": 2}):
        nlp.update(**limit)
        assert {one.vc: one.free for one in browse(alice).get("/").context["shares"]} == {"nlp": 1, "default": 2}
    node.dedicated_to = nlp.get()
    node.save()
    assert {one.vc: one.free for one in browse(alice).get("/").context["shares"]}["default"] == 0


def test_it_tells_an_admin_of_sick_nodes_and_of_the_longest_waits(browse: Browse, admin: User, alice: User) -> None:
    away = make_node("gpu-02", health="unreachable", health_reason="SSH to 10.0.0.2 timed out.")
    make_node("gpu-03", status="draining")
    make_job("alice", "young", age=60, gpus=1)
    make_job("alice", "old", age=9000, gpus=1)
    page = browse(admin).get("/?as=cluster")
    of_nodes = [(need.state, need.name) for need in page.context["needs"] if need.name != "Longshore"]
    assert [state for state, _ in of_nodes] == ["unreachable", "draining"] and of_nodes[0][1].startswith(away.name)
    assert [row.name for row in page.context["longest"]] == ["old", "young"]
    assert all(row.happening for row in page.context["longest"])
    assert "SSH to 10.0.0.2 timed out." in page.content.decode()
    assert "as=cluster" in page.context["stream"]
    assert "needs" not in browse(alice).get("/?as=cluster").context


def test_what_it_asks_of_the_database_grows_with_nobody_s_jobs(
    browse: Browse, admin: User, alice: User, count_queries: Count
) -> None:
    node = a_shared_cluster()
    pages = [(browse(alice), "/"), (browse(admin), "/"), (browse(admin), "/?as=cluster")]
    make_job("bob", "waits-0", gpus=8)
    few = [count_queries(lambda client=client, url=url: client.get(url)) for client, url in pages for _ in range(2)]
    for number in range(30):
        make_job("bob", f"more-{number}", state="RUNNING", node=node)
        make_job("bob", f"waits-{number + 1}", gpus=8)
        VirtualCluster.objects.create(name=f"vc-{number}", capacity=0, max_capacity=100)
    many = [count_queries(lambda client=client, url=url: client.get(url)) for client, url in pages for _ in range(2)]
    assert many[1::2] == few[1::2] and max(many) <= 36, (few, many)


@pytest.mark.parametrize(
    ("marks", "values", "out"),
    [
        (["gpus"], {}, 4),
        (["start"], {}, 4),
        (["gpu 0", "gpu 1", "gpu 2", "gpu 3"], {}, 4),
        ([], {"health": "unreachable"}, 5),
        ([], {"status": "cordoned"}, 0),
        ([], {"status": "draining"}, 0),
        ([], {"closed": "a taint keeps tasks away"}, 0),
    ],
)
def test_gpus_that_no_task_gets_now_are_free_on_no_page(
    marks: list[str], values: dict[str, Any], out: int, browse: Browse, alice: User
) -> None:
    mark = {"sentence": "It hands out none.", "since": "2026-11-20T10:00:00+00:00", "until": ""}
    node = make_node("gpu-01", gpus=5, marks=dict.fromkeys(marks, mark), **values)
    _holds(make_job("bob", "runs", state="RUNNING", gpus=1, node=node), "4")
    make_node("gpu-02", gpus=2)
    home, nodes, wall = (browse(alice).get(path) for path in ("/", "/nodes", "/wall"))
    assert (home.context["free_gpus"], nodes.context["free_gpus"], wall.context["free"]) == (2, 2, 2)
    assert [share.free for share in home.context["shares"]] == [2]
    assert [home.context["out_gpus"], nodes.context["out_gpus"], wall.context["out"]] == [out] * 3
    assert all(("out of service" in page.content.decode().replace("</i>out of service", "")) == bool(out)
               for page in (home, nodes, wall))  # fmt: skip
    told = browse(alice).get("/api/v1/nodes").json()
    assert [sum(gpu["free"] for gpu in node["gpus"]) for node in told] == [0, 2]
    assert 'longshore_node_gpus_free{node="gpu-01"} 0.0' in browse(alice).get("/metrics").content.decode()
