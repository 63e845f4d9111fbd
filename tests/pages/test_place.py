"""The page on which the place of a waiting job in the queue is changed; it works without a script."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django.test import Client
from playwright.sync_api import expect

from base.models import User
from jobs.config.extras import After
from jobs.models import Dependency, Job
from tests.builders import make_job
from tests.pages.conftest import Tab

Browse = Callable[[User | None], Client]
URL = "/jobs/alice/train/place"


@pytest.fixture
def job(alice: User) -> Job:
    return make_job("alice", "train", priority=5)


def test_the_page_of_a_waiting_job_leads_there_for_those_who_may(
    browse: Browse, alice: User, bob: User, job: Job
) -> None:
    assert URL in browse(alice).get("/jobs/alice/train").content.decode()
    assert URL not in browse(bob).get("/jobs/alice/train").content.decode()
    assert "priority <b>5</b>" in browse(bob).get("/jobs/alice/train").content.decode()
    Job.objects.update(state="SUCCEEDED")
    assert URL not in browse(alice).get("/jobs/alice/train").content.decode()


def test_an_owner_lowers_the_priority(browse: Browse, alice: User, job: Job) -> None:
    shown = browse(alice).get(URL).content.decode()
    assert "From -100 to 5" in shown and "You may set 0 at most; an admin or a manager may raise it above" in shown
    assert "Start it before" not in shown
    answer = browse(alice).post(URL, {"priority": "-3"}, follow=True)
    assert "train has priority -3." in answer.content.decode()
    assert Job.objects.get().priority == -3


@pytest.mark.parametrize(
    ("typed", "status", "says"),
    [
        ("6", 403, "you may set a priority of 0 at most"),
        ("high", 400, "A priority is a whole number"),
        ("-101", 400, "from -100"),
    ],
)
def test_what_is_refused_is_said_on_the_page(
    browse: Browse, alice: User, job: Job, typed: str, status: int, says: str
) -> None:
    answer = browse(alice).post(URL, {"priority": typed})
    assert (answer.status_code, says in answer.content.decode()) == (status, True)
    assert Job.objects.get().priority == 5


def test_an_admin_lets_it_start_before_another(browse: Browse, admin: User, job: Job) -> None:
    make_job("bob", "first", priority=7)
    answer = browse(admin).post(URL, {"before": "bob/first"}, follow=True)
    assert "train starts before bob/first." in answer.content.decode()
    assert Job.objects.get(name="train").priority == 7


def test_others_and_guests_do_not_get_it(browse: Browse, bob: User, job: Job) -> None:
    assert browse(bob).get(URL).status_code == 403
    assert browse(bob).post(URL, {"priority": "1"}).status_code == 403
    assert browse(None).get(URL).status_code == 302
    assert browse(bob).get("/jobs/alice/gone/place").status_code == 404


def test_a_job_that_does_not_wait_any_more_says_so(browse: Browse, alice: User, job: Job) -> None:
    Job.objects.update(state="RUNNING")
    assert "does not wait, so it has no place" in browse(alice).get(URL).content.decode()
    assert browse(alice).post(URL, {"priority": "1"}).status_code == 409


def test_who_stops_a_job_hears_which_others_fail_with_it(browse: Browse, alice: User, job: Job) -> None:
    waiter = make_job("alice", "eval", config={"extras": {"dependsOn": [After(job="train").model_dump()]}}, awaits=1)
    Dependency.objects.create(job=waiter, on=job, on_name="train")
    for verb in ("stop", "delete"):
        asked = browse(alice).get(f"/jobs/alice/train/{verb}").content.decode()
        assert "What waits for its success fails: alice/eval." in asked
    shown = browse(alice).get("/jobs/alice/eval").content.decode()
    assert 'after <a class="text-decoration-underline" href="/jobs/alice/train">train</a>' in shown
    assert "It starts after alice/train has succeeded; that job is waiting." in shown
    assert "It starts after alice/train has succeeded" in browse(alice).get("/jobs").content.decode()


@pytest.mark.browser
def test_an_admin_goes_from_the_page_of_a_job_to_its_place_and_back(
    tab: Callable[..., Tab], admin: User, job: Job
) -> None:
    page = tab(admin).open("/jobs/alice/train")
    page.click("#do-place")
    page.fill("#p-priority", "9")
    page.click("text=Set the priority")
    expect(page.locator("#job-head")).to_contain_text("priority 9")
