"""A node that refuses starts: the job goes elsewhere, the node is marked, and jobs that wait for it say so."""

from __future__ import annotations

from typing import Any

import pytest

from clusters.engines.docker.errors import Step, fault_of_text
from clusters.engines.runtime import FaultReason, RuntimeFault
from clusters.models import Node
from clusters.nodes import refusals
from clusters.nodes.queries import load_nodes
from clusters.placement.fit import MARK_LASTS
from jobs.history.earlier import to_avoid
from jobs.models import Event, Task
from jobs.planning.exits import Exit
from jobs.waiting.why import turn_of, waiting_reason
from tests.cluster import IMAGE, Cluster, config
from tests.fakes.runtime import Behaviour, FakeRuntime

NO_GPUS = RuntimeFault("Its driver is not there.", reason=FaultReason.GPU_MISSING)
REGISTRY_AWAY = RuntimeFault("The registry does not answer.", reason=FaultReason.REGISTRY_UNREACHABLE)
REFUSED = RuntimeFault("Docker refused: no mount.", reason=FaultReason.REFUSED)


def refuse(engine: FakeRuntime, fault: RuntimeFault, times: int = 1) -> None:
    for _ in range(times):
        engine.fail_next("ensure", fault)


def refused(image: str, reason: FaultReason, sentence: str, attempt: str) -> None:
    refusals.refused("n1", RuntimeFault(sentence, reason=reason), image=image, attempt=attempt)


def marks(name: str = "n1") -> list[str]:
    (node,) = [view for view in load_nodes() if view.name == name]
    return [mark.sentence for mark in node.marks]


def events(kind: str) -> list[tuple[str, str]]:
    return list(Event.objects.filter(kind=kind).values_list("node", "reason"))


def test_a_job_leaves_the_node_that_just_refused_it(cluster: Cluster) -> None:
    first, _ = cluster.add_node("n1"), cluster.add_node("n2")
    refuse(first, REFUSED)
    job = cluster.submit()
    cluster.settle()
    assert list(Task.objects.filter(job=job).order_by("id").values_list("node", flat=True)) == ["n1", "n2"]


@pytest.mark.parametrize("step", ["create", "start", "pull"])
def test_a_job_leaves_the_node_whose_disk_is_full(cluster: Cluster, step: Step) -> None:
    first, _ = cluster.add_node("n1"), cluster.add_node("n2")
    refuse(first, fault_of_text("write /data/overlay2/a: no space left on device", "unix:///n1", step, IMAGE))
    job = cluster.submit()
    cluster.settle()
    assert list(Task.objects.filter(job=job).order_by("id").values_list("node", flat=True)) == ["n1", "n2"]
    assert "disk is full" in cluster.attempts(job)[0].exit["reason"] and not marks("n1")


def test_a_job_goes_where_its_image_is(cluster: Cluster) -> None:
    cluster.add_node("n1")
    cluster.add_node("n2", cpus=64)
    refusals.write_images("n2", [IMAGE])
    job = cluster.submit()
    cluster.settle()
    assert cluster.task(job).node == "n2"


def test_a_start_makes_its_image_known(cluster: Cluster) -> None:
    cluster.add_node("n1")
    refusals.write_images("n1", ["other:1"])
    cluster.submit()
    cluster.settle()
    assert Node.objects.get().images == [IMAGE, "other:1"]


def test_three_refusals_in_a_row_mark_the_node_for_that_kind(cluster: Cluster) -> None:
    engine = cluster.add_node("n1", gpus=2)
    refuse(engine, NO_GPUS, 3)
    job = cluster.submit(config("g", roles=[{"gpuNumber": 1}]))
    while cluster.job(job).attempt_number < 3:
        assert all(mark.startswith("GPU ") for mark in marks())
        cluster.settle(rounds=1)
        cluster.ahead(600)
    cluster.settle()
    assert marks() == ["Node n1 cannot hand out GPUs: Its driver is not there."]
    assert events("node.marked") == [("n1", marks()[0])]
    assert cluster.job(job).state == "WAITING"
    other = cluster.submit(config("c"))
    cluster.settle()
    assert cluster.job(other).state == "RUNNING", "tasks without GPUs start there"


