"""Room goes back to whom it belongs: borrowers, guests and what is on a drained node are evicted, and start again."""

from __future__ import annotations

from typing import Any

import pytest

from base.accounts.viewer import Guest
from clusters.models import Node, VcGrant, VirtualCluster
from jobs.history.ledger import as_read
from jobs.models import Event, Job
from jobs.waiting.queue import turns_of
from jobs.waiting.why import turn_of, waiting_reason
from portal.job.page import Detail, EventLine, attempts_tab
from tests.cluster import Cluster

pytestmark = pytest.mark.django_db


def add_vc(cluster: Cluster, name: str, capacity: float, most: float = 100, **values: Any) -> None:
    vc = VirtualCluster.objects.create(name=name, capacity=capacity, max_capacity=most, **values)
    VcGrant.objects.create(vc=vc, username=cluster.owner.username)


def submit(cluster: Cluster, name: str, vc: str = "default", gpus: int = 1, tasks: int = 1, **extras: Any) -> Job:
    role = {"gpuNumber": gpus, "taskNumber": tasks}
    job = cluster.submit(name=name, roles=[role], virtualCluster=vc, extras=extras)
    cluster.settle()
    return job


def states(cluster: Cluster, *jobs: Job) -> list[str]:
    return [cluster.job(job).state for job in jobs]


def end_stopped(cluster: Cluster) -> None:
    """Programs end when they are told to."""
    for _ in range(4):
        cluster.tick()
        cluster.work()


def test_borrowed_room_that_is_only_kept_for_debugging_is_given_back_without_an_eviction(cluster: Cluster) -> None:
    add_vc(cluster, "a", 50)
    add_vc(cluster, "b", 50)
    cluster.add_node(gpus=4)
    young = cluster.submit(name="young", virtualCluster="b", roles=[{"gpuNumber": 4}], jobEnvs={"isDebug": True})
    cluster.settle()
    cluster.engines["n1"].hold(cluster.task(young).container_name, 7)
    cluster.settle()
    owner = submit(cluster, "owner", "a", 2)
    end_stopped(cluster)
    assert states(cluster, owner, young) == ["RUNNING", "FAILED"]
    assert (cluster.job(young).exit_code, cluster.task(young).exit["raw_code"]) == (255, 7)
    assert "job.evicted" not in cluster.kinds(young) and cluster.kinds(young).count("job.released") == 1


def test_borrowed_room_is_given_back_with_one_event_for_both_and_no_retry_burnt(cluster: Cluster) -> None:
    add_vc(cluster, "a", 50)
    add_vc(cluster, "b", 50)
    cluster.add_node(gpus=4)
    old, young = submit(cluster, "old", "b", 2), submit(cluster, "young", "b", 2)
    assert states(cluster, old, young) == ["RUNNING", "RUNNING"], "what nobody uses is lent"
    owner = submit(cluster, "owner", "a", 2)
    end_stopped(cluster)
    assert states(cluster, owner, old, young) == ["RUNNING", "RUNNING", "WAITING"]
    evicted = cluster.job(young)
    assert (evicted.user_retries, evicted.platform_retries, evicted.not_before) == (0, 1, None)
    assert [attempt.exit_code for attempt in cluster.attempts(young)][:1] == [-7120]
    [told] = as_read(Event.objects.filter(job=young, kind="job.evicted"), cluster.owner)
    assert f"VC b gives back 2 GPUs and 1 CPU core on n1, which it had borrowed: {owner} of VC a" in told.reason
    assert Event.objects.filter(job=owner, kind="job.reclaimed").count() == 1
    reasons = list(Event.objects.filter(job=young, task="").exclude(reason="").values_list("reason", flat=True))
    assert len(reasons) == len(set(reasons)), "nothing is said twice"
    kinds = [each["kind"] for each in waiting_reason(evicted, turn_of(evicted))["blockers"]]
    assert kinds and "failed" not in kinds, "that it was evicted keeps it from nothing"
    page = Detail(evicted, Guest())
    assert [step.state for step in page.steps][:2] == ["done", "done"] and page.steps[1].text.endswith(", evicted")
    assert page.cause is not None
    assert page.cause.hindrances[0].sentence.startswith(f"Jobs of alice left borrowed room for {owner}: they borrow")
    lines = attempts_tab(Detail(evicted, Guest()), {})["lines"]
    assert [line.word for line in lines] == ["", "Evicted"]


def test_an_event_that_begins_with_its_task_names_it_once() -> None:
    assert EventLine(Event(kind="task.state", task="main-0", reason="main-0 ended with exit code 3.")).names_task
    assert not EventLine(Event(kind="task.state", task="main-1", reason="main-10 was lost.")).names_task


def test_a_job_beyond_its_guarantee_evicts_nobody(cluster: Cluster) -> None:
    add_vc(cluster, "a", 50)
    add_vc(cluster, "b", 50)
    cluster.add_node(gpus=4)
    young = submit(cluster, "young", "b", 4)
    large = submit(cluster, "large", "a", 3)
    end_stopped(cluster)
    assert states(cluster, young, large) == ["RUNNING", "WAITING"]


