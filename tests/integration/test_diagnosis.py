"""An attempt that fails is diagnosed once its log is archived, and the next one goes by that."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from clusters.engines.runtime import FaultReason, RuntimeFault
from clusters.models import Node, VirtualCluster
from jobs import services
from jobs.containers import tasks
from jobs.diagnosis import book
from jobs.diagnosis import run as diagnosis
from jobs.models import Attempt, Event, Job
from jobs.scheduling import orders
from jobs.waiting.queue import turns_of
from tests.cluster import Cluster, config
from tests.helpers import LIMIT

TRACEBACK = b"""Traceback (most recent call last):
  File "/pai/code/train.py", line 3, in <module>
    import flash_attn
ModuleNotFoundError: No module named 'flash_attn'
"""
BROKEN_GPU = b"RuntimeError: CUDA error: uncorrectable ECC error encountered\n"


@pytest.fixture(autouse=True)
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A busy machine may take long to compare."""
    monkeypatch.setattr(diagnosis, "BUDGET", LIMIT)


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
    diagnosis.diagnose(made.app_id)
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


def test_a_suspicion_has_the_node_tried_out_once_in_a_while(cluster: Cluster, settings: Any, tmp_path: Path) -> None:
    settings.CACHES = {
        "default": {"BACKEND": "django.core.cache.backends.locmem.LocMemCache", "LOCATION": tmp_path.name}
    }
    tried = []
    for name in ("j1", "j2"):
        run(cluster, stderr=BROKEN_GPU, name=name)
        cluster.tick()
        tried += [node for order in cluster.orders() for node in tasks.carry_out(*order)]
        cluster.lose_orders()
    assert tried == ["n1"]


def test_an_error_in_a_rule_or_a_log_ends_in_an_unknown_cause(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(diagnosis, "judge", broken)
    job = run(cluster, stderr=TRACEBACK)
    cluster.settle()
    assert found(job)["cause"] == "unknown" and last(job).diagnosis_due is None


def test_what_it_takes_to_read_the_evidence_leaves_the_time_for_comparing(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, evidence_of = [0.0], diagnosis.evidence_of

    def slowly(attempt: Attempt) -> Any:
        clock[0] += diagnosis.BUDGET + 1
        return evidence_of(attempt)

    monkeypatch.setattr(diagnosis, "time", SimpleNamespace(monotonic=lambda: clock[0]))
    monkeypatch.setattr(diagnosis, "evidence_of", slowly)
    job = run(cluster, stderr=TRACEBACK)
    cluster.settle()
    assert clock[0] and found(job)["cause"] != "unknown"


def test_the_admins_file_is_read_again_when_it_changes(cluster: Cluster, settings: Any, tmp_path: Path) -> None:
    settings.DIAGNOSIS_RULES = str(tmp_path / "own.yaml")
    assert len(book.rules()) > 50 and book.problems() == []
    Path(settings.DIAGNOSIS_RULES).write_text("rules:\n  - id: x\n")
    assert [problem.line for problem in book.problems()] and len(book.rules()) > 50
    Path(settings.DIAGNOSIS_RULES).write_text("remove: [missing-module]")
    job = run(cluster, stderr=TRACEBACK)
    cluster.settle()
    assert found(job)["cause"] == "python-exception"


def test_of_a_gang_the_task_is_blamed_that_did_not_just_follow(cluster: Cluster) -> None:
    engine = cluster.add_node("n1")
    engine.behave(cluster.runs(None))
    roles = [{"name": "a", "minFailedTaskCount": None}, {"name": "b"}]
    job = cluster.submit(config(roles=roles))
    cluster.settle()
    said = (b"RuntimeError: Connection closed by peer [10.0.0.1]\n", TRACEBACK)
    for at, (task, lines) in enumerate(zip(cluster.tasks(job), said, strict=True)):
        engine.print(task.container_name, lines, "stderr")
        cluster.finish(job, 1, at=at)
        cluster.settle()
    assert (found(job)["task"], found(job)["followed"]) == ("b-0", ["a-0"])


def test_a_log_with_signs_that_no_database_takes_is_diagnosed(cluster: Cluster) -> None:
    job = run(cluster, stderr=b"\x00\xff\x1b[31mModuleNotFoundError: No module named 'a\x00b'\n")
    cluster.settle()
    assert found(job)["cause"] == "missing-module" and "\0" not in str(found(job))


def test_a_job_avoids_the_nodes_that_its_config_names_while_there_are_others(cluster: Cluster) -> None:
    for name in ("n1", "n2"):
        cluster.add_node(name)
    elsewhere = cluster.submit(config("a", extras={"avoidNodes": ["n1"]}))
    nowhere = cluster.submit(config("b", extras={"avoidNodes": ["n1", "n2"]}))
    cluster.settle()
    assert cluster.task(elsewhere).node == "n2" and cluster.task(nowhere).node


def test_pages_leave_the_same_nodes_to_the_last_as_the_scheduler(cluster: Cluster) -> None:
    """One that its attempt made suspect and one that its config names, though these are the fullest."""
    for name, cpus in (("n1", 2), ("n2", 4), ("n3", 8)):
        cluster.add_node(name, cpus=cpus)
    job = run(cluster, stderr=BROKEN_GPU, retryCount=1, extras={"avoidNodes": ["n2"]})
    assert cluster.task(job).node == "n1"
    VirtualCluster.objects.update(status=VirtualCluster.Status.STOPPED)
    cluster.settle()
    assert (cluster.job(job).state, cluster.job(job).attempt_number) == ("WAITING", 2)
    VirtualCluster.objects.update(status=VirtualCluster.Status.RUNNING)
    told = turns_of([job.pk])[job.pk]
    assert told.job.avoid == {"n1", "n2"} and [place.node for place in told.placements] == ["n3"]
    cluster.settle()
    assert cluster.task(job).node == "n3"
