"""POST /jobs/validate: every problem with its place, and whether the cluster could run it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.utils import timezone
from rest_framework.test import APIClient

from base.core.values import milliseconds
from base.models import User
from clusters.models import Node, VirtualCluster
from jobs.forecast import outlook
from jobs.models import Holding, Job
from jobs.waiting import queue
from tests.builders import make_job, make_node
from tests.helpers import LIMIT
from tests.history import HOUR, held
from tests.submitting import config_text, submitted

Api = Callable[[User | None], APIClient]
URL = "/api/v1/jobs/validate"
JSON = "application/json"
IMAGE = "longshore/sample:latest"


@pytest.fixture(autouse=True)
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A busy machine takes longer to try changes and to play a queue."""
    monkeypatch.setattr(outlook, "FORECAST", LIMIT)
    monkeypatch.setattr(outlook, "CHANGES", LIMIT)


def test_it_says_yes_and_writes_nothing(api: Api, alice: User) -> None:
    Node.objects.create(name="n1", endpoint="unix:///x", address="a", cpus=8, memory_mb=8000, images=[IMAGE])
    answer = api(alice).post(URL, config_text(), content_type=JSON)
    body = answer.json()
    extras = body.pop("extras")
    assert (answer.status_code, body) == (
        200,
        {"valid": True, "errors": [], "neverFits": None, "blockers": [], "pull": "", "codeLimit": 200_000_000},
    )
    assert (extras["starts"], extras["changes"], extras["vc"]["withJob"]["cpu"]) == ("now", [], 1)
    assert not Job.objects.exists()


def test_it_says_that_an_image_must_first_be_pulled(api: Api, alice: User) -> None:
    Node.objects.create(name="n1", endpoint="unix:///x", address="a", cpus=8, memory_mb=8000, images=["other:1"])
    body = api(alice).post(URL, config_text(), content_type=JSON).json()
    assert body["pull"] == f"Its image {IMAGE} is not known to be on node n1, so it must first be pulled."


def test_it_names_every_problem_with_line_column_and_path(api: Api, alice: User) -> None:
    text = '{\n  "jobName": "a b",\n  "image": "i",\n  "taskRoles": [{"name": "w", "command": "x", "cpuNumber": 0}]\n}'
    body = api(alice).post(URL, text, content_type=JSON).json()
    assert body["valid"] is False
    assert [(e["line"], e["column"], e["path"]) for e in body["errors"]] == [
        (2, 14, "/jobName"),
        (4, 60, "/taskRoles/0/cpuNumber"),
    ]
    assert all(error["message"] for error in body["errors"])


def test_it_answers_200_for_what_is_not_json_too(api: Api, alice: User) -> None:
    answer = api(alice).post(URL, '{"a": 1,,}', content_type=JSON)
    assert (answer.status_code, answer.json()["valid"]) == (200, False)
    assert answer.json()["errors"][0]["column"] == 9


def test_it_says_which_nodes_have_not_the_labels_that_a_job_asks_for(api: Api, alice: User) -> None:
    node = make_node("n1", labels={"disk": "hdd"})
    text = config_text(extras={"nodeLabels": {"disk": "ssd"}})
    body = api(alice).post(URL, text, content_type=JSON).json()
    assert body["neverFits"]["sentence"] == "No registered node has the label disk=ssd: n1 has disk=hdd."
    node.labels = {"disk": "ssd"}
    node.save()
    assert api(alice).post(URL, text, content_type=JSON).json()["neverFits"] is None


def test_it_says_what_no_node_could_ever_run_and_what_does_not_fit_now(api: Api, alice: User) -> None:
    node = Node.objects.create(name="n1", endpoint="unix:///x", address="a", cpus=8, memory_mb=8000)
    body = api(alice).post(URL, config_text(gpus=1), content_type=JSON).json()
    assert (body["valid"], body["neverFits"]["kind"]) == (True, "never")
    assert "n1" in body["neverFits"]["sentence"]
    node.status = "cordoned"
    node.save()
    body = api(alice).post(URL, config_text(), content_type=JSON).json()
    assert (body["neverFits"], [blocker["kind"] for blocker in body["blockers"]]) == (None, ["nodes"])


def test_it_says_that_a_stopped_virtual_cluster_starts_nothing(api: Api, alice: User) -> None:
    make_node()
    VirtualCluster.objects.filter(name="default").update(status=VirtualCluster.Status.STOPPED)
    body = api(alice).post(URL, config_text(), content_type=JSON).json()
    assert (body["valid"], [blocker["kind"] for blocker in body["blockers"]]) == (True, ["vc_stopped"])


