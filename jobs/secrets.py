"""Secrets of a job: ``"extras": {"secrets": {"NAME": "value"}}`` in its config, variables of its commands.

A value is taken out of the config before anything of it is kept: what is shown, stored and cloned has HIDDEN in its
place. The values are a row, sealed, and reach the containers as the job's key does.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping

from jobs.config import jsonc
from jobs.config.problems import HIDDEN
from jobs.config.spec import JobSpec
from jobs.models import Job, JobSecrets
from portal.core.errors import InvalidConfig, Problem
from portal.core.sealed import opened, seal

_STRING = re.compile(r'"(?:[^"\\]|\\.)*"', re.DOTALL)
_PURPOSE = "jobs.secrets"
_AS_TEXT = "Write extras as an object, not as a text with JSON in it, when it has secrets."


def split(text: str, spec: JobSpec) -> tuple[str, JobSpec, dict[str, str]]:
    """The config and its spec without the values, and the values by name. ``text`` is a config that was read.
    InvalidConfig when it is written so that they cannot be taken out."""
    found = spec.extras.get("secrets")
    if not isinstance(found, dict) or not found:
        return text, spec, {}
    values = {name: str(value) for name, value in found.items()}
    hidden = spec.model_copy(update={"extras": {**spec.extras, "secrets": dict.fromkeys(values, HIDDEN)}})
    return _without(text, values), hidden, values


def keep(job: Job, values: Mapping[str, str]) -> None:
    if values:
        JobSecrets.objects.create(job=job, sealed=seal(json.dumps(dict(values)), _PURPOSE))


def of(job_id: int) -> dict[str, str]:
    row = JobSecrets.objects.filter(job_id=job_id).first()
    found: dict[str, str] = json.loads(opened(row.sealed, _PURPOSE)) if row else {}
    return found


def _without(text: str, values: Mapping[str, str]) -> str:
    text = text.removeprefix("\ufeff")
    places = jsonc.parse(text).places
    if not all(f"/extras/secrets/{name}" in places for name in values):
        raise InvalidConfig(f'child "extras" fails because [{_AS_TEXT}]', [Problem(1, 1, "/extras", _AS_TEXT)])
    for at in sorted((places[f"/extras/secrets/{name}"].value for name in values), reverse=True):
        value = _STRING.match(text, at)
        assert value is not None, "the spec lets nothing but texts pass"
        text = f"{text[:at]}{json.dumps(HIDDEN)}{text[value.end() :]}"
    return text
