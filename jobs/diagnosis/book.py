"""Gives the rules in force: those of this release (``causes/``), extended and replaced by an admin's file."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

import structlog
from django.conf import settings

from base.core.errors import Problem
from jobs.diagnosis.rules import LARGEST, Book, Rule, joined, read

OWN = Path(__file__).with_name("causes")
log = structlog.get_logger()


def rules() -> tuple[Rule, ...]:
    """All rules in force. What cannot be read of the admin's file is left out; ``manage.py check`` names it."""
    return _joined(*_stamp())


def own() -> tuple[Book, ...]:
    """The files of this release, in the order of their names."""
    return tuple(read(path.read_text()) for path in sorted(OWN.glob("*.yaml")))


def problems() -> list[Problem]:
    """What is wrong with the admin's file; nothing without one."""
    return list(_admins(*_stamp()).problems)


def _stamp() -> tuple[str, int, int]:
    """The path of the admin's file, and two values that differ when it may have changed."""
    path = Path(settings.DIAGNOSIS_RULES)
    try:
        seen = path.stat()
    except OSError:
        return str(path), 0, -1
    return str(path), seen.st_mtime_ns, seen.st_size


@lru_cache(maxsize=2)
def _joined(path: str, changed: int, size: int) -> tuple[Rule, ...]:
    admins = _admins(path, changed, size)
    for problem in admins.problems:
        log.warning("a rule cannot be read", file=path, line=problem.line, column=problem.column, why=problem.message)
    return joined([*own(), admins])


@lru_cache(maxsize=2)
def _admins(path: str, changed: int, size: int) -> Book:
    if size < 0:
        return Book()
    if size > 4 * LARGEST:
        return Book(problems=(Problem(1, 1, "", f"The file is longer than {LARGEST // 1024} kB."),))
    try:
        return read(Path(path).read_text())
    except (OSError, UnicodeDecodeError) as error:
        return Book(problems=(Problem(1, 1, "", f"The file cannot be read: {error}."),))
