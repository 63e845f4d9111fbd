"""The page of one node and of draining it: who runs there, what a drain would do, and who may ask for it."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import httpx
import pytest
from django.test import Client
from django.utils import timezone
from playwright.sync_api import expect

from base.core.values import milliseconds
from base.models import User
from base.wakes import wake
from clusters.models import Allocation, Node
from jobs.models import Event, Job
from portal.nodes import drain
from tests import http
from tests.builders import make_job, make_node
from tests.helpers import LIMIT
from tests.history import HOUR
from tests.pages.conftest import Tab, session_of

Browse = Callable[[User | None], Client]
Count = Callable[[Callable[[], object]], int]


def text(client: Client, url: str = "/nodes/gpu-01") -> str:
    return client.get(url).content.decode()


def test_it_shows_who_has_which_gpu(browse: Browse, alice: User) -> None:
    node = make_node("gpu-01", gpus=4, held={"gpus": ["3"]})
    make_job("alice", "mine", state="RUNNING", gpus=1, node=node)
    theirs = make_job("bob", "theirs", state="RUNNING", gpus=1, node=node)
    theirs.tasks.update(gpu_ids=["1"])
    Allocation.objects.filter(owner=theirs.tasks.get().pk).update(gpu_ids=["1"])
    page = browse(alice).get("/nodes/gpu-01").context
    tiles = {tile.id: (tile.css, tile.task and tile.task.full_name) for tile in page["tiles"]}
    assert tiles == {"0": ("mine", "alice/mine"), "1": ("busy", "bob/theirs"), "2": ("free", None), "3": ("out", None)}
    assert [task.full_name for task in page["tasks"]] == ["alice/mine", "bob/theirs"]


def test_it_says_why_the_node_is_not_well(browse: Browse, alice: User) -> None:
    marks = {"gpus": {"sentence": "It hands out no GPUs.", "since": "2026-11-20T10:00:00+00:00", "until": ""}}
    make_node("gpu-01", gpus=2, health="unreachable", health_reason="The connection timed out.", marks=marks)
    shown = text(browse(alice))
    assert "The connection timed out." in shown
    assert "It hands out no GPUs." in shown
    assert 'class="out"' in shown


@pytest.mark.parametrize(
    ("disk", "value", "of", "percent"),
    [
        ({"used": 612 << 30, "total": 1800 << 30}, "612 GB", "of 1.8 TB", 34.0),
        ({"used": 3 << 30, "total": None}, "3.0 GB", "", None),
    ],
)
def test_it_shows_how_full_the_disk_was_and_asks_no_engine(
    browse: Browse, alice: User, disk: dict[str, Any], value: str, of: str, percent: float | None
) -> None:
    make_node("gpu-01", health="unreachable", disk={**disk, "at": milliseconds(timezone.now()) - 2 * HOUR})
    shown = browse(alice).get("/nodes/gpu-01").context["cells"][-1]
    assert (shown.name, shown.value, shown.of, shown.percent) == ("Disk taken", value, of, percent)
    assert shown.small.endswith("2 h ago")


def test_only_admins_see_what_changes_it(browse: Browse, admin: User, alice: User) -> None:
    make_node("gpu-01")
    assert "/nodes/gpu-01/drain" in text(browse(admin))
    assert "/nodes/gpu-01/drain" not in text(browse(alice))
    assert "/add-node" not in text(browse(alice), "/nodes")
    assert browse(None).get("/nodes/gpu-01").status_code == 302
    assert browse(alice).get("/nodes/nowhere").status_code == 404


def test_it_keeps_stories_and_images_of_others_private(browse: Browse, admin: User, alice: User, settings: Any) -> None:
    node = make_node("gpu-01", images=["bob/secret-project:1"])
    job = make_job("bob", state="RUNNING", node=node)
    Event.objects.create(at=job.created_at, kind="task.state", job=job, node="gpu-01", reason="It ran out of luck.")
    Event.objects.create(at=job.created_at, kind="node.unreachable", node="gpu-01", reason="It did not answer.")
    settings.JOB_PRIVACY = "owner"
    shown = text(browse(alice))
    assert "It did not answer." in shown
    assert "out of luck" not in shown
    assert "secret-project" not in shown
    for mine in (text(browse(admin)),):
        assert "out of luck" in mine
        assert "secret-project" in mine


def test_the_page_takes_few_queries_however_much_runs(browse: Browse, alice: User, count_queries: Count) -> None:
    node = make_node("gpu-01", gpus=8)
    client = browse(alice)
    make_job("bob", state="RUNNING", gpus=1, node=node)
    few = count_queries(lambda: client.get("/nodes/gpu-01"))
    for number in range(5):
        make_job("bob", f"more-{number}", state="RUNNING", gpus=1, node=node)
    assert count_queries(lambda: client.get("/nodes/gpu-01")) == few <= 13


def test_a_drain_says_where_each_job_would_go(browse: Browse, admin: User) -> None:
    node, other = make_node("gpu-01", gpus=4), make_node("gpu-02", gpus=2)
    make_job("alice", "small", state="RUNNING", gpus=2, node=node)
    make_job("bob", "large", state="RUNNING", gpus=2, node=node)
    small, large = browse(admin).get("/nodes/gpu-01/drain").context["affected"]
    assert (small.full_name, small.goes, small.gpus) == ("alice/small", (other.name,), "GPU 0–1")
    assert (large.full_name, large.goes) == ("bob/large", ())
    assert large.why
    assert Node.objects.get(name="gpu-01").status == "active", "looking changes nothing"


def test_the_mildest_way_is_chosen_and_there_is_a_way_back(browse: Browse, admin: User) -> None:
    node = make_node("gpu-01", gpus=4)
    job = make_job("alice", "large", state="RUNNING", gpus=2, node=node)
    client = browse(admin)
    page = " ".join(text(client, "/nodes/gpu-01/drain").split())
    assert 'value="cordoned" checked' in page and 'value="draining" checked' not in page
    assert "touches 1 job, which would wait for room." in page
    client.post("/nodes/gpu-01/drain", {"to": "cordoned"})
    page = text(client, "/nodes/gpu-01/drain")
    assert "Offer it again" in page and "Take it out of service" not in page
    client.post("/nodes/gpu-01/drain", {"to": "active"})
    Allocation.objects.all().delete()
    job.tasks.update(state="STOPPED")
    assert 'value="draining" checked' in " ".join(text(client, "/nodes/gpu-01/drain").split()), "nothing is lost"


def test_what_a_gang_holds_elsewhere_counts_as_given_back(browse: Browse, admin: User) -> None:
    node, other = make_node("gpu-01", gpus=1), make_node("gpu-02", gpus=2)
    job = make_job("alice", "gang", state="RUNNING", tasks=2, gpus=1, node=node)
    _, second = job.tasks.order_by("index")
    second.node, second.gpu_ids = other.name, ["0"]
    second.save()
    (gang,) = browse(admin).get("/nodes/gpu-01/drain").context["affected"]
    assert (gang.elsewhere, gang.goes) == (1, ("gpu-02",))


@pytest.mark.parametrize(("to", "said"), [("draining", "gpu-01 drains"), ("cordoned", "gets nothing new")])
def test_it_drains_or_only_cordons_and_can_be_taken_back(browse: Browse, admin: User, to: str, said: str) -> None:
    make_node("gpu-01")
    client = browse(admin)
    assert said in client.post("/nodes/gpu-01/drain", {"to": to}, follow=True).content.decode()
    assert Node.objects.get().status == to
    client.post("/nodes/gpu-01/drain", {"to": "active"})
    assert Node.objects.get().status == "active"


def test_a_drained_node_is_said_to_be_empty(browse: Browse, admin: User) -> None:
    node = make_node("gpu-01", gpus=1, status="draining")
    assert "gpu-01 is empty." in text(browse(admin), "/nodes/gpu-01/drain")
    make_job("alice", state="RUNNING", gpus=1, node=node)
    assert "1 task still here." in text(browse(admin), "/nodes/gpu-01/drain")


def test_others_do_not_drain(browse: Browse, admin: User, alice: User) -> None:
    make_node("gpu-01")
    assert browse(alice).get("/nodes/gpu-01/drain").status_code == 403
    assert browse(alice).post("/nodes/gpu-01/drain", {"to": "draining"}).status_code == 403
    assert browse(None).post("/nodes/gpu-01/drain", {"to": "draining"}).status_code == 302
    client = http.Client()
    client.force_login(admin, backend="django.contrib.auth.backends.ModelBackend")
    assert client.post("/nodes/gpu-01/drain", {"to": "draining"}).status_code == 403
    assert browse(admin).post("/nodes/gpu-01/drain", {"to": "elsewhere"}).status_code == 400
    assert Node.objects.get().status == "active"


def test_its_streams_are_for_those_who_may_see_the_page(site: str, alice: User) -> None:
    make_node("gpu-01")
    assert httpx.get(f"{site}/stream/page?page=node&name=gpu-01", timeout=LIMIT).status_code == 401
    cookies = {"longshore": session_of(alice)}
    assert httpx.get(f"{site}/stream/page?page=drain&name=gpu-01", cookies=cookies, timeout=LIMIT).status_code == 403


def test_a_job_that_cannot_be_read_does_not_break_the_page(browse: Browse, admin: User) -> None:
    node = make_node("gpu-01", gpus=1)
    job = make_job("alice", state="RUNNING", gpus=1, node=node)
    Job.objects.filter(pk=job.pk).update(spec={"taskRoles": "none"})
    (one,) = browse(admin).get("/nodes/gpu-01/drain").context["affected"]
    assert one.why == drain.UNREADABLE


@pytest.mark.browser
def test_the_drain_is_shown_as_it_goes(tab: Callable[..., Tab], admin: User) -> None:
    node = make_node("gpu-01", gpus=1)
    job = make_job("alice", "train", state="RUNNING", gpus=1, node=node)
    page = tab(admin).open("/nodes/gpu-01/drain")
    page.get_by_label("Stop them now").check()
    page.click("text=Take it out of service")
    expect(page.locator("#drain")).to_contain_text("1 task still here.")
    job.tasks.update(state="STOPPED")
    node.allocations.all().delete()
    wake.notify("pages")
    expect(page.locator("#drain")).to_contain_text("gpu-01 is empty.")


# --- what is kept for whom -------------------------------------------------------------------------------------------


@pytest.fixture
def kept(alice: User, bob: User) -> Job:
    """Bob's job has all GPUs of gpu-01, alice's waits for them."""
    make_job("bob", "small", state="RUNNING", gpus=4, node=make_node("gpu-01", gpus=4))
    make_node("cpu-01")
    waits = make_job("alice", "large", gpus=4)
    now = milliseconds(timezone.now())
    spread = {"p10": now + HOUR, "p50": now + 2 * HOUR, "p90": now + 3 * HOUR}
    Job.objects.filter(pk=waits.pk).update(forecast=spread)
    return waits


@pytest.mark.parametrize("url", ["/nodes", "/nodes/gpu-01"])
def test_it_says_for_whom_room_is_kept_and_about_from_when(browse: Browse, bob: User, kept: Job, url: str) -> None:
    [one] = browse(bob).get(url).context["reserved"]
    assert (one.job, one.url, one.vc, one.nodes) == (
        "alice/large",
        "/jobs/alice/large",
        "default",
        (("gpu-01", "4 GPUs"),),
    )
    assert re.fullmatch(r"Starts at about .+ \(.+ to .+\)\.", one.when)
    assert "Kept for" in text(browse(bob), url)


def test_only_the_nodes_that_are_kept_say_so(browse: Browse, bob: User, kept: Job) -> None:
    assert browse(bob).get("/nodes/cpu-01").context["reserved"] == []
    Job.objects.filter(pk=kept.pk).update(forecast=None)
    assert "Nobody can tell yet when it starts." in text(browse(bob))
    Job.objects.filter(pk=kept.pk).update(state="STOPPED")
    assert "Kept for" not in text(browse(bob))


@pytest.mark.parametrize("url", ["/nodes", "/nodes/gpu-01"])
def test_it_does_not_name_a_job_whose_reasons_are_private(
    browse: Browse, admin: User, alice: User, bob: User, kept: Job, settings: Any, url: str
) -> None:
    settings.JOB_PRIVACY = "owner"
    shown = text(browse(bob), url)
    assert "Kept for" in shown and "alice" not in shown
    assert "alice/large" in text(browse(alice), url) and "alice/large" in text(browse(admin), url)


@pytest.mark.parametrize("url", ["/nodes", "/nodes/gpu-01"])
def test_what_is_kept_costs_few_queries_however_many_wait(
    browse: Browse, alice: User, kept: Job, count_queries: Count, url: str
) -> None:
    client = browse(alice)
    make_job("bob", "waits", gpus=4)  # where several users wait, it is read who has used less
    client.get(url)
    few = count_queries(lambda: client.get(url))
    for number in range(20):
        make_job("bob", f"waits-{number}", gpus=4)
    assert count_queries(lambda: client.get(url)) <= few + 1 <= 27  # the specs of jobs that it has not seen
    assert count_queries(lambda: client.get(url)) == few


def test_all_nodes_mark_the_gpus_that_are_yours(browse: Browse, bob: User, kept: Job) -> None:
    squares = {line.view.name: line.squares for line in browse(bob).get("/nodes").context["nodes"]}
    assert squares == {"gpu-01": ("mine",) * 4, "cpu-01": ()}
    assert browse(None).get("/nodes").status_code == 302


def test_where_a_node_stands_is_on_its_page_and_in_the_list(browse: Browse, alice: User) -> None:
    make_node("gpu-01", labels={"topology": "hall1//rack3", "disk": "ssd"})
    assert "<dt>Topology</dt>" in text(browse(alice)) and ">hall1/rack3<" in text(browse(alice))
    assert ">hall1/rack3<" in text(browse(alice), "/nodes")
