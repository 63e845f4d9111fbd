"""Secrets in a config: nobody is shown them, nothing keeps them but a sealed row, the command has them."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.apps import apps
from django.test import Client
from rest_framework.test import APIClient

from base.core.errors import InvalidConfig
from base.files.store import open_store
from base.models import User
from jobs import services
from jobs.config.spec import JobSpec
from jobs.containers import bootstrap, launch
from jobs.containers.inputs import launch_of
from jobs.models import Task
from tests.cluster import Cluster
from tests.submitting import config

pytestmark = pytest.mark.django_db

VALUE = 'pass"word \\ $HOME'
TEXT = """{ // mine
  "jobName": "hello", "image": "lab/image:1",
  "extras": {"submitFrom": "x", "secrets": {"TOKEN": "pass\\"word \\\\ $HOME", /* and */ "OTHER": "second value"}},
  "taskRoles": [{"name": "worker", "command": "work"}],
}"""


def config_with(secrets: Any, **more: Any) -> str:
    return json.dumps(config("other", extras={"secrets": secrets}, **more))


def test_the_config_that_is_kept_has_all_but_the_values(alice: User) -> None:
    job = services.submit(alice, TEXT)
    kept = TEXT.replace('"pass\\"word \\\\ $HOME"', '"(secret)"').replace('"second value"', '"(secret)"')
    assert job.config == kept.replace("/* and */", "         ")
    assert JobSpec.from_json(job.spec).extras == {
        "submitFrom": "x",
        "secrets": {"TOKEN": "(secret)", "OTHER": "(secret)"},
    }


def test_no_page_answer_file_or_row_has_a_value(
    cluster: Cluster,
    alice: User,
    api: Callable[[User], APIClient],
    browse: Callable[[User], Client],
    settings: Any,
    tmp_path: Path,
) -> None:
    settings.HOME = tmp_path
    cluster.add_node()
    job = cluster.submit(TEXT)
    cluster.settle()
    rows = [str(row) for model in apps.get_models() for row in model._default_manager.values()]
    assert any(job.config in row or "(secret)" in row for row in rows)
    assert not any("second value" in row for row in rows)
    kept = open_store().open_read(f"/Container/alice/{job.full_name}/JobConfig.json").read().decode()
    answer = api(alice).get("/api/v1/user/alice/jobs/hello/config")
    pages = [
        browse(alice).get(f"/{each}").content.decode()
        for each in ("jobs/alice/hello/config", "submit?from=alice/hello")
    ]
    for text in (kept, answer.content.decode(), *pages):
        assert "second value" not in text and "(secret)" in text


def test_the_container_gets_them_by_the_way_of_secrets_and_not_as_variables(cluster: Cluster) -> None:
    cluster.add_node()
    job = cluster.submit(TEXT)
    cluster.settle()
    request = launch.request(launch_of(Task.objects.get(job=job).pk, epoch="1"))
    carrying = [file for file in request.files if b"second value" in file.content]
    assert [(file.secret, file.mode, file.handed) for file in carrying] == [(True, 0o600, False)]
    assert "second value" not in str((request.env, request.argv, request.labels))


@pytest.mark.parametrize("value", [VALUE, "two\nlines", "it's", "", "ä" * 10])
def test_a_value_arrives_as_written(tmp_path: Path, value: str) -> None:
    (file,) = bootstrap.secrets_file({"TOKEN": value})
    (tmp_path / "job.sh").write_bytes(file.content)
    shown = subprocess.run(
        ["sh", "-c", ". ./job.sh; sh -c 'printf %s \"$TOKEN\"'"], cwd=tmp_path, capture_output=True, check=True
    )
    assert shown.stdout.decode() == value


@pytest.mark.parametrize(
    ("secrets", "path", "says"),
    [
        ("no object", "/extras/secrets", "secrets must be an object of names and texts."),
        ({"TOKEN": 5}, "/extras/secrets/TOKEN", "The secret TOKEN must be a text in double quotes."),
        ({"a-b": "hidden value"}, "/extras/secrets/a-b", "a-b cannot be the name of a secret"),
        (
            {"TOKEN": "(secret)"},
            "/extras/secrets/TOKEN",
            "The value of the secret TOKEN is kept in no config; write it",
        ),
        ({"TOKEN": "x" * 30_001}, "/extras/secrets", "The secrets have more than 30,000 bytes."),
    ],
)
def test_what_cannot_be_a_secret_is_refused_at_its_place(alice: User, secrets: Any, path: str, says: str) -> None:
    with pytest.raises(InvalidConfig) as refused:
        services.submit(alice, config_with(secrets))
    (problem,) = refused.value.problems
    assert problem.path == path and problem.message.startswith(says)
    assert "hidden value" not in problem.message + refused.value.message


@pytest.mark.parametrize("wrap", [lambda each: {**each, "extras": json.dumps(each["extras"])}, json.dumps])
def test_secrets_inside_of_a_text_are_refused_and_not_kept(alice: User, wrap: Callable[[Any], Any]) -> None:
    text = json.dumps(wrap(json.loads(config_with({"TOKEN": "second value"}))))
    with pytest.raises(InvalidConfig) as refused:
        services.submit(alice, text)
    assert "second value" not in str(refused.value.problems) + refused.value.message


PUBLIC = [  # extras that would be stored as they are
    {"secrets": json.dumps({"TOKEN": "second value"})},
    {"Secrets": {"TOKEN": "second value"}},
    {"secret": {"TOKEN": "second value"}},
    {"SECRETS": "second value"},
    {"sercets": {"TOKEN": "second value"}},
]
DOORS = ["jobs", "user/alice/jobs", "jobs/validate", "sweeps", "sweeps/validate"]


@pytest.mark.parametrize("extras", PUBLIC)
@pytest.mark.parametrize("as_text", [False, True])
def test_no_door_takes_secrets_that_would_be_shown(
    alice: User, api: Callable[[User], APIClient], browse: Callable[[User], Client], extras: Any, as_text: bool
) -> None:
    client, page = api(alice), browse(alice)
    sweep = {"sweep": {"grid": {"n": [1, 2]}}}
    for door in DOORS:
        more = sweep if "sweeps" in door else {}
        sent = config("other", extras={**extras, **more}, outputDir="$$n$$" if more else "")
        body: Any = json.dumps({**sent, "extras": json.dumps(sent["extras"])} if as_text and not more else sent)
        answer = client.post(f"/api/v1/{door}", body, content_type="text/plain")
        assert b"second value" not in answer.content
        assert answer.status_code == 400 or answer.json()["valid"] is False, (door, answer.content)
    text = json.dumps(config("other", extras=json.dumps(extras) if as_text else extras))
    for method, door in (("put", "jobs/other"), ("put", "user/alice/jobs/other")):
        assert getattr(client, method)(f"/api/v1/{door}", text, content_type="text/plain").status_code == 400
    assert page.post("/submit", {"config": text}).status_code == 400
    assert 'data-refuses="Fix line 1' in page.post("/submit/check", {"config": text}).content.decode()
    page.post("/submit/drafts", {"config": text})  # is kept, sealed
    template = {"config": text, "template_name": "x"}
    assert page.post("/submit/templates", template, headers={"Accept": "application/json"}).status_code == 400
    rows = [str(row) for model in apps.get_models() for row in model._default_manager.values()]
    assert not any("second value" in row for row in rows)


def test_a_misspelt_name_has_a_button_that_mends_it(alice: User) -> None:
    with pytest.raises(InvalidConfig) as refused:
        services.submit(alice, json.dumps(config("other", extras={"Secrets": {"TOKEN": "second value"}})))
    (problem,) = refused.value.problems
    assert problem.path == "/extras/Secrets" and problem.message.startswith("Secrets would be a note")
    assert problem.mend and (problem.mend.kind, problem.mend.value) == ("rename", "secrets")


@pytest.mark.parametrize("name", ["submitFrom", "sectors", "street", "notes", "secured", "section"])
def test_other_names_stay_free_storage(alice: User, name: str) -> None:
    job = services.submit(alice, json.dumps(config("other", extras={name: {"any": "note"}})))
    assert json.loads(job.config)["extras"] == {name: {"any": "note"}}


NEAR = ["secrets ", " secrets", "sec\u200brets", "secrets:", "secrets.", "\u017fecrets", "\u0455ecrets", "secretz"]


@pytest.mark.parametrize("name", [*NEAR, "ecrets", "jobSecrets", "my_secrets", "secretEnvs", "secrets2", "se-crets"])
def test_a_name_that_only_looks_like_it_is_refused(alice: User, name: str) -> None:
    with pytest.raises(InvalidConfig, match="is not allowed"):
        services.submit(alice, json.dumps(config("other", extras={name: {"TOKEN": "second value"}})))


def test_a_value_that_was_commented_out_is_not_kept(alice: User) -> None:
    inside = """{ // "OLD": "second value",
      "TOKEN": "new", /* second value */
      // second value
    }"""
    text = json.dumps(config("other", extras={"secrets": 0})).replace('"secrets": 0', f'"secrets": {inside}')
    job = services.submit(alice, text)
    assert "second value" not in job.config and job.config.count("(secret)") == 1
    assert job.config.count("\n") == text.count("\n")
    empty = services.submit(alice, text.replace('"TOKEN": "new",', "").replace("other", "empty"))
    assert "second value" not in empty.config
