"""An attempt that fails is diagnosed once its log is archived, and the next one goes by that."""

from __future__ import annotations

from typing import Any

from clusters.engines.runtime import FaultReason, RuntimeFault
from clusters.models import Node
from jobs import services
from jobs.diagnosis.run import diagnose
from jobs.models import Attempt, Event, Job
from jobs.scheduling import orders
from tests.cluster import Cluster, config

TRACEBACK = b"""Traceback (most recent call last):
  File "/pai/code/train.py", line 3, in <module>
    import flash_attn
ModuleNotFoundError: No module named 'flash_attn'
"""
BROKEN_GPU = b"RuntimeError: CUDA error: uncorrectable ECC error encountered\n"


def run(cluster: Cluster, *, stderr: bytes, code: int = 1, oom: bool = False, **values: Any) -> Job:
    """A job whose tasks write this; its first task fails."""
    if not cluster.engines:
        cluster.add_node("n1")
    for engine in cluster.engines.values():
        engine.behave(cluster.runs(None, stderr=(stderr,)))
    job = cluster.submit(config(**values))
    cluster.settle()
    cluster.finish(job, code, oom=oom)
    return job


def found(job: Job, number: int = 1) -> dict[str, Any]:
    made: dict[str, Any] | None = Attempt.objects.get(job=job, number=number).diagnosis
    assert made is not None
    return made


def last(job: Job) -> Attempt:
    return Attempt.objects.filter(job=job).latest("number")


def test_the_cause_is_what_the_log_says(cluster: Cluster) -> None:
    job = run(cluster, stderr=TRACEBACK)
    cluster.settle()
    made = found(job)
    assert (made["cause"], made["whose"], made["certainty"]) == ("missing-module", "image", "certain")
    assert "flash_attn" in made["says"] and "flash_attn" not in made["name"]
    assert [line["number"] for line in made["lines"] if line["mark"]] == [4]


def test_a_diagnosis_is_made_once_however_often_it_is_ordered(cluster: Cluster) -> None:
    job = run(cluster, stderr=TRACEBACK)
    cluster.settle()
    made = last(job)
    diagnose(made.app_id)
    assert (last(job).diagnosis, last(job).diagnosis_due) == (made.diagnosis, None)


def test_a_start_that_is_refused_is_diagnosed_without_any_log(cluster: Cluster) -> None:
    fault = RuntimeFault("There is no image lab/none:1.", reason=FaultReason.IMAGE_MISSING, permanent=True)
    cluster.add_node("n1").behave(cluster.runs(None, pull_fault=fault))
    job = cluster.submit(config(image="lab/none:1"))
    cluster.settle()
    assert found(job)["cause"] == "image-missing"


def test_a_job_that_was_stopped_or_succeeded_has_none(cluster: Cluster) -> None:
    stopped, done = run(cluster, stderr=b"", code=0, name="j2"), cluster.submit(config("j1"))
    cluster.settle()
    services.stop(cluster.owner, done)
    cluster.settle()
    assert [last(stopped).diagnosis_due, last(stopped).diagnosis, last(done).diagnosis_due] == [None, None, None]


def test_the_next_attempt_goes_elsewhere_when_the_node_is_suspect(cluster: Cluster) -> None:
    cluster.add_node("n1"), cluster.add_node("n2")
    job = run(cluster, stderr=BROKEN_GPU, retryCount=1)
    first = cluster.task(job).node
    cluster.settle()
    assert cluster.task(job).node not in ("", first)
    told = Event.objects.get(job=job, kind="attempt.diagnosed")
    assert told.node == first and f"avoids {first}" in told.reason


def test_a_suspect_node_is_used_again_where_there_is_no_other(cluster: Cluster) -> None:
    job = run(cluster, stderr=BROKEN_GPU, retryCount=1)
    cluster.settle()
    assert (cluster.task(job).node, cluster.task(job).state) == ("n1", "RUNNING")


def test_a_suspicion_keeps_nobody_else_from_the_node(cluster: Cluster) -> None:
    job = run(cluster, stderr=BROKEN_GPU)
    cluster.settle()
    other = cluster.submit(config("other"))
    cluster.settle()
    assert Node.objects.get(name="n1").marks == {} and cluster.task(other).node == cluster.task(job).node


def test_a_retry_waits_for_the_diagnosis_but_not_for_ever(cluster: Cluster) -> None:
    cluster.add_node("n1"), cluster.add_node("n2")
    job = run(cluster, stderr=BROKEN_GPU, retryCount=1)
    cluster.tick()
    cluster.lose_orders()
    cluster.tick()
    assert cluster.job(job).state == "WAITING"
    cluster.ahead(3)
    cluster.tick()
    assert cluster.job(job).state == "RUNNING"


def test_what_nobody_diagnosed_is_ordered_again(cluster: Cluster) -> None:
    job = run(cluster, stderr=TRACEBACK)
    cluster.tick()
    cluster.lose_orders()
    cluster.ahead(60)
    orders.ask_for_diagnoses(cluster.clock.now())
    cluster.work()
    assert last(job).diagnosis is not None


def test_a_node_that_is_lost_with_its_log_holds_up_no_diagnosis(cluster: Cluster) -> None:
    engine = cluster.add_node("n1")
    job = cluster.submit(config())
    cluster.settle()
    engine.cut()
    cluster.tick()
    cluster.ahead(120)
    cluster.settle()
    assert (found(job)["cause"], found(job)["whose"]) == ("node-lost", "platform")
