"""Closes to other users of the machine what they must not read: LONGSHORE_HOME with all that is in it, and the
database.

Rights that are too wide are narrowed, with a line that says so; where that is not possible the start stops. Settings
are read through this module, so it uses nothing of Django but an error.
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
    """Make all files of this process, and of its children, their user's alone from now on."""
    os.umask(_OTHERS)


def folder(name: str, path: Path) -> Path:
    """Make the folder if it does not exist, and close it to others. ``name`` is the setting that can name another
    folder."""
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise ImproperlyConfigured(f"{name} is {path}, which cannot be made: {error.strerror}.") from error
    _keep(name, path)
    return path


def home(name: str, path: Path) -> Path:
    """Do the same with LONGSHORE_HOME, in which an older release left files that anybody may read: the database, logs,
    secrets. Nobody can reach them in a closed folder; they are closed too, in case somebody opens it."""
    folder(name, path)
    for each in _below(path):
        with suppress(OSError):  # it was deleted meanwhile, or belongs to another user
            if _mode(each) & _OTHERS and not each.is_symlink():
                each.chmod(_mode(each) & ~_OTHERS)
    return path


def file(name: str, path: Path) -> None:
    """Close a file to others, if it exists. ``name`` is the setting that names it."""
    if path.is_file():
        _keep(name, path)


def made_once(path: Path, text: str) -> str:
    """What is in a file that only we read. It is made of ``text`` if it is missing: of two processes that make it at
    once the first wins, and both read the same. Raises OSError."""
    if not path.exists():
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        part = path.with_name(f"{path.name}.{os.getpid()}")
        part.touch(mode=0o600)
        part.write_text(text)
        with suppress(FileExistsError):
            os.link(part, path)
        part.unlink()
    return path.read_text()


def _below(home: Path) -> Iterator[Path]:
    if os.access(home, os.R_OK | os.X_OK):
        yield from home.iterdir()
        yield from home.glob("run/*")
        yield from home.glob("secrets/**/*")


def _keep(name: str, path: Path) -> None:
    """Close it. It must be ours, since its owner could open it again at any time."""
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
