"""Which processes of the portal live, on which host, and whose scheduler acts."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from base.hosts import this_host
from base.models import Process, User
from base.wakes import processes
from base.wakes.lease import Lease
from portal.hosts import hosts
from tests import fresh
from tests.helpers import LIMIT
from tests.http import ApiClient

Api = Callable[[User | None], ApiClient]
pytestmark = pytest.mark.django_db
GONE = 2 * LIMIT  # seconds without a word
FEW = 2 if connection.vendor == "postgresql" else 1  # queries: the time of the database is one


@pytest.fixture(autouse=True)
def home(settings: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    settings.HOME = tmp_path
    monkeypatch.setenv(processes.SUPERVISOR, str(os.getppid()))
    # Who has been seen during a test lives, and what pages know does not get old, however long it takes.
    monkeypatch.setattr(processes, "LATE", LIMIT)
    monkeypatch.setattr(processes.seen, "seconds", math.inf)
    monkeypatch.setattr(hosts, "LATE", timedelta(seconds=LIMIT))
    processes._shown.clear()
    yield
    fresh.who_lives()
    processes._shown.clear()


def row(host: str, name: str, *, silent: float = 0, number: int = 1, holder: str = "", **more: Any) -> Process:
    """A process that was last seen so many seconds ago."""
    at: datetime = this_host.database_now() - timedelta(seconds=silent)
    values = {"release": "0.1.0", "since": at - timedelta(hours=1), "report": {"free": 2**40, "total": 2**41}, **more}
    id = holder or f"{host} {name} {number}"
    return Process.objects.create(id=id, host=host, host_name=host, name=name, pid=number, at=at, **values)


def a_portal() -> None:
    """A host whose scheduler and sampler act, one that stands by, and one that has died."""
    for name in ("scheduler", "sampler"):
        assert Lease(name, holder=f"one {name}").try_take()
    for host, silent in (("one", 0), ("two", 0), ("three", GONE)):
        for name in ("supervisor", "web", "scheduler", "workers", "sampler"):
            row(host, name, silent=silent, holder=f"{host} {name}")


def test_a_process_shows_itself_and_its_supervisor_and_takes_both_away_in_the_end() -> None:
    processes.record_process("web")
    processes.record_process("web")
    assert {(one.name, one.pid) for one in Process.objects.all()} == {
        ("web", os.getpid()),
        ("supervisor", os.getppid()),
    }
    (host,) = hosts.hosts()
    assert host.lives and host.total and all(one.since <= timezone.now() for one in host.processes)
    processes.forget_process("web")
    assert not Process.objects.exists()


def test_showing_it_again_takes_little(django_assert_num_queries: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is done for ever, by each process."""
    processes.record_process("web")
    first = set(Process.objects.values_list("id", "at"))
    monkeypatch.setattr(processes, "EVERY", 0.0)
    monkeypatch.setattr(processes, "_row", None)
    with django_assert_num_queries(4 if FEW == 2 else 1):  # PostgreSQL: its time twice, and the row of the host
        processes.record_process("web")
    again = set(Process.objects.values_list("id", "at"))
    assert {id for id, _ in again} == {id for id, _ in first} and not again & first


def test_a_supervisor_that_was_stopped_is_shown_when_it_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "EVERY", 0.0)
    shown = []
    for state in "STS":
        Process.objects.filter(name="supervisor").delete()
        monkeypatch.setattr(processes, "stat_of", lambda pid, state=state: [state, *"0" * 18, "1"])
        processes.record_process("web")
        shown.append(Process.objects.filter(name="supervisor").exists())
    assert shown == [True, False, True]


def test_what_ended_on_this_host_is_forgotten_by_who_starts_there() -> None:
    row(this_host.host_id(), "scheduler", holder=processes.name_of(2**22))
    row("another", "scheduler", silent=6 * 86_400)
    row("long-gone", "scheduler", silent=8 * 86_400)
    processes.record_process("scheduler")
    assert set(Process.objects.values_list("host", "name")) == {
        (this_host.host_id(), "scheduler"),
        (this_host.host_id(), "supervisor"),
        ("another", "scheduler"),
    }


