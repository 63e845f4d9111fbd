"""Secrets that were given as a text with JSON in it are hidden and sealed, as those of an object are. Earlier releases
stored them in the clear, and gave them to no command."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from django.db import migrations

from base.core.sealed import seal

HIDDEN, PURPOSE = "(secret)", "jobs.secrets"  # as jobs/secrets.py has them
_GIVEN = re.compile(r'("secrets"\s*:\s*)("(?:[^"\\]|\\.)*")', re.DOTALL)


def hide(apps: Any, schema_editor: Any) -> None:
    Job, JobSecrets = apps.get_model("jobs", "Job"), apps.get_model("jobs", "JobSecrets")
    for job in Job.objects.filter(spec__extras__has_key="secrets").only("config", "spec").iterator(chunk_size=100):
        values = decoded(given := job.spec["extras"]["secrets"])
        if values:
            hidden = dict.fromkeys(values, HIDDEN)
            job.spec["extras"]["secrets"] = hidden
            job.config = without(job.config, given, hidden, values, job.spec)
            job.save(update_fields=["config", "spec"])
            JobSecrets.objects.get_or_create(job=job, defaults={"sealed": seal(json.dumps(values), PURPOSE)})


def decoded(given: Any) -> dict[str, str]:
    """The values by name in such a text; empty for anything else."""
    values = _read(given) if isinstance(given, str) else None
    return values if isinstance(values, dict) and all(isinstance(each, str) for each in values.values()) else {}


def _read(text: str) -> Any:
    try:
        return json.loads(text, strict=False)
    except (ValueError, RecursionError):
        return None


def without(text: str, given: str, hidden: Mapping[str, str], values: Mapping[str, str], spec: Any) -> str:
    """The config with ``hidden`` in place of the text. One that is written in an odd way is laid out anew, without its
    comments, so that no value stays in it."""
    written = json.dumps(hidden)
    text = _GIVEN.sub(lambda one: one[1] + written if _read(one[2]) == given else one[0], text)
    is_clean = written in text and not any(each and each in text for each in values.values())
    return text if is_clean else json.dumps(spec, indent=2, ensure_ascii=False)


class Migration(migrations.Migration):
    dependencies = [("jobs", "0030_signed_logs")]

    operations = [migrations.RunPython(hide, migrations.RunPython.noop)]
