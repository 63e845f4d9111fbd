"""Takes the secrets out of a config: ``"extras": {"secrets": {"NAME": "value"}}``, variables of the job's commands.

That happens before anything of the config is stored: pages, files and clones have HIDDEN in place of the values. The
values are stored as one row, sealed, and reach the containers as the job's key does.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping

from jobs.config import jsonc
from jobs.config.coerce import container
from jobs.config.extras import HIDDEN
from jobs.config.spec import JobSpec
from jobs.models import Job, JobSecrets
from portal.core.errors import InvalidConfig, Problem
from portal.core.sealed import opened, seal

_STRING = re.compile(r'"(?:[^"\\]|\\.)*"', re.DOTALL)
_PURPOSE = "jobs.secrets"
_NO_TEXTS = "secrets must be an object of names and texts."
_AS_TEXT = "Write extras as an object, not as a text with JSON in it, when it has secrets."


def split(text: str, spec: JobSpec) -> tuple[str, JobSpec, dict[str, str]]:
    """The config and its spec without the values, and the values by name. ``text`` is the text of ``spec``. Raises
    InvalidConfig when it is written in such a way that they cannot be taken out."""
    given = spec.extras.get("secrets")
    if not isinstance(given, dict) or not given:
        return text, spec, {}
    values = {name: str(value) for name, value in given.items()}
    hidden = spec.model_copy(update={"extras": {**spec.extras, "secrets": dict.fromkeys(values, HIDDEN)}})
    return _without(text, values), hidden, values


def store(job: Job, values: Mapping[str, str]) -> None:
    """Seal the values and save them with the job."""
    if values:
        JobSecrets.objects.create(job=job, sealed=seal(json.dumps(dict(values)), _PURPOSE))


def of(job_id: int) -> dict[str, str]:
    """The values of a job's secrets by name."""
    row = JobSecrets.objects.filter(job_id=job_id).first()
    values: dict[str, str] = json.loads(opened(row.sealed, _PURPOSE)) if row else {}
    return values


def hidden_in(text: str) -> str:
    """The text of a config that may be wrong, without the values of its secrets. Raises jsonc.NotJson, and
    InvalidConfig when they cannot be taken out."""
    document = jsonc.parse(text)
    if document.faults:  # a key twice: the value of the first one would stay
        raise InvalidConfig(document.faults[0].v1, [Problem(1, 1, "", document.faults[0].message)])
    value = container(document.value)
    extras = container(value.get("extras")) if isinstance(value, dict) else None
    given = container(extras.get("secrets")) if isinstance(extras, dict) else None
    if not given:
        return text
    if not isinstance(given, dict) or not all(isinstance(each, str) for each in given.values()):
        raise InvalidConfig(f'child "extras" fails because [{_NO_TEXTS}]', [Problem(1, 1, "/extras", _NO_TEXTS)])
    return _without(text, given)


def _without(text: str, values: Mapping[str, str]) -> str:
    text = text.removeprefix("\ufeff")
    places = jsonc.parse(text).places
    paths = {f"/extras/secrets/{jsonc.escape(name)}" for name in values}
    if not paths <= places.keys():
        raise InvalidConfig(f'child "extras" fails because [{_AS_TEXT}]', [Problem(1, 1, "/extras", _AS_TEXT)])
    for at in sorted((places[path].value for path in paths), reverse=True):
        value = _STRING.match(text, at)
        assert value is not None, "the spec lets nothing but texts pass"
        text = f"{text[:at]}{json.dumps(HIDDEN)}{text[value.end() :]}"
    return text
