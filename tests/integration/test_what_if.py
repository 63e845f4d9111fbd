"""What-if on a whole portal: what it announces is what happens when the change is made."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from base.accounts.viewer import Guest
from base.core.errors import Forbidden, Unauthorized
from base.models import User
from clusters.models import Node, VirtualCluster
from jobs import order, services
from jobs.models import Event, Job, Prediction
from jobs.what_if import answer as asking
from jobs.what_if.answer import WhatIfResult, what_if
from jobs.what_if.asked import read_all
from tests.cluster import Cluster, config
from tests.integration.test_forecasts import BUDGET, a_past

pytestmark = pytest.mark.django_db


def asked(admin: User, *texts: str) -> WhatIfResult:
    return what_if(admin, read_all(texts), budget=BUDGET)


def starting(found: WhatIfResult) -> set[str]:
    waiting = {job.id: job.name for job in found.after.situation.waiting}
    return {waiting[id] for id in found.after.starts}


def running() -> set[str]:
    return set(Job.objects.filter(state="RUNNING").values_list("name", flat=True))


def gpus(number: int) -> list[dict[str, Any]]:
    return [{"gpuNumber": number}]


def test_a_drained_node_evicts_and_starts_whom_it_said(cluster: Cluster, admin: User) -> None:
    cluster.add_node("n1", gpus=2)
    cluster.submit(name="two", roles=gpus(2))
    cluster.settle()
    cluster.add_node("n2", gpus=2)
    cluster.submit(name="four", roles=gpus(4))
    found = asked(admin, "node:n1:drain")
    assert [one.job.name for one in found.after.evicted] == ["two"]
    assert starting(found) == {"two"}
    Node.objects.filter(name="n1").update(status="draining")
    cluster.settle()
    assert running() == {"two"} and cluster.task(Job.objects.get(name="two")).node == "n2"


def test_a_priority_starts_whom_it_said(cluster: Cluster, admin: User) -> None:
    cluster.add_node("n1", gpus=2)
    cluster.submit(name="first", roles=gpus(2))
    last = cluster.submit(name="last", roles=gpus(2))
    assert starting(asked(admin)) == {"first"}
    assert starting(asked(admin, "job:alice~last:priority:3")) == {"last"}
    order.set_priority(admin, last, 3)
    cluster.settle()
    assert running() == {"last"}


def test_the_end_of_a_job_starts_whom_it_said(cluster: Cluster, admin: User) -> None:
    cluster.add_node("n1", gpus=2)
    runs = cluster.submit(name="runs", roles=gpus(2))
    cluster.settle()
    cluster.submit(name="waits", roles=gpus(2))
    assert starting(asked(admin, "job:alice~runs:stop")) == {"waits"}
    services.stop(admin, runs)
    cluster.settle()
    assert running() == {"waits"}


def test_a_larger_ceiling_starts_whom_it_said(cluster: Cluster, admin: User) -> None:
    cluster.add_node("n1", gpus=4)
    row = VirtualCluster.objects.create(name="a", capacity=0, max_capacity=100, gpu_guarantee=1, gpu_ceiling=1)
    for name in ("one", "two"):
        services.submit(admin, config(name, virtualCluster="a", roles=gpus(1)))
    assert starting(asked(admin)) == {"one"}
    assert starting(asked(admin, "vc:a:ceiling:+1")) == {"one", "two"}
    VirtualCluster.objects.filter(pk=row.pk).update(gpu_ceiling=2)
    cluster.settle()
    assert running() == {"one", "two"}


def test_it_says_when_others_start_before_and_after(cluster: Cluster, admin: User) -> None:
    a_past()
    cluster.add_node("n1", gpus=2)
    cluster.submit(name="train-98", roles=gpus(2))
    cluster.settle()
    cluster.submit(name="train-99", roles=gpus(2))
    cluster.submit(name="train-100", roles=gpus(2))
    found = asked(admin, "node:n2:add:2")
    first, second = found.felt
    assert (first.job.name, first.effect, second.job.name, second.effect) == ("train-99", "now", "train-100", "earlier")
    assert first.before is not None and first.after is not None and first.after.p90 == found.at
    assert first.before.p50 - found.at == pytest.approx(timedelta(hours=1), rel=0.1)
    nothing, whole = found.lines()
    assert (nothing.wait, whole.starts_now, whole.earlier, whole.later) == (pytest.approx(7200, rel=0.3), 1, 1, 0)


def test_each_change_is_played_alone_and_all_together(cluster: Cluster, admin: User) -> None:
    cluster.add_node("n1", gpus=2)
    cluster.submit(name="runs", roles=gpus(2))
    cluster.settle()
    cluster.submit(name="waits", roles=gpus(2))
    found = asked(admin, "node:n2:add:4", "node:n2:drain")
    assert [line.what for line in found.lines()] == [
        "Nothing changes",
        "Node n2 is added with 4 GPUs",
        "All, as asked above",
    ]
    assert [line.starts_now for line in found.lines()] == [0, 1, 0]


def test_of_a_long_queue_the_first_are_played_and_the_rest_is_told(
    cluster: Cluster, admin: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(asking, "MOST", 4)
    monkeypatch.setattr(asking, "FEW", 2)
    a_past()
    cluster.add_node("n1", gpus=1)
    one = cluster.submit(name="j", roles=gpus(1))
    Job.objects.bulk_create([_copy(one, at) for at in range(5)])
    found = asked(admin, "node:n1:drain")
    assert found.left_out == ["Of 6 waiting jobs the first 4 were played forward."]
    short = what_if(admin, read_all(["node:n1:drain"]), budget=0.0)
    assert short.left_out == ["6 waiting jobs could not be played forward in time."]
    monkeypatch.setattr(asking, "MANY", 5)
    many = asked(admin, "node:n1:drain", "node:n1:return")
    assert many.alone == [] and "No change was tried alone: more than 5 jobs wait." in many.left_out


def _copy(job: Job, at: int) -> Job:
    made = Job.objects.get(pk=job.pk)
    made.pk, made.name = None, f"copy-{at}"  # type: ignore[assignment]
    return made


@pytest.mark.parametrize(("slow", "says"), [(0, []), (1, ["alone"]), (2, ["first 2", "alone"])])
def test_what_takes_too_long_is_left_out_and_told(
    cluster: Cluster, admin: User, monkeypatch: pytest.MonkeyPatch, slow: int, says: list[str]
) -> None:
    a_past()
    cluster.add_node("n1", gpus=1)
    one = cluster.submit(name="j", roles=gpus(1))
    Job.objects.bulk_create([_copy(one, at) for at in range(5)])
    monkeypatch.setattr(asking, "FEW", 2)
    play, plays = asking._side_by_side, list[int]()

    def slowly(*args: Any) -> Any:
        """The play of a few is quick; of those after it the first ones are not done in time."""
        plays.append(args[3])
        return None if 1 < len(plays) <= 1 + slow else play(*args)

    monkeypatch.setattr(asking, "_side_by_side", slowly)
    found = asked(admin, "node:n1:cordon", "node:n2:add:4")
    assert len(found.left_out) == len(says) and all(part in " ".join(found.left_out) for part in says)
    assert found.lines()[0].earlier == 0 and (found.lines()[1].earlier is None) == bool(slow)


def test_nothing_is_written(cluster: Cluster, admin: User) -> None:
    a_past()
    cluster.add_node("n1", gpus=2)
    cluster.submit(name="runs", roles=gpus(2))
    cluster.settle()
    cluster.submit(name="waits", roles=gpus(2))
    before = list(Job.objects.values()), list(Node.objects.values()), Event.objects.count()
    with CaptureQueriesContext(connection) as seen:
        asked(admin, "node:n1:drain", "node:n2:add:1", "job:alice~waits:priority:4")
    assert all(query["sql"].lstrip().startswith("SELECT") for query in seen)
    assert (list(Job.objects.values()), list(Node.objects.values()), Event.objects.count()) == before
    assert not Prediction.objects.exists()


def test_its_queries_do_not_grow_with_the_queue(cluster: Cluster, admin: User, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asking, "MOST", 4)
    monkeypatch.setattr(asking, "FEW", 2)
    a_past()
    cluster.add_node("n1", gpus=2)
    one = cluster.submit(name="j", roles=gpus(1))
    Job.objects.bulk_create([_copy(one, at) for at in range(10)])
    changes = ("node:n1:drain", "node:n2:add:4", "job:alice~j:priority:4")
    with CaptureQueriesContext(connection) as few:
        asked(admin, *changes)
    Job.objects.bulk_create([_copy(one, at) for at in range(10, 60)])
    with CaptureQueriesContext(connection) as many:
        asked(admin, *changes)
    assert len(many) <= len(few) <= 15


def test_it_is_for_admins(alice: User) -> None:
    with pytest.raises(Forbidden):
        what_if(alice, [])
    with pytest.raises(Unauthorized):
        what_if(Guest(), [])
