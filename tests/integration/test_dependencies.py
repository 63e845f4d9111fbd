"""``extras.dependsOn``: a job that starts after others of its user."""

from __future__ import annotations

from typing import Any

import pytest

from base.models import User
from jobs import services
from jobs.dependencies import BadDependency
from jobs.models import Dependency, Event, Job
from jobs.submitting.dry_run import check_config
from jobs.waiting.why import turn_of, waiting_reason
from tests.cluster import Cluster, config


@pytest.fixture
def first(cluster: Cluster) -> Job:
    """A job that runs."""
    cluster.add_node(cpus=8)
    job = cluster.submit(name="first")
    cluster.settle()
    return job


def after(cluster: Cluster, *names: Any, name: str = "second", **more: Any) -> Job:
    return cluster.submit(name=name, extras={"dependsOn": list(names)}, **more)


def end(job: Job) -> dict[str, str]:
    return {"job": job.name, "after": "end"}


def reasons(cluster: Cluster, job: Job) -> list[dict[str, Any]]:
    job = cluster.job(job)
    return list(waiting_reason(job, turn_of(job))["blockers"])


def test_it_waits_for_the_success_of_the_other_and_says_so(cluster: Cluster, first: Job) -> None:
    second = after(cluster, "first")
    cluster.settle()
    assert cluster.job(second).state == "WAITING"
    sentence = "It starts after alice/first has succeeded; that job is running."
    assert reasons(cluster, second) == [{"kind": "dependency", "sentence": sentence, "job": "alice~first"}]
    cluster.finish(first)
    cluster.settle()
    assert (cluster.job(first).state, cluster.job(second).state) == ("SUCCEEDED", "RUNNING")


def test_it_starts_in_the_pass_right_behind_the_one_that_ended_the_other(cluster: Cluster, first: Job) -> None:
    second = after(cluster, "first")
    cluster.finish(first)
    cluster.tick()
    assert cluster.job(first).state == "SUCCEEDED"
    assert cluster.scheduler._patience() == 0, "the next pass follows at once"
    cluster.tick(look=False)
    assert cluster.job(second).state == "RUNNING"


def test_jobs_behind_it_in_the_queue_do_not_wait_for_it(cluster: Cluster, first: Job) -> None:
    after(cluster, "first")
    third = cluster.submit(name="third")
    cluster.settle()
    assert cluster.job(third).state == "RUNNING"


@pytest.mark.parametrize("how", ["fails", "is stopped", "is deleted"])
def test_without_the_success_it_fails_with_its_own_exit(cluster: Cluster, first: Job, how: str) -> None:
    second, third = after(cluster, "first"), after(cluster, end(first), name="third")
    if how == "fails":
        cluster.finish(first, 1)
    else:
        (services.stop if how == "is stopped" else services.delete)(cluster.owner, first)
    cluster.settle()
    did = "failed" if how == "fails" else "was stopped"
    failed, started = cluster.job(second), cluster.job(third)
    assert (failed.state, failed.exit_code, started.state) == ("FAILED", -7502, "RUNNING")
    [attempt] = cluster.attempts(second)
    assert attempt.exit["reason"] == f"It was to start after alice/first had succeeded, but that job {did}."


def test_a_failure_that_is_retried_is_no_end(cluster: Cluster) -> None:
    cluster.add_node()
    first = cluster.submit(name="first", retryCount=1)
    second = after(cluster, "first")
    cluster.settle()
    cluster.finish(first, 1)
    cluster.settle()
    assert (cluster.job(first).attempt_number, cluster.job(second).state) == (2, "WAITING")
    cluster.finish(first, 0)
    cluster.settle()
    assert cluster.job(second).state == "RUNNING"


def test_it_outlives_the_job_that_it_waited_for(cluster: Cluster, first: Job) -> None:
    other = cluster.submit(name="other")
    second = after(cluster, "first", "other")
    cluster.finish(first)
    cluster.settle()
    services.delete(cluster.owner, first)
    cluster.settle()
    assert not Job.objects.filter(pk=first.pk).exists()
    assert [one["job"] for one in reasons(cluster, second)] == ["alice~other"]
    cluster.finish(other)
    cluster.settle()
    assert cluster.job(second).state == "RUNNING"
    assert sorted(Dependency.objects.filter(job=second).values_list("on_name", "ended")) == [
        ("first", "SUCCEEDED"),
        ("other", "SUCCEEDED"),
    ]


def test_a_new_job_of_the_same_name_takes_nobodys_place(cluster: Cluster, first: Job) -> None:
    second = after(cluster, "first")
    services.delete(cluster.owner, first)
    cluster.submit(name="first")
    cluster.settle()
    assert cluster.job(second).state == "FAILED"


def test_one_that_has_ended_before_counts(cluster: Cluster, first: Job) -> None:
    cluster.finish(first)
    cluster.settle()
    second = after(cluster, "first")
    cluster.settle()
    assert cluster.job(second).state == "RUNNING"


def test_one_that_has_failed_before_fails_it_at_once(cluster: Cluster, first: Job) -> None:
    cluster.finish(first, 1)
    cluster.settle()
    checked = check_config(config("second", extras={"dependsOn": ["first"]}), cluster.owner)
    assert checked.never is not None
    assert "that job failed" in checked.never.sentence
    second = after(cluster, "first")
    cluster.settle()
    assert cluster.job(second).exit_code == -7502


def test_a_stopped_waiter_is_stopped(cluster: Cluster, first: Job) -> None:
    second = after(cluster, "first")
    services.stop(cluster.owner, second)
    cluster.settle()
    assert cluster.job(second).state == "STOPPED"
    cluster.finish(first)
    cluster.settle()
    assert cluster.job(second).state == "STOPPED"


def test_each_end_is_an_event_of_the_waiter(cluster: Cluster, first: Job) -> None:
    second = after(cluster, "first")
    cluster.finish(first)
    cluster.settle()
    told = Event.objects.get(job=second, kind="job.dependency")
    assert told.reason == "alice/first, which it waited for, succeeded."


@pytest.mark.parametrize(
    ("names", "says"),
    [
        (["gone"], "There is no job gone of alice; dependsOn names jobs that are there."),
        (["bob~theirs"], "bob~theirs is a job of bob; a job waits only for jobs of its own user."),
        (["theirs"], "There is no job theirs of alice; dependsOn names jobs that are there."),
        (["second"], "A job cannot wait for itself: second names second in dependsOn."),
        (["alice~second"], "A job cannot wait for itself: second names second in dependsOn."),
        (["first", "alice~first"], "dependsOn names first twice."),
    ],
)
def test_what_it_cannot_wait_for_is_refused_where_it_stands(
    cluster: Cluster, first: Job, bob: User, names: list[str], says: str
) -> None:
    services.submit(bob, config("theirs"))
    with pytest.raises(BadDependency) as refused:
        after(cluster, *names)
    assert refused.value.message == says
    checked = check_config(config("second", extras={"dependsOn": names}), cluster.owner)
    assert [(problem.path, problem.message) for problem in checked.problems] == [
        (f"/extras/dependsOn/{len(names) - 1}", says)
    ]
    assert checked.problems[0].column > 1


def test_what_it_would_wait_for_is_said_before_it_is_sent(cluster: Cluster, first: Job) -> None:
    checked = check_config(config("second", extras={"dependsOn": [end(first)]}), cluster.owner)
    assert [blocker.sentence for blocker in checked.blockers] == [
        "It starts after alice/first has ended; that job is running."
    ]
    assert checked.never is None
