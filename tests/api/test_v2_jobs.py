"""/api/v2 for v1's JSON jobs (v1 contract, 3.10 and 9)."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
import yaml
from rest_framework.test import APIClient

from base.models import User
from tests.submitting import config, submitted

Api = Callable[[User | None], APIClient]


@pytest.mark.parametrize("kind", ["application/json", "text/yaml", "text/plain"])
def test_it_takes_a_v1_job_in_v2_words(api: Api, alice: User, kind: str) -> None:
    answer = api(alice).post("/api/v2/jobs", json.dumps(config("one")), content_type=kind)
    message = "Update job one for user alice successfully."
    assert (answer.status_code, answer.json()) == (202, {"status": 202, "message": message})
    again = api(alice).post("/api/v2/jobs", json.dumps(config("one")), content_type=kind)
    taken = {"code": "ConflictJobError", "message": "Job alice~one already exists."}
    assert (again.status_code, again.json()) == (409, taken)


@pytest.mark.parametrize("text", ["protocolVersion: 2\nname: x\n", '{"protocolVersion": 2, "name": "x"}'])
def test_it_says_that_it_does_not_speak_protocol_2(api: Api, alice: User, text: str) -> None:
    answer = api(alice).post("/api/v2/jobs", text, content_type="text/yaml")
    assert (answer.status_code, answer.json()["code"]) == (400, "InvalidProtocolError")


def test_it_has_every_job_route_of_v1(api: Api, alice: User) -> None:
    made = api(alice).put("/api/v2/user/alice/jobs/one", json.dumps(config("one")), content_type="text/plain")
    assert made.status_code == 201
    for path in ("user/alice/jobs", "user/alice/jobs/one", "jobs/alice~one", "jobs/alice~one/config"):
        assert api(alice).get(f"/api/v2/{path}").status_code == 200
        assert api(alice).get(f"/rest-server/api/v2/{path}/").status_code == 200
    stopped = api(alice).put("/api/v2/user/alice/jobs/one/executionType", '{"value":"STOP"}', content_type="text/plain")
    assert stopped.status_code == 202
    assert api(alice).delete("/api/v2/user/alice/jobs/one").status_code == 202


def test_by_its_full_name_a_config_is_in_the_form_of_the_protocol(api: Api, alice: User) -> None:
    role = {"name": "w", "command": "a\nb", "taskNumber": 2, "portList": [{"label": "tb", "portNumber": 3}]}
    more = {"codeDir": "/users/alice/code", "jobEnvs": {"lr": 1}, "retryCount": 2, "taskRoles": [role]}
    submitted(alice, "one", **more)
    shown = api(alice).get("/api/v2/jobs/alice~one/config").json()
    assert (shown["protocolVersion"], shown["name"], shown["type"], shown["jobRetryCount"]) == (2, "one", "job", 2)
    assert {(each["type"], each["name"]) for each in shown["prerequisites"]} == {
        ("dockerimage", "default"),
        ("script", "default"),
    }
    assert shown["taskRoles"]["w"] == {
        "instances": 2,
        "completion": {"minFailedInstances": 1, "minSucceededInstances": None},
        "dockerImage": "default",
        "script": "default",
        "extraContainerOptions": {"shmMB": 64},
        "resourcePerInstance": {"cpu": 1, "memoryMB": 100, "gpu": 0, "ports": {"tb": 3}},
        "commands": ["a", "b"],
    }
    assert (shown["parameters"], shown["defaults"]) == ({"lr": 1}, {"virtualCluster": "default"})
    as_yaml = api(alice).get("/api/v2/jobs/alice~one/config", HTTP_ACCEPT="text/yaml")
    assert yaml.safe_load(as_yaml.content) == shown
    submitted(alice, "two", extras={"secrets": {"KEY": "never shown"}})
    assert b"never shown" not in api(alice).get("/api/v2/jobs/alice~two/config").content
    assert "protocolVersion" not in api(alice).get("/api/v2/user/alice/jobs/one/config").json()


def test_it_tells_the_vs_code_extension_to_use_v1_jobs(api: Api, db: None) -> None:
    answer = api(None).get("/rest-server/api/v2/jobs/protocolversion/config")
    assert (answer.status_code, answer.json()["code"]) == (404, "NoApiError")


def test_it_has_no_ssh_info_while_no_container_has_any(api: Api, alice: User) -> None:
    submitted(alice, "one")
    for path, name in (("v1/user/alice/jobs", "one"), ("v1/jobs", "alice~one"), ("v2/user/alice/jobs", "one")):
        answer = api(alice).get(f"/api/{path}/{name}/ssh")
        missing = {"code": "NoJobSshInfoError", "message": f"SSH info of job {name} is not found."}
        assert (answer.status_code, answer.json()) == (404, missing)
    none = api(alice).get("/api/v1/user/alice/jobs/none/ssh")
    assert none.json() == {"code": "NoJobError", "message": "Job none is not found."}


V1_AS_YAML = """
jobName: one
image: longshore/sample:1
taskRoles:
  - name: main
    taskNumber: 2
    command: |-
      echo hello
      echo again
jobEnvs:
  isDebug: true
"""


def test_it_takes_a_v1_config_written_as_yaml(api: Api, alice: User) -> None:
    assert api(alice).post("/api/v2/jobs", V1_AS_YAML, content_type="text/yaml").status_code == 202
    config = api(alice).get("/api/v1/jobs/one/config").json()
    assert config["taskRoles"][0]["command"] == "echo hello\necho again"
    assert config["jobEnvs"] == {"isDebug": True}


@pytest.mark.parametrize("text", ["a: &a [1, 2]\njobName: *a\n", "jobName: [\n", "- 1\n", "just words", "!!python/x y"])
def test_yaml_that_is_no_job_is_refused(api: Api, alice: User, text: str) -> None:
    assert api(alice).post("/api/v2/jobs", text, content_type="text/yaml").status_code == 400


@pytest.mark.parametrize(
    ("value", "says"),
    [
        (".nan", "NaN and Infinity are not JSON; write a number."),
        (".inf", "NaN and Infinity are not JSON; write a number."),
        (r'"\ud800"', "This text contains half of a surrogate pair."),
        ("!!binary aGVsbG8=", "A config has texts, numbers, truths, lists and objects: no !!binary and no !!set."),
        ("!!set {x, y}", "A config has texts, numbers, truths, lists and objects: no !!binary and no !!set."),
        ("[*a]", "The config has an alias, such as *name, or is nested deeper than 64 levels."),
    ],
)
def test_what_cannot_be_read_of_yaml_is_said(api: Api, alice: User, value: str, says: str) -> None:
    answer = api(alice).post("/api/v2/jobs", f"{V1_AS_YAML}  more: {value}\n", content_type="text/yaml")
    assert (answer.status_code, answer.json()) == (400, {"code": "InvalidParametersError", "message": says})


def test_a_job_of_protocol_2_that_cannot_be_read_is_still_one(api: Api, alice: User) -> None:
    answer = api(alice).post("/api/v2/jobs", "protocolVersion: 2\nname: &a x\ntype: *a\n", content_type="text/yaml")
    assert (answer.status_code, answer.json()["code"]) == (400, "InvalidProtocolError")
