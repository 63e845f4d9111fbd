"""Every way in which an attempt can end, on every page and in every answer that tells of it: they say the same, and
none says more than is known."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from html import unescape

import pytest
from django.test import Client
from django.utils import timezone

from base.core import words
from base.models import User
from clusters.engines.runtime import ContainerStatus, FaultReason, Phase
from jobs.diagnosis import book
from jobs.diagnosis.gather import evidence_of
from jobs.diagnosis.judge import judge
from jobs.diagnosis.run import _note
from jobs.models import Attempt, Event, Job, Task
from jobs.planning import exits
from jobs.planning.exit_table import TABLE
from jobs.planning.exits import Exit
from jobs.planning.retries import RetryDecision, decide_retry
from jobs.planning.streak import read_exit
from tests.builders import fail_again, make_job, make_node
from tests.cluster import Cluster
from tests.helpers import in_gate

Browse = Callable[[User | None], Client]
OF_ATTEMPT = (exits.PREEMPTED, exits.NEVER_FITS, exits.OUT_OF_TIME, exits.DEPENDENCY_FAILED)
NONE_YET = {"user_retries": 0, "platform_retries": 0, "resource_retries": 0, "random_unit": 0.5}


def container(code: int | None, **more: object) -> Exit:
    status = ContainerStatus("c", "c", Phase.EXITED, {}, exit_code=code, **more)  # type: ignore[arg-type]
    return exits.classify(status, 1024, label="worker-0")


def ends() -> Iterator[tuple[str, Exit]]:
    for code in (1, 3, 126, 127, *sorted(exits.KEPT_SIGNALS)):
        yield f"exit {code}", container(code)
    for code in (137, 143):
        yield f"exit {code} from inside", container(code, by_itself=True)
    yield "OOMKilled", container(137, oom_killed=True)
    yield "a part was OOMKilled", container(1, oom_killed=True)
    yield "port in use", container(1, port_taken=True)
    yield "lost with its node", container(None, lost=True)
    yield "Kubernetes evicted it", container(None, evicted="The node was low on memory.")
    yield "nobody knows", container(None)
    for reason in (*FaultReason, *exits.StartFault):
        for permanent in (False, True):
            yield f"{reason}{', for good' if permanent else ''}", exits.from_fault(reason, "It would not.", permanent)
    yield "node lost", exits.node_lost("node-1")
    yield "container lost", exits.container_lost("worker-0")
    yield "drained", exits.evicted("Node node-1 is to become empty.")
    yield "reclaimed", exits.evicted("Team nlp needs its GPUs back.")
    yield "out of time", exits.out_of_time(60)
    yield "never fits", exits.never_fits("No node has 9 GPUs.")
    yield "a job before it failed", exits.dependency_failed("Job prepare failed.")
    made = {exit.code for exit in (container(3), container(137, oom_killed=True))}
    for code in TABLE:
        if code not in (*made, exits.SUCCEEDED, exits.JOB_STOPPED, exits.TASK_STOPPED):
            yield f"code {code}", exits.exit_for(code)


ENDS = dict(ends())

# What a text claims, and of which ends that is true.
CLAIMS: dict[str, Callable[[Exit], bool]] = {
    r"ran out of memory|out of memory|OOMKilled|used all of its|used nearly all": lambda exit: exit.oom,
    r"would end the same way": lambda exit: exit.certainty == "certain",
    r"most likely end the same way": lambda exit: exit.certainty == "likely",
    r"had borrowed|give back": lambda exit: False,
    r"retry follows by itself|next retry; it follows": lambda exit: decided(exit).retry,
    r"[Ss]topped by its owner|was stopped by": lambda exit: exit.code == exits.JOB_STOPPED,
    r"disappeared": lambda exit: "disappeared" in exit.sentence or exit.code == exits.CONTAINER_LOST,
    r"was lost|node lost": lambda exit: "lost" in exit.sentence or exit.code == exits.NODE_LOST,
}
_NAMES = re.compile(r"\b[A-Z]+(?:_[A-Z]+)+\b")  # of codes: v1's words, which clients compare
_TAGS = re.compile(r"<script.*?</script>|<head>.*?</head>|<[^>]*>", re.DOTALL)


def decided(exit: Exit) -> RetryDecision:
    return decide_retry(exit, retry_count=0, **NONE_YET)  # type: ignore[arg-type]


def end(exit: Exit) -> Job:
    """A job whose first attempt ended so, as the scheduler leaves it: tried again or failed, and diagnosed."""
    decision = decided(exit)
    job = make_job("alice", "train", state="FAILED", exit=exit, node=make_node())
    if exit.code not in OF_ATTEMPT:
        told = {"state": "FAILED", "exit_code": exit.code, "exit": exit.to_json(), "finished_at": timezone.now()}
        Task.objects.filter(job=job).update(container_id="c", **told)
    attempt = Attempt.objects.select_related("job").get(job=job)
    attempt.exit["next"] = decision.reason
    if not decision.retry:
        attempt.exit["exit"]["remedy"] = exits.without_retry(exit.remedy)
    found = judge(evidence_of(attempt), book.rules())
    attempt.diagnosis = {"version": 1, **{name: getattr(found, name) for name in found.__slots__}}
    attempt.save()
    if found.rule:
        _note(attempt, found, timezone.now())
    if decision.retry:
        Job.objects.filter(pk=job.pk).update(state="WAITING", completed_at=None, exit_code=None)
        job.refresh_from_db()
        kept = attempt.exit
        fail_again(job, exit, 1)
        Attempt.objects.filter(pk=attempt.pk).update(exit=kept)
    else:
        Job.objects.filter(pk=job.pk).update(exit_code=exit.code)
    Event.objects.create(job=job, at=timezone.now(), kind="attempt.decided", attempt=1, reason=exit.sentence)
    return job


def words_of(page: str) -> str:
    return " ".join(unescape(_TAGS.sub(" ", page)).split())


# All of them take a minute: the gate has every fourth, and none that differs from another in "for good" alone.
SHOWN = [name for name in ENDS if "for good" not in name][::4] if in_gate() else [*ENDS]


@pytest.mark.parametrize("name", SHOWN)
def test_heading_row_table_answers_and_events_agree(name: str, browse: Browse, alice: User) -> None:
    exit = ENDS[name]
    end(exit)
    client, v1 = browse(alice), "/api/v1/user/alice/jobs/train"
    pages = {path: words_of(client.get(path).content.decode()) for path in ("/", "/jobs", "/jobs/alice/train")}
    for tab in ("/events", "/attempts", "?attempt=1"):
        pages[tab] = words_of(client.get(f"/jobs/alice/train{tab}").content.decode())
    attempts = json.loads(client.get(f"{v1}/attempts").content)
    detail = json.loads(client.get(v1).content)["jobStatus"]
    first = next(one for one in attempts if one["attempt"] == 1)
    answers = {"attempts": attempts, "detail": detail, "list": json.loads(client.get("/api/v1/jobs").content)}
    answers["events"] = json.loads(client.get(f"{v1}/events").content)

    is_over = not decided(exit).retry
    found = first.get("diagnosis")
    title = (found["says"] if found else exit.sentence).rstrip(".").partition(". ")[0]
    assert title in pages["/jobs/alice/train"] or title in pages["?attempt=1"]
    assert words.code(exit.code) in pages["/attempts"]
    if exit.code not in OF_ATTEMPT:
        assert words.code(exit.code) in pages["?attempt=1"]
    ended = [first, *([detail] if is_over else [])]
    for one in ended:
        assert one["appExitCode"] == one["appExitSpec"]["code"] == exit.code
        assert one["appExitSpec"]["reason"] == (exit.sentence or exit.spec.reason)
        assert exit.sentence in one["appExitDiagnostics"]

    told = {**pages, **{name: _NAMES.sub("", json.dumps(answer)) for name, answer in answers.items()}}
    for where, text in told.items():
        for claim, is_true in CLAIMS.items():
            said = re.search(claim, text.replace("not short of memory", ""))
            assert said is None or is_true(exit), f"{where} claims {said[0]!r} of {exit.sentence!r}"
    if exit.certainty != "certain" and not (found and found["certainty"] == "certain"):
        assert not re.search(r"\bCertain[.:]", pages["/jobs/alice/train"])
    if not exit.oom:
        more = re.search(r"Retry with [\d.]+ GB(?! of shared)", pages["/jobs/alice/train"])
        assert more is None, "nothing says that memory was short"


@pytest.mark.parametrize("code", TABLE)
def test_what_is_stored_of_an_end_is_read_as_it_was(code: int) -> None:
    exit = exits.exit_for(code)
    assert read_exit(code, {"exit": exit.to_json()}) == exit


def test_a_held_job_says_how_its_command_ended_everywhere(cluster: Cluster, browse: Browse) -> None:
    cluster.add_node()
    job = cluster.submit(jobEnvs={"isDebug": True})
    cluster.tick()
    cluster.work()
    cluster.tick()
    task = cluster.task(job)
    cluster.engines[task.node].hold(task.container_name, 3)
    cluster.tick()
    client, said = browse(cluster.owner), "The command of worker-0 ended with exit code 3"
    for path in (f"/jobs/{job.username}/{job.name}", "/jobs", "/", f"/jobs/{job.username}/{job.name}/events"):
        assert said in words_of(client.get(path).content.decode()), path
    detail = json.loads(client.get(f"/api/v1/user/{job.username}/jobs/{job.name}").content)
    (status,) = detail["taskRoles"]["worker"]["taskStatuses"]
    assert (status["exitReason"], status["containerExitCode"]) == (f"{said}.", None)
    assert "exit code 3" in words_of(client.get(f"/jobs/{job.username}/{job.name}").content.decode())


def test_a_task_whose_container_is_paused_says_so_until_it_goes_on(cluster: Cluster, browse: Browse) -> None:
    engine, job = cluster.add_node(), cluster.submit()
    cluster.settle()
    name, client = cluster.task(job).container_name, browse(cluster.owner)

    def told() -> list[bool]:
        detail = json.loads(client.get(f"/api/v1/user/{job.username}/jobs/{job.name}").content)
        (status,) = detail["taskRoles"]["worker"]["taskStatuses"]
        assert status["taskState"] == "RUNNING"
        paths = f"/jobs/{job.username}/{job.name}", "/jobs", "/nodes/n1"
        pages = [client.get(path).content.decode() for path in paths]
        return ["somebody unpauses its container" in said for said in (status["note"] or "", *pages)]

    assert not any(told())
    for paused in (True, False, True):
        engine.pause(name, paused=paused)
        cluster.settle()
        cluster.settle()  # it is said once
        assert told() == [paused] * 4
    assert [kind for kind in cluster.kinds(job) if "paused" in kind] == ["task.paused", "task.unpaused", "task.paused"]
    said = Event.objects.filter(kind="task.paused").first()
    assert said and said.reason == (
        "worker-0 is paused: somebody has frozen its container on node n1, and can unpause it."
    )
    engine.finish(name, 3)
    cluster.settle()
    assert cluster.task(job).progress == "", "what has ended is not paused"


def test_a_placed_job_says_what_it_waits_for_before_anything_of_it_runs(browse: Browse, alice: User) -> None:
    job = make_job("alice", "train", state="RUNNING", task_state="STARTING", node=make_node())
    client = browse(alice)
    path = "/api/v1/user/alice/jobs/train"
    assert "waitingReason" not in json.loads(client.get(path).content)["jobStatus"]
    progress = "waits for the file store: The folder is away."
    Task.objects.filter(job=job).update(node="node-1", progress=progress, fact_at=timezone.now())
    reason = json.loads(client.get(path).content)["jobStatus"]["waitingReason"]
    assert reason["summary"] == f"worker-0: {progress}"
    assert "aits for the file store" in words_of(client.get("/jobs").content.decode())


def test_a_task_that_was_stopped_before_it_ran_says_that_there_is_no_log(alice: User) -> None:
    from jobs.logs.places import why_none

    job = make_job("alice", "train", state="STOPPED", node=make_node())
    task = Task.objects.get(job=job)
    assert "was not kept" in why_none(task.pk)
    Task.objects.filter(pk=task.pk).update(container_started_at=None)
    assert why_none(task.pk) == "Its command never began, so there is no log."
    Task.objects.filter(pk=task.pk).update(state="FAILED", exit_code=exits.NODE_LOST)
    assert "was not kept" in why_none(task.pk)
