"""Beside very many tasks that run, the pages of everybody ask the database as little as beside a few."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from base.models import User
from base.wakes import processes
from clusters.models import Allocation, Node
from clusters.nodes.queries import load_nodes
from clusters.taken import ports_taken
from clusters.vcs.queries import load_vcs
from jobs.history import lengths
from jobs.models import Holding
from portal.nodes.rows import node_lines
from tests.builders import make_job, make_node
from tests.helpers import in_gate
from tests.http import Browser

pytestmark = pytest.mark.django_db
MANY = 4_000
NOW = time.time_ns() // 1_000_000
Costs = dict[str, tuple[tuple[int, float], tuple[int, float]]]
PAGES = ("/nodes", "/wall", "/vcs", "/usage", "/timeline", "/api/v1/nodes", "/api/v1/virtual-clusters", "/")


@pytest.fixture
def bob() -> Browser:
    browser = Browser()
    browser.force_login(User.objects.create_user("bob", "correct horse"))
    return browser


@pytest.fixture
def nodes() -> list[Node]:
    return [make_node(f"gpu-{at}", gpus=4, cpus=MANY, memory_mb=10**7) for at in range(2)]


def runs(nodes: list[Node], tasks: int) -> None:
    """What the tasks of one job hold; the first four of them have GPUs."""
    held, kept = [], []
    for at in range(tasks):
        gpus, node = [str(at // 2)] if at < 4 else [], nodes[at % 2]
        ports = [30_000 + 2 * at, 30_001 + 2 * at]
        kept.append(
            Allocation(owner=str(at), node=node, vc="default", cpus=1, memory_mb=100, gpu_ids=gpus, ports=ports)
        )
        where = {"node": node.name, "gpu_ids": ",".join(gpus), "gpus": len(gpus)}
        what = {"username": "alice", "job_name": "wide", "vc": "default", "attempt": 1, "role": "worker", "index": at}
        times = {"began": NOW - 60_000 + at, "ended": None, "waited": None if at else 5_000}
        held.append(Holding(id=at + 1, job_id=1, cpus=1, memory_mb=100, **where, **what, **times))
    Allocation.objects.bulk_create(kept)
    Holding.objects.bulk_create(held)


def cost(browser: Browser, address: str) -> tuple[int, float]:
    """How many statements an answer takes, and how much CPU: the least of several."""
    taken, statements = [], []
    for _ in range(2 if in_gate() else 6):  # where it takes statements alone, the second has what is kept
        with CaptureQueriesContext(connection) as asked:
            began = time.thread_time()
            assert browser.get(address).status_code == 200
            taken.append(time.thread_time() - began)
        statements.append(len(asked))
    return min(statements), min(taken)


@pytest.fixture
def compared(bob: Browser, nodes: list[Node], monkeypatch: pytest.MonkeyPatch) -> Iterator[Costs]:
    """By address, beside a few and beside very many."""
    # What is asked now and then, whatever a page shows, does not get old meanwhile.
    monkeypatch.setattr(processes.seen, "seconds", math.inf)
    monkeypatch.setattr(lengths.known_lengths, "seconds", math.inf)
    runs(nodes, 6)
    few = {address: cost(bob, address) for address in PAGES}
    Allocation.objects.all().delete()
    Holding.objects.all().delete()
    runs(nodes, MANY)
    yield {address: (few[address], cost(bob, address)) for address in PAGES}


def test_pages_cost_the_same_beside_thousands_of_running_tasks(compared: Costs) -> None:
    more = {address: many[0] - few[0] for address, (few, many) in compared.items()}
    assert max(more.values()) <= 0, more


@pytest.mark.timed
def test_pages_take_about_as_much_cpu_beside_thousands_of_running_tasks(compared: Costs) -> None:
    slower = {address: many[1] / few[1] for address, (few, many) in compared.items()}
    assert max(slower.values()) < 2.5, slower


def test_the_sums_of_the_database_are_those_of_the_tasks(nodes: list[Node]) -> None:
    runs(nodes, 50)
    nodes[0].others = {"cpus": 3, "memory_mb": 7, "gpus": 1}
    nodes[0].held = {"gpus": ["3"], "ports": [31_000]}
    nodes[0].save()
    for shown, view in zip((line.view for line in node_lines()), load_nodes(), strict=True):
        assert (shown.used_cpus, shown.used_memory_mb) == (view.used_cpus, view.used_memory_mb)
        assert shown.used_gpus == view.used_gpus
        assert ports_taken(Node.objects.get(name=view.name)) == len(view.used_ports - view.quarantined[1]) == 50
    used = load_vcs()[0].used
    assert used == {"cpu": 50, "memory": 5_000, "gpu": 4}


def test_a_gang_without_gpus_is_one_bar_on_each_node(bob: Browser, nodes: list[Node]) -> None:
    runs(nodes, 1_000)
    page = bob.get("/timeline").content.decode()
    assert page.count("worker-") == 2 * (4 + 2)  # named and described: those with GPUs, and the others of each node
    assert page.count("and 497 more") == 4
    Holding.objects.filter(index__gt=4).update(ended=NOW - 10_000, outcome="SUCCEEDED")
    table = bob.get("/timeline?view=table").content.decode()
    assert table.count("and 497 more") == 2
    assert table.count("runs") >= 5  # also the bar of which one task goes on


def test_a_node_lists_the_first_of_its_tasks_and_says_how_many_there_are(bob: Browser, nodes: list[Node]) -> None:
    make_job("alice", "wide", state="RUNNING", tasks=700, node=nodes[0])
    page = bob.get(f"/nodes/{nodes[0].name}").content.decode()
    assert page.count("Open the log of worker-") == 100
    assert "700" in page and "and 600 more" in page
