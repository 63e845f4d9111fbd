"""Who may go on watching, and how many guests: live streams by plain HTTP."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

import httpx
import pytest
from django.contrib.sessions.models import Session
from django.test import RequestFactory
from django.utils import timezone

from base.core.errors import LongshoreError
from base.models import User
from base.serving import guest_slots
from clusters.engines import schemes
from jobs.logs.follow import hub
from jobs.models import Sweep
from portal.page_urls import LIVE
from portal.shared.live import page as live
from portal.shared.live import stream_access
from tests.cluster import Clock, Cluster
from tests.helpers import LIMIT, quick, until
from tests.pages.conftest import session_of

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def _quick(settings: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    settings.HOME = tmp_path
    monkeypatch.setattr(stream_access, "EVERY", 0.2)
    monkeypatch.setattr(stream_access, "_KNOWN", 0.0)
    yield
    hub.close()


@pytest.fixture
def job(alice: User) -> Iterator[Cluster]:
    """alice/hello runs."""
    cluster = Cluster(alice, Clock())
    cluster.add_node()
    hello = cluster_job(cluster)
    cluster.engines["n1"].print(cluster.task(hello).container_name, b"one\n")
    hello.sweep = Sweep.objects.create(username="alice", name="lr", config="", parameters=[], created_at=timezone.now())
    hello.save()
    yield cluster
    schemes.set_engine_factory(None)


def cluster_job(cluster: Cluster) -> Any:
    job = cluster.submit(name="hello")
    cluster.settle()
    return job


@pytest.mark.parametrize("change", [{"is_active": False}, {"is_admin": True}])
@pytest.mark.parametrize("path", ["/stream/page?page=home", "/stream/logs/alice/hello?task=worker-0"])
def test_a_stream_ends_when_its_reader_is_switched_off_or_becomes_somebody_else(
    site: str, bob: User, job: Cluster, path: str, change: dict[str, bool]
) -> None:
    with httpx.stream("GET", f"{site}{path}", cookies={"longshore": session_of(bob)}, timeout=LIMIT) as answer:
        lines = answer.iter_lines()
        next(lines)
        User.objects.filter(pk=bob.pk).update(**change)
        for _ in lines:
            pass  # ends by itself


OF_ITS_OWN = {
    "job": "&user=alice&name=hello&tab=events",
    "terminal": "&user=alice&name=hello&tab=terminal",
    "sweep": "&user=alice&name=lr",
    "node": "&name=n1",
    "drain": "&name=n1",
}


def watch(site: str, kind: str, session: str, began: list[str], ended: list[str]) -> None:
    """Reads the stream of such a page until it ends by itself."""
    url = f"{site}/stream/page?page={kind}{OF_ITS_OWN.get(kind, '')}"
    with httpx.stream("GET", url, cookies={"longshore": session}, timeout=LIMIT) as answer:
        if answer.status_code == 200:
            began.append(kind)
        for _ in answer.iter_lines():
            pass
    ended.append(kind)


def test_the_stream_of_a_page_ends_when_what_it_shows_is_gone(site: str, alice: User, job: Cluster) -> None:
    url, cookies = f"{site}/stream/page?page=sweep{OF_ITS_OWN['sweep']}", {"longshore": session_of(alice)}
    with httpx.stream("GET", url, cookies=cookies, timeout=LIMIT) as answer:
        lines = answer.iter_lines()
        next(lines)
        Sweep.objects.get().delete()
        job.submit(name="news")
        for _ in lines:
            pass  # ends by itself
    assert httpx.get(url, cookies=cookies, timeout=LIMIT).status_code == 404


@pytest.mark.parametrize("how", ["is no admin any more", "logs out", "is switched off", "has another password"])
def test_every_page_that_is_open_ends_within_five_seconds_when_its_reader(
    site: str, admin: User, job: Cluster, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    monkeypatch.undo()  # as often as it looks outside of tests
    assert stream_access.EVERY + stream_access._KNOWN < 4, "a second is left for the rest"
    session, began, ended = session_of(admin), list[str](), list[str]()
    kinds = sorted(set(LIVE) - {"replay"})
    readers = [threading.Thread(target=watch, args=(site, kind, session, began, ended), daemon=True) for kind in kinds]
    for each in readers:
        each.start()
    until(lambda: sorted(began) == kinds, what="all streams are open")
    assert not ended
    with quick(15, "all streams end"):
        withdraw(admin, session, how)
        for each in readers:
            each.join(LIMIT)
    assert sorted(ended) == kinds


def withdraw(admin: User, session: str, how: str) -> None:
    if how == "logs out":
        Session.objects.filter(session_key=session).delete()
    elif how == "has another password":
        admin.set_password("another-one-1")
        admin.save()
    else:
        field = "is_admin" if how == "is no admin any more" else "is_active"
        User.objects.filter(pk=admin.pk).update(**{field: False})


def test_an_open_page_asks_its_own_rule_again(admin: User, bob: User, job: Cluster) -> None:
    """Whoever the reader is by then: of those for admins nobody else."""
    for kind in set(LIVE) - {"replay"}:
        query = dict(parse_qsl(f"page={kind}{OF_ITS_OWN.get(kind, '')}"))
        request: Any = RequestFactory().get("/stream/page", query)
        request.user = admin
        page = live.open_page(request, LIVE)
        request.user = bob
        try:
            live.open_page(request, LIVE)
        except LongshoreError as error:
            with pytest.raises(type(error)):
                page.require(bob)


def test_guests_have_few_places_and_who_has_signed_in_comes_in(site: str, alice: User, settings: Any) -> None:
    settings.GUEST_STREAMS = 2
    url = f"{site}/stream/page?page=home"
    with ExitStack() as open_streams:
        for cookies in ({}, {"longshore": "made-up"}):
            answer = open_streams.enter_context(httpx.stream("GET", url, cookies=cookies, timeout=LIMIT))
            assert answer.status_code == 200
        for cookies in ({}, {"longshore": "made-up"}):
            refused = httpx.get(url, cookies=cookies, timeout=LIMIT)
            assert refused.status_code == 503 and "Sign in" in refused.text
        mine = open_streams.enter_context(
            httpx.stream("GET", url, cookies={"longshore": session_of(alice)}, timeout=LIMIT)
        )
        assert mine.status_code == 200
    until(lambda: guest_slots.taken == 0, what="the guests' places are free again")


def test_a_stream_takes_no_body(site: str) -> None:
    answer = httpx.request("GET", f"{site}/stream/page?page=home", content=b"x", timeout=LIMIT)
    assert answer.status_code == 413
    assert threading.active_count() < 100
