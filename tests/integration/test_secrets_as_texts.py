"""Jobs of releases that stored secrets which were given as a text with JSON in it."""

from __future__ import annotations

import json
from importlib import import_module

import pytest
from django.apps import apps

from jobs import secrets
from jobs.config.spec import JobSpec
from jobs.models import Job, JobSecrets
from tests.builders import make_job

pytestmark = pytest.mark.django_db
VALUES = {"TOKEN": 'hush "hush" \\ ä', "OTHER": "hushhush"}
GIVEN = json.dumps(VALUES)


def hide() -> None:
    import_module("jobs.migrations.0031_secrets_as_texts").hide(apps, None)


def stored(config: str, extras: object) -> Job:
    job = make_job("alice", "train")
    Job.objects.filter(pk=job.pk).update(config=config, spec={**job.spec, "extras": extras})
    return Job.objects.get(pk=job.pk)


@pytest.mark.parametrize(
    ("config", "stays"),
    [
        (f'{{"jobName": "train", // mine\n "extras": {{"secrets" : {json.dumps(GIVEN)}, "x": 1}}}}', True),
        (f'{{"extras": {{"secrets": /* odd */ {json.dumps(GIVEN)}}}}} // mine', False),
        (f'{{"extras": {{"\\u0073ecrets": {json.dumps(GIVEN)}}}}} // mine', False),
        (f'{{"extras": {{"secrets": {json.dumps(GIVEN)}}}}} // mine; it was hushhush', False),
    ],
)
def test_they_are_hidden_and_sealed_as_those_of_an_object(config: str, stays: bool) -> None:
    job = stored(config, {"secrets": GIVEN, "x": 1})
    hide()
    hide()  # once more changes nothing
    job.refresh_from_db()
    assert "hush" not in job.config and "hush" not in json.dumps(job.spec)
    assert ("// mine" in job.config, '"(secret)"' in job.config) == (stays, True)
    assert secrets.of(job.pk) == VALUES
    assert JobSpec.from_json(job.spec).extras["secrets"] == dict.fromkeys(VALUES, "(secret)")


@pytest.mark.parametrize("note", ["a note", '["a", "list"]', '{"of": 3}', {"TOKEN": "(secret)"}, 7])
def test_what_is_no_such_text_stays(note: object) -> None:
    config = json.dumps({"extras": {"secrets": note}})
    job = stored(config, {"secrets": note})
    hide()
    job.refresh_from_db()
    assert (job.config, job.spec["extras"]) == (config, {"secrets": note})
    assert not JobSecrets.objects.exists()
