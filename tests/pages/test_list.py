"""The job list: filters, facets, paging by cursor, and query counts that do not grow."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from django.test import Client
from playwright.sync_api import expect

from base.models import User
from clusters.models import VirtualCluster
from jobs.metrics import idle
from jobs.models import Task
from jobs.planning import exits
from tests.builders import fail_again, make_job, make_node
from tests.measures import measured
from tests.pages.conftest import Tab

Browse = Callable[[User | None], Client]
Count = Callable[[Callable[[], object]], int]


def names(client: Client, url: str) -> list[str]:
    return [row.name for row in client.get(url).context["rows"]]


def test_it_filters_by_state_user_vc_and_keyword(browse: Browse) -> None:
    make_job("alice", "bert-1", state="FAILED")
    make_job("alice", "bert-2", state="RUNNING")
    make_job("bob", "bert-3", state="RUNNING", vc="nlp")
    make_job("bob", "swin", state="RUNNING", execution="STOP")
    client = browse(None)
    assert names(client, "/jobs?state=failed") == ["bert-1"]
    assert names(client, "/jobs?state=stopping") == ["swin"]
    assert names(client, "/jobs?keyword=bert&username=alice") == ["bert-2", "bert-1"]
    assert names(client, "/jobs?vc=nlp") == ["bert-3"]
    tallies = {facet.state: facet.number for facet in client.get("/jobs?keyword=bert&state=failed").context["facets"]}
    assert (tallies[""], tallies["FAILED"], tallies["RUNNING"]) == (3, 1, 2)


def test_every_waiting_job_says_why(browse: Browse, alice: User) -> None:
    """The first is held by its lack of GPUs and the second by the first; the third is in a stopped virtual cluster."""
    make_job("bob", state="RUNNING", gpus=1, node=make_node(gpus=2))
    make_job("alice", "large", gpus=2)
    make_job("alice", "behind", gpus=1)
    VirtualCluster.objects.create(name="nlp", status=VirtualCluster.Status.STOPPED)
    make_job("alice", "elsewhere", vc="nlp")
    rows = {row.name: (row.place, row.happening) for row in browse(alice).get("/jobs?username=alice").context["rows"]}
    assert rows["large"][0] == "1st in default"
    assert rows["large"][1].startswith("Each task of ")
    assert rows["behind"] == ("2nd in default", "The room that it would fit into is reserved for alice/large.")
    assert rows["elsewhere"] == ("1st in nlp", "VC nlp is stopped, so nothing new starts in it.")


def test_a_job_that_made_room_for_another_one_is_not_called_failed(browse: Browse, alice: User) -> None:
    fail_again(make_job("alice", "train"), exits.evicted("VC a gives back 1 GPU."), 1)
    shown = browse(alice).get("/jobs").content.decode()
    assert "Evicted: VC a gives back 1 GPU." in shown
    assert "Failed: VC a" not in shown


def test_it_pages_by_cursor_while_new_jobs_come_in(browse: Browse) -> None:
    for number in range(45):
        make_job("alice", f"job-{number}")
    client = browse(None)
    first = client.get("/jobs?limit=20")
    make_job("alice", "newest")
    second = client.get(first.context["older"])
    third = client.get(second.context["older"])
    shown = [row.name for answer in (first, second, third) for row in answer.context["rows"]]
    assert shown == [f"job-{number}" for number in reversed(range(45))]
    assert not third.context["older"]
    assert names(client, third.context["newer"]) == [row.name for row in second.context["rows"]]


@pytest.mark.parametrize(
    "url", ["/jobs?before=x&limit=7&state=odd", "/jobs?after=99999999999999999999", "/jobs?before=1"]
)
def test_it_takes_any_address(browse: Browse, url: str) -> None:
    make_job("alice", "job")
    assert browse(None).get(url).status_code == 200


@pytest.mark.parametrize("state", ["WAITING", "RUNNING", "FAILED"])
def test_its_queries_do_not_grow_with_the_jobs(browse: Browse, alice: User, count_queries: Count, state: str) -> None:
    node = make_node()
    client = browse(alice)
    make_job("alice", state=state, node=node)
    client.get("/jobs")
    few = count_queries(lambda: client.get("/jobs"))
    few_home = count_queries(lambda: client.get("/"))
    for _ in range(30):
        make_job("alice", state=state, node=node, tasks=3)
    assert count_queries(lambda: client.get("/jobs")) <= few + 2  # the specs of jobs that it has not seen, and who held
    assert count_queries(lambda: client.get("/jobs")) == few
    assert count_queries(lambda: client.get("/")) <= few_home + 1  # the count of the part that is full
    assert few <= 19


def test_home_counts_all_that_failed_in_a_day_not_only_those_it_shows(browse: Browse, alice: User) -> None:
    for number in range(13):
        make_job("alice", f"bad-{number}", state="FAILED")
    make_job("alice", "longago", state="FAILED", age=400_000)
    for number in range(12):
        make_job("alice", f"good-{number}", state="SUCCEEDED")
        make_job("alice", f"waits-{number}")
    shown = browse(alice).get("/")
    assert [row.name for row in shown.context["failed"]] == [f"bad-{n}" for n in reversed(range(3, 13))]
    assert shown.context["counts"] == {"running": 0, "waiting": 12, "failed": 13, "done": 13}
    assert '<span class="ls-count">13</span>' in shown.content.decode()
    assert "bad-0" not in {row.name for row in shown.context["done"]}


def test_it_jumps_to_a_job_or_searches(browse: Browse, alice: User) -> None:
    make_job("bob", "only")
    client = browse(alice)
    for wanted in ("bob/only", "bob~only", "only"):
        assert client.get("/jump", {"q": wanted}).headers["Location"] == "/jobs/bob/only"
    assert client.get("/jump", {"q": "onl"}).headers["Location"] == "/jobs?keyword=onl"


def test_it_jumps_to_nodes_virtual_clusters_and_files_too(browse: Browse, alice: User) -> None:
    make_node("gpu-01")
    client = browse(alice)
    places = {
        "gpu-01": "/nodes/gpu-01",
        "default": "/vcs/default",
        "/users/alice/a b": "/files/users/alice/a%20b",
        "hdfs://users/alice": "/files/users/alice",
    }
    assert {wanted: client.get("/jump", {"q": wanted}).headers["Location"] for wanted in places} == places
    make_job("bob", "gpu-01")
    assert client.get("/jump", {"q": "gpu-01"}).headers["Location"] == "/jobs/bob/gpu-01"


def test_the_jump_box_suggests_own_jobs_nodes_pages_and_guides(
    browse: Browse, alice: User, count_queries: Count
) -> None:
    make_node("train-01")
    for number in range(6):
        make_job("alice", f"train-{number}", state="RUNNING" if number else "FAILED")
    make_job("bob", "train-of-bob")
    make_job("alice", "other")

    def found(text: str, user: User | None = alice) -> dict[str, list[str]]:
        groups = browse(user).get("/jump/near", {"q": text}).context["groups"]
        return {name: [one[0] for one in some] for name, some in groups}

    assert found("train-") == {"My jobs": ["train-0", "train-1", "train-2", "train-3"], "Nodes": ["train-01"]}
    assert found("train-", None) == {"Nodes": ["train-01"]}
    assert set(found("")) == {"My jobs"} and len(found("")["My jobs"]) == 4
    assert (
        "How a job is told to end, and goes on where it was" in found("told to")["Guides"]
        and "Audit" not in found("a")["Pages"]
    )
    assert "%" not in found("%").get("My jobs", [])
    few = count_queries(lambda: found("train-"))
    names = [f"more-{number}" for number in range(40)]
    for name in names:
        make_job("alice", name)
    assert count_queries(lambda: found("more-")) == few


@pytest.mark.browser
def test_the_jump_box_opens_under_the_fingers_and_closes_behind_them(tab: Callable[..., Tab], alice: User) -> None:
    make_job("alice", "train-1")
    shown = tab(alice)
    page = shown.open("/jobs")
    # One request after the other: htmx tells the console of one that a newer one has replaced.
    for act in (lambda: page.focus(".ls-top .ls-jump input"), lambda: page.fill(".ls-jump input[name=q]", "tra")):
        with page.expect_response("**/jump/near?**"):
            act()
        expect(page.locator(".ls-top .ls-near a").first).to_have_text("train-1 Waiting")
    shown.check_here("the jump box")
    page.focus(".ls-top .ls-jump input")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    expect(page.locator("h1")).to_have_text("train-1")


def test_it_filters_by_time_and_sorts_page_by_page(browse: Browse, count_queries: Count) -> None:
    for hours in (1, 3, 30, 200):
        make_job("alice", f"h{hours}", state="SUCCEEDED", age=3600 * hours)
    make_job("alice", "now")
    client = browse(None)
    assert names(client, "/jobs?since=24h") == ["now", "h1", "h3"]
    assert names(client, "/jobs?since=7d&sort=oldest") == ["h30", "h3", "h1", "now"]
    assert names(client, "/jobs?sort=ended") == ["h1", "h3", "h30", "h200"]
    assert {facet.state: facet.number for facet in client.get("/jobs?since=24h").context["facets"]}["SUCCEEDED"] == 2
    for number in range(40):
        make_job("alice", f"more-{number}", state="SUCCEEDED", age=1000 + number * 100)
    for sort in ("oldest", "ended"):
        first = client.get(f"/jobs?limit=20&sort={sort}")
        whole = names(client, f"/jobs?limit=100&sort={sort}")
        second = client.get(first.context["older"])
        third = client.get(second.context["older"])
        shown = [row.name for answer in (first, second, third) for row in answer.context["rows"]]
        assert shown == whole, sort
        assert names(client, third.context["newer"]) == [row.name for row in second.context["rows"]]
        few = count_queries(lambda at=first.context["older"]: client.get(at))
        assert few <= 9


@pytest.mark.parametrize(
    "odd", ["sinse=7d", "since=yesterday", "sort=size", "state=odd", "since=0001-01-01T00:00%2B12"]
)
def test_it_tells_of_a_parameter_that_it_does_not_understand(browse: Browse, odd: str) -> None:
    make_job("alice", "job")
    assert names(browse(None), f"/jobs?{odd}") == ["job"]
    shown = " ".join(browse(None).get(f"/jobs?{odd}").content.decode().split())
    assert f"does not understand <b>{odd.replace('%2B', '+')}</b>, so it was left out." in shown
    assert "not understand" not in browse(None).get("/jobs?since=7d&sort=ended&state=failed").content.decode()


def test_it_closes_everything_to_guests_when_asked_to(browse: Browse, settings: object) -> None:
    settings.ANONYMOUS_READ = "none"  # type: ignore[attr-defined]
    make_job("alice", "job")
    for url in ("/", "/jobs", "/jobs/alice/job", "/jobs/alice/job/config", "/jump?q=job"):
        assert browse(None).get(url).headers["Location"].startswith("/login?next=")


def test_it_escapes_what_users_wrote(browse: Browse, alice: User) -> None:
    make_job("alice", "job", state="STOPPED", stopped_by="<script>")
    answer = browse(alice).get("/jobs?keyword=%3Cscript%3E&username=%3Cb%3E").content.decode()
    assert "<script>" not in answer
    assert "<script>" not in browse(alice).get("/jobs").content.decode()


@pytest.mark.browser
def test_it_filters_at_once_and_keeps_the_filter_in_the_address(tab: Callable[..., Tab], alice: User) -> None:
    make_job("alice", "mine")
    make_job("bob", "his")
    page = tab(alice).open("/jobs")
    page.evaluate("window.stayed = true")
    page.select_option("#by-user", "alice")
    expect(page.locator("tbody tr")).to_have_count(1)
    assert "username=alice" in page.url
    page.click("#facet-failed")
    expect(page.locator("main")).to_contain_text("No job matches these filters")
    assert "username=alice" in page.url
    assert "state=failed" in page.url
    assert page.evaluate("window.stayed")
    page.go_back()
    expect(page.locator("tbody tr")).to_have_count(1)


@pytest.mark.browser
def test_it_is_used_by_keys_alone(tab: Callable[..., Tab], alice: User) -> None:
    node = make_node()
    make_job("alice", "older", state="RUNNING", node=node)
    make_job("alice", "newer", state="RUNNING", node=node)
    page = tab(alice).open("/")
    page.keyboard.press("g")
    page.keyboard.press("j")
    expect(page.locator("h1")).to_have_text("Jobs")
    page.wait_for_load_state("domcontentloaded")  # the scripts have run then
    page.keyboard.press("j")
    page.keyboard.press("j")
    page.keyboard.press("x")
    expect(page.get_by_role("button", name="Stop 1 job")).to_be_visible()
    page.keyboard.press("k")
    page.keyboard.press("Enter")
    expect(page.locator("h1")).to_have_text("newer")
    page.wait_for_load_state("domcontentloaded")
    page.keyboard.press("4")
    expect(page.locator("#job-tab h2")).to_have_text("Events")
    page.keyboard.press("?")
    expect(page.locator("#keys")).to_be_visible()


@pytest.mark.browser
def test_long_names_push_no_column_off_and_what_is_happening_is_the_widest(tab: Callable[..., Tab]) -> None:
    make_node()
    make_job("bob", "x" * 200, vc="v" * 60, tasks=200, gpus=4)
    make_job("b" * 60, "train", state="STOPPED", stopped_by="bob")
    page = tab().open("/jobs")
    across = page.evaluate("[...document.querySelectorAll('.ls-jobs thead th')].map(cell => cell.offsetWidth)")
    names = page.locator(".ls-jobs thead th").all_inner_texts()
    assert max(zip(across, names, strict=True))[1] == "What is happening"
    wide, room = page.evaluate("(node => [node.scrollWidth, node.clientWidth])(document.querySelector('.ls-scroll'))")
    assert wide <= room


@pytest.mark.browser
def test_a_narrow_screen_has_the_jump_box_and_the_current_tab(tab: Callable[..., Tab], admin: User) -> None:
    make_job("alice", "train", state="RUNNING", node=make_node("gpu-01"))
    shown = tab(admin, width=390)
    page = shown.open("/jobs/alice/train/ssh")
    expect(page.locator("#tab-ssh")).to_be_in_viewport(ratio=0.9)
    page.fill(".ls-jump input", "gpu-01")
    page.press(".ls-jump input", "Enter")
    expect(page.locator("h1")).to_have_text("gpu-01")
    shown.open("/users")
    expect(page.locator(".ls-nav [aria-current]")).to_be_in_viewport(ratio=0.9)


def test_a_running_job_says_what_it_uses(
    browse: Browse, alice: User, settings: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.METRICS_DIR = tmp_path
    node, now = make_node(gpus=2), int(time.time()) // 10 * 10
    uses = {"busy": (2, 3.0, 91.0), "idle": (1, 0.1, 0.0), "cores": (0, 1.92, 0.0)}
    for name, (gpus, _, _) in uses.items():
        make_job("alice", name, state="RUNNING", gpus=gpus, node=node)
    tasks = list(Task.objects.select_related("job"))
    for at in (*range(now - 7800, now, 200), now):
        for task in tasks:
            gpus, cpu, util = uses[task.job.name]
            measured(task, at, [cpu, *[math.nan] * 7, *[util, 5.0, math.nan] * gpus])
    make_job("alice", "unmeasured", state="RUNNING", gpus=1, node=node)
    monkeypatch.setattr(idle, "time", SimpleNamespace(time=lambda: now + 5.0))  # also when the page comes late
    page = browse(alice).get("/jobs")
    says = {row.name: row.happening for row in page.context["rows"]}
    assert says.pop("idle").startswith("GPUs idle for 2 h 10 min")
    assert says == {"busy": "GPUs 91 % busy", "cores": "1.9 cores busy", "unmeasured": ""}
    assert page.content.decode().count("ls-warn") >= 1 and "Submitted" in page.content.decode()


def test_a_job_that_never_ran_offers_no_log(browse: Browse, alice: User) -> None:
    make_job("alice", "waits")
    make_job("alice", "ran", state="SUCCEEDED")
    shown = browse(alice).get("/jobs").content.decode()
    assert 'href="/jobs/alice/ran/logs"' in shown and 'href="/jobs/alice/waits/logs"' not in shown
