"""Pages that change by themselves, over one stream each."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest
from django.contrib.sessions.models import Session
from django.db import connection
from django.test import Client
from django.utils import timezone
from playwright.sync_api import expect

from base.models import User
from base.wakes import wake
from base.wakes.wake import hub
from clusters.nodes import refusals
from jobs import services, versions
from jobs.models import Job, Task
from portal.shared.live import stream, stream_access
from tests.builders import add_event, make_job, make_node
from tests.helpers import LIMIT, until
from tests.pages.conftest import Tab, session_of


@pytest.fixture(autouse=True)
def _no_slow_look(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a page shows here it was woken for, however long that takes."""
    monkeypatch.setattr(stream, "HEARTBEAT", 600.0)


def changed(job: Job, **values: object) -> None:
    """What the scheduler does when a job moves: rows, an event, a wake-up."""
    Job.objects.filter(pk=job.pk).update(changed_at=timezone.now(), **values)
    add_event(job, "job.state", "It moved.")
    wake.notify("pages")


@pytest.mark.browser
def test_it_shows_a_new_state_without_a_reload(tab: Callable[..., Tab], alice: User) -> None:
    node = make_node()
    job = make_job("alice", "train", state="RUNNING", node=node)
    page = tab(alice).open("/jobs/alice/train")
    expect(page.locator("[data-live]")).to_have_text("Live")
    page.evaluate("window.stayed = true")
    Task.objects.filter(job=job).update(state="SUCCEEDED", exit_code=0, finished_at=timezone.now())
    changed(job, state="SUCCEEDED", completed_at=timezone.now())
    expect(page.locator("h1 ~ .ls-state")).to_have_text("Succeeded")
    expect(page.locator("tbody .ls-state").first).to_have_text("Succeeded")
    assert page.evaluate("window.stayed")


@pytest.mark.browser
def test_it_updates_a_row_and_tells_of_new_jobs_without_moving_the_others(tab: Callable[..., Tab], alice: User) -> None:
    job = make_job("alice", "first", state="RUNNING", node=make_node())
    page = tab(alice).open("/jobs")
    expect(page.locator("[data-live]")).to_have_text("Live")
    changed(job, state="SUCCEEDED", completed_at=timezone.now())
    expect(page.locator("tbody tr .ls-state")).to_have_text("Succeeded")
    make_job("alice", "second")
    wake.notify("pages")
    expect(page.locator("#jobs-news")).to_contain_text("1 new job.")
    assert page.locator("tbody tr").count() == 1
    page.click("#jobs-news a")
    expect(page.locator("tbody tr")).to_have_count(2)


@pytest.mark.browser
def test_it_leaves_a_selected_row_alone_until_it_is_let_go(tab: Callable[..., Tab], alice: User) -> None:
    job = make_job("alice", "first", state="RUNNING", node=make_node())
    page = tab(alice).open("/jobs")
    expect(page.locator("[data-live]")).to_have_text("Live")
    page.check("tbody input")
    changed(job, execution="STOP", stopped_by="alice")
    expect(page.locator("#facet-stopping span")).to_have_text("1")
    expect(page.locator("tbody tr .ls-state")).to_have_text("Running")
    page.click("tbody input")
    expect(page.locator("tbody tr .ls-state")).to_have_text("Stopping")


@pytest.mark.browser
def test_it_follows_after_a_tab_was_changed_without_loading_the_page(tab: Callable[..., Tab], alice: User) -> None:
    job = make_job("alice", "train", state="RUNNING", node=make_node())
    page = tab(alice).open("/jobs/alice/train")
    page.evaluate("window.stayed = true")
    page.click("#tab-events")
    expect(page.locator("#job-tab h2")).to_have_text("Events")
    expect(page.locator("[data-live]")).to_have_text("Live")
    add_event(job, "task.state", "A thing happened.")
    wake.notify("pages")
    expect(page.locator("#job-tab")).to_contain_text("A thing happened.")
    assert page.evaluate("window.stayed")


@pytest.mark.browser
def test_the_first_node_comes_with_the_filters_of_nodes(tab: Callable[..., Tab], alice: User) -> None:
    page = tab(alice).open("/nodes")
    expect(page.locator("[data-live]")).to_have_text("Live")
    page.evaluate("window.stayed = true")
    make_node()
    wake.notify("pages")
    expect(page.locator("#facet-all")).to_have_text("All 1")
    expect(page.get_by_role("searchbox", name="Name or address contains")).to_be_visible()
    expect(page.locator("#nodes tbody tr")).to_have_count(1)
    assert page.evaluate("window.stayed")


