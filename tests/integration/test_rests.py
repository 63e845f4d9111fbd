"""A user whose borrowers were evicted rests, whatever they do with the jobs meanwhile."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from functools import partial
from importlib import import_module
from types import SimpleNamespace
from unittest.mock import ANY

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from base.models import User
from clusters.models import Node, VcGrant, VirtualCluster
from clusters.users.services import create_user, delete_user
from jobs import services
from jobs.config.spec import JobSpec
from jobs.models import Job, UserRest
from jobs.scheduling import remembered
from jobs.waiting.queue import queue_now, turn_if_submitted, turns_of
from tests.cluster import Cluster, config
from tests.conftest import PASSWORD
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


def evict(cluster: Cluster, name: str) -> Job:
    """A job of VC a comes, and those that have its room are told to leave."""
    owner = cluster.submit(name=name, virtualCluster="a", roles=[{"gpuNumber": 3}])
    cluster.tick()
    assert cluster.job(owner).displaced == {cluster.owner.username: ANY} and states(cluster, owner) == ["WAITING"]
    return owner


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
        until = UserRest.objects.get(username=cluster.owner.username).last + timedelta(minutes=minutes)
        [blocker] = turns_of([job.pk])[job.pk].blockers
        assert blocker.until == timezone.localtime(until).isoformat(timespec="seconds")
        assert blocker.sentence.startswith(
            f"Jobs of {cluster.owner.username} left borrowed room for {cluster.owner.username}/owner{minutes}: they "
            "borrow again in "
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
    assert (rest.username, rest.evictions) == (cluster.owner.username, 1)
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


def test_a_pass_writes_it_only_where_an_owner_evicts_or_starts_and_then_as_often_for_many(cluster: Cluster) -> None:
    two_teams(cluster, 8)
    asked = []
    for jobs in (2, 6):
        mine = [submit(cluster, f"j{jobs}-{at}", "b", 1) for at in range(jobs + 1)]
        with CaptureQueriesContext(connection) as captured:
            mine += [submit(cluster, f"last{jobs}", "b", 1)]
        assert states(cluster, *mine) == ["RUNNING"] * (jobs + 2)
        assert {each["sql"].split()[0] for each in captured if "userrest" in each["sql"]} == {"SELECT"}
        with CaptureQueriesContext(connection) as captured:
            claim(cluster, f"owner{jobs}", 6)
        told = [each["sql"] for each in captured if "userrest" in each["sql"] or '"displaced" = ' in each["sql"]]
        asked.append([each.split()[0] for each in told if "SELECT" not in each])
        services.stop_many(cluster.owner, mine)
        cluster.settle()
        cluster.ahead(3601)
        cluster.settle()
    assert asked == [["UPDATE", "UPDATE", "INSERT"]] * 2, "the eviction, and the start"


def test_who_takes_a_claim_back_before_it_starts_makes_nobody_rest(cluster: Cluster) -> None:
    two_teams(cluster)
    job = submit(cluster, "first", "b", 2)
    for at in range(3):
        owner = evict(cluster, f"owner{at}")
        services.delete(cluster.owner, owner)
        end_stopped(cluster)
        cluster.settle()
        assert (states(cluster, job), cluster.job(job).attempt_number) == (["RUNNING"], at + 2)
    assert not UserRest.objects.exists() and cluster.job(job).evictions == 3


def test_an_eviction_counts_once_when_the_owner_starts_though_the_scheduler_begins_anew(cluster: Cluster) -> None:
    two_teams(cluster)
    job = submit(cluster, "first", "b", 2)
    owner = evict(cluster, "owner")
    services.delete(cluster.owner, job)
    cluster.tick()
    assert states(cluster, owner) == ["WAITING"] and not UserRest.objects.exists()
    cluster.scheduler._forget()
    end_stopped(cluster)
    cluster.settle()
    assert (states(cluster, owner), cluster.job(owner).displaced) == (["RUNNING"], None)
    cluster.scheduler._forget()
    cluster.settle()
    assert [rest.evictions for rest in UserRest.objects.all()] == [1]


def test_who_is_deleted_and_made_again_does_not_rest(cluster: Cluster, admin: User, bob: User) -> None:
    two_teams(cluster)
    VcGrant.objects.create(vc=VirtualCluster.objects.get(name="b"), username="bob")
    asks = {"virtualCluster": "b", "roles": [{"gpuNumber": 2}]}
    job = services.submit(bob, config(name="first", **asks))
    cluster.settle()
    claim(cluster, "owner")
    services.stop(bob, job)
    cluster.settle()
    delete_user(admin, "bob")
    again = create_user(admin, username="bob", password=PASSWORD, vcs=["b"])
    anew = services.submit(again, config(name="anew", **asks))
    cluster.settle()
    assert states(cluster, anew) == ["RUNNING"]


def test_nobody_rests_any_more_who_is_deleted_or_was_not_evicted_for_long(
    cluster: Cluster, admin: User, bob: User
) -> None:
    now = timezone.now()
    for username, last in (("bob", now), ("carol", now), ("dora", now - timedelta(days=9))):
        UserRest.objects.create(username=username, evictions=1, counted=last, last=last)
    remembered.forget_rests(now)
    delete_user(admin, "bob")
    assert [rest.username for rest in UserRest.objects.all()] == ["carol"]


def test_of_several_rests_that_a_user_had_until_now_the_longest_stays() -> None:
    now, gone = timezone.now(), list[str]()
    rows = [
        SimpleNamespace(username=username, evictions=evictions, last=now - ago, delete=partial(gone.append, which))
        for which, username, evictions, ago in (
            ("long ago", "bob", 8, timedelta(days=1)),
            ("longest", "bob", 3, timedelta(0)),
            ("shorter", "bob", 1, timedelta(0)),
            ("of another", "carol", 1, timedelta(0)),
        )
    ]
    model = SimpleNamespace(objects=SimpleNamespace(all=lambda: rows))
    migration = import_module("jobs.migrations.0036_rest_of_a_user")
    migration.keep_the_longest(SimpleNamespace(get_model=lambda *_: model), None)
    assert sorted(gone) == ["long ago", "shorter"]
