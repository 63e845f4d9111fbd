"""What a page says of a job that is told to end, and its way to end it at once."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest
from django.test import Client
from django.utils import timezone

from base.models import User
from jobs.models import Attempt, Job, Task
from jobs.planning import exits
from tests.builders import make_job, make_node
from tests.pages.conftest import PHONE, Tab


@pytest.fixture
def ending(transactional_db: None) -> Job:
    """A job that was told to end a minute ago and has another one; it saved half a minute ago."""
    job = make_job("alice", "train", state="RUNNING", tasks=2, gpus=1, node=make_node(gpus=4))
    now, ends = timezone.now(), exits.evicted("Node node-1 is being drained.")
    decided = {"reason": ends.sentence, "exit": ends.to_json()}
    Attempt.objects.filter(job=job).update(decided_at=now, exit_code=ends.code, exit=decided, grace=120)
    Task.objects.filter(job=job).update(state="STOPPING", told="SIGTERM", told_at=now - timedelta(minutes=1))
    Job.objects.filter(pk=job.pk).update(saved_at=now - timedelta(seconds=30))
    return job


@pytest.mark.browser
def test_it_says_until_when_it_ends_and_the_owner_ends_it_at_once(
    tab: Callable[..., Tab], alice: User, ending: Job
) -> None:
    shown = tab(alice)
    shown.check_everywhere("/jobs/alice/train", dark=PHONE)
    page = shown.open("/jobs/alice/train")
    note = page.get_by_role("status").filter(has_text="Ends until")
    until, told = (element.inner_text() for element in note.locator("time").all())
    assert note.inner_text().startswith(f"Ends until {until} (told {told}: evicted). Node node-1 is being drained.")
    assert page.locator("#job-head").get_by_text("saved").count() == 1
    note.get_by_role("link", name="Stop now").click()
    page.get_by_role("button", name="Stop now").click()
    page.get_by_text("train was asked to stop").wait_for()
    ending.refresh_from_db()
    assert (ending.stops_now, ending.execution) == (True, "STOP")
    assert note.get_by_role("link").count() == 0, "there is nothing left to cut short"


def test_others_are_not_offered_to_stop_it(browse: Callable[[User | None], Client], bob: User, ending: Job) -> None:
    told = browse(bob).get("/jobs/alice/train").content.decode()
    assert "Ends until" in told and "Stop now" not in told
    assert browse(bob).post("/jobs/alice/train/stop", {"now": "1"}).status_code == 403
    ending.refresh_from_db()
    assert not ending.stops_now
