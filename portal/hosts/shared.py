"""Keeps small files that all hosts need, such as keys of nodes, in the database, sealed with LONGSHORE_SECRET_KEY."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from portal.core.sealed import opened, seal
from portal.hosts.session import is_postgresql, open_session
from portal.models import Shared

_PREFIX = "file:"


def put(name: str, content: bytes) -> None:
    """Keep a file for the other hosts. With SQLite there are none."""
    if is_postgresql():
        Shared.objects.update_or_create(name=_PREFIX + name, defaults={"value": _sealed(name, content)})


def put_first(name: str, content: bytes) -> bytes:
    """Keep a file if there is none yet. Returns the one that is there."""
    if not is_postgresql():
        return content
    row, _ = Shared.objects.get_or_create(name=_PREFIX + name, defaults={"value": _sealed(name, content)})
    return _opened(name, row.value)


def get(folder: str) -> dict[str, bytes]:
    """The files whose names begin with ``folder/``, by the rest of their names. It takes a session of its own, so that
    threads which never ask the database otherwise keep none. Raises what the database raises."""
    if not is_postgresql():
        return {}
    start = f"{_PREFIX}{folder}/"
    with open_session() as session:
        query = "SELECT name, value FROM portal_shared WHERE starts_with(name, %s)"
        rows = session.execute(query, [start]).fetchall()
    return {name.removeprefix(start): _opened(name.removeprefix(_PREFIX), value) for name, value in rows}


def kept(folder: str) -> dict[str, bytes]:
    """The same on SQLite: what a portal on several hosts had before it was restored there."""
    if is_postgresql():
        return {}
    start = f"{_PREFIX}{folder}/"
    rows = Shared.objects.filter(name__startswith=start).values_list("name", "value")
    return {name.removeprefix(start): _opened(name.removeprefix(_PREFIX), value) for name, value in rows}


def has(folder: str) -> bool:
    """Whether the database has files of that name."""
    return Shared.objects.filter(name__startswith=f"{_PREFIX}{folder}/").exists()


def drop(folder: str) -> None:
    if is_postgresql():
        Shared.objects.filter(name__startswith=f"{_PREFIX}{folder}/").delete()


def write(folder: Path, files: dict[str, bytes]) -> None:
    """Make the folder (0700) with these files (0600), whole or not at all. One that is there stays as it is."""
    folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    part = Path(tempfile.mkdtemp(dir=folder.parent, prefix=".part-"))
    for name, content in files.items():
        with os.fdopen(os.open(part / name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(content)
    try:
        part.rename(folder)
    except OSError:  # another thread was quicker
        for name in files:
            (part / name).unlink()
        part.rmdir()


def _sealed(name: str, content: bytes) -> str:
    return seal(content.decode("latin-1"), f"shared file {name}")


def _opened(name: str, value: str) -> bytes:
    return opened(value, f"shared file {name}").encode("latin-1")