def test_a_gpu_that_is_refused_is_left_alone_and_the_next_attempt_gets_another(cluster: Cluster) -> None:
    engine = cluster.add_node("n1", gpus=2)
    engine.gpu_ids = frozenset({"1"})
    job = cluster.submit(config("g", roles=[{"gpuNumber": 1}]))
    cluster.settle()
    assert [task.gpu_ids for task in Task.objects.filter(job=job).order_by("id")] == [["0"], ["1"]]
    assert cluster.job(job).state == "RUNNING"
    (mark,) = marks()
    assert mark.startswith("GPU 0: Node n1 cannot hand out GPUs: ")
    other = cluster.submit(config("o", roles=[{"gpuNumber": 1}]))
    cluster.settle()
    reason = waiting_reason(cluster.job(other), turn_of(other))
    assert reason is not None and "GPU 0: Node n1 cannot hand out GPUs" in str(reason)
    engine.gpu_ids = None
    cluster.ahead(MARK_LASTS.total_seconds() + 1)
    cluster.settle()
    assert cluster.job(other).state == "RUNNING" and not Node.objects.get().marks


def test_a_waiting_job_names_the_mark_and_starts_when_it_lapses(cluster: Cluster) -> None:
    engine = cluster.add_node("n1", gpus=2)
    for attempt in "abc":
        refused(IMAGE, FaultReason.GPU_MISSING, "No driver.", attempt=attempt)
    job = cluster.submit(config("g", roles=[{"gpuNumber": 1}]))
    cluster.settle()
    assert engine.calls["ensure"] == 0
    reason = waiting_reason(cluster.job(job), turn_of(job))
    assert reason is not None
    assert reason["summary"].startswith("Node n1 cannot hand out GPUs: No driver. It is tried again at ")
    assert [(each["kind"], each["node"]) for each in reason["blockers"]] == [("marked", "n1")]
    cluster.ahead(MARK_LASTS.total_seconds() + 1)
    cluster.settle()
    assert cluster.job(job).state == "RUNNING"
    assert Node.objects.get().marks == {}, "a start that succeeds lifts it"
    assert events("node.unmarked")[0][0] == "n1"


def test_one_more_refusal_after_the_mark_lapsed_sets_it_again(cluster: Cluster) -> None:
    cluster.add_node("n1", gpus=2)
    for attempt in "abc":
        refused(IMAGE, FaultReason.GPU_MISSING, "No driver.", attempt=attempt)
    cluster.ahead(MARK_LASTS.total_seconds() + 1)
    assert marks() == []
    refused(IMAGE, FaultReason.GPU_MISSING, "No driver.", attempt="d")
    assert len(marks()) == 1


def test_where_jobs_are_private_a_mark_does_not_name_their_images(cluster: Cluster, settings: Any) -> None:
    """Guests see marks on the wall."""
    settings.JOB_PRIVACY = "owner"
    cluster.add_node("n1")
    for attempt, image in zip("abc", ("hub/secret:1", "hub/secret:2", "hub/secret:1"), strict=True):
        refused(image, FaultReason.PULL_FAILED, f"Image {image} could not be pulled.", attempt=attempt)
    assert marks() == ["Node n1 cannot pull from docker.io: the events of the jobs that it refused say why."]
    assert "secret" not in str(events("node.marked"))


def test_a_registry_that_is_away_marks_the_node_for_that_registry_alone(cluster: Cluster) -> None:
    cluster.add_node("n1")
    cluster.add_node("n2", status="cordoned")
    refusals.write_images("n2", ["lab:5000/old:1"])  # it was there once
    for attempt in "abc":
        refused("lab:5000/a:1", FaultReason.REGISTRY_UNREACHABLE, "Away.", attempt=attempt)
    assert marks() == ["Node n1 cannot pull from lab:5000: Away."]
    waits, runs = cluster.submit(config("w", image="lab:5000/b:1")), cluster.submit(config("r"))
    cluster.settle()
    assert (cluster.job(waits).state, cluster.job(runs).state) == ("WAITING", "RUNNING")


