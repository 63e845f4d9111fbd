"""``diagnosis`` in the detail of a job and in its attempts: the cause for all readers, the log's words for few."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from base.models import User
from jobs.models import Attempt, Job
from tests.builders import make_job
from tests.http import ApiClient
from tests.pages.test_diagnosis import FOUND

Api = Callable[[User | None], ApiClient]
JOB = "/api/v1/user/alice/jobs/train"


@pytest.fixture(autouse=True)
def train(alice: User) -> Job:
    job = make_job("alice", "train", state="FAILED", tasks=2, failed_task=1)
    Attempt.objects.filter(job=job).update(diagnosis=FOUND)
    return job


def told(api: Api, who: User | None, path: str = JOB) -> dict[str, Any]:
    answer = api(who).get(path).json()
    found: dict[str, Any] = (answer["jobStatus"] if path == JOB else answer[0])["diagnosis"]
    return found


@pytest.mark.parametrize("path", [JOB, f"{JOB}/attempts"])
def test_the_owner_gets_cause_proof_and_changes(api: Api, alice: User, path: str) -> None:
    found = told(api, alice, path)
    assert (found["cause"], found["whose"], found["certainty"]) == ("memory", "request", "certain")
    assert found["lines"][1]["number"] == 48211 and "hunter2" in found["says"]
    assert found["actions"][0]["change"] == {"memoryMB": {"worker": 2048}}


@pytest.mark.parametrize("path", [JOB, f"{JOB}/attempts"])
def test_a_guest_gets_the_cause_without_the_log(api: Api, path: str) -> None:
    found = told(api, None, path)
    assert found["name"] == "Out of memory" and not {"lines", "says", "open_advice"} & found.keys()
    assert found["advice"] == "Ask for more memory."


def test_a_guest_and_the_owner_have_answers_of_their_own(api: Api, alice: User) -> None:
    tags = {api(who).get(JOB)["ETag"] for who in (alice, None)}
    assert len(tags) == 2


def test_where_jobs_are_their_owners_others_get_none(api: Api, bob: User, settings: Any) -> None:
    settings.JOB_PRIVACY = "owner"
    assert "diagnosis" not in api(bob).get(JOB).json()["jobStatus"]
    assert api(bob).get(f"{JOB}/attempts").status_code == 403


def test_a_job_without_one_has_no_such_key(api: Api, alice: User, train: Job) -> None:
    Attempt.objects.filter(job=train).update(diagnosis=None)
    assert "diagnosis" not in api(alice).get(JOB).json()["jobStatus"]
