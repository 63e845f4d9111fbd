"""What is kept for a gang is lent to others after a time, whoever plans next and whatever is done to the clock."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from base.core import words
from jobs.models import Job, KeptIdle
from jobs.planning.queue.sentences import at_minute
from jobs.waiting.queue import turns_of
from jobs.waiting.why import turn_of, waiting_reason
from portal.nodes.rows import reserved
from tests.cluster import Cluster
from tests.integration.test_evictions import add_vc, states, submit

pytestmark = pytest.mark.django_db


@pytest.fixture
def waits(cluster: Cluster) -> tuple[Job, Job]:
    """A gang of the GPUs of both nodes, of which one is busy for ever, and a small job that would start on the other
    one. 8 GPUs times 30 min are what 4 GPUs idle in an hour."""
    add_vc(cluster, "a", 50)
    for name in ("n1", "n2"):
        cluster.add_node(name, gpus=4)
    submit(cluster, "endless", "a", 4)
    gang = submit(cluster, "gang", "a", 4, 2)
    small = submit(cluster, "small", "a", 1)
    assert states(cluster, gang, small) == ["WAITING"] * 2
    return gang, small


def pass_time(cluster: Cluster, seconds: float) -> None:
    cluster.ahead(seconds)
    cluster.settle()


def kept() -> KeptIdle:
    return KeptIdle.objects.get(vc="a")


def test_others_start_after_a_time_and_all_pages_say_until_when(cluster: Cluster, waits: tuple[Job, Job]) -> None:
    gang, small = waits
    assert (kept().job, kept().gpus, kept().most) == (gang.pk, 4, 8 * 1800.0)
    said = waiting_reason(gang, turn_of(gang))["reservation"]["sentence"]
    lapses = at_minute(kept().at + timedelta(hours=1), timezone.localtime())
    assert f"If it idles on, others may use it for a time from {lapses} (" in said
    pass_time(cluster, 3500)
    assert states(cluster, gang, small) == ["WAITING"] * 2
    pass_time(cluster, 110)
    assert states(cluster, gang, small) == ["WAITING", "RUNNING"]
    until = kept().until
    assert until is not None and abs((until - timezone.now()).total_seconds() - 3600) < 60
    [blocker] = [each for each in turns_of([gang.pk])[gang.pk].blockers if each.kind == "lapsed"]
    now = timezone.localtime()
    since, ended, again = (at_minute(each, now) for each in (kept().since, until - timedelta(hours=1), until))
    assert blocker.sentence == (
        f"Room was kept for it from {since} to {ended} and idled 4 GPU-hours. Others may use it until {again} "
        f"({words.zone(now)}), then it is kept again."
    )
    for node in ("", "n1", "n2"):
        [shown] = reserved(cluster.owner, node)
        assert shown.lapsed == blocker.sentence and shown.job == f"{cluster.owner.username}/gang"
    cluster.finish(small)
    pass_time(cluster, 3500)
    late = submit(cluster, "late", "a", 1)
    assert states(cluster, late) == ["RUNNING"]
    cluster.finish(late)
    pass_time(cluster, 200)
    assert states(cluster, submit(cluster, "later", "a", 1)) == ["WAITING"], "it is kept again"
    assert (kept().lapses, kept().gpus, kept().until) == (1, 4, None)


def test_a_pass_in_which_nothing_changes_writes_nothing_of_it(cluster: Cluster, waits: tuple[Job, Job]) -> None:
    with CaptureQueriesContext(connection) as captured:
        for _ in range(5):
            pass_time(cluster, 60)
    assert not [each["sql"] for each in captured if "keptidle" in each["sql"]]


@pytest.mark.parametrize("hours", [-30, 0, 30])
def test_it_holds_whoever_plans_next_and_whatever_the_clock_says(
    cluster: Cluster, waits: tuple[Job, Job], hours: int
) -> None:
    gang, small = waits
    pass_time(cluster, 1800)
    cluster.clock.set += timedelta(hours=hours)
    cluster.scheduler._forget()
    cluster.settle()
    pass_time(cluster, 3700)
    assert states(cluster, gang, small) == ["WAITING", "RUNNING"]
    cluster.finish(small)
    cluster.clock.set -= timedelta(hours=hours)
    cluster.scheduler._forget()
    cluster.settle()
    pass_time(cluster, 3700)
    assert states(cluster, submit(cluster, "later", "a", 1)) == ["WAITING"], "no pause is longer than what was idled"


def test_it_is_forgotten_when_the_gang_starts(cluster: Cluster, waits: tuple[Job, Job]) -> None:
    gang, _ = waits
    cluster.finish(Job.objects.get(name="endless"))
    cluster.settle()
    assert states(cluster, gang) == ["RUNNING"]
    assert not KeptIdle.objects.exists()