@pytest.mark.browser
def test_it_says_since_when_it_is_not_live(tab: Callable[..., Tab], alice: User) -> None:
    make_job("alice", "train", state="RUNNING", node=make_node())
    shown = tab(alice, offline=False)  # a window that no other test has: it stays offline
    page = shown.open("/jobs/alice/train")
    expect(page.locator("[data-live]")).to_have_text("Live")
    page.context.set_offline(True)

    def says_so() -> bool:
        """Chromium may let a connection through that is opened right after it was told to be offline, and that one
        stays: so the page comes back until it finds nobody."""
        page.evaluate("dispatchEvent(new Event('pagehide')); dispatchEvent(new Event('pageshow'))")
        return "Not live since" in page.locator("[data-live]").inner_text()

    until(says_so, every=0.5)


def test_it_refuses_a_guest_where_guests_may_not_read(site: str, settings: object) -> None:
    settings.ANONYMOUS_READ = "none"  # type: ignore[attr-defined]
    assert httpx.get(f"{site}/stream/page?page=home", timeout=LIMIT).status_code == 401


def test_it_answers_404_for_a_job_that_is_not_there(site: str) -> None:
    assert httpx.get(f"{site}/stream/page?page=job&user=a&name=b", timeout=LIMIT).status_code == 404


def test_it_ends_when_the_user_signs_out(site: str, alice: User, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream_access, "EVERY", 0.2)
    key = session_of(alice)
    with httpx.stream("GET", f"{site}/stream/page?page=home", cookies={"longshore": key}, timeout=LIMIT) as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        lines = answer.iter_lines()
        assert next(lines).startswith("retry")
        Session.objects.all().delete()
        for _ in lines:
            pass  # ends by itself


def test_it_sends_only_parts_that_changed(site: str, alice: User, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream, "INTERVAL", 0.05)
    jobs = [make_job("alice", f"job-{n}", state="RUNNING", node=None) for n in range(3)]
    url = f"{site}/stream/page?page=jobs&top={jobs[-1].pk}&shown=3&v="
    with httpx.stream("GET", url, timeout=LIMIT) as answer:
        events = (json.loads(line[6:]) for line in answer.iter_lines() if line.startswith("data: "))
        assert "job:alice/job-0" in next(events)
        changed(jobs[1], state="SUCCEEDED", completed_at=timezone.now())
        assert set(next(events)) == {"jobs-facets", "job:alice/job-1"}


def test_a_hundred_streams_need_few_threads_and_leave_none_behind(site: str, alice: User) -> None:
    cookies = {"longshore": session_of(alice)}

    async def listen() -> int:
        limits = httpx.Limits(max_connections=200)
        async with httpx.AsyncClient(timeout=LIMIT, limits=limits, cookies=cookies) as client:

            async def one() -> None:
                async with client.stream("GET", f"{site}/stream/page?page=home&v={version}") as answer:
                    async for line in answer.aiter_lines():
                        if line.startswith("data: "):
                            return

            waiting = [asyncio.create_task(one()) for _ in range(100)]
            async with asyncio.timeout(LIMIT):
                while len(hub._waiting) < 100:
                    await asyncio.sleep(0.05)
            threads = threading.active_count()
            await asyncio.to_thread(make_and_wake)
            await asyncio.gather(*waiting)
            return threads

    def make_and_wake() -> None:
        services.submit(alice, json.dumps(_CONFIG))
        connection.close()

    version = versions.of_pages()
    before = threading.active_count()
    with ThreadPoolExecutor(1) as pool:  # Playwright's own event loop holds this thread
        assert pool.submit(asyncio.run, listen()).result() - before < 40
    until(lambda: not hub._waiting, what="the streams to be forgotten")


_CONFIG = {"jobName": "new", "image": "x", "taskRoles": [{"name": "a", "command": "true"}]}


@pytest.mark.browser
def test_the_page_of_nodes_shows_a_silent_node_and_a_mark_without_a_reload(
    tab: Callable[..., Tab], alice: User
) -> None:
    node = make_node("gpu-01", gpus=2)
    page = tab(alice).open("/nodes")
    expect(page.locator("[data-live]")).to_have_text("Live")
    expect(page.locator("tbody tr")).to_contain_text("Active")
    refusals.learnt("gpu-01", {"gpus": "Node gpu-01 cannot hand out its 2 GPUs: no driver."})
    expect(page.locator("tbody tr")).to_contain_text("hands out no GPUs")
    expect(page.locator("#nodes")).to_contain_text("Node gpu-01 cannot hand out its 2 GPUs: no driver.")
    node.health, node.health_reason = "unreachable", "It does not answer."
    node.save(update_fields=["health", "health_reason", "updated_at"])
    wake.notify("pages")
    expect(page.locator("tbody tr")).to_contain_text("It does not answer.")
    expect(page.locator("tbody tr")).not_to_contain_text("Active")


def test_the_stream_of_nodes_is_for_those_who_are_signed_in(db: None, client: Client, settings: Any) -> None:
    settings.ANONYMOUS_READ = "all"
    assert client.get("/stream/page?page=nodes").status_code == 401
