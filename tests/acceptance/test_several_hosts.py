"""Three hosts on one PostgreSQL, each with a portal: any of them may die, hang or be cut off, and no job notices.

``python -m tests.chaos.hosts`` is the same at length, with figures.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import httpx
import pytest

from tests.bed.docker_bed import BedNode
from tests.bed.portal_hosts import has_clocks
from tests.chaos.hosts import Cluster, cluster
from tests.helpers import patience, until

pytestmark = [pytest.mark.docker, pytest.mark.postgres]


@pytest.fixture(scope="module")
def made(docker_engine: BedNode, sample_image: str) -> Iterator[Cluster]:
    with cluster(docker_engine.bed, [docker_engine]) as made:
        yield made


def test_all_begin_at_once_and_are_one_portal(made: Cluster) -> None:
    """The first user was made once, each host takes the same session, and knows the keys of the node."""
    one, *others = made.hosts.all
    assert made.rows("SELECT count(*) FROM portal_user") == [(1,)]
    for host in others:
        answer = httpx.get(f"{host.url}/api/v1/nodes", headers=dict(one.http.headers), timeout=30)
        assert [node["name"] for node in answer.json()] == [made.nodes[0].name]
    assert made.rows("SELECT count(*) FROM portal_host") == [(3,)]


def test_a_scheduler_that_is_killed_is_followed_within_a_second(made: Cluster) -> None:
    made.submit()
    _, pid = made.wait_holder()
    acted, _ = made.measure(lambda: (os.kill(pid, signal.SIGKILL), made.submit()))
    assert acted < 1.0 * patience()


def test_one_that_hangs_is_followed_within_ten_seconds_and_writes_nothing_when_it_wakes(made: Cluster) -> None:
    host, pid = made.wait_holder()
    acted, _ = made.measure(lambda: (os.kill(pid, signal.SIGSTOP), made.submit()))
    ((epoch,),) = made.rows("SELECT epoch FROM portal_leaserow WHERE name = 'scheduler'")
    os.kill(pid, signal.SIGCONT)
    assert acted < 10 * patience()
    until(lambda: "another scheduler acts now" in host.text(), 30, 0.2, "it has noticed")
    made.submit()
    assert made.rows("SELECT epoch FROM portal_leaserow WHERE name = 'scheduler'") == [(epoch,)]


def test_a_host_that_dies_is_not_missed(made: Cluster) -> None:
    host, _ = made.wait_holder()
    made.measure(lambda: (host.kill(), made.submit()))
    host.start()
    made.measure(lambda: (made.database.restart(), made.submit()))


def test_one_that_is_cut_off_from_the_nodes_leaves_them_to_others(made: Cluster) -> None:
    host, _ = made.wait_holder()
    try:
        host.cut(*(node.address for node in made.nodes))
        until(lambda: made.wait_holder()[0] is not host, 60, 0.5, "another host acts")
        made.measure(made.submit)
    finally:
        host.heal()


@pytest.mark.skipif(not has_clocks(), reason="a C compiler sets the clocks")
@pytest.mark.parametrize("seconds", [600, -600])
def test_a_wrong_clock_holds_nothing_up(made: Cluster, seconds: int) -> None:
    host, _ = made.wait_holder()
    try:
        host.set_clock(seconds)
        made.measure(made.submit)
        assert host.health()["status"] in ("ok", "degraded")
    finally:
        host.set_clock(0)


def test_in_the_end_nothing_was_lost_and_nothing_ran_twice(made: Cluster) -> None:
    made.wait_ended()
    assert made.verdict() == []
