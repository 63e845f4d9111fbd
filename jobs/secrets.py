"""Takes the secrets out of a config: ``"extras": {"secrets": {"NAME": "value"}}``, variables of the job's commands.

That happens before anything of the config is stored: pages, files and clones have HIDDEN in place of the values. The
values are stored as one row, sealed, and reach the containers as the job's key does.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping

from base.core.bulk import first_where
from base.core.errors import InvalidConfig, Problem
from base.core.sealed import opened, seal
from jobs.config import jsonc
from jobs.config.coerce import container
from jobs.config.extras import AS_TEXT, HIDDEN, NO_TEXTS, is_misspelt
from jobs.config.spec import JobSpec
from jobs.models import Job, JobSecrets

_VALUE = re.compile(r'(:\s*)"(?:[^"\\]|\\.)*"|"(?:[^"\\]|\\.)*"', re.DOTALL)
_LINE_ENDS = re.compile(r"[ \t]+(?=[\r\n])")
_PURPOSE = "jobs.secrets"
_PLACE = "/extras/secrets"


def split(text: str, spec: JobSpec) -> tuple[str, JobSpec, dict[str, str]]:
    """The config and its spec without the values, and the values by name. ``text`` is the text of ``spec``. Raises
    InvalidConfig when it is written in such a way that they cannot be taken out."""
    given = spec.extras.get("secrets")
    if not isinstance(given, dict):
        return text, spec, {}
    values = {name: str(value) for name, value in given.items()}
    hidden = spec.model_copy(update={"extras": {**spec.extras, "secrets": dict.fromkeys(values, HIDDEN)}})
    return _without(text), hidden, values


def store(job: Job, values: Mapping[str, str]) -> None:
    """Seal the values and save them with the job."""
    if values:
        JobSecrets.objects.create(job=job, sealed=seal(json.dumps(dict(values)), _PURPOSE))


def of(job_id: int) -> dict[str, str]:
    """The values of a job's secrets by name."""
    row = first_where(JobSecrets, "job_id = %s", job_id)
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
    inside = (f"/extras/{name}" for name in extras) if isinstance(extras, dict) else ()
    if elsewhere := next(filter(_is_elsewhere, (*document.places, *inside)), None):
        raise _refusal(document, elsewhere, "Secrets stand in extras.secrets alone; what is here would be shown.")
    if not isinstance(extras, dict) or "secrets" not in extras:
        return text
    given = extras["secrets"]
    if not isinstance(given, dict) or not all(isinstance(each, str) for each in given.values()):
        raise _refusal(document, _PLACE, AS_TEXT if isinstance(container(given), dict) else NO_TEXTS)
    return _without(text)


def _is_elsewhere(path: str) -> bool:
    """Whether secrets stand under this name, outside of free storage. No job may have them there."""
    parent, _, name = path.rpartition("/")
    if path == _PLACE or parent.startswith(("/extras/", "/jobEnvs")):
        return False
    return name == "secrets" or is_misspelt(name)


def _refusal(document: jsonc.Document, path: str, says: str) -> InvalidConfig:
    problem = document.problem(path, says, of_key=True)
    return InvalidConfig(f'child "extras" fails because [{says}]', [problem])


def _without(text: str) -> str:
    """The text with HIDDEN in place of each value below ``extras.secrets``, and without the comments there, as a value
    that was commented out is one too."""
    document = jsonc.parse(text)
    if _PLACE not in document.places:
        raise _refusal(document, "/extras", AS_TEXT)
    text, start, end = text.removeprefix("\ufeff"), document.places[_PLACE].value, document.end(_PLACE)
    inside = document.text[start:end]
    hidden = _VALUE.sub(lambda found: f'{found[1]}"{HIDDEN}"' if found[1] else found[0], inside)
    return f"{text[:start]}{_LINE_ENDS.sub('', hidden)}{text[end:]}"
