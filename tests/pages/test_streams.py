"""Who may go on watching, and how many guests: live streams by plain HTTP."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest

from clusters.engines import schemes as engines
from jobs.logs.follow import hub
from jobs.views import welcome
from portal.models import User
from portal.web.serving.seats import Seat
from tests.cluster import Clock, Cluster
from tests.helpers import until
from tests.pages.conftest import session_of

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def _quick(settings: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    settings.HOME = tmp_path
    monkeypatch.setattr(welcome, "EVERY", 0.2)
    monkeypatch.setattr(welcome, "_KNOWN", 0.0)
    yield
    hub.close()


@pytest.fixture
def job(alice: User) -> Iterator[Cluster]:
    """alice/hello runs."""
    cluster = Cluster(alice, Clock())
    cluster.add_node()
    cluster.engines["n1"].print(cluster.task(cluster_job(cluster)).container_name, b"one\n")
    yield cluster
    engines.use(None)


def cluster_job(cluster: Cluster) -> Any:
    job = cluster.submit(name="hello")
    cluster.settle()
    return job


@pytest.mark.parametrize("change", [{"is_active": False}, {"is_admin": True}])
@pytest.mark.parametrize("path", ["/stream/page?page=home", "/stream/logs/alice/hello?task=worker-0"])
def test_a_stream_ends_when_its_reader_is_switched_off_or_becomes_somebody_else(
    site: str, bob: User, job: Cluster, path: str, change: dict[str, bool]
) -> None:
    with httpx.stream("GET", f"{site}{path}", cookies={"longshore": session_of(bob)}, timeout=20) as answer:
        lines = answer.iter_lines()
        next(lines)
        User.objects.filter(pk=bob.pk).update(**change)
        for _ in lines:
            pass  # ends by itself


def test_guests_have_few_places_and_who_has_signed_in_comes_in(site: str, alice: User, settings: Any) -> None:
    settings.GUEST_STREAMS = 2
    url = f"{site}/stream/page?page=home"
    with ExitStack() as open_streams:
        for cookies in ({}, {"longshore": "made-up"}):
            answer = open_streams.enter_context(httpx.stream("GET", url, cookies=cookies, timeout=20))
            assert answer.status_code == 200
        for cookies in ({}, {"longshore": "made-up"}):
            refused = httpx.get(url, cookies=cookies, timeout=20)
            assert refused.status_code == 503 and "Sign in" in refused.text
        mine = open_streams.enter_context(httpx.stream("GET", url, cookies={"longshore": session_of(alice)}))
        assert mine.status_code == 200
    until(lambda: Seat.taken == 0, what="the guests' places are free again")


def test_a_stream_takes_no_body(site: str) -> None:
    answer = httpx.request("GET", f"{site}/stream/page?page=home", content=b"x", timeout=20)
    assert answer.status_code == 413
    assert threading.active_count() < 100
