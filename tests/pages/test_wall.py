"""The whole cluster on one screen: what it shows, to whom, and how much work a thousand nodes make."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client
from playwright.sync_api import expect

from base.models import User
from base.wakes import wake
from clusters.models import Allocation, Node, VirtualCluster
from jobs.models import Job
from portal.nodes import wall
from tests.builders import make_job, make_node
from tests.pages.conftest import Tab

Browse = Callable[[User | None], Client]
Count = Callable[[Callable[[], object]], int]


def a_thousand_nodes() -> None:
    gpus = [{"id": str(number), "type": "A100"} for number in range(8)]
    Node.objects.bulk_create(
        Node(name=f"gpu-{at:04}", endpoint=f"ssh://gpu-{at}", address=f"10.0.{at // 250}.{at % 250}", cpus=96,
             memory_mb=1 << 20, gpus=gpus, engine_id=str(at)) for at in range(1000)
    )  # fmt: skip
    nodes = list(Node.objects.all())
    Allocation.objects.bulk_create(
        Allocation(owner=f"{node.pk}-{half}", node=node, vc=("default", "nlp")[half], cpus=8, memory_mb=1000,
                   gpu_ids=[str(4 * half + number) for number in range(3)]) for node in nodes for half in (0, 1)
    )  # fmt: skip


def test_it_shows_nodes_virtual_clusters_and_what_is_wrong(browse: Browse, alice: User) -> None:
    node = make_node("gpu-01", gpus=4)
    make_node("gpu-02", gpus=2, health="unreachable")
    VirtualCluster.objects.create(name="nlp", capacity=20, max_capacity=40)
    make_job("alice", "runs", state="RUNNING", gpus=1, node=node, vc="nlp")
    make_job("alice", "waits", gpus=9)
    page = browse(alice).get("/wall").context
    first, second = page["blocks"][0]
    assert first.squares == ("busy v2", "free", "free", "free")
    assert second.squares == ("out", "out")
    assert (page["free"], page["gpus"], page["lost"], page["waiting"]) == (3, 6, 1, 1)
    assert [row.full_name for row in page["longest"]] == ["alice/waits"]
    assert any("1 node does not answer: gpu-02." in alert for alert in page["alerts"])


def test_guests_see_it_where_they_may_read_jobs(browse: Browse, settings: Any) -> None:
    make_node("gpu-01")
    assert browse(None).get("/wall").status_code == 200
    settings.ANONYMOUS_READ = "none"
    assert browse(None).get("/wall").status_code == 302


def test_it_keeps_why_others_wait_private(browse: Browse, alice: User, settings: Any) -> None:
    make_node("gpu-01", gpus=1)
    make_job("bob", "waits", gpus=1, tasks=9)
    settings.JOB_PRIVACY = "owner"
    page = browse(alice).get("/wall").context
    assert [row.happening for row in page["longest"]] == [""]


def test_it_changes_nothing(browse: Browse, admin: User) -> None:
    shown = browse(admin).get("/wall").content.decode()
    assert "<form" not in shown.split("<main")[1].split("</main>")[0]
    assert browse(admin).post("/wall").status_code == 405


def test_a_thousand_nodes_take_as_many_queries_as_one(browse: Browse, alice: User, count_queries: Count) -> None:
    a_thousand_nodes()
    client = browse(alice)
    make_job("alice", "waits", gpus=9)
    client.get("/wall")
    many = count_queries(lambda: client.get("/wall"))
    answer = client.get("/wall")
    Allocation.objects.all().delete()
    Node.objects.exclude(name="gpu-0000").delete()
    client.get("/wall")  # what is kept for seconds may have been asked for before
    assert count_queries(lambda: client.get("/wall")) <= many <= 33
    assert len(answer.content) < 700_000


@pytest.mark.timed
def test_a_thousand_nodes_take_little_cpu(browse: Browse, alice: User) -> None:
    a_thousand_nodes()
    client = browse(alice)
    client.get("/wall")
    began = time.thread_time()
    client.get("/wall")
    assert time.thread_time() - began < 3, "seconds of CPU; about 0.4 on an idle machine"


def test_only_blocks_that_changed_have_another_text(alice: User) -> None:
    a_thousand_nodes()
    before = wall.wall_page(alice)["blocks"]
    Allocation.objects.filter(node__name="gpu-0007").delete()
    after = wall.wall_page(alice)["blocks"]
    changed = [at for at, (one, other) in enumerate(zip(before, after, strict=True)) if one != other]
    assert changed == [0]


def test_its_version_differs_after_every_change_that_shows(alice: User) -> None:
    node = make_node("gpu-01", gpus=1)
    before = wall.wall_version()
    for change in (
        lambda: make_job("alice", state="RUNNING", gpus=1, node=node),
        lambda: Allocation.objects.all().delete(),
        lambda: make_node("gpu-02"),
        lambda: Node.objects.filter(name="gpu-02").delete(),
    ):
        change()
        assert wall.wall_version() != before
        before = wall.wall_version()


@pytest.mark.browser
def test_it_is_live(tab: Callable[..., Tab]) -> None:
    node = make_node("gpu-01", gpus=4)
    make_node("gpu-02", gpus=2, health="unreachable", health_reason="gone")
    make_node("cpu-01")
    make_job("alice", "waits-for-long", gpus=9)
    page = tab().open("/wall")
    expect(page.locator("#wall-top")).to_contain_text("4 of 6")
    job = make_job("alice", "runs", state="RUNNING", gpus=1, node=node)
    wake.notify("pages")
    expect(page.locator("#wall-top")).to_contain_text("3 of 6")
    assert Job.objects.filter(pk=job.pk).exists()