def test_it_says_that_a_job_ahead_holds_the_queue(api: Api, alice: User) -> None:
    make_job("bob", "runs", state="RUNNING", gpus=1, node=make_node(gpus=2))
    make_job("bob", "large", gpus=2, keeps_turn=True)
    body = api(alice).post(URL, config_text(gpus=1), content_type=JSON).json()
    [reserved, queue] = body["blockers"]
    assert (reserved["kind"], reserved["sentence"]) == (
        "reserved",
        "The room that it would fit into is reserved for bob/large.",
    )
    assert (queue["kind"], queue["have"]) == ("queue", "1")
    assert queue["sentence"] == (
        "One job is ahead of it in VC default; it starts before them only on room that they do not need."
    )


def test_it_counts_what_a_job_that_is_about_to_start_will_take(api: Api, alice: User) -> None:
    make_node(gpus=2)
    make_job("bob", "starts", gpus=2)
    body = api(alice).post(URL, config_text(gpus=1), content_type=JSON).json()
    assert [blocker["kind"] for blocker in body["blockers"]] == ["gpus"]


def test_it_knows_taken_names(api: Api, alice: User) -> None:
    submitted(alice)
    [error] = api(alice).post(URL, config_text(), content_type=JSON).json()["errors"]
    assert (error["path"], error["message"]) == ("/jobName", "Job name hello already exists")


def test_it_is_for_users_and_for_100_kB(api: Api, alice: User) -> None:
    assert api(None).post(URL, config_text(), content_type=JSON).status_code == 401
    assert api(alice).post(URL, " " * 200_000, content_type=JSON).status_code == 413


def test_a_job_may_be_named_validate(api: Api, alice: User) -> None:
    submitted(alice, "validate")
    assert api(None).get(URL).json()["name"] == "validate"


# --- what would happen, below extras ---------------------------------------------------------------------------------


@pytest.fixture
def busy() -> None:
    """All four GPUs are taken by a job like those that ran for about an hour."""
    runs = make_job("bob", "train-9", state="RUNNING", gpus=4, node=make_node("gpu-01", gpus=4))
    now = milliseconds(timezone.now())
    Job.objects.filter(pk=runs.pk).update(started_at=timezone.now())
    for at in range(20):
        began = now - (at + 2) * HOUR
        held(began, began + HOUR + (at - 10) * 60_000, username="bob", gpus=4, job_name=f"train-{at}")


def extras_of(api: Api, user: User, **config: Any) -> dict[str, Any]:
    found: dict[str, Any] = api(user).post(URL, config_text(**config), content_type=JSON).json()["extras"]
    return found


def test_it_says_about_when_it_would_start_and_after_whom(api: Api, alice: User, busy: None) -> None:
    extras = extras_of(api, alice, gpus=2)
    assert (extras["starts"], extras["after"], extras["position"]) == ("later", "bob~train-9", 1)
    p10, p50, p90 = (extras["forecast"][name] for name in ("p10", "p50", "p90"))
    assert p10 < p50 < p90
    assert p50 - milliseconds(timezone.now()) == pytest.approx(HOUR, rel=0.15)


def test_without_a_past_it_names_no_time(api: Api, alice: User, busy: None) -> None:
    Holding.objects.all().delete()
    extras = extras_of(api, alice, gpus=2)
    assert extras["starts"] == "later" and not extras.keys() & {"forecast", "after"}


def test_it_says_what_the_virtual_cluster_would_use_and_what_starts_it_sooner(
    api: Api, alice: User, busy: None
) -> None:
    make_node("gpu-02", gpus=1)
    extras = extras_of(api, alice, gpus=2)
    assert (extras["vc"]["used"]["gpu"], extras["vc"]["withJob"]["gpu"], extras["vc"]["guarantee"]["gpu"]) == (4, 6, 5)
    assert [one["change"] for one in extras["changes"]] == [{"gpuNumber": 1}, {"jobEnds": "bob~train-9"}]
    assert [(row["node"], row["gpus"]["have"]) for row in extras["grid"]] == [("gpu-01", "0"), ("gpu-02", "1")]


def test_a_job_that_never_can_is_told_what_would_start_now(api: Api, alice: User) -> None:
    make_node("gpu-01", gpus=4)
    extras = extras_of(api, alice, gpus=8)
    assert (extras["starts"], [one["change"] for one in extras["changes"]]) == ("never", [{"gpuNumber": 4}])


