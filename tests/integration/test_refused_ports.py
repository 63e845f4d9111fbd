"""A port that something else on the node uses: the next attempt gets another one, and nobody gets it for some time."""

from __future__ import annotations

from typing import Any

from django.utils import timezone

from clusters.engines.runtime import FaultReason, RuntimeFault
from clusters.models import Node
from clusters.nodes import refusals
from clusters.nodes.queries import load_nodes, views_of
from clusters.placement.fit import MARK_LASTS
from jobs.models import Attempt, Job, Task
from jobs.waiting.why import turn_of, waiting_reason
from tests.cluster import Cluster

TAKEN = RuntimeFault("A port of the task is already in use.", reason=FaultReason.PORT_TAKEN)


def asking(number: int = 1, begin_at: int = 0) -> list[dict[str, Any]]:
    return [{"portList": [{"label": "web", "beginAt": begin_at, "portNumber": number}]}]


def ports(job: Job) -> list[set[int]]:
    """Of each attempt; every task has one for ssh and one for http beside those that it asks for."""
    tasks = Task.objects.filter(job=job).exclude(node="").order_by("id")
    return [{port for some in task.ports.values() for port in some} for task in tasks]


def withheld() -> set[int]:
    return {port for port, _ in load_nodes()[0].refused_ports}


def test_a_job_whose_port_is_taken_by_a_stranger_runs_at_its_second_attempt(cluster: Cluster) -> None:
    engine = cluster.add_node()
    engine.fail_next("ensure", TAKEN)
    job = cluster.submit(roles=asking(3))
    cluster.settle()
    first, second = ports(job)
    assert not first & second
    assert cluster.task(job).state == "RUNNING"
    assert withheld() == first


def test_where_strangers_use_most_of_the_range_a_job_finds_what_is_left(cluster: Cluster) -> None:
    engine = cluster.add_node(port_from=30000, port_to=30029, network="bridge")
    engine.taken_ports = set(range(30000, 30030, 5))
    job = cluster.submit(roles=asking())
    for _ in range(8):  # each finds at least one of the six that are taken, and each is as good as a throw of dice
        cluster.settle()
        cluster.ahead(70)
    assert cluster.task(job).state == "RUNNING" and not ports(job)[-1] & engine.taken_ports


def test_where_a_task_looks_for_ports_depends_on_its_attempt(cluster: Cluster) -> None:
    engine = cluster.add_node()
    job = cluster.submit(roles=asking())
    engine.fail_next("ensure", RuntimeFault("Docker refused: no mount.", reason=FaultReason.REFUSED))
    cluster.settle()
    first, second = ports(job)
    assert not first & second and not withheld()


def test_a_port_that_a_config_names_waits_until_it_is_tried_again_and_says_so(cluster: Cluster) -> None:
    engine = cluster.add_node(network="bridge")
    engine.taken_ports = {31000}
    job = cluster.submit(roles=asking(begin_at=31000))
    cluster.settle()
    assert Attempt.objects.filter(job=job).count() == 2  # the one that was refused, and one that waits
    job.refresh_from_db()
    reason = waiting_reason(job, turn_of(job))
    assert "Something outside Longshore uses it. It is tried again at" in str(reason)
    engine.taken_ports = set()
    Node.objects.update(refused_ports={"31000": timezone.now().isoformat()})
    cluster.settle()
    assert cluster.task(job).state == "RUNNING"


def test_a_refusal_ends_by_itself_and_lasts_no_longer_after_the_clock_was_set_back(cluster: Cluster) -> None:
    cluster.add_node()
    now = timezone.now()
    node = Node.objects.get()
    for until, lasts in ((now, False), (now + MARK_LASTS / 2, True), (now + 3 * MARK_LASTS, False)):
        node.refused_ports = {"31000": until.isoformat()}
        assert bool(views_of([node])[0].refused_ports) is lasts


def test_refusals_that_somebody_makes_up_withhold_a_bounded_number_of_ports(cluster: Cluster) -> None:
    cluster.add_node()
    node, now = Node.objects.get(), timezone.now()
    refusals.ports_refused({node.pk: range(30000, 35000)}, now)
    refusals.ports_refused({node.pk: [39999]}, timezone.now())
    assert len(withheld()) == refusals.MOST_PORTS and 39999 in withheld()
    refusals.ports_refused({node.pk: [39999]}, now + MARK_LASTS / 2)
    refusals.ports_refused({node.pk: [39998]}, now + 1.2 * MARK_LASTS)
    assert set(Node.objects.get().refused_ports) == {"39998", "39999"}  # what has ended is forgotten
