"""A job's page: cause, steps, tasks a page at a time, config, and query counts that do not grow."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest
from django.conf import settings as django_settings
from django.test import Client
from django.utils import timezone

from base.models import User
from clusters.engines.runtime import ContainerStatus, Phase
from jobs.config.spec import JobSpec
from jobs.containers import publish
from jobs.models import Job
from jobs.planning import exits
from tests.builders import add_event, fail_again, make_attempt, make_job, make_node

Browse = Callable[[User | None], Client]
Count = Callable[[Callable[[], object]], int]


def page(client: Client, path: str = "") -> str:
    return client.get(f"/jobs/alice/train{path}").content.decode()


def test_it_says_why_a_job_failed_what_to_do_and_how_sure_it_is(browse: Browse, alice: User) -> None:
    status = ContainerStatus("c", "c", Phase.EXITED, {}, exit_code=137, oom_killed=True)
    exit = exits.classify(status, 65536, label="worker-1")
    make_job("alice", "train", state="FAILED", tasks=2, exit=exit, failed_task=1)
    shown = page(browse(alice))
    for said in (
        "worker-1 ran out of memory",
        "It used all of its 64 GB.",
        "The job, not the cluster.",
        "Certain: the engine reports OOMKilled.",
        "Ask for more memoryMB",
        "CONTAINER_OOM_KILLED_BY_DOCKER",
        "SIGKILL",
    ):
        assert said in shown


def test_it_says_everything_that_keeps_a_job_waiting(browse: Browse, alice: User) -> None:
    node = make_node(cpus=2, gpus=1)
    make_job("bob", state="RUNNING", gpus=1, node=node)
    make_job("bob", "ahead", gpus=1, keeps_turn=True)
    make_job("alice", "train", gpus=1)
    shown = page(browse(alice))
    assert "Two things keep this job waiting" in shown
    assert "One job is ahead of it" in shown
    assert "2nd" in shown


def test_it_says_when_a_job_ends_at_the_latest(browse: Browse, alice: User) -> None:
    limited = {"extras": {"maxRunSeconds": 7200}}
    job = make_job("alice", "train", state="RUNNING", age=0, config=limited)
    assert "ends at the latest" in page(browse(alice))
    Job.objects.filter(pk=job.pk).update(state="WAITING")
    assert "may run <b>2 h</b>" in page(browse(alice))
    Job.objects.filter(pk=job.pk).update(state="SUCCEEDED")
    assert "may run" not in page(browse(alice))


def test_it_says_who_stopped_it(browse: Browse, alice: User) -> None:
    make_job("alice", "train", state="STOPPED", stopped_by="admin")
    assert "Stopped by admin" in page(browse(alice))


def test_it_shows_a_role_of_many_tasks_a_page_at_a_time(browse: Browse, alice: User) -> None:
    make_job("alice", "train", state="RUNNING", tasks=450, node=make_node())
    client = browse(alice)
    first = client.get("/jobs/alice/train").context["roles"][0]
    assert (len(first.lines), first.total, first.next, first.previous) == (200, 450, 200, None)
    last = client.get("/jobs/alice/train?role=worker&start=400").context["roles"][0]
    assert (len(last.lines), last.lines[0].label, last.next, last.previous) == (50, "worker-400", None, 200)


@pytest.mark.parametrize("tab", ["", "/events", "/attempts", "/config"])
def test_its_queries_do_not_grow_with_the_tasks(browse: Browse, alice: User, count_queries: Count, tab: str) -> None:
    node = make_node()
    client = browse(alice)
    small = make_job("alice", "small", state="RUNNING", node=node)
    large = make_job("alice", "large", state="RUNNING", node=node, tasks=300)  # more than a page shows
    for number in range(50):
        add_event(large, "task.state", f"Event {number}.")
    client.get(f"/jobs/alice/small{tab}")
    few = count_queries(lambda: client.get(f"/jobs/alice/{small.name}{tab}"))
    assert count_queries(lambda: client.get(f"/jobs/alice/{large.name}{tab}")) == few
    assert few <= 16


def test_it_pages_through_events_and_narrows_them(browse: Browse, alice: User) -> None:
    job = make_job("alice", "train", state="RUNNING")
    for number in range(120):
        add_event(job, "task.state", f"Event {number}.", task=f"worker-{number % 2}")
    client = browse(alice)
    first = client.get("/jobs/alice/train/events")
    assert len(first.context["events"]) == 100
    second = client.get(f"/jobs/alice/train/events?before={first.context['older']}")
    assert len(second.context["events"]) == 21
    assert len(client.get("/jobs/alice/train/events?task=worker-1").context["events"]) == 60
    assert len(client.get("/jobs/alice/train/events?kind=job").context["events"]) == 1


def test_it_keeps_the_config_as_sent_and_says_what_was_added(browse: Browse, alice: User) -> None:
    text = (
        '{\n  // why <b>\n  "jobName": "train", "image": "x",\n  "taskRoles": [{"name": "worker", "command": "a"}]\n}\n'
    )
    make_job("alice", "train", text=text)
    answer = browse(alice).get("/jobs/alice/train/config")
    assert "".join(piece for line in answer.context["lines"] for _, piece in line) == text.replace("\n", "")
    assert ("worker.taskNumber", "1") in answer.context["added"]
    assert "why &lt;b&gt;" in answer.content.decode()
    download = browse(alice).get("/jobs/alice/train/config?download=1")
    assert download.content.decode() == text
    assert "attachment" in download.headers["Content-Disposition"]


def test_it_keeps_the_config_and_logs_from_guests(browse: Browse) -> None:
    assert django_settings.ANONYMOUS_READ == "jobs"
    make_job("alice", "train", text='{"jobEnvs": {"SECRET": "hunter2"}}', state="RUNNING", node=make_node())
    shown = page(browse(None), "/config")
    assert "hunter2" not in shown
    assert "needs an account" in shown
    assert "stdout" not in page(browse(None))
    assert "/login" in browse(None).get("/jobs/alice/train/config?download=1").headers["Location"]


def test_it_offers_the_nearest_names_for_a_job_that_is_not_there(browse: Browse, alice: User) -> None:
    make_job("alice", "train-07")
    answer = browse(alice).get("/jobs/alice/train-7")
    assert answer.status_code == 404
    assert "alice/train-07" in answer.content.decode()


def test_it_writes_names_with_odd_signs(browse: Browse, alice: User) -> None:
    job = make_job("alice", "a.b_c-d")
    assert browse(alice).get(f"/jobs/alice/{job.name}").status_code == 200
    assert Job.objects.get().name in browse(alice).get("/jobs").content.decode()


def test_a_retried_job_shows_what_came_before(browse: Browse, alice: User) -> None:
    job = make_job("alice", "train", state="FAILED", exit=exits.node_lost("gpu-08"))
    attempt = job.attempts.get()
    Job.objects.filter(pk=job.pk).update(attempt_number=2, state="RUNNING", platform_retries=1, completed_at=None)
    job.refresh_from_db()
    make_attempt(job, JobSpec.from_json(job.spec), attempt.completed_at, None, "RUNNING", make_node())
    shown = page(browse(alice))
    assert "Attempt 1" in shown
    assert "node gpu-08 was lost" in shown
    assert "1 more after faults of the cluster" in shown
    assert "Node gpu-08 was lost" in page(browse(alice), "/attempts")


AWAY = exits.from_fault("registry_unreachable", "The registry regstry.lab could not be reached.", permanent=False)


def test_a_job_between_retries_says_first_why_it_failed_and_when_it_is_tried_again(browse: Browse, alice: User) -> None:
    make_node()
    fail_again(make_job("alice", "train"), AWAY, 2)
    answer = browse(alice).get("/jobs/alice/train")
    cause = answer.context["shown"].cause
    assert (cause.title, cause.state) == ("The registry regstry.lab could not be reached", "WAITING")
    assert cause.lead == "Attempt 2 failed." and cause.next_try == Job.objects.get().not_before
    assert not [one for one in cause.hindrances if "next try" in one.sentence]
    shown = answer.content.decode()
    assert "The next try is <b><time data-until=" in shown and "+00:00</span>" not in shown
    assert [step.state for step in answer.context["shown"].steps[:2]] == ["done", "FAILED"]


def test_a_mark_that_keeps_a_job_waiting_shows_no_time_that_only_programs_read(browse: Browse, alice: User) -> None:
    until = (timezone.now() + timedelta(minutes=5)).isoformat()
    mark = {"since": timezone.now().isoformat(), "until": until, "sentence": "it pulls nothing", "count": 3}
    make_node(marks={"start": mark})
    make_job("alice", "train")
    answer = browse(alice).get("/jobs/alice/train")
    assert answer.context["shown"].cause.title
    assert until[:19] not in answer.content.decode()


def test_after_the_third_failure_of_one_kind_pages_warn(browse: Browse, alice: User) -> None:
    make_node()
    job = make_job("alice", "train")
    fail_again(job, AWAY, 3)
    client = browse(alice)
    cause = client.get("/jobs/alice/train").context["shown"].cause
    assert cause.state == "FAILED" and "ends with the 10th such failure" in cause.lead
    for path in ("/jobs", "/"):
        assert '<span class="ls-warn">Failing again and again: The registry' in client.get(path).content.decode()
    Job.objects.update(state="RUNNING", not_before=None)
    assert "The last 3 attempts failed in the same way" in page(client)


def test_those_ahead_in_the_queue_are_named_and_linked(browse: Browse, alice: User) -> None:
    make_job("bob", state="RUNNING", node=make_node(cpus=1))
    for number in range(7):
        make_job("bob", f"first-{number}", priority=1)
    make_job("alice", "train")
    shown = " ".join(page(browse(alice)).split())
    assert 'Next are <a href="/jobs/bob/first-0">bob/first-0</a>, <a href="/jobs/bob/first-1">' in shown
    assert "and 2 more jobs." in shown and "first-5" not in shown


def test_an_event_says_its_state_once(browse: Browse, alice: User) -> None:
    job = make_job("alice", "train", state="RUNNING", node=make_node())
    add_event(job, "task.state", "", before="STARTING", after="RUNNING", task="worker-0")
    rows = [line for line in page(browse(alice), "/events").split("<tr>") if "?task=worker-0" in line]
    assert len(rows) == 1 and rows[0].count("Running") == 1


def test_ports_are_links_and_what_is_copied_has_the_port(browse: Browse, alice: User) -> None:
    job = make_job("alice", "train", state="RUNNING", node=make_node())
    job.tasks.update(ports={"http": [30000], "ssh": [30001], "many": list(range(31000, 31009))}, address="fd00::1")
    shown = page(browse(alice))
    assert 'href="http://[fd00::1]:30000" target="_blank" rel="noopener noreferrer">30000</a>' in shown
    copied = "http [fd00::1]:30000\nmany [fd00::1]:31000-31008\nssh [fd00::1]:30001"
    assert f'data-copy="{copied}" aria-label="Copy address of worker-0"' in shown and "11 ports" in shown
    assert 'href="http://[fd00::1]:31000"' in shown and ">31000–31008</a>" in shown
    assert "http://[fd00::1]:30001" not in shown


def test_the_key_is_saved_under_the_name_that_the_command_uses(browse: Browse, alice: User) -> None:
    job = make_job("alice", "train", state="RUNNING", node=make_node())
    shown = browse(alice).get("/jobs/alice/train/ssh/logins").context
    assert shown["file"] == publish.key_path("alice", job.full_name).rpartition("/")[2] == "alice~train"
