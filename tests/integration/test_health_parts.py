"""/healthz tells of every part of the scheduler, and is degraded as soon as one of them is."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client

from base.files.store import state as store_state
from base.models import Heartbeat
from base.wakes import processes
from base.wakes.processes import Report
from tests import fresh
from tests.helpers import LIMIT

pytestmark = pytest.mark.django_db
FINE = Report(threads=5, oldest_look=2.0)


@pytest.fixture(autouse=True)
def _late(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that a test has shown to live does so until its end."""
    monkeypatch.setattr(processes, "LATE", LIMIT)


def told(client: Client, report: Report) -> dict[str, Any]:
    fresh.who_lives()
    fresh.the_store()
    assert store_state.is_store_up(LIMIT)
    processes.record_heartbeat("workers")
    processes.record_heartbeat("sampler")
    processes.record_heartbeat("scheduler", report)
    answer: dict[str, Any] = client.get("/healthz").json()
    return answer


def test_when_all_is_well(client: Client) -> None:
    answer = told(client, FINE)
    assert answer["status"] == "ok"
    assert answer["threads"] == {"number": 5, "late": []}
    assert 2.0 <= answer["looks"]["oldestSeconds"] < LIMIT
    assert answer["invariants"] == {"healed": 0, "broken": 0}


def test_a_portal_that_has_just_begun_is_starting_and_not_degraded(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only while nothing else is wrong, and never once it had the time to begin."""
    monkeypatch.setattr(processes, "_age", lambda pid: 0.0)
    fresh.the_store()
    assert store_state.is_store_up(LIMIT)
    processes.record_heartbeat("scheduler", FINE)
    answer = client.get("/healthz")
    assert (answer.status_code, answer.json()["status"]) == (200, "starting")
    assert told(client, FINE)["status"] == "ok"
    assert told(client, Report(broken=1))["status"] == "degraded"
    Heartbeat.objects.filter(name="workers").delete()
    monkeypatch.setenv(processes.SUPERVISOR, "1")
    monkeypatch.setattr(processes, "_age", lambda pid: LIMIT if pid == 1 else 0.0)  # the web process was started anew
    fresh.who_lives()
    processes.record_heartbeat("scheduler", FINE)
    assert client.get("/healthz").json()["status"] == "degraded"


@pytest.mark.parametrize(
    ("report", "part", "expected"),
    [
        (Report(threads=5, late_threads=["list-n1"]), "threads", {"number": 5, "late": ["list-n1"]}),
        (Report(broken=1, healed=2), "invariants", {"healed": 2, "broken": 1}),
    ],
)
def test_a_part_that_does_not_work_is_named(client: Client, report: Report, part: str, expected: object) -> None:
    answer = told(client, report)
    assert (answer["status"], answer[part]) == ("degraded", expected)


def test_a_node_nobody_has_seen_for_long_is_named(client: Client) -> None:
    answer = told(client, Report(oldest_look=99.0, old_looks={"n1": 99.0}))
    assert answer["status"] == "degraded"
    assert answer["looks"]["tooOld"]["n1"] >= 99