def test_a_ceiling_is_never_exceeded_and_is_told(cluster: Cluster) -> None:
    add_vc(cluster, "a", 25, 50)
    cluster.add_node(gpus=4)
    first, second = submit(cluster, "first", "a", 2), submit(cluster, "second", "a", 1)
    other = submit(cluster, "other", gpus=2)
    assert states(cluster, first, second, other) == ["RUNNING", "WAITING", "RUNNING"]
    blockers = turns_of([second.pk])[second.pk].blockers
    assert [blocker.kind for blocker in blockers] == ["ceiling", "gpus"]
    assert blockers[0].sentence == (
        "VC a may use 2 GPUs at most; it uses 2 GPUs, and this job asks for 1 GPU. "
        f"Held now: {cluster.owner.username}/first 2 GPUs."
    )


def test_a_user_at_their_cap_waits_for_their_own_jobs(cluster: Cluster) -> None:
    add_vc(cluster, "a", 100, user_gpus=2)
    cluster.add_node(gpus=4)
    first, second = submit(cluster, "first", "a", 2), submit(cluster, "second", "a", 1)
    assert states(cluster, first, second) == ["RUNNING", "WAITING"]
    [blocker] = turns_of([second.pk])[second.pk].blockers
    assert blocker.kind == "cap" and f"{cluster.owner.username}/first 2 GPUs" in blocker.sentence


def test_a_dedicated_node_serves_its_virtual_cluster_only_and_its_jobs_try_it_first(cluster: Cluster) -> None:
    add_vc(cluster, "a", 0)
    cluster.add_node("n1", gpus=1)
    cluster.add_node("n2", gpus=1)
    Node.objects.filter(name="n2").update(dedicated_to=VirtualCluster.objects.get(name="a"))
    others = [submit(cluster, f"j{at}") for at in range(2)]
    assert [blocker.kind for blocker in turns_of([others[1].pk])[others[1].pk].blockers] == ["gpus", "dedicated"]
    own = submit(cluster, "own", "a")
    assert states(cluster, *others, own) == ["RUNNING", "WAITING", "RUNNING"]
    assert cluster.task(own).node == "n2"


def test_small_jobs_pass_beside_a_reservation_and_not_on_it(cluster: Cluster) -> None:
    cluster.add_node("n1", gpus=2)
    cluster.add_node("n2", gpus=4)
    runs = submit(cluster, "runs", gpus=3)
    large = submit(cluster, "large", gpus=4)
    small = [submit(cluster, f"small{at}") for at in range(3)]
    assert states(cluster, runs, large, *small) == ["RUNNING", "WAITING", "RUNNING", "RUNNING", "WAITING"]
    cluster.finish(runs)
    cluster.settle()
    assert states(cluster, large, small[2]) == ["RUNNING", "WAITING"]


def test_a_guest_starts_on_reserved_room_and_leaves_when_it_is_needed(cluster: Cluster) -> None:
    cluster.add_node(gpus=4)
    runs = submit(cluster, "runs", gpus=3)
    large = submit(cluster, "large", gpus=4)
    guest = submit(cluster, "guest", preemptible=True)
    assert states(cluster, runs, large, guest) == ["RUNNING", "WAITING", "RUNNING"]
    assert cluster.job(guest).is_guest
    cluster.finish(runs)
    cluster.settle()
    end_stopped(cluster)
    assert states(cluster, large, guest) == ["RUNNING", "WAITING"]
    again = cluster.job(guest)
    assert (again.is_guest, again.guest_evictions, again.user_retries) == (False, 1, 0)


def test_a_job_whose_end_is_known_is_a_guest_until_the_room_comes(cluster: Cluster) -> None:
    cluster.add_node(gpus=4)
    submit(cluster, "runs", gpus=3, maxRunSeconds=600)
    submit(cluster, "large", gpus=4)
    long, short = submit(cluster, "long", maxRunSeconds=900), submit(cluster, "short", maxRunSeconds=300)
    assert states(cluster, long, short) == ["WAITING", "RUNNING"]


def test_what_runs_on_a_drained_node_goes_elsewhere(cluster: Cluster) -> None:
    cluster.add_node("n1", gpus=1)
    job = submit(cluster, "job")
    cluster.add_node("n2", gpus=1)
    Node.objects.filter(name="n1").update(status=Node.Status.DRAINING)
    cluster.settle()
    end_stopped(cluster)
    cluster.settle()
    assert (cluster.job(job).state, cluster.task(job).node, cluster.job(job).user_retries) == ("RUNNING", "n2", 0)
    assert cluster.attempts(job)[0].exit_code == -7120
    assert "Node n1 is being drained." in Event.objects.get(job=job, kind="job.evicted").reason
