"""GET .../jobs/:j/config (v1 contract, 3.9)."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import yaml
from pytest_django.fixtures import Settings
from rest_framework.test import APIClient

from base.models import User
from jobs import services
from jobs.models import Job
from tests.submitting import config, submitted

Api = Callable[[User | None], APIClient]
URL = "/api/v1/user/alice/jobs/hello/config"


def test_it_answers_the_object_as_submitted(api: Api, alice: User) -> None:
    text = (
        '{ // comments go, values stay\n"jobName": "other", "image": "i", "extras": {"b": [1, null], "a": "1"},\n'
        '"taskRoles": [{"name": "w", "taskNumber": "2", "command": "x",}]}'
    )
    services.submit(alice, text, name_from_url="hello")
    answer = api(alice).get(URL)
    assert answer.status_code == 200
    role = {"name": "w", "taskNumber": "2", "command": "x"}
    sent = {"jobName": "other", "image": "i", "extras": {"b": [1, None], "a": "1"}, "taskRoles": [role]}
    assert answer.json() == sent
    assert list(answer.json()) == list(sent)


def test_it_answers_a_form_as_its_object(api: Api, alice: User) -> None:
    services.submit(alice, config())
    assert api(alice).get("/api/v1/jobs/alice~hello/config").json() == config()


@pytest.mark.parametrize(("level", "guest", "anybody"), [("all", 200, 200), ("jobs", 401, 200), ("none", 401, 200)])
def test_it_is_shown_to_guests_only_where_all_is(
    api: Api, alice: User, bob: User, settings: Settings, level: str, guest: int, anybody: int
) -> None:
    settings.ANONYMOUS_READ = level
    submitted(alice)
    assert api(None).get(URL).status_code == guest
    assert api(bob).get(URL).status_code == anybody


def test_it_says_which_of_job_and_config_is_missing(api: Api, alice: User) -> None:
    assert api(alice).get(URL).json()["code"] == "NoJobError"
    submitted(alice)
    Job.objects.update(config="")
    answer = api(alice).get(URL)
    assert (answer.status_code, answer.json()["code"]) == (404, "NoJobConfigError")
    assert answer.json()["message"] == "Config of job hello is not found."


@pytest.mark.parametrize(
    ("accept", "kind"),
    [
        ("*/*", "application/json"),
        ("application/json, text/yaml;q=0.5", "application/json"),
        ("text/html", "application/json"),
        ("text/yaml", "text/yaml; charset=utf-8"),
        ("application/x-yaml", "text/yaml; charset=utf-8"),
    ],
)
def test_it_writes_yaml_for_who_prefers_it(api: Api, alice: User, accept: str, kind: str) -> None:
    services.submit(alice, config())
    answer = api(alice).get(URL, headers={"Accept": accept})
    assert answer["Content-Type"] == kind
    assert yaml.safe_load(answer.content) == config()
