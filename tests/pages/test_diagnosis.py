"""A job's page says what its diagnosis found, shows the proof to those who may read the log, and offers a change."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from datetime import UTC, datetime
from html import unescape
from pathlib import Path
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from base.models import User
from jobs.metrics import places, rates, ring
from jobs.models import Attempt, Job
from jobs.planning import exits
from tests.builders import fail_again, make_job

Browse = Callable[[User | None], Client]
SECRET = "password hunter2 is wrong"
FOUND = {
    "version": 1,
    "rule": "memory-killed",
    "cause": "memory",
    "name": "Out of memory",
    "whose": "request",
    "certainty": "certain",
    "says": f"worker-1 ran out of memory. The last line is: {SECRET}.",
    "advice": "Ask for more memory.",
    "open_advice": "Ask for more memory.",
    "task": "worker-1",
    "node": "gpu-04",
    "lines": [
        {"stream": "stderr", "number": 48210, "text": "iter 1190 loss 1.0391", "mark": False},
        {"stream": "stderr", "number": 48211, "text": f"Killed: {SECRET}", "mark": True},
    ],
    "actions": [
        {"label": "Retry with 2 GB", "change": {"memoryMB": {"worker": 2048}}},
        {"label": "Retry elsewhere than gpu-04", "change": {"avoidNodes": ["gpu-04"]}},
    ],
    "suspects": ["gpu-04"],
    "followed": ["worker-0"],
}


@pytest.fixture
def train(alice: User) -> Job:
    exit_ = exits.exit_for(exits.USER_FAILED, "worker-1 ended with exit code 1.")
    job = make_job("alice", "train", state="FAILED", tasks=2, exit=exit_, failed_task=1)
    Attempt.objects.filter(job=job).update(diagnosis=FOUND)
    return job


def page(client: Client, path: str = "/jobs/alice/train") -> str:
    return unescape(client.get(path).content.decode())


def test_it_says_cause_blame_proof_and_what_followed(browse: Browse, train: Job, alice: User) -> None:
    shown = page(browse(alice))
    for said in (
        "worker-1 ran out of memory</h2>",
        "What the job asks for, not the cluster.",
        "Certain: line 48,211 of stderr says so.",
        f"<mark>Killed: {SECRET}</mark>",
        "worker-0 ended because of it.",
        "stream=stderr#L48211",
        "memory-killed",
    ):
        assert said in shown


def test_the_list_and_the_table_of_attempts_name_the_cause(browse: Browse, train: Job, alice: User) -> None:
    assert "Out of memory in worker-1" in page(browse(alice), "/jobs")
    assert "Out of memory in worker-1" in page(browse(alice), "/jobs/alice/train/attempts")


def test_guests_who_may_not_read_the_log_see_nothing_out_of_it(browse: Browse, train: Job) -> None:
    for path in ("/jobs/alice/train", "/jobs", "/jobs/alice/train/attempts"):
        shown = page(browse(None), path)
        assert "Out of memory in worker-1" in shown and "hunter2" not in shown
    assert "Retry with 2 GB" not in page(browse(None))


def test_who_reads_no_log_is_told_what_to_do_too(browse: Browse, train: Job) -> None:
    assert "Ask for more memory." in page(browse(None))
    found = {**FOUND, "advice": f"Change {SECRET}.", "open_advice": ""}
    exit_ = exits.exit_for(exits.USER_FAILED, "worker-1 ended.")
    Attempt.objects.filter(job=train).update(diagnosis=found)
    assert exit_.remedy in page(browse(None)) and "hunter2" not in page(browse(None))


def test_the_button_opens_the_config_with_that_one_change(browse: Browse, train: Job, alice: User) -> None:
    client = browse(alice)
    shown = client.get("/jobs/alice/train").context["shown"]
    memory, elsewhere = [action.url for action in shown.cause.actions]
    assert '"memoryMB": 2048' in page(client, memory)
    assert '"avoidNodes": ["gpu-04"]' in page(client, elsewhere)


@pytest.mark.parametrize("change", ["{", '{"memoryMB": 5}', '{"command": "x"}', '{"memoryMB": {"worker": -1}}', "[]"])
def test_a_change_that_nobody_offered_is_refused(browse: Browse, train: Job, alice: User, change: str) -> None:
    assert browse(alice).get("/submit", {"from": "alice/train", "change": change}).status_code == 400


def test_a_job_that_is_tried_again_says_what_its_last_attempt_failed_of(browse: Browse, alice: User) -> None:
    job = make_job("alice", "train", config={"retryCount": 3})
    fail_again(job, exits.exit_for(exits.USER_FAILED, "worker-1 ended with exit code 1."), 1)
    Attempt.objects.filter(job=job, number=1).update(diagnosis=FOUND)
    for viewer, is_told in ((alice, True), (None, False)):
        shown = page(browse(viewer))
        assert "What the job asks for, not the cluster." in shown
        assert ("worker-1 ran out of memory</h2>" in shown, "hunter2" in shown) == (is_told, is_told)


def test_lists_say_it_too_while_the_job_is_tried_again(browse: Browse, alice: User) -> None:
    job = make_job("alice", "train", config={"retryCount": 3})
    fail_again(job, exits.exit_for(exits.USER_FAILED, "worker-1 ended with exit code 1."), 1)
    Attempt.objects.filter(job=job, number=1).update(diagnosis=FOUND)
    for path in ("/jobs", "/"):
        assert "Failed: Out of memory in worker-1." in page(browse(alice), path)


def test_a_task_that_ran_out_of_memory_shows_how_it_grew(
    browse: Browse, train: Job, alice: User, bob: User, settings: Any, tmp_path: Path
) -> None:
    settings.METRICS_DIR = tmp_path
    client = browse(alice)
    assert "ls-grown" not in page(client)
    attempt = Attempt.objects.get(job=train)
    begin = int(time.time()) // 10 * 10 - 100
    Attempt.objects.update(launched_at=datetime.fromtimestamp(begin, UTC), completed_at=timezone.now())
    path = places.of_task(attempt.app_id, "worker", 1)
    for at in range(8):
        ring.write(path, rates.columns_of([]), begin + 10 * at, [1.0, at * 2.0**27, *[math.nan] * 6], rates.IDLE)
    shown = page(client)
    assert "Memory of worker-1: it was seen to rise to 896 MB of 1.0 GB." in shown and "limit 1.0 GB" in shown
    settings.JOB_PRIVACY = "owner"
    assert "ls-grown" not in page(browse(bob))
