"""One process acts, however many run; whoever lost its turn writes nothing."""

from __future__ import annotations

import os
import signal
import subprocess
from datetime import timedelta

import pytest
from django.db import connection

from base.models import Heartbeat
from base.wakes import lease as leases
from base.wakes.lease import PATIENCE, RENEW, Fenced, Lease
from tests.cluster import Cluster
from tests.helpers import LIMIT, until

pytestmark = pytest.mark.django_db


def two() -> tuple[Lease, Lease]:
    first, second = Lease("it", holder="first"), Lease("it", holder="second")
    assert first.try_take()
    assert not second.try_take()
    return first, second


def test_what_is_given_back_is_taken_at_once() -> None:
    first, second = two()
    first.give_back()
    assert second.try_take()
    assert second.epoch == 2


def test_who_renews_keeps_it(cluster: Cluster) -> None:
    first, second = two()
    for _ in range(5):
        cluster.ahead(PATIENCE.total_seconds() - 1)
        with first.writing():
            pass
        assert not second.try_take()


def test_who_is_silent_loses_it_and_writes_nothing_more(cluster: Cluster) -> None:
    first, second = two()
    cluster.ahead(PATIENCE.total_seconds() + 1)
    assert second.try_take()
    with pytest.raises(Fenced), first.writing():
        Heartbeat.objects.create(name="late", at="2026-01-01T00:00Z")
    assert not Heartbeat.objects.exists()
    with pytest.raises(Fenced), first.writing():
        pytest.fail("it is fenced for good")


def test_setting_the_time_of_day_changes_nothing(cluster: Cluster) -> None:
    first, second = two()
    for hours in (5, -5, 0):
        cluster.clock.set = timedelta(hours=hours)
        assert not second.try_take()
        with first.writing():
            pass


def test_of_two_that_see_it_free_one_gets_it(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    _, second = two()
    third = Lease("it", holder="third")
    assert not third.try_take()
    cluster.ahead(PATIENCE.total_seconds() + 1)
    free = Lease._is_free

    def third_is_quicker(self: Lease, row: object) -> bool:
        monkeypatch.setattr(Lease, "_is_free", free)
        assert third.try_take()
        return True

    monkeypatch.setattr(Lease, "_is_free", third_is_quicker)
    assert not second.try_take()
    assert second.epoch is None


def test_a_process_of_this_host_that_has_ended_is_not_waited_for() -> None:
    process = subprocess.Popen(["sleep", "3600"])
    started = leases._started(process.pid)
    holder = f"{leases._host()} {process.pid} {started}"
    try:
        first = Lease("it", holder=holder)
        assert first.try_take()
        process.send_signal(signal.SIGSTOP)
        assert not Lease("it").try_take(), "it is only stopped"
    finally:
        process.kill()
        process.wait(LIMIT)
    assert Lease("it").try_take()


def test_one_of_another_host_may_have_any_number() -> None:
    first = Lease("it", holder=f"another-host {os.getpid()} 0")
    assert first.try_take()
    assert not Lease("it").try_take()


@pytest.mark.skipif(connection.vendor != "postgresql", reason="with SQLite there is one host")
def test_one_of_another_host_that_has_ended_is_not_waited_for() -> None:
    first = Lease("it", holder="another-host 1 0")
    assert first.try_take()
    second = Lease("it")
    assert not second.try_take()
    assert first._sign._session is not None
    first._sign._session.close()  # as the kernel does when the process is killed
    assert until(second.try_take)
    with pytest.raises(Fenced), first.writing():
        pass


@pytest.mark.skipif(connection.vendor != "postgresql", reason="with SQLite there is one host")
def test_who_has_lost_the_session_alone_shows_its_life_again(cluster: Cluster) -> None:
    first, second = two()
    assert first._sign._session is not None
    first._sign._session.close()
    cluster.ahead(RENEW.total_seconds() + 1)
    first.renew()
    assert not second.try_take()


def test_a_child_that_was_forked_off_is_not_the_holder() -> None:
    lease = Lease("it")
    assert lease.try_take()
    child = os.fork()
    if child == 0:
        try:
            with lease.writing():
                pass
        except Fenced:
            os._exit(7)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
