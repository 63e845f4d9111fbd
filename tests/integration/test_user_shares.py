"""What users used lately, as rows, and the turns that go by them."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from base.models import User
from clusters.models import VirtualCluster
from clusters.users.services import delete_user
from jobs import order, services
from jobs.config.spec import JobSpec
from jobs.history import holdings
from jobs.models import Holding, Job, PastUse
from jobs.planning.queue.scene import OVERDUE
from jobs.waiting.queue import queue_now, turn_if_submitted, turns_of
from jobs.waiting.why import turn_of, waiting_reason
from tests.cluster import Cluster, config

pytestmark = pytest.mark.django_db
HOUR = 3600


@pytest.fixture
def ben() -> User:
    return User.objects.create(username="ben")


def submit(cluster: Cluster, name: str, user: User | None = None, gpus: int = 1) -> Job:
    text = config(name, roles=[{"gpuNumber": gpus}])
    job = services.submit(user or cluster.owner, text)
    cluster.settle()
    return job


def running(cluster: Cluster) -> list[str]:
    return sorted(Job.objects.filter(state="RUNNING").values_list("name", flat=True))


def test_one_job_of_a_colleague_does_not_wait_behind_all_of_another_user(cluster: Cluster, ben: User) -> None:
    cluster.add_node(gpus=1)
    mine = [submit(cluster, f"mine{at}") for at in range(5)]
    submit(cluster, "theirs", ben)
    assert running(cluster) == ["mine0"]
    cluster.finish(mine[0])
    cluster.settle()
    assert running(cluster) == ["mine1"], "it was the first without room before the other one came"
    cluster.finish(mine[1])
    cluster.settle()
    assert running(cluster) == ["theirs"]


def test_what_was_used_is_one_row_that_survives_a_restart(cluster: Cluster, ben: User) -> None:
    cluster.add_node(gpus=1)
    for name in ("one", "two"):
        job = submit(cluster, name)
        cluster.ahead(12 * HOUR)
        cluster.finish(job)
        cluster.settle()
    [row] = PastUse.objects.all()
    assert (row.username, row.vc) == (cluster.owner.username, "default")
    assert row.gpu == pytest.approx(0.5, abs=0.01), "one GPU for a half-life"
    last = submit(cluster, "last", ben)
    mine, theirs = submit(cluster, "mine"), submit(cluster, "theirs", User.objects.create(username="cay"))
    Job.objects.update(keeps_turn=False)
    cluster.scheduler = cluster.new_scheduler()
    assert cluster.scheduler.lease.try_take()
    cluster.settle()
    cluster.finish(last)
    cluster.settle()
    assert (cluster.job(mine).state, cluster.job(theirs).state) == ("WAITING", "RUNNING")


def test_what_is_given_back_twice_counts_once(cluster: Cluster) -> None:
    cluster.add_node(gpus=1)
    job = submit(cluster, "one")
    cluster.ahead(24 * HOUR)
    cluster.finish(job)
    cluster.settle()
    [before], ended = PastUse.objects.values_list("gpu", "at"), Holding.objects.get().ended
    holdings.close_rows([(cluster.task(job).pk, None)], timezone.now() + timedelta(days=1))
    assert ([*PastUse.objects.values_list("gpu", "at")], Holding.objects.get().ended) == ([before], ended)


def test_reading_it_costs_one_statement_for_those_who_wait_for_one_another(cluster: Cluster, ben: User) -> None:
    """However many users there are, and whatever has ended."""
    now = timezone.now()
    rows = [PastUse(username=f"u{at}", vc="default", cpu=1, memory=1, gpu=1, at=now) for at in range(3_000)]
    PastUse.objects.bulk_create([*rows, PastUse(username="ben", vc="default", cpu=1, memory=1, gpu=1, at=now)])
    submit(cluster, "mine")
    waiting, _ = queue_now()
    with CaptureQueriesContext(
        connection,
    ) as one:
        assert holdings.used_lately(holdings.rivals(waiting)) == {}
    submit(cluster, "theirs", ben)
    waiting, _ = queue_now()
    with CaptureQueriesContext(connection) as two:
        assert list(holdings.used_lately(holdings.rivals(waiting))) == [("ben", "default")]
    assert (len(one), len(two)) == (0, 1)


def test_what_ends_costs_as_much_however_much_has_ended_before(cluster: Cluster) -> None:
    cluster.add_node(gpus=4)
    costs = []
    for at in range(3):
        jobs = [submit(cluster, f"j{at}-{each}") for each in range(3)]
        ends = [(cluster.task(job).pk, None) for job in jobs]
        with CaptureQueriesContext(connection) as queries:
            holdings.close_rows(ends, timezone.now())
        costs.append(len(queries))
        for job in jobs:
            services.delete(cluster.owner, job)
        cluster.settle()
    assert costs == [4, 4, 4]
    assert PastUse.objects.count() == 1


def test_a_half_life_of_nothing_is_a_setting_of_the_virtual_cluster(cluster: Cluster, ben: User) -> None:
    cluster.add_node(gpus=1)
    first = submit(cluster, "first", ben)
    PastUse.objects.create(username=cluster.owner.username, vc="default", cpu=9, memory=9, gpu=9, at=timezone.now())
    mine, theirs = submit(cluster, "mine"), submit(cluster, "theirs", User.objects.create(username="cay"))
    places = turns_of([mine.pk, theirs.pk])
    assert [places[job.pk].position for job in (mine, theirs)] == [1, 2], "it was the first without room"
    Job.objects.update(keeps_turn=False)
    assert [turns_of([job.pk])[job.pk].position for job in (mine, theirs)] == [2, 1]
    VirtualCluster.objects.update_or_create(name="default", defaults={"share_half_life": 0})
    assert [turns_of([job.pk])[job.pk].position for job in (mine, theirs)] == [1, 2]
    cluster.finish(first)
    cluster.settle()
    assert running(cluster) == ["mine"]


def test_a_page_says_why_a_job_that_came_later_is_ahead(cluster: Cluster, ben: User) -> None:
    cluster.add_node(gpus=1)
    for at in range(4):
        submit(cluster, f"mine{at}")
    submit(cluster, "theirs", ben)
    last = Job.objects.get(name="mine3")
    [blocker] = [each for each in waiting_reason(last, turn_of(last))["blockers"] if each["kind"] == "queue"]
    assert "One of them came later: its user has used less of VC default lately" in blocker["sentence"]
    assert "ben" not in blocker["sentence"]


def test_who_used_much_is_next_once_they_are_overdue(cluster: Cluster, ben: User) -> None:
    cluster.add_node(gpus=1)
    runs = submit(cluster, "runs", ben)
    ago = timezone.now() - OVERDUE - timedelta(minutes=1)
    PastUse.objects.create(username=cluster.owner.username, vc="default", cpu=9, memory=9, gpu=9, at=ago)
    mine, theirs = submit(cluster, "mine"), submit(cluster, "theirs", User.objects.create(username="cay"))
    Job.objects.update(keeps_turn=False)
    for came, places in ((timezone.now(), [2, 1]), (ago, [1, 2])):
        Job.objects.filter(pk=mine.pk).update(created_at=came, changed_at=timezone.now())
        assert [turns_of([job.pk])[job.pk].position for job in (mine, theirs)] == places
    cluster.finish(runs)
    cluster.settle()
    assert running(cluster) == ["mine"], "as the page said"


def test_what_the_asker_used_counts_before_they_submit(cluster: Cluster, ben: User) -> None:
    cluster.add_node(gpus=1)
    submit(cluster, "runs", User.objects.create(username="cay"))
    submit(cluster, "theirs", ben)
    Job.objects.update(keeps_turn=False)
    for username, gpus in ((cluster.owner.username, 9), ("ben", 5)):
        PastUse.objects.create(username=username, vc="default", cpu=0, memory=0, gpu=gpus, at=timezone.now())
    spec = JobSpec.from_json(Job.objects.get(name="theirs").spec)
    users = (cluster.owner.username, "dan")
    assert [turn_if_submitted(*queue_now(), spec, (), user).position for user in users] == [2, 1]


def test_the_first_without_room_keeps_its_turn_until_it_starts(cluster: Cluster) -> None:
    cluster.add_node(gpus=1)
    first, second = submit(cluster, "first"), submit(cluster, "second")
    assert [cluster.job(job).keeps_turn for job in (first, second)] == [False, True]
    cluster.finish(first)
    cluster.settle()
    assert (cluster.job(second).state, cluster.job(second).keeps_turn) == ("RUNNING", False)


def test_whoever_lowers_and_raises_priorities_keeps_the_turn_of_one_job_alone(cluster: Cluster) -> None:
    cluster.add_node(gpus=1)
    submit(cluster, "runs")
    jobs = [submit(cluster, f"j{at}") for at in range(3)]
    for value in (-1, 0):
        for job in jobs:
            order.set_priority(cluster.owner, cluster.job(job), value)
            cluster.settle()
    assert [cluster.job(job).keeps_turn for job in jobs].count(True) <= 1


def test_an_admin_moves_a_job_before_one_of_another_user(cluster: Cluster, ben: User, admin: User) -> None:
    cluster.add_node(gpus=1)
    submit(cluster, "first", ben)
    PastUse.objects.create(username=cluster.owner.username, vc="default", cpu=9, memory=9, gpu=9, at=timezone.now())
    kept, theirs, mine = submit(cluster, "kept", ben), submit(cluster, "theirs", ben), submit(cluster, "mine")
    assert order.move_before(admin, mine, theirs)
    assert [turns_of([job.pk])[job.pk].position for job in (kept, mine, theirs)] == [1, 2, 3]
    assert order.move_before(admin, mine, kept)
    assert [turns_of([job.pk])[job.pk].position for job in (mine, kept, theirs)] == [1, 2, 3]
    assert not order.move_before(admin, mine, kept), "it is ahead"


def test_nobody_has_used_anything_under_the_name_of_who_is_deleted(admin: User, ben: User) -> None:
    for username in ("ben", "cay"):
        PastUse.objects.create(username=username, vc="default", cpu=1, memory=1, gpu=1, at=timezone.now())
    delete_user(admin, "ben")
    assert [row.username for row in PastUse.objects.all()] == ["cay"]
    assert holdings.purge(timezone.now() + timedelta(days=366)) == 0
    assert not PastUse.objects.exists()