def test_it_says_who_acts_who_stands_by_and_who_is_silent(django_assert_num_queries: Any) -> None:
    a_portal()
    with django_assert_num_queries(FEW):
        one, two, three = found = hosts.hosts()
    acting = {process.name: process.epoch for process in one.processes if process.epoch}
    assert acting == {"scheduler": 1, "sampler": 1}
    assert [host.name for host in found] == ["one", "two", "three"]
    assert [process.name for process in two.processes if process.waits] == ["scheduler", "sampler"]
    assert not three.lives
    with django_assert_num_queries(1):
        assert [age < processes.LATE for age in sorted(processes.beats().hosts)] == [True, True, False]
    assert hosts.warnings(found) == [
        "Host three is silent: it ended without saying so, or does not reach the database."
    ]


def test_a_process_that_came_back_takes_the_place_of_the_one_that_died() -> None:
    row("one", "web", silent=GONE, number=1)
    row("one", "web", number=2)
    row("one", "web", number=3)
    (host,) = hosts.hosts()
    assert [process.pid for process in host.processes] == [2, 3]


def test_what_somebody_should_look_at() -> None:
    row("one", "scheduler", silent=GONE, release="0.1.0", report={"free": 5, "total": 2**30})
    row("one", "web", release="0.1.0", report={"free": 5, "total": 2**30})
    row("two", "web", release="0.2.0", report={"free": 2**29, "total": 2**30})
    assert hosts.warnings(hosts.hosts()) == [
        "No scheduler acts: jobs neither start nor end.",
        "No sampler acts: nothing is measured.",
        "On host one scheduler does not run.",
        "The disk of LONGSHORE_HOME on host one is full: what it cannot keep there waits or is refused.",
        "The disk of LONGSHORE_HOME on host two has 512 MB left: what it cannot keep there waits or is refused.",
        "The hosts run several releases: 0.1.0, 0.2.0.",
    ]


def test_a_scheduler_of_an_older_release_acts_though_it_shows_no_process() -> None:
    fresh.who_lives()
    processes.record_heartbeat("scheduler")
    row("new", "web")
    assert hosts.warnings(hosts.hosts()) == [
        "The scheduler that acts is on a host that is not listed, since its release is older.",
        "No sampler acts: nothing is measured.",
    ]


def test_the_api_has_it_for_admins(api: Api, admin: User, alice: User) -> None:
    a_portal()
    answer = api(admin).get("/api/v1/hosts").json()
    assert [(host["name"], host["alive"]) for host in answer["hosts"]] == [
        ("one", True),
        ("two", True),
        ("three", False),
    ]
    assert {one["name"]: one["epoch"] for one in answer["hosts"][0]["processes"]}["scheduler"] == 1
    assert api(alice).get("/api/v1/hosts").status_code == 403
    assert api(None).get("/api/v1/hosts").status_code == 401


def test_the_page_takes_as_many_queries_for_many_hosts_as_for_one(
    browse: Callable[[User | None], Client], admin: User, alice: User
) -> None:
    client = browse(admin)
    client.get("/hosts")
    counts = []
    for host in ("one", "two", "three"):
        row(host, "web")
        with CaptureQueriesContext(connection) as queries:
            assert host in client.get("/hosts").content.decode()
        counts.append(len(queries))
    assert len(set(counts)) == 1 and counts[0] <= 4 + FEW
    assert browse(alice).get("/hosts").status_code == 403


def test_healthz_counts_them_and_says_when_this_host_has_no_room(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    a_portal()
    answer = client.get("/healthz").json()
    assert (answer["hosts"], answer["room"]) == ({"alive": 2, "silent": 1}, True)
    full = SimpleNamespace(free=2**20, total=2**30)
    monkeypatch.setattr(processes.shutil, "disk_usage", lambda _: full)
    answer = client.get("/healthz").json()
    assert (answer["room"], answer["status"]) == (False, "degraded")


def test_prometheus_reads_who_lives_and_who_acts(api: Api) -> None:
    a_portal()
    row("four", "web", number=7)
    told = api(None).get("/metrics").content.decode()
    assert 'longshore_host_up{host="one"} 1.0' in told
    assert 'longshore_host_up{host="three"} 0.0' in told
    assert 'longshore_host_processes{host="two",process="web"} 1.0' in told
    assert 'longshore_lease_epoch{host="one",process="scheduler"} 1.0' in told
    assert 'longshore_lease_epoch{host="two"' not in told
