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

from jobs import services
from jobs.config.spec import JobSpec
from jobs.containers import bootstrap, launch
from jobs.containers import inputs as launching
from jobs.models import Task
from portal.core.errors import InvalidConfig
from portal.files.store import open_store
from portal.models import User
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
    assert job.config == TEXT.replace('"pass\\"word \\\\ $HOME"', '"(secret)"').replace('"second value"', '"(secret)"')
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
    request = launch.request(launching.launch(Task.objects.get(job=job).pk, epoch="1"))
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
