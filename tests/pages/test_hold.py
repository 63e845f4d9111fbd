"""What a page says of a job whose container is kept for debugging, and its way to let it go."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest
from django.utils import timezone

from base.models import User
from jobs.models import Job, Task
from tests.builders import make_job, make_node
from tests.pages.conftest import Tab


@pytest.fixture
def kept(transactional_db: None) -> Task:
    job = make_job("alice", "train", state="RUNNING", tasks=2, gpus=1, node=make_node(gpus=4))
    Job.objects.filter(pk=job.pk).update(spec={**job.spec, "jobEnvs": {"isDebug": True}})
    task = Task.objects.filter(job=job).order_by("id")[0]
    task.held_at = timezone.now() - timedelta(minutes=5)
    task.save()
    return task


def test_it_tells_how_long_and_lets_the_owner_release(tab: Callable[..., Tab], alice: User, kept: Task) -> None:
    page = tab(alice).open("/jobs/alice/train")
    note = page.get_by_role("status").filter(has_text="kept for debugging")
    assert "it ends in 7 d" in note.inner_text()
    assert page.locator("#job-tab").get_by_text("kept for debugging, ends in 7 d").count() == 1
    note.get_by_role("link", name="Release").click()
    page.get_by_role("button", name="Release").click()
    page.get_by_text("train is let go").wait_for()
    assert Task.objects.get(pk=kept.pk).released_at is not None


def test_others_see_no_button(tab: Callable[..., Tab], bob: User, kept: Task) -> None:
    page = tab(bob).open("/jobs/alice/train")
    note = page.get_by_role("status").filter(has_text="kept for debugging")
    assert note.is_visible() and note.get_by_role("link").count() == 0