def test_a_registry_that_nobody_knows_is_the_fault_of_the_job_and_paints_no_node(cluster: Cluster) -> None:
    """However many nodes there are, and whoever else mistypes it."""
    away = Behaviour(pull_fault=REGISTRY_AWAY)
    for name in ("n1", "n2", "n3"):
        cluster.add_node(name).behave(away, image="typo:5000/a:1")
    jobs = [cluster.submit(config(name, image="typo:5000/a:1")) for name in ("a", "b")]
    for _ in range(5):
        cluster.settle()
        cluster.ahead(90)
    for job in jobs:
        ended = cluster.attempts(job)
        assert (cluster.job(job).state, len(ended)) == ("FAILED", 3)
        assert {task.node for task in Task.objects.filter(job=job)} == {"n1", "n2", "n3"}
        told = Exit.from_json(ended[-1].exit["exit"])
        assert (told.code, told.blame, told.fault) == (255, "your job", "registry_unknown")
        assert "No node has ever got an image from typo:5000" in told.sentence and "tried 3 times" in told.sentence
        assert Exit.from_json(ended[0].exit["exit"]).blame == "your job"
    assert not events("node.marked") and not any(Node.objects.values_list("marks", flat=True))


def test_a_pull_that_fails_for_one_image_keeps_no_other_from_its_registry(cluster: Cluster) -> None:
    cluster.add_node("n1")
    for attempt in "abcd":
        refused("lab/damaged:1", FaultReason.PULL_FAILED, "A layer arrived damaged.", attempt=attempt)
    assert marks() == []


@pytest.mark.parametrize(
    ("nodes", "avoided"),
    [
        (["a"], {"a"}),
        (["a", "b"], {"a", "b"}),
        (["a", "b", "a"], {"a"}),
        (["a", "", "b"], {"b"}),
        (["a", "b", "c"], {"a", "b", "c"}),
    ],
)
def test_a_job_goes_round_the_nodes_that_refuse_it(nodes: list[str], avoided: set[str]) -> None:
    assert to_avoid({node} if node else set() for node in nodes) == avoided


@pytest.mark.parametrize(("images", "marked"), [(["a", "a", "a", "a"], False), (["a", "b", "a"], True)])
def test_one_broken_image_does_not_keep_a_node_from_the_others(
    cluster: Cluster, images: list[str], marked: bool
) -> None:
    cluster.add_node("n1")
    for number, image in enumerate(images):
        refused(image, FaultReason.REFUSED, "Docker refused: x", attempt=str(number))
    assert bool(marks()) == marked


@pytest.mark.parametrize(
    "answer",
    ["mkdir /data/overlay2/a: no space left on device", 'exec: "docker-init": executable file not found in $PATH'],
)
def test_a_node_that_is_broken_itself_is_marked_whatever_the_image(cluster: Cluster, answer: str) -> None:
    cluster.add_node("n1")
    for attempt in "abc":
        refusals.refused("n1", fault_of_text(answer, "unix:///n1", "create"), image=IMAGE, attempt=attempt)
    assert len(marks()) == 1 and marks()[0].startswith("Node n1 starts nothing: The node's ")


def test_the_tasks_of_one_gang_are_one_refusal(cluster: Cluster) -> None:
    engine = cluster.add_node("n1", gpus=8)
    refuse(engine, NO_GPUS, 4)
    cluster.submit(config("g", roles=[{"gpuNumber": 1, "taskNumber": 4}]))
    cluster.tick()
    assert cluster.work() == 4
    assert len(Node.objects.get().marks["gpus"]["attempts"]) == 1
    assert [mark[:6] for mark in marks()] == ["GPU 0:", "GPU 1:", "GPU 2:", "GPU 3:"], "the others are left"


@pytest.mark.parametrize("reason", [FaultReason.IMAGE_MISSING, FaultReason.IMAGE_DENIED, FaultReason.COMMAND_MISSING])
def test_what_is_wrong_with_the_job_is_not_held_against_the_node(cluster: Cluster, reason: FaultReason) -> None:
    engine = cluster.add_node("n1")
    engine.behave(Behaviour(pull_fault=RuntimeFault("No.", reason=reason, permanent=True)), image="lab/none:1")
    for name in "abcd":
        cluster.submit(config(name, image="lab/none:1"))
    cluster.settle()
    assert Node.objects.get().marks == {}


def test_a_start_that_pulled_lifts_the_registry_s_mark_and_a_cached_one_does_not(cluster: Cluster) -> None:
    cluster.add_node("n1")
    for attempt in "ab":
        refused("lab/x:1", FaultReason.PULL_FAILED, "Away.", attempt=attempt)
    cluster.submit(config("cached"))
    cluster.settle()
    assert list(Node.objects.get().marks) == ["pull docker.io"]
    refusals.started("n1", image="lab/y:1", pulled=True, gpus=())
    assert not events("node.unmarked"), "it was only counting"
    assert Node.objects.get().marks == {}