def test_of_a_config_that_cannot_be_read_there_is_nothing_to_say(api: Api, alice: User) -> None:
    assert api(alice).post(URL, "{,", content_type=JSON).json()["extras"] is None


def test_it_costs_as_many_queries_however_many_wait(
    api: Api, alice: User, busy: None, django_assert_max_num_queries: Any
) -> None:
    client = api(alice)
    client.post(URL, config_text(gpus=2), content_type=JSON)
    for number in range(30):
        make_job("bob", f"waits-{number}", gpus=1 + number % 4)
    with django_assert_max_num_queries(21):
        client.post(URL, config_text(gpus=2), content_type=JSON)


def test_without_time_it_names_no_time_but_says_all_else(
    api: Api, alice: User, busy: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outlook, "FORECAST", 0.0)
    monkeypatch.setattr(outlook, "CHANGES", 0.0)
    extras = extras_of(api, alice, gpus=2)
    assert (extras["starts"], extras["changes"], "forecast" in extras) == ("later", [], False)
    assert extras["vc"]["withJob"]["gpu"] == 6


def test_behind_very_many_it_looks_at_the_picture_of_a_moment_ago(
    api: Api, alice: User, busy: None, monkeypatch: pytest.MonkeyPatch, django_assert_max_num_queries: Any
) -> None:
    monkeypatch.setattr(queue, "MANY", 1)
    monkeypatch.setattr(queue, "SHORTEST", LIMIT)
    monkeypatch.setattr(queue, "LONGEST", LIMIT)
    for name in ("first", "second"):
        make_job("bob", name, gpus=4)
    client = api(alice)
    first = client.post(URL, config_text(gpus=2), content_type=JSON).json()
    with django_assert_max_num_queries(9):
        again = client.post(URL, config_text("other", gpus=2), content_type=JSON).json()
    assert again["extras"] == first["extras"]
    assert extras_of(api, alice, gpus=3)["vc"]["withJob"]["gpu"] == 7, "another question has another answer"
    monkeypatch.setattr(queue, "LONGEST", 0.0)
    make_job("bob", "third", gpus=4, priority=1)
    assert extras_of(api, alice, gpus=2)["position"] == first["extras"]["position"] + 1, "the picture is a new one"


@pytest.mark.parametrize(
    "text",
    [
        r'{"\ud800": 1}',
        r'{"jobName": {"\ud800": 1}}',
        r'{"taskRoles": [{"\ud800": 1, "portList": [{"\ud800": 1}]}]}',
        r'{"jobEnvs": {"\ud800": 1, "a": {"\udfff": [{"\ud800": null}]}}}',
        r'{"extras": {"\ud800": 1, "secrets": {"\ud800": "x"}, "nodeLabels": {"\ud800": 1}}}',
        r'{"extras": {"dependsOn": [{"\ud800": 1}], "secrets\ud800": 1, "sweep": {"grid": {"\ud800": 1}}}}',
        r'{"imag\ud800e": "x", "taskRoles": {"\ud800": 1}}',
    ],
)
@pytest.mark.parametrize("what", ["jobs", "sweeps"])
def test_half_of_a_surrogate_pair_in_a_name_is_said_wherever_it_stands(
    api: Api, alice: User, what: str, text: str
) -> None:
    answer = api(alice).post(f"/api/v1/{what}/validate", text, content_type=JSON)
    assert (answer.status_code, answer.json()["valid"]) == (200, False)
    assert any("\\ud800" in error["path"] or "surrogate" in error["message"] for error in answer.json()["errors"])


def test_it_says_which_racks_are_too_small_and_what_a_level_is(api: Api, alice: User) -> None:
    for rack in (1, 2):
        make_node(f"n{rack}", gpus=4, labels={"topology": f"hall1/rack{rack}"})

    def answer(topology: object) -> dict[str, Any]:
        text = config_text(extras={"topology": topology}, gpus=4, tasks=2)
        body: dict[str, Any] = api(alice).post(URL, text, content_type=JSON).json()
        return body

    assert answer({"require": 1})["neverFits"] is None
    assert answer({"require": 2})["neverFits"]["sentence"].endswith(
        "none could ever hold them. Of the largest: All nodes of hall1/rack1 together have room for 1 worker task at "
        "once; the job asks for 2."
    )
    assert answer({"require": 3})["neverFits"]["sentence"].endswith(
        "but no registered node has that label with 3 parts: n1 has hall1/rack1."
    )
    [error] = answer({"require": "rack"})["errors"]
    assert error["message"] == (
        'require is "rack"; it must be a level of the label topology: a whole number from 1 to 16, or "node".'
    )
