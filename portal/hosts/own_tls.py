"""Finds the TLS keys of a node on this host, wherever they were registered: other hosts have them from the database."""

from __future__ import annotations

from pathlib import Path

import structlog
from django.conf import settings

from portal.hosts import shared

_log = structlog.get_logger()
_known: dict[str, Path] = {}


def root() -> Path:
    """The folder of all that were registered: <name>/<version>/{ca,cert,key}.pem in it."""
    return Path(settings.HOME) / "secrets" / "nodes"


def here(tls_dir: str | Path) -> Path:
    """The folder on this host for the one that a node's row names. A folder that is not ours, such as an admin's own
    certificates, is returned as it is."""
    text = str(tls_dir)
    if text not in _known:
        found = _found(Path(text))
        if not found.is_dir():
            return found
        _known[text] = found
    return _known[text]


def share(tls_dir: str) -> None:
    """Give the keys in a folder of ours to the other hosts."""
    folder = Path(tls_dir)
    if tls_dir and folder.is_dir() and folder.parent.parent == root():
        for path in folder.iterdir():
            shared.put(f"{name_of(folder)}/{path.name}", path.read_bytes())


def name_of(folder: Path) -> str:
    """The name by which the other hosts know this folder."""
    return f"nodes/{folder.parent.name}/{folder.name}"


def _found(folder: Path) -> Path:
    if folder.is_dir() or folder.parts[-4:-2] != ("secrets", "nodes"):
        return folder
    mine = root() / folder.parent.name / folder.name
    if not mine.is_dir():
        try:
            if files := shared.get(name_of(folder)) or shared.kept(name_of(folder)):
                shared.write(mine, files)
        except Exception as error:  # the engine is tried again, and then these keys
            _log.warning("the keys of a node could not be read from the database", reason=type(error).__name__)
    return mine
