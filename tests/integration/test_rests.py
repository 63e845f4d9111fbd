"""A user whose borrowers were evicted rests, whatever they do with the jobs meanwhile."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from base.models import User
from clusters.models import Node, VirtualCluster
from clusters.users.services import delete_user
from jobs import services
from jobs.config.spec import JobSpec
from jobs.models import Job, UserRest
from jobs.scheduling import rests
from jobs.waiting.queue import queue_now, turn_if_submitted, turns_of
from tests.cluster import Cluster
from tests.integration.test_evictions import add_vc, end_stopped, states, submit

pytestmark = pytest.mark.django_db


def two_teams(cluster: Cluster, gpus: int = 4) -> None:
    """Of VC b nothing but one GPU is guaranteed, and VC a takes its room back from those who borrow."""
    add_vc(cluster, "a", 75)
    add_vc(cluster, "b", 25)
    cluster.add_node(gpus=gpus)


def claim(cluster: Cluster, name: str, gpus: int = 3) -> None:
    """A job of VC a comes, and ends when it has its room."""
    owner = submit(cluster, name, "a", gpus)
    end_stopped(cluster)
    cluster.settle()
    assert states(cluster, owner) == ["RUNNING"], "a guarantee is always met"
    cluster.finish(owner)
    cluster.settle()


def stop(cluster: Cluster, job: Job) -> Job:
    services.stop(cluster.owner, job)
    cluster.settle()
    return submit(cluster, f"after-{job.pk}", "b", 2)


def delete(cluster: Cluster, job: Job) -> Job:
    services.delete(cluster.owner, job)
    cluster.settle()
    return submit(cluster, job.name, "b", 2)


def change(cluster: Cluster, job: Job) -> Job:
    changed = services.change(cluster.owner, job, {"virtualCluster": "b"})
    cluster.settle()
    return changed


def change_vc_and_back(cluster: Cluster, job: Job) -> Job:
    if not VirtualCluster.objects.filter(name="c").exists():
        add_vc(cluster, "c", 0, 0)
    there = services.change(cluster.owner, job, {"virtualCluster": "c"})
    cluster.settle()
    back = services.change(cluster.owner, there, {"virtualCluster": "b"})
    cluster.settle()
    return back


def wait(cluster: Cluster, job: Job) -> Job:
    return job


DOORS: list[Callable[[Cluster, Job], Job]] = [wait, stop, delete, change, change_vc_and_back]


@pytest.mark.parametrize("door", DOORS)
def test_whatever_a_user_does_with_an_evicted_job_the_next_one_borrows_no_sooner(
    cluster: Cluster, door: Callable[[Cluster, Job], Job]
) -> None:
    two_teams(cluster)
    job = submit(cluster, "first", "b", 2)
    for minutes in (10, 20):
        claim(cluster, f"owner{minutes}")
        job = door(cluster, cluster.job(job))
        assert states(cluster, job) == ["WAITING"]
        until = UserRest.objects.get(username=cluster.owner.username, vc="b").last + timedelta(minutes=minutes)
        [blocker] = turns_of([job.pk])[job.pk].blockers
        assert blocker.until == timezone.localtime(until).isoformat(timespec="seconds")
        assert blocker.sentence.startswith(
            f"Jobs of {cluster.owner.username} were evicted from room that VC b had borrowed: they borrow again in "
        )
        cluster.ahead((until - timezone.now()).total_seconds() - 1)
        cluster.settle()
        assert states(cluster, job) == ["WAITING"], "not yet"
        cluster.ahead(2)
        cluster.settle()
        assert states(cluster, job) == ["RUNNING"]


def test_neither_do_those_that_waited_already_and_all_that_leave_for_one_owner_count_once(cluster: Cluster) -> None:
    two_teams(cluster)
    jobs = [submit(cluster, f"j{at}", "b", 1) for at in range(7)]
    claim(cluster, "owner")
    assert states(cluster, *jobs) == ["RUNNING", *["WAITING"] * 6]
    [rest] = UserRest.objects.all()
    assert (rest.username, rest.vc, rest.evictions) == (cluster.owner.username, "b", 1)
    cluster.ahead(601)
    cluster.settle()
    assert states(cluster, *jobs).count("RUNNING") == 4


def test_within_the_guarantee_they_start_at_once_and_others_borrow(cluster: Cluster, alice: User) -> None:
    two_teams(cluster)
    first = submit(cluster, "first", "b", 2)
    claim(cluster, "owner")
    small = submit(cluster, "small", "b", 1)
    assert states(cluster, first, small) == ["WAITING", "RUNNING"]
    waiting, scene = queue_now()
    spec = JobSpec.from_json(first.spec)
    mine = turn_if_submitted(waiting, scene, spec, (), cluster.owner.username)
    assert "delay" in {blocker.kind for blocker in mine.blockers}, "the page says so before it is submitted"
    assert not turn_if_submitted(waiting, scene, spec, (), "somebody").blockers


def test_an_ordinary_retry_afterwards_does_not_rest(cluster: Cluster) -> None:
    two_teams(cluster)
    job = submit(cluster, "first", "b", 2)
    claim(cluster, "owner")
    cluster.ahead(601)
    cluster.settle()
    assert states(cluster, job) == ["RUNNING"]
    cluster.engines["n1"].remove(cluster.task(job).container_name)  # lost: it is tried again
    cluster.settle()
    cluster.ahead(61)
    cluster.settle()
    assert (cluster.job(job).state, cluster.job(job).attempt_number) == ("RUNNING", 3)


def test_what_an_admin_does_does_not_count(cluster: Cluster) -> None:
    two_teams(cluster)
    job = submit(cluster, "job", "b", 2)
    cluster.add_node("n2", gpus=4)
    Node.objects.filter(name="n1").update(status=Node.Status.DRAINING)
    cluster.settle()
    end_stopped(cluster)
    cluster.settle()
    assert (cluster.job(job).state, cluster.task(job).node) == ("RUNNING", "n2")
    assert not UserRest.objects.exists()


def test_it_holds_whoever_plans_next(cluster: Cluster) -> None:
    """Also where the evicted job is gone by then, and the time of the day was set back."""
    two_teams(cluster)
    job = submit(cluster, "first", "b", 2)
    claim(cluster, "owner")
    services.delete(cluster.owner, job)
    cluster.settle()
    cluster.clock.set -= timedelta(hours=5)
    cluster.scheduler._forget()
    again = submit(cluster, "again", "b", 2)
    assert states(cluster, again) == ["WAITING"]
    cluster.ahead(601)
    cluster.settle()
    assert states(cluster, again) == ["RUNNING"], "no longer than if the clock had not been touched"


def test_a_pass_asks_for_it_only_where_jobs_are_evicted_and_then_as_often_for_many(cluster: Cluster) -> None:
    two_teams(cluster, 8)
    asked = []
    for jobs in (2, 6):
        mine = [submit(cluster, f"j{jobs}-{at}", "b", 1) for at in range(jobs + 1)]
        with CaptureQueriesContext(connection) as captured:
            mine += [submit(cluster, f"last{jobs}", "b", 1)]
        assert states(cluster, *mine) == ["RUNNING"] * (jobs + 2)
        assert not [each["sql"] for each in captured if "userrest" in each["sql"]]
        with CaptureQueriesContext(connection) as captured:
            claim(cluster, f"owner{jobs}", 6)
        asked.append([each["sql"].split()[0] for each in captured if "userrest" in each["sql"]])
        services.stop_many(cluster.owner, mine)
        cluster.settle()
        cluster.ahead(3601)
        cluster.settle()
    assert asked == [["SELECT", "INSERT", "SELECT"]] * 2


def test_nobody_rests_for_a_virtual_cluster_that_was_deleted() -> None:
    now = timezone.now()
    for vc in ("b", "c"):
        made = VirtualCluster.objects.create(name=vc)
        UserRest.objects.create(username="bob", vc=vc, evictions=1, counted=now, last=now)
    made.delete()
    assert [rest.vc for rest in UserRest.objects.all()] == ["b"]


def test_nobody_rests_any_more_who_is_deleted_or_was_not_evicted_for_long(
    cluster: Cluster, admin: User, bob: User
) -> None:
    now = timezone.now()
    for username, last in (("bob", now), ("carol", now), ("dora", now - timedelta(days=9))):
        UserRest.objects.create(username=username, vc="b", evictions=1, counted=last, last=last)
    rests.clean_up(now)
    delete_user(admin, "bob")
    assert [rest.username for rest in UserRest.objects.all()] == ["carol"]
