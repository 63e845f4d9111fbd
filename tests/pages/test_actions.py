"""Stop and delete, with and without a script."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django.test import Client
from playwright.sync_api import expect

from base.models import User
from jobs.models import Job
from tests.builders import make_job, make_node
from tests.pages.conftest import Tab

Browse = Callable[[User | None], Client]


@pytest.mark.browser
def test_it_stops_a_job_by_the_dialog(tab: Callable[..., Tab], alice: User) -> None:
    make_job("alice", "train", state="RUNNING", tasks=2, gpus=1, node=make_node(gpus=2))
    shown = tab(alice)
    page = shown.open("/jobs/alice/train")
    page.click("#do-stop")
    dialog = page.locator("#dialog")
    expect(dialog).to_contain_text("2 tasks on 1 node end; 2 GPUs become free.")
    expect(dialog.locator("[data-close]")).to_be_focused()
    page.keyboard.press("Escape")
    expect(dialog).to_be_hidden()
    expect(page.locator("#do-stop")).to_be_focused()
    page.click("#do-stop")
    shown.check_here("the dialog")
    dialog.get_by_role("button", name="Stop", exact=True).click()
    expect(page.locator("h1 ~ .ls-state")).to_have_text("Stopping")
    job = Job.objects.get()
    assert (job.execution, job.stopped_by) == ("STOP", "alice")


@pytest.mark.browser
def test_it_stops_the_selected_jobs(tab: Callable[..., Tab], alice: User) -> None:
    node = make_node()
    for name in ("one", "two", "three"):
        make_job("alice", name, state="RUNNING", node=node)
    page = tab(alice).open("/jobs")
    page.check('[value="alice/one"]')
    page.check('[value="alice/three"]')
    page.get_by_role("button", name="Stop 2 jobs").click()
    expect(page.locator("#dialog")).to_contain_text("alice/one")
    page.locator("#dialog").get_by_role("button", name="Stop 2 jobs").click()
    expect(page.locator("main")).to_contain_text("2 jobs were asked to stop.")
    stopped = Job.objects.filter(execution="STOP").values_list("name", flat=True)
    assert set(stopped) == {"one", "three"}


@pytest.mark.browser
def test_it_stops_a_job_without_a_script(tab: Callable[..., Tab], alice: User) -> None:
    make_job("alice", "train", state="RUNNING", node=make_node())
    page = tab(alice, java_script_enabled=False).open("/jobs")
    page.click("[aria-label='Stop train']")
    page.get_by_role("button", name="Stop", exact=True).click()
    expect(page.locator("main")).to_contain_text("train was asked to stop.")
    assert Job.objects.get().execution == "STOP"


def test_it_deletes_a_job_only_by_post(browse: Browse, alice: User) -> None:
    make_job("alice", "old", state="SUCCEEDED")
    client = browse(alice)
    assert b"Delete old?" in client.get("/jobs/alice/old/delete").content
    assert Job.objects.get().deleted_at is None
    assert client.post("/jobs/alice/old/delete").headers["Location"] == "/jobs"
    assert Job.objects.get().deleted_at is not None


def test_it_lets_nobody_else_stop_or_delete(browse: Browse, alice: User, bob: User) -> None:
    make_job("alice", "train", state="RUNNING")
    for verb in ("stop", "delete"):
        assert browse(bob).post(f"/jobs/alice/train/{verb}").status_code == 403
        assert browse(None).post(f"/jobs/alice/train/{verb}").headers["Location"].startswith("/login")
    assert Job.objects.get().execution == "START"


def test_it_leaves_out_what_may_not_be_stopped_and_says_so(browse: Browse, alice: User) -> None:
    make_job("alice", "mine", state="RUNNING")
    make_job("bob", "his", state="RUNNING")
    make_job("alice", "over", state="SUCCEEDED")
    answer = browse(alice).get("/jobs/stop?job=alice/mine&job=bob/his&job=alice/over&job=no/body").content.decode()
    assert "Stop 1 job?" in answer
    assert "2 jobs left out" in answer


def test_it_wants_the_number_typed_for_many_jobs(browse: Browse, alice: User) -> None:
    jobs = [f"alice/{make_job('alice', state='RUNNING').name}" for _ in range(21)]
    client = browse(alice)
    assert b"Type 21 to confirm" in client.get("/jobs/stop", {"job": jobs}).content
    assert client.post("/jobs/stop", {"job": jobs}).status_code == 400
    assert not Job.objects.filter(execution="STOP").exists()
    client.post("/jobs/stop", {"job": jobs, "typed": "21"})
    assert Job.objects.filter(execution="STOP").count() == 21


def test_it_goes_back_only_within_the_portal(browse: Browse, alice: User) -> None:
    make_job("alice", "train", state="RUNNING")
    answer = browse(alice).post("/jobs/alice/train/stop", {"next": "https://evil.example/"})
    assert answer.headers["Location"] == "/jobs/alice/train"
