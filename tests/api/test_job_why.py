"""``GET .../why``: every node, who holds what, and the smallest changes that start a waiting job."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from base.models import User
from clusters.models import VcGrant, VirtualCluster
from jobs.models import Job, Task
from jobs.waiting import why
from tests.builders import make_job, make_node
from tests.helpers import LIMIT
from tests.http import ApiClient

Api = Callable[[User | None], ApiClient]
URL = "/api/v1/user/alice/jobs/large/why"


@pytest.fixture(autouse=True)
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A busy machine takes longer to try changes."""
    monkeypatch.setattr(why, "SECONDS", LIMIT)


@pytest.fixture
def large(alice: User, bob: User) -> Job:
    """It needs four GPUs; bob holds two of the four that there are."""
    node = make_node("gpu-01", gpus=4)
    make_node("cpu-01")
    make_job("bob", "small", state="RUNNING", gpus=2, node=node)
    return make_job("alice", "large", gpus=4)


def test_it_says_what_is_missing_where_and_who_has_it(api: Api, alice: User, large: Job) -> None:
    answer = api(alice).get(URL).json()
    assert [one["kind"] for one in answer["blockers"]] == ["gpus"] and answer["position"] == 1
    near, far = answer["grid"]
    assert (near["node"], near["gpus"]) == ("gpu-01", {"need": "4", "have": "2", "ok": False})
    assert (far["node"], far["gpus"]["have"], far["state"]["ok"], answer["gridMore"]) == ("cpu-01", "0", True, 0)
    [holder] = answer["holders"]
    assert (holder["name"], holder["gpus"], holder["nodes"], holder["until"]) == ("bob~small", 2, ["gpu-01"], None)


def test_it_offers_changes_that_start_it(api: Api, alice: User, large: Job) -> None:
    changes = api(alice).get(URL).json()["changes"]
    assert [one["change"] for one in changes] == [{"gpuNumber": 2}, {"jobEnds": "bob~small"}]
    assert changes[0]["nodes"] == ["gpu-01"]


def test_it_offers_the_virtual_clusters_that_the_owner_may_use(api: Api, alice: User, large: Job) -> None:
    for name in ("theirs", "closed"):
        VirtualCluster.objects.create(name=name, capacity=10, max_capacity=100)
    VcGrant.objects.create(vc=VirtualCluster.objects.get(name="theirs"), username="alice")
    VirtualCluster.objects.filter(name="default").update(status="STOPPED")
    Job.objects.filter(pk=large.pk).update(spec={**large.spec, "taskRoles": _with_gpus(large, 1)})
    changes = api(alice).get(URL).json()["changes"]
    assert [one["change"] for one in changes] == [{"virtualCluster": "theirs"}]


def _with_gpus(job: Job, gpus: int) -> list[dict[str, Any]]:
    return [{**role, "gpuNumber": gpus} for role in job.spec["taskRoles"]]


def test_a_job_that_does_not_wait_has_no_answer(api: Api, alice: User, large: Job) -> None:
    Job.objects.filter(pk=large.pk).update(state="SUCCEEDED")
    answer = api(alice).get(URL)
    assert (answer.status_code, answer.json()["message"]) == (404, "Job large does not wait.")


def test_of_one_that_has_its_place_and_waits_for_the_file_store_it_says_that(api: Api, alice: User, large: Job) -> None:
    row = make_job("alice", "placed", state="RUNNING", node=make_node("gpu-02"))
    Task.objects.filter(job=row).update(state="STARTING", progress="waits for the file store: it is away")
    answer = api(alice).get("/api/v1/user/alice/jobs/placed/why")
    message = "Job placed does not wait for its turn: it has its place, and nothing of it runs yet. "
    message += "worker-0: waits for the file store: it is away."
    assert (answer.status_code, answer.json()["message"]) == (404, message)
    Task.objects.filter(job=row).update(state="RUNNING", progress="")
    assert api(alice).get("/api/v1/user/alice/jobs/placed/why").json()["message"] == "Job placed does not wait."


def test_it_is_for_those_who_may_read_the_story_of_the_job(
    api: Api, alice: User, bob: User, large: Job, settings: Any
) -> None:
    settings.JOB_PRIVACY = "owner"
    assert [api(who).get(URL).status_code for who in (alice, bob, None)] == [200, 403, 401]
    assert api(alice).get("/api/v1/user/alice/jobs/other/why").status_code == 404
