"""The page that says everything about why a job waits."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client
from playwright.sync_api import expect

from base.models import User
from jobs.models import Job
from jobs.waiting.why import turn_of, waiting_reason
from tests.builders import make_config, make_job, make_node
from tests.pages.conftest import Tab

URL = "/jobs/alice/large/why"


@pytest.fixture
def large(alice: User) -> Job:
    make_job("bob", "small", state="RUNNING", gpus=2, node=make_node("gpu-01", gpus=4))
    make_node("cpu-01", status="cordoned")
    return make_job("alice", "large", gpus=4)


@pytest.mark.browser
@pytest.mark.django_db(transaction=True)
def test_it_is_reached_from_the_job(tab: Callable[..., Tab], alice: User, large: Job) -> None:
    page = tab(alice).open("/jobs/alice/large")
    page.get_by_role("link", name="all about why").click()
    expect(page.get_by_role("heading", name="Why it waits")).to_be_visible()
    expect(page.locator("main")).to_contain_text("Ask for 2 GPUs a task instead of 4.")
    expect(page.get_by_role("link", name="bob/small")).to_be_visible()


def test_it_has_few_questions_for_the_database(
    browse: Callable[[User | None], Client], count_queries: Callable[..., int], alice: User, large: Job
) -> None:
    client = browse(alice)
    make_job("bob", "waits", gpus=3)
    few = count_queries(lambda: client.get(URL))
    for number in range(20):
        make_job("bob", f"more-{number}", state="RUNNING", node=make_node(f"n{number}"))
        make_job("bob", f"waiting-{number}", gpus=3)
    assert count_queries(lambda: client.get(URL)) <= few + 2


def test_one_that_the_queue_does_not_have_is_told_of_the_next_pass(large: Job) -> None:
    Job.objects.filter(pk=large.pk).update(state="RUNNING")  # since its row was read
    said = waiting_reason(large, turn_of(large))
    assert said["summary"] == said["blockers"][0]["sentence"] == "The next pass of the scheduler looks at it."
    large.execution = Job.Execution.STOP
    assert "does not start any more" in waiting_reason(large, turn_of(large))["summary"]


@pytest.mark.parametrize(("privacy", "named"), [("open", True), ("owner", False)])
def test_for_whom_room_is_reserved_is_said_to_those_alone_who_may_know_why_that_one_waits(
    browse: Callable[[User | None], Client], bob: User, large: Job, settings: Any, privacy: str, named: bool
) -> None:
    settings.JOB_PRIVACY = privacy
    mine = make_job("bob", "mine", gpus=1)
    reason = waiting_reason(mine, turn_of(mine))
    [blocker] = [each for each in reason["blockers"] if each["kind"] == "reserved"]
    assert blocker.keys() == {"kind", "sentence"}
    assert blocker["sentence"].endswith(f" is reserved for {'alice/large' if named else 'another job'}.")
    for path in ("/jobs/bob/mine", "/jobs/bob/mine/why", "/api/v1/user/bob/jobs/mine", "/jobs"):
        shown = browse(bob).get(path).content.decode()
        assert blocker["sentence"].rstrip(".") in shown and ("reserved for alice/large" in shown) == named, path
    text = json.dumps(make_config(name="new", gpus=1))
    told = browse(bob).post("/api/v1/jobs/validate", text, content_type="application/json").content.decode()
    assert ("reserved for alice/large" in told) == named and "is reserved for" in told
    own = make_job("alice", "second", gpus=1)
    assert "reserved for alice/large" in str(waiting_reason(own, turn_of(own)))


def test_a_job_that_does_not_wait_says_so(browse: Callable[[User | None], Client], alice: User, large: Job) -> None:
    Job.objects.update(state="SUCCEEDED")
    assert "large does not wait." in browse(alice).get(URL).content.decode()


def test_others_do_not_see_it_where_jobs_are_private(
    browse: Callable[[User | None], Client], alice: User, bob: User, large: Job, settings: Any
) -> None:
    settings.JOB_PRIVACY = "owner"
    assert [browse(who).get(URL).status_code for who in (alice, bob)] == [200, 403]
