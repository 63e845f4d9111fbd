"""What other users of the machine must not read: LONGSHORE_HOME with all that is in it, and the database.

What is looser is tightened, and that is said in one line; what is not ours to tighten stops the start. Pure of Django
but for its error: settings are read through it.
"""

from __future__ import annotations

import os
import pwd
import stat
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from django.core.exceptions import ImproperlyConfigured

_OTHERS = 0o077


def by_default() -> None:
    """Whatever this process makes from now on is its user's alone, and so is what its children make."""
    os.umask(_OTHERS)


def folder(name: str, path: Path) -> Path:
    """Makes it if it is not there, and closes it to others. ``name`` is the setting by which it can be another."""
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise ImproperlyConfigured(f"{name} is {path}, which cannot be made: {error.strerror}.") from error
    _keep(name, path)
    return path


def home(name: str, path: Path) -> Path:
    """The same for a folder of which an older release left files that anybody may read: the database, logs, secrets.
    Nobody reaches them in it; they are closed all the same, should it ever be opened."""
    folder(name, path)
    for each in _below(path):
        with suppress(OSError):  # it went meanwhile, or it is somebody else's
            if _mode(each) & _OTHERS and not each.is_symlink():
                each.chmod(_mode(each) & ~_OTHERS)
    return path


def file(name: str, path: Path) -> None:
    """Closes a file to others, if it is there. ``name`` is the setting that names it."""
    if path.is_file():
        _keep(name, path)


def _below(home: Path) -> Iterator[Path]:
    if os.access(home, os.R_OK | os.X_OK):
        yield from home.iterdir()
        yield from home.glob("run/*")
        yield from home.glob("secrets/**/*")


def _keep(name: str, path: Path) -> None:
    """Who owns it could always open it again, so that must be us."""
    owner, us = path.stat().st_uid, os.geteuid()
    if owner != us:
        raise ImproperlyConfigured(
            f"{name}: {path} belongs to {_user(owner)}, but Longshore runs as {_user(us)}. "
            f"Run: chown -R {_user(us)} {path}"
        )
    if _mode(path) & _OTHERS:
        _tighten(name, path)
        print(f"longshore: other users of this machine could read {path}; now they cannot", file=sys.stderr)  # noqa: T201


def _tighten(name: str, path: Path) -> None:
    why = "its file system keeps no rights"
    try:
        path.chmod(_mode(path) & ~_OTHERS)
    except OSError as error:
        why = str(error.strerror)
    if _mode(path) & _OTHERS:
        raise ImproperlyConfigured(f"{name}: other users of this machine can read {path}, and it stays so: {why}.")


def _mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def _user(number: int) -> str:
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return str(number)
