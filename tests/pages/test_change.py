"""The page that changes a waiting job so that it starts now: what it shows, submits and stops, and whom it refuses."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import timedelta
from typing import Any
from urllib.parse import urlencode

import pytest
from django.test import Client
from django.utils import timezone
from playwright.sync_api import expect

from base.models import User
from clusters.models import Appointment, VcGrant, VirtualCluster
from jobs import secrets, services
from jobs.models import Attempt, Dependency, Event, Job
from jobs.reading import read
from jobs.waiting import why
from jobs.waiting.queue import turns_of
from tests import http
from tests.builders import make_config, make_job, make_node
from tests.pages.conftest import Tab

Browse = Callable[[User | None], Client]
TEXT = """{
  // as in the paper
  "jobName": "large",
  "image": "longshore/sample",
  "taskRoles": [{
    "name": "worker",
    "taskNumber": 1,
    "gpuNumber": 4, /* all of a node */
    "command": "train"
  }],
  "extras": {"secrets": {"KEY": "of-great-value"}},
}
"""
FEWER = {"gpuNumber": 2}


def url(change: dict[str, Any], name: str = "large") -> str:
    return f"/jobs/alice/{name}/change?{urlencode({'change': json.dumps(change)})}"


def sent(change: dict[str, Any]) -> dict[str, str]:
    return {"change": json.dumps(change)}


@pytest.fixture
def large(alice: User) -> Job:
    """It wants four GPUs; two of the four that there are, are free."""
    make_job("bob", "small", state="RUNNING", gpus=2, node=make_node("gpu-01", gpus=4))
    job = services.submit(alice, TEXT)
    Job.objects.filter(pk=job.pk).update(created_at=timezone.now() - timedelta(hours=3), priority=-7)
    return job


def test_the_why_page_leads_its_owner_there(browse: Browse, admin: User, alice: User, bob: User, large: Job) -> None:
    pages = {user: browse(user).get("/jobs/alice/large/why").content.decode() for user in (alice, bob, admin)}
    assert [page.count("Change and start now</a>".replace("</a>", "")) > 0 for page in pages.values()] == [
        True,
        False,
        False,
    ]
    assert all("Ask for 2 GPUs a task instead of 4." in page for page in pages.values())
    assert "bob/small ends." in pages[alice] and pages[alice].count("/change?") == 1, "only what can be submitted"


@pytest.mark.parametrize("change", [{"maxRunSeconds": 6900}, {"preemptible": True}])
def test_one_that_waits_for_an_appointment_alone_starts_with_what_is_offered(
    change: dict[str, Any], browse: Browse, alice: User
) -> None:
    make_node("gpu-01", gpus=4)
    begin = timezone.now() + timedelta(hours=2, seconds=60)
    end = begin + timedelta(hours=2)
    Appointment.objects.create(title="firmware", nodes=["gpu-01"], begin=begin, end=end, zone="UTC", made_by="admin")
    job = services.submit(alice, TEXT)
    offered = [one.change for one in why.offered(job)]
    assert offered == [{"maxRunSeconds": 6900}, {"preemptible": True}]
    assert browse(alice).get("/jobs/alice/large/why").content.decode().count("/change?") == 2
    assert browse(alice).post(url({}), sent(change)).status_code == 302
    new = Job.objects.get(name="large-2")
    assert {turn.job.name: turn.move for turn in turns_of([new.pk]).values()} == {"large-2": "go"}


def test_it_shows_the_difference_and_changes_nothing(browse: Browse, alice: User, large: Job) -> None:
    page = browse(alice).get(url(FEWER))
    shown = [sign + "".join(text for _, text in line) for sign, line in page.context["lines"] if sign in "-+"]
    assert shown == [
        '-  "jobName": "large",',
        '+  "jobName": "large-2",',
        '-    "gpuNumber": 4, /* all of a node */',
        '+    "gpuNumber": 2, /* all of a node */',
    ]
    assert "Submit large-2, then stop large" in page.content.decode()
    assert "of-great-value" not in page.content.decode()
    assert [place.node for place in page.context["found"].placements] == ["gpu-01"]
    assert Job.objects.filter(username="alice").count() == 1


def test_it_submits_the_new_one_and_then_stops_the_old_one(browse: Browse, alice: User, large: Job) -> None:
    answer = browse(alice).post(url(FEWER), sent(FEWER))
    assert answer["Location"] == "/jobs/alice/large-2"
    old, new = Job.objects.filter(username="alice").order_by("id")
    assert (old.execution, old.stopped_by, new.execution) == ("STOP", "alice", "START")
    assert (new.total_gpus, new.priority, new.queue_time) == (2, -7, old.created_at), "it has the old one's place"
    assert new.config == TEXT.replace('"large"', '"large-2"').replace("4,", "2,").replace("of-great-value", "(secret)")
    assert secrets.of(new.pk) == {"KEY": "of-great-value"}
    assert turns_of([new.pk])[new.pk].placements, "it starts now"
    said = dict(Event.objects.filter(job__in=[old, new]).values_list("kind", "reason"))
    assert said["job.stop_asked"] == "alice submitted large-2 in its place."
    assert said["job.submitted"] == "Submitted by alice in place of large."


def test_its_evictions_go_with_it(browse: Browse, alice: User, large: Job) -> None:
    Job.objects.filter(pk=large.pk).update(evictions=6, guest_evictions=2)
    browse(alice).post(url(FEWER), sent(FEWER))
    new = Job.objects.get(name="large-2")
    assert (new.evictions, new.guest_evictions) == (6, 2)


@pytest.mark.parametrize(
    "change", [{"taskNumber": {"worker": 3}}, {"memoryMB": {"worker": 200_000}}, {"shmMB": {"worker": 90}}]
)
def test_one_that_asks_for_more_is_the_last(browse: Browse, alice: User, large: Job, change: dict[str, Any]) -> None:
    browse(alice).post(url(change), sent(change))
    assert Job.objects.get(name="large-2").queue_time is None


def test_in_another_virtual_cluster_it_is_the_last(browse: Browse, alice: User, large: Job) -> None:
    VirtualCluster.objects.create(name="theirs", capacity=10, max_capacity=100)
    VcGrant.objects.create(vc=VirtualCluster.objects.get(name="theirs"), username="alice")
    browse(alice).post(url({"virtualCluster": "theirs"}), sent({"virtualCluster": "theirs"}))
    new = Job.objects.get(name="large-2")
    assert (new.vc, new.queue_time) == ("theirs", None)


def test_when_the_new_one_is_refused_the_old_one_goes_on_waiting(browse: Browse, alice: User, large: Job) -> None:
    VirtualCluster.objects.create(name="closed", capacity=10, max_capacity=100)
    answer = browse(alice).post(url({"virtualCluster": "closed"}), sent({"virtualCluster": "closed"}))
    assert (answer.status_code, "not allowed to do operation in closed" in answer.content.decode()) == (403, True)
    assert list(Job.objects.filter(username="alice").values_list("name", "execution")) == [("large", "START")]


def test_a_job_that_has_started_meanwhile_is_left_alone(browse: Browse, alice: User, large: Job) -> None:
    Job.objects.filter(pk=large.pk).update(state="RUNNING")
    answer = browse(alice).post(url(FEWER), sent(FEWER))
    assert (answer.status_code, "does not wait any more" in answer.content.decode()) == (409, True)
    assert list(Job.objects.filter(username="alice").values_list("name", "execution")) == [("large", "START")]


def test_it_is_the_owner_s_alone_and_needs_its_form(
    browse: Browse, admin: User, alice: User, bob: User, large: Job
) -> None:
    for user in (bob, admin):
        assert [browse(user).get(url(FEWER)).status_code, browse(user).post(url(FEWER), sent(FEWER)).status_code] == [
            403,
            403,
        ]
    assert browse(None).post(url(FEWER), sent(FEWER)).status_code == 302
    client = http.Client()
    client.force_login(alice, backend="django.contrib.auth.backends.ModelBackend")
    assert client.post(url(FEWER), sent(FEWER)).status_code == 403, "no CSRF token"
    assert Job.objects.filter(username="alice").count() == 1


@pytest.mark.parametrize("change", ["", "{", '{"jobEnds": "bob~small"}', '{"gpuNumber": "x"}', '{"gpuNumber": -1}'])
def test_what_is_no_change_is_refused(browse: Browse, alice: User, large: Job, change: str) -> None:
    assert browse(alice).get(f"/jobs/alice/large/change?{urlencode({'change': change})}").status_code == 400
    assert browse(alice).post("/jobs/alice/large/change", {"change": change}).status_code == 400


def test_a_change_that_starts_it_no_longer_says_so(browse: Browse, alice: User, large: Job) -> None:
    make_job("bob", "other", state="RUNNING", gpus=4, node=make_node("gpu-02", gpus=4))
    assert "This would no longer start it now" in browse(alice).get(url({"gpuNumber": 3})).content.decode()


def test_it_says_who_waits_for_the_success_of_the_old_one(browse: Browse, alice: User, large: Job) -> None:
    follows = make_job("alice", "follows")
    Dependency.objects.create(job=follows, on=large, on_name="large", condition="success")
    assert "What waits for its success fails: alice/follows." in browse(alice).get(url(FEWER)).content.decode()


def test_a_config_that_hides_its_roles_in_a_text_is_left_to_its_owner(browse: Browse, alice: User, large: Job) -> None:
    text = json.dumps({**make_config("odd", gpus=4), "taskRoles": json.dumps(make_config("odd", gpus=4)["taskRoles"])})
    Job.objects.filter(pk=large.pk).update(config=text)
    answer = browse(alice).get(url(FEWER))
    assert (answer.status_code, "Clone and edit it instead." in answer.content.decode()) == (400, True)


@pytest.mark.browser
def test_it_works_without_a_script(tab: Callable[..., Tab], alice: User, large: Job) -> None:
    page = tab(alice, java_script_enabled=False).open("/jobs/alice/large/why")
    page.get_by_role("link", name="Change and start now").click()
    page.get_by_role("button", name="Submit large-2, then stop large").click()
    expect(page.locator("h1")).to_have_text("large-2")
    expect(page.locator("main")).to_contain_text("large-2 was submitted, and large was stopped.")


MORE = {"memoryMB": {"second": 2048}}


@pytest.fixture
def failed(alice: User) -> Job:
    roles = [{"name": name, "command": "train", "memoryMB": 1000} for name in ("first", "second")]
    job = make_job("alice", "large", state="FAILED")
    text = json.dumps({"jobName": "large", "image": "longshore/sample", "taskRoles": roles}, indent=2)
    Job.objects.filter(pk=job.pk).update(config=text, spec=read(text)[1].to_json())
    found = {"rule": "memory", "cause": "memory", "name": "Out of memory", "whose": "request", "certainty": "certain"}
    action = {"label": "Retry with 2 GB", "change": MORE}
    Attempt.objects.filter(job=job).update(diagnosis={**found, "says": "It ran out of memory.", "actions": [action]})
    return job


def test_a_fix_is_submitted_at_once_by_its_owner_alone(browse: Browse, alice: User, bob: User, failed: Job) -> None:
    assert 'action="/jobs/alice/large/again"' in browse(alice).get("/jobs/alice/large").content.decode()
    assert 'action="/jobs/alice/large/again"' not in browse(bob).get("/jobs/alice/large").content.decode()
    assert browse(bob).post("/jobs/alice/large/again", sent(MORE)).status_code == 302
    assert not Job.objects.filter(name="large-2").exists()
    answer = browse(alice).post("/jobs/alice/large/again", sent(MORE))
    assert answer["Location"] == "/jobs/alice/large-2"
    first, second = Job.objects.get(name="large-2").spec["taskRoles"]
    assert (first["memoryMB"], second["memoryMB"]) == (1000, 2048)
    assert browse(alice).post("/jobs/alice/large-2/again", sent(MORE))["Location"] == "/jobs/alice/large-2"
    assert Job.objects.filter(username="alice").count() == 2, "a job that waits is not sent twice"
    assert browse(alice).post("/jobs/alice/large/again", {"change": "no"}).status_code == 400


@pytest.mark.browser
def test_the_form_opens_on_the_role_that_a_fix_changes_and_marks_it(
    tab: Callable[..., Tab], bob: User, failed: Job
) -> None:
    shown = tab(bob)
    page = shown.open("/jobs/alice/large")
    page.get_by_role("link", name="Retry with 2 GB").click()
    expect(page.get_by_label("Role name")).to_have_value("second")
    expect(page.get_by_label("Memory MB")).to_have_value("2048")
    expect(page.get_by_text("was 1000")).to_be_visible()
    shown.check_here("a form with a change")
    page.get_by_role("button", name="first").click()
    expect(page.get_by_label("Memory MB")).to_have_value("1000")
    expect(page.get_by_text("was 1000")).to_have_count(0)
