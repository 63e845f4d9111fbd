"""Keeps two copies of the same file to the same place from adding to one part.

A lock of the operating system says that a copy is running: it ends with its process, however that ends, so none is ever
left behind. Locks hold on one machine; the parts of other machines have other names (``scope``).
"""

from __future__ import annotations

import hashlib
import os
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from .config import config_file
from .errors import AlreadyRunning

if sys.platform != "win32":  # which has no such locks: there two copies at once disturb each other
    import fcntl


def scope() -> str:
    """What all copies have in common that see each other's locks."""
    return f"{socket.gethostname()}\0{_folder()}"


@contextmanager
def only_copy(part: str, what: str) -> Iterator[None]:
    """Hold the lock of a part. Raises AlreadyRunning. Where the settings' folder takes no locks, nothing is held."""
    path = _folder() / hashlib.sha1(part.encode(errors="surrogateescape"), usedforsecurity=False).hexdigest()
    lock = _locked(path, what)
    try:
        yield
    finally:
        if lock is not None:
            with suppress(OSError):
                path.unlink()
            os.close(lock)


def _folder() -> Path:
    return config_file().absolute().parent / "running"


def _locked(path: Path, what: str) -> int | None:
    if sys.platform == "win32":
        return None
    while True:
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            lock = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        except OSError:
            return None
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if path.exists() and os.path.samestat(path.stat(), os.fstat(lock)):
                return lock
        except BlockingIOError:
            os.close(lock)
            raise AlreadyRunning(f"{what}: another pai-fs on this machine is copying this file there.") from None
        except FileNotFoundError:
            pass
        except OSError:
            os.close(lock)
            return None
        os.close(lock)  # who had it before has just removed the file: a lock on it keeps nobody off
