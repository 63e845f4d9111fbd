"""System checks with ids: what would fail later is reported at the start, in one sentence. Every command runs them.

``up`` and ``runscheduler`` run these alone: Django's own look at the code, not at the installation, and for that they
load all pages and the API.

longshore.E001  LONGSHORE_HOME cannot be written
longshore.E002  a key is too short to sign with
longshore.W002  SQLite on a network file system
longshore.W003  a rule of the admin's diagnosis file cannot be read
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.checks import CheckMessage, Error, Warning, register

_NETWORK = {"nfs", "nfs4", "cifs", "smb3", "9p", "fuse.sshfs", "glusterfs", "ceph", "lustre"}


@register("longshore")
def check_settings(app_configs: Any, **kwargs: Any) -> list[CheckMessage]:
    return [*_home(), *_keys(), *_database(), *_rules()]


def _home() -> Iterator[CheckMessage]:
    if not os.access(settings.HOME, os.W_OK | os.X_OK):
        yield Error(f"LONGSHORE_HOME is {settings.HOME}, which this user cannot write.", id="longshore.E001")


def _keys() -> Iterator[CheckMessage]:
    for name in ("SECRET_KEY", "TOKEN_KEY"):
        if len(getattr(settings, name)) < 32:
            yield Error(f"LONGSHORE_{name} is too short; give 32 characters or more.", id="longshore.E002")


def _database() -> Iterator[CheckMessage]:
    database = settings.DATABASES["default"]
    if database["ENGINE"].endswith("sqlite") and file_system(Path(database["NAME"])) in _NETWORK:
        yield Warning(
            "The SQLite database is on a network file system, where it may be damaged; "
            "move LONGSHORE_HOME to a local disk or set DATABASE_URL to a PostgreSQL.",
            id="longshore.W002",
        )


def _rules() -> Iterator[CheckMessage]:
    """The portal runs without the rules that it cannot read, so these are warnings."""
    if not Path(settings.DIAGNOSIS_RULES).exists():
        return
    from jobs.diagnosis import book  # what it loads is a fifth of what a process loads that needs no rules

    for problem in book.problems():
        where = f"{settings.DIAGNOSIS_RULES}, line {problem.line}, column {problem.column}"
        yield Warning(f"{where}: {problem.message}", id="longshore.W003")


def file_system(path: Path) -> str:
    """The kind of the file system that holds ``path``; empty where that cannot be found out."""
    try:
        lines = Path("/proc/mounts").read_text().splitlines()
    except OSError:
        return ""
    mounts = {fields[1]: fields[2] for fields in map(str.split, lines) if len(fields) > 2}
    return next((mounts[str(parent)] for parent in (path, *path.parents) if str(parent) in mounts), "")
