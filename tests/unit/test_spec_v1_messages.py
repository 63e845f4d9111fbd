"""The first violation in the words of the v1 server. The texts were taken from Joi 13.7 run over the same schema."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from base.core.errors import InvalidConfig, TooLarge
from jobs.config.spec import read_config, read_value

ROLE = {"name": "w", "command": "c"}
GOOD: dict[str, Any] = {"jobName": "j", "image": "i", "taskRoles": [ROLE]}


def with_fields(**fields: Any) -> dict[str, Any]:
    return {**GOOD, **fields}


def with_role(**fields: Any) -> dict[str, Any]:
    return {**GOOD, "taskRoles": [{**ROLE, **fields}]}


def without(key: str) -> dict[str, Any]:
    return {k: v for k, v in GOOD.items() if k != key}


def in_role(inner: str, at: int = 0) -> str:
    return f'child "taskRoles" fails because ["taskRoles" at position {at} fails because [{inner}]]'


def in_port(inner: str) -> str:
    return in_role(f'child "portList" fails because ["portList" at position 0 fails because [{inner}]]')


def role_field(name: str, says: str) -> str:
    return in_role(f'child "{name}" fails because ["{name}" {says}]')


def field(name: str, says: str) -> str:
    return f'child "{name}" fails because ["{name}" {says}]'


NOT_AN_OBJECT = '"value" must be an object'
NAME_PATTERN = "fails to match the required pattern: /^[A-Za-z0-9._~]+$/"
MIN_COUNTS = "minFailedTaskCount or minSucceededTaskCount should not be greater than tasks number."

TABLE: list[tuple[str, Any, str]] = [
    ("nothing in it", {}, field("jobName", "is required")),
    ("an array", [], NOT_AN_OBJECT),
    ("a string", "x", NOT_AN_OBJECT),
    ("a number", 5, NOT_AN_OBJECT),
    ("null", None, NOT_AN_OBJECT),
    (
        "job name with a space",
        with_fields(jobName="a b"),
        field("jobName", 'with value "a b" fails to match the required pattern: /^[A-Za-z0-9\\-._]+$/'),
    ),
    (
        "job name with a tilde",
        with_fields(jobName="a~b"),
        field("jobName", 'with value "a~b" fails to match the required pattern: /^[A-Za-z0-9\\-._]+$/'),
    ),
    (
        "job name with a line break at its end",
        with_fields(jobName="a\n"),
        field("jobName", 'with value "a\n" fails to match the required pattern: /^[A-Za-z0-9\\-._]+$/'),
    ),
    ("job name that is a number", with_fields(jobName=5), field("jobName", "must be a string")),
    ("empty job name", with_fields(jobName=""), field("jobName", "is not allowed to be empty")),
    ("empty image", with_fields(image=""), field("image", "is not allowed to be empty")),
    ("null image", with_fields(image=None), field("image", "must be a string")),
    ("no image", without("image"), field("image", "is required")),
    ("no roles", without("taskRoles"), field("taskRoles", "is required")),
    ("roles that are an object", with_fields(taskRoles={}), field("taskRoles", "must be an array")),
    ("roles that are null", with_fields(taskRoles=None), field("taskRoles", "must be an array")),
    ("roles that are an empty text", with_fields(taskRoles=""), field("taskRoles", "must be an array")),
    ("an empty list of roles", with_fields(taskRoles=[]), field("taskRoles", "must contain at least 1 items")),
    ("a role that is a number", with_fields(taskRoles=[ROLE, 5]), in_role('"1" must be an object', 1)),
    (
        "role without name",
        with_fields(taskRoles=[{"command": "c"}]),
        role_field("name", "is required"),
    ),
    ("role name with a dash", with_role(name="a-b"), role_field("name", f'with value "a-b" {NAME_PATTERN}')),
    ("empty command", with_role(command=""), role_field("command", "is not allowed to be empty")),
    ("no command", with_fields(taskRoles=[{"name": "w"}]), role_field("command", "is required")),
    ("half a task", with_role(taskNumber=1.5), role_field("taskNumber", "must be an integer")),
    ("a task number in letters", with_role(taskNumber="x"), role_field("taskNumber", "must be a number")),
    ("a null task number", with_role(taskNumber=None), role_field("taskNumber", "must be a number")),
    ("a true task number", with_role(taskNumber=True), role_field("taskNumber", "must be a number")),
    ("an inexact integer", with_role(taskNumber=2**53), role_field("taskNumber", "must be an integer")),
    (
        "more shared memory than memory",
        with_role(memoryMB=1024, shmMB=2048),
        role_field("shmMB", "must be less than or equal to 1024"),
    ),
    (
        "more shared memory than the default memory",
        with_role(shmMB=101),
        role_field("shmMB", "must be less than or equal to 100"),
    ),
    (
        "no failed task",
        with_role(minFailedTaskCount=0),
        role_field("minFailedTaskCount", "must be larger than or equal to 1"),
    ),
    (
        "port without label",
        with_role(portList=[{"beginAt": 0}]),
        in_port('child "label" fails because ["label" is required]'),
    ),
    ("unknown port key", with_role(portList=[{"label": "p", "x": 1}]), in_port('"x" is not allowed')),
    ("retry count", with_fields(retryCount=-3), field("retryCount", "must be larger than or equal to -2")),
    ("unknown top key", with_fields(foo=1), '"foo" is not allowed'),
    (
        "several unknown keys",
        with_fields(b=1, a=1, **{"10": 1, "9": 1}),
        " ".join(['"9" is not allowed.', '"10" is not allowed.', '"b" is not allowed.', '"a" is not allowed']),
    ),
    ("our own names are unknown", with_fields(job_name="x"), '"job_name" is not allowed'),
    ("unknown role key", with_role(extra=1), in_role('"extra" is not allowed')),
    ("unknown role keys", with_role(extra=1, more=2), in_role('"extra" is not allowed, "more" is not allowed')),
    (
        "a known field before an unknown one",
        with_fields(foo=1, retryCount="x"),
        field("retryCount", "must be a number"),
    ),
    ("the first of the schema, not of the text", {"image": 1, "jobName": 1}, field("jobName", "must be a string")),
    ("a role before retryCount", {**with_role(name=1), "retryCount": "x"}, role_field("name", "must be a string")),
    ("jobEnvs key", with_fields(jobEnvs={"-": 1}), 'child "jobEnvs" fails because ["-" is not allowed]'),
    ("jobEnvs key with =", with_fields(jobEnvs={"a=b": 1}), 'child "jobEnvs" fails because ["a=b" is not allowed]'),
    ("extras key", with_fields(extras={"-": 1}), 'child "extras" fails because ["-" is not allowed]'),
    ("jobEnvs array", with_fields(jobEnvs=[]), field("jobEnvs", "must be an object")),
    ("jobEnvs null", with_fields(jobEnvs=None), field("jobEnvs", "must be an object")),
    ("more failures than tasks", with_role(minFailedTaskCount=2), MIN_COUNTS),
    ("more successes than tasks", with_role(taskNumber=2, minSucceededTaskCount=3), MIN_COUNTS),
    ("the schema before the counts", {**with_role(minFailedTaskCount=2), "foo": 1}, '"foo" is not allowed'),
    (
        "null kill-all",
        with_fields(killAllOnCompletedTaskNumber=None),
        field("killAllOnCompletedTaskNumber", "must be a number"),
    ),
    # what v1 documented and did not check, in the same shape
    ("no task", with_role(taskNumber=0), role_field("taskNumber", "must be larger than or equal to 1")),
    ("no CPU", with_role(cpuNumber=0), role_field("cpuNumber", "must be larger than or equal to 1")),
    ("little memory", with_role(memoryMB=99), role_field("memoryMB", "must be larger than or equal to 100")),
    ("negative GPUs", with_role(gpuNumber=-1), role_field("gpuNumber", "must be larger than or equal to 0")),
    ("too many tasks", with_role(taskNumber=50_001), role_field("taskNumber", "must be less than or equal to 50000")),
    (
        "two roles of one name",
        with_fields(taskRoles=[ROLE, ROLE]),
        'child "taskRoles" fails because ["taskRoles" at position 1 fails because '
        '[child "name" fails because ["name" position 1 contains a duplicate value]]]',
    ),
    (
        "port before the first",
        with_role(portList=[{"label": "p", "beginAt": -1}]),
        in_port('child "beginAt" fails because ["beginAt" must be larger than or equal to 0]'),
    ),
    (
        "no port",
        with_role(portList=[{"label": "p", "portNumber": 0}]),
        in_port('child "portNumber" fails because ["portNumber" must be larger than or equal to 1]'),
    ),
]


@pytest.mark.parametrize("value, message", [row[1:] for row in TABLE], ids=[row[0] for row in TABLE])
def test_it_answers_the_first_violation_as_v1_did(value: Any, message: str) -> None:
    ways: list[Callable[[], object]] = [lambda: read_config(json.dumps(value)), lambda: read_value(value)]
    for read in ways:
        with pytest.raises(InvalidConfig) as caught:
            read()
        assert caught.value.message == message
        assert (caught.value.code, caught.value.status) == ("InvalidParametersError", 400)
        assert caught.value.problems


def test_an_empty_body_lacks_a_job_name() -> None:
    with pytest.raises(InvalidConfig) as caught:
        read_config("")
    assert caught.value.message == field("jobName", "is required")
    assert caught.value.code == "InvalidParametersError"


def test_broken_json_has_no_code() -> None:
    with pytest.raises(InvalidConfig) as caught:
        read_config('{"jobName": "j", "image": i}')
    assert caught.value.code is None
    assert caught.value.message == "Unexpected token i in JSON at position 26"


def test_more_than_100_kb_is_too_large() -> None:
    config = json.dumps(GOOD)
    read_config(config + " " * (100 * 1024 - len(config)))
    for text in (config + " " * (100 * 1024 + 1 - len(config)), '{"a": "' + "é" * 52_000 + '"}'):
        with pytest.raises(TooLarge) as caught:
            read_config(text)
        assert (caught.value.code, caught.value.status) == (None, 413)
        assert caught.value.message == "request entity too large"
