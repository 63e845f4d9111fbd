"""The pages of replays: a day is chosen, a worker plays it, and what would have been stands beside what was."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest
from django.http import HttpRequest
from django.test import Client, RequestFactory

from base.core.errors import Forbidden, NotFound
from base.models import User
from clusters.models import VirtualCluster
from jobs.models import Replay
from jobs.replay import run
from portal.page_urls import LIVE
from portal.policy.replay_page import asked_of
from portal.shared.live import page as live
from tests.builders import make_node
from tests.history import HOUR, held
from tests.pages.conftest import Tab

Browse = Callable[[User | None], Client]
NOW = time.time_ns() // 1_000_000


def a_day() -> None:
    make_node("gpu-01", gpus=4)
    VirtualCluster.objects.create(name="vision", capacity=40, max_capacity=100)
    for at in range(12):
        began = NOW - (at + 2) * HOUR
        gpus, vc = (1, "default") if at % 3 else (4, "vision")
        held(began, began + HOUR, gpus=gpus, gpu_ids=",".join(map(str, range(gpus))), waited=at * 600_000, vc=vc)


def played(client: Client, **fields: Any) -> str:
    """The address of a replay that a worker has played."""
    answer = client.post("/replay", {"policy": "fifo", "nodes": "1", **fields})
    assert answer.status_code == 302, answer.content.decode()
    while run.play_next():
        pass
    return str(answer["Location"])


def stream(user: User, id: str) -> HttpRequest:
    request = RequestFactory().get("/stream/page", {"page": "replay", "id": id})
    request.user = user
    return request


def test_a_day_is_chosen_played_and_shown(browse: Browse, admin: User) -> None:
    a_day()
    client = browse(admin)
    seen = client.get(played(client, vc="vision", gpus="1", nodes="2")).content.decode()
    for text in ("under plain FIFO", "with 2 times the nodes", "VC vision gets 1 more GPU guaranteed", "In short:"):
        assert text in seen
    assert "GPUs in use" in seen and "2-8 GPUs" in seen and "12 jobs" in seen
    listed = client.get("/replay").content.decode()
    assert "played" in listed and "/replay/" in listed


def test_until_it_is_played_its_page_says_how_far_it_is(
    browse: Browse, admin: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run, "STALE", HOUR)
    client = browse(admin)
    url = client.post("/replay", {"policy": "easy", "nodes": "1"})["Location"]
    assert "It waits for a worker." in client.get(url).content.decode()
    Replay.objects.update(beat=int(time.time() * 1000), progress=40)
    assert "40 % is played." in client.get(url).content.decode()
    Replay.objects.update(beat=1)
    assert "has ended" in client.get(url).content.decode()
    Replay.objects.update(error="There is no virtual cluster a.")
    assert "There is no virtual cluster a." in client.get(url).content.decode()


def test_a_day_without_jobs_is_no_error(browse: Browse, admin: User) -> None:
    client = browse(admin)
    assert "No job waited on this day." in client.get(played(client)).content.decode()


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"policy": "lottery"}, "policy must be one of"),
        ({"nodes": "0"}, "nodes must be a number"),
        ({"day": "2999-01-01"}, "has not begun"),
        ({"day": "never"}, "is not a time"),
        ({"gpus": "1", "vc": "nobody"}, "There is no virtual cluster nobody."),
        ({"gpus": "x", "vc": "vision"}, "GPUs must be a whole number"),
    ],
)
def test_what_is_refused_is_said_on_the_page(browse: Browse, admin: User, fields: dict[str, str], says: str) -> None:
    a_day()
    answer = browse(admin).post("/replay", {"policy": "fifo", "nodes": "1", **fields})
    assert (answer.status_code, says in answer.content.decode()) == (400, True)
    assert not Replay.objects.exists()


def test_fewer_gpus_are_guaranteed_by_a_minus() -> None:
    assert asked_of({"vc": "a", "gpus": "-2"}).changes == ("vc:a:guarantee:-2",)


def test_it_is_for_admins(browse: Browse, alice: User) -> None:
    client = browse(alice)
    assert [client.get(path).status_code for path in ("/replay", "/replay/1")] == [403, 403]
    assert client.post("/replay", {}).status_code == 403
    assert browse(None).get("/replay")["Location"].startswith("/login")
    with pytest.raises(Forbidden):
        live.open_page(stream(alice, "1"), LIVE)


def test_one_that_is_not_there(browse: Browse, admin: User) -> None:
    assert browse(admin).get("/replay/7").status_code == 404
    for id in ("7", "x", "9" * 30):
        with pytest.raises(NotFound):
            live.open_page(stream(admin, id), LIVE)


def test_admins_find_it_beside_the_timeline(browse: Browse, admin: User, alice: User) -> None:
    assert 'href="/replay"' in browse(admin).get("/timeline").content.decode()
    assert 'href="/replay"' not in browse(alice).get("/timeline").content.decode()


def test_its_queries_do_not_grow(
    browse: Browse, admin: User, count_queries: Callable[[Callable[[], object]], int]
) -> None:
    a_day()
    client = browse(admin)
    first = played(client)
    few = [count_queries(lambda path=path: client.get(path)) for path in ("/replay", first)]  # type: ignore[misc]
    for _ in range(5):
        last = played(client)
    many = [count_queries(lambda path=path: client.get(path)) for path in ("/replay", last)]  # type: ignore[misc]
    assert many <= few and max(few) <= 10


@pytest.mark.browser
def test_an_open_page_shows_the_result_when_it_is_there(tab: Callable[..., Tab], admin: User) -> None:
    a_day()
    page = tab(admin).open("/replay")
    page.get_by_role("button", name="Play again").click()
    page.get_by_text("It waits for a worker.").wait_for()
    assert run.play_next()
    page.get_by_role("heading", name="Mean wait by size of job").wait_for()
