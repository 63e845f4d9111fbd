"""Keeps small files that all hosts need, such as keys of nodes, in the database, sealed with LONGSHORE_SECRET_KEY."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import structlog
from django.conf import settings

from base.core.sealed import opened, seal
from base.hosts.session import is_postgresql, open_session
from base.models import Shared

_PREFIX = "file:"
_log = structlog.get_logger()
_known_tls: dict[str, Path] = {}  # of a node's row, where it is on this host


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
    """The same files on SQLite: what a portal on several hosts had before it was restored there."""
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


def tls_root() -> Path:
    """The folder of all TLS keys of nodes that were registered here: <name>/<version>/{ca,cert,key}.pem in it."""
    return Path(settings.HOME) / "secrets" / "nodes"


def tls_here(tls_dir: str | Path) -> Path:
    """The folder on this host for the one that a node's row names, wherever its TLS keys were registered: other hosts
    have them from the database. A folder that is not ours, such as an admin's own certificates, is returned as it
    is."""
    text = str(tls_dir)
    if text not in _known_tls:
        folder = _found_tls(Path(text))
        if not folder.is_dir():
            return folder
        _known_tls[text] = folder
    return _known_tls[text]


def share_tls(tls_dir: str) -> None:
    """Give the keys in a folder of ours to the other hosts."""
    folder = Path(tls_dir)
    if tls_dir and folder.is_dir() and folder.parent.parent == tls_root():
        for path in folder.iterdir():
            put(f"{tls_name(folder)}/{path.name}", path.read_bytes())


def tls_name(folder: Path) -> str:
    """The name by which the other hosts know this folder."""
    return f"nodes/{folder.parent.name}/{folder.name}"


def _found_tls(folder: Path) -> Path:
    if folder.is_dir() or folder.parts[-4:-2] != ("secrets", "nodes"):
        return folder
    mine = tls_root() / folder.parent.name / folder.name
    if not mine.is_dir():
        try:
            if files := get(tls_name(folder)) or kept(tls_name(folder)):
                write(mine, files)
        except Exception as error:  # the engine is tried again, and then these keys
            _log.warning("the keys of a node could not be read from the database", reason=type(error).__name__)
    return mine
