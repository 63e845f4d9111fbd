"""The files of a backup: secrets and keys of nodes, the admin's rules, and those of users where the store is a folder
of this host. A restore writes them beside what is there, and they take its place at the end."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO

from django.conf import settings

from base.files.store import local_root, marker
from base.files.store.base import PART, StoreUnavailable
from base.files.store.local import MARKER
from portal.backup.encryption import DISORDER, BackupError
from portal.backup.records import Records

SECRETS, RULES, STORE = "secrets", "rules", "store"
_KEYS = {"django.key": "SECRET_KEY", "token.key": "TOKEN_KEY"}  # also where they come from the environment
_BLOCK = 256 * 1024
_STAGED = f".restoring{PART}"  # a name that the store shows to nobody


@dataclass(slots=True)
class Count:
    files: int = 0
    bytes: int = 0


def keep_secrets(records: Records) -> None:
    """Everything in LONGSHORE_HOME/secrets, the two keys in use, and the rules of diagnosis."""
    for name, setting in _KEYS.items():
        _note(records, SECRETS, name, {})
        records.piece(getattr(settings, setting).encode())
    for path, below in _walk(settings.HOME / "secrets"):
        if below not in _KEYS:
            _keep(records, SECRETS, below, path)
    if (rules := Path(settings.DIAGNOSIS_RULES)).is_file():
        _keep(records, RULES, "diagnosis.yaml", rules)


def keep_store(records: Records) -> Count:
    """The files of users and jobs. One that changes meanwhile is kept as it is read, one that goes is left out.
    BackupError when the store is not there, also at the end: what is on a disk that goes away counts as deleted."""
    root, count = local_root(), Count()
    _require_store(root)
    for path, below in _walk(root, whole=True):
        if not any(name.endswith(PART) for name in PurePosixPath(below).parts):
            _keep(records, STORE, below, path, count)
    _require_store(root)
    return count


def _require_store(root: Path) -> None:
    try:
        marker.require(root)
    except StoreUnavailable as error:
        raise BackupError(f"The files of users cannot be backed up. {error.message}") from None


class Staged:
    """Files of a backup that is being restored. They are in their places after ``swap``; before it nothing that was
    there has changed."""

    def __init__(self, *, replace: bool) -> None:
        """``replace``: also where there are files of users."""
        self.folder = Path(settings.HOME) / "restoring"
        self._replace = replace
        self._store = local_root() / _STAGED
        self._file: BinaryIO | None = None
        self._says: Mapping[str, Any] = {}
        self._made_root = False
        self.drop()
        self.folder.mkdir(mode=0o700)

    def marker(self) -> str:
        """The marker of the restored store; empty when the backup has no files of users."""
        return marker.read(self._store)

    def begin(self, says: Mapping[str, Any]) -> None:
        """A file or folder comes, as its note says."""
        self._end_file()
        place, path = says["place"], PurePosixPath(says["path"])
        if path.is_absolute() or ".." in path.parts or place not in (SECRETS, RULES, STORE):
            raise BackupError(f"The backup has a file {path}, which is no place of Longshore's.")
        if place == STORE and not self._store.exists():
            self._require_room()
        real = (self._store if place == STORE else self.folder / place) / path
        self._made_root |= place == STORE and not local_root().exists()
        real.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._says = {**says, "real": real}
        if says.get("folder"):
            real.mkdir(mode=0o700, exist_ok=True)
            _mark(real, says)
        else:
            self._file = os.fdopen(os.open(real, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb")

    def add(self, data: bytes) -> None:
        if self._file is None:
            raise BackupError(DISORDER)
        self._file.write(data)

    def finish(self) -> None:
        """All have come. BackupError when one of them cannot take its place."""
        self._end_file()
        for path, below in _walk(self._store):
            target = local_root() / below
            if target.exists() and target.is_dir() != path.is_dir():
                raise BackupError(f"{target} is in the way of what is restored: one is a file, the other a folder.")

    def swap(self) -> None:
        """Every file takes its place. May be called again when it was broken off."""
        if (secrets := self.folder / SECRETS).exists():
            here = Path(settings.HOME) / "secrets"
            if here.exists():
                here.rename(self.folder / "secrets-before")
            secrets.rename(here)
        if (rules := self.folder / RULES / "diagnosis.yaml").exists():
            shutil.move(rules, settings.DIAGNOSIS_RULES)
        root = local_root()
        for path, below in _walk(self._store):
            if not path.is_dir():
                path.replace(root / below)
            elif not (target := root / below).exists():
                target.mkdir(mode=0o700)
                shutil.copystat(path, target)

    def drop(self) -> None:
        """Remove what was written beside."""
        if self._file is not None:
            self._file.close()
            self._file = None
        shutil.rmtree(self.folder, ignore_errors=True)
        shutil.rmtree(self._store, ignore_errors=True)
        if self._made_root:
            with suppress(OSError):  # it is the store now
                local_root().rmdir()

    def _require_room(self) -> None:
        root = local_root()
        if not self._replace and any(not path.is_dir() and path.name != MARKER for path, _ in _walk(root)):
            raise BackupError(
                f"{root} has files, and so has the backup. Add --replace: files of the same name are then those of the"
                " backup, others stay."
            )

    def _end_file(self) -> None:
        if self._file is not None:
            self._file.flush()
            os.fsync(self._file.fileno())
            self._file.close()
            self._file = None
            _mark(self._says["real"], self._says)


def _walk(root: Path, *, whole: bool = False) -> Iterator[tuple[Path, str]]:
    """Files and folders below ``root`` with their path there, a folder before what is in it. No symbolic links: the
    portal makes none. ``whole``: BackupError for a folder that cannot be listed, unless it was deleted meanwhile."""
    for folder, below, names in os.walk(root, onerror=_refuse_unread if whole else None):
        for name in (*below, *names):
            path = Path(folder, name)
            if not path.is_symlink() and (path.is_dir() or path.is_file()):
                yield path, path.relative_to(root).as_posix()


def _refuse_unread(error: OSError) -> None:
    if not isinstance(error, FileNotFoundError):
        raise BackupError(f"{error.filename} cannot be read: {error.strerror}.") from error


def _keep(records: Records, place: str, below: str, path: Path, count: Count | None = None) -> None:
    count = count or Count()
    try:
        if path.is_dir():
            _note(records, place, below, {"folder": True, **_marks(path)})
            return
        blocks = _blocks(path)
        first = next(blocks, b"")
        _note(records, place, below, _marks(path))
        for data in chain([first] if first else [], blocks):
            records.piece(data)
            count.bytes += len(data)
        count.files += 1
    except FileNotFoundError:  # it was deleted meanwhile
        pass


def _blocks(path: Path) -> Iterator[bytes]:
    """What is in the file. Raises FileNotFoundError; other errors are translated, since they must not pass for those of
    the disk that the backup goes to."""
    try:
        with os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW), "rb") as file:
            yield from iter(partial(file.read, _BLOCK), b"")
    except FileNotFoundError:
        raise
    except OSError as error:
        raise BackupError(f"{path} cannot be read: {error.strerror}.") from error


def _note(records: Records, place: str, path: str, more: Mapping[str, Any]) -> None:
    records.note("file", place=place, path=path, **more)


def _marks(path: Path) -> dict[str, Any]:
    names = []
    with suppress(OSError):
        names = [name for name in os.listxattr(path) if name.startswith("user.longshore.")]
    marks = {name: os.getxattr(path, name).decode() for name in names}
    return {"modified": path.stat().st_mtime, "marks": marks}


def _mark(path: Path, says: Mapping[str, Any]) -> None:
    for name, value in says.get("marks", {}).items():
        with suppress(OSError):  # a file system that has none: then the path tells whose it is
            os.setxattr(path, name, value.encode())
    if "modified" in says:
        os.utime(path, (says["modified"], says["modified"]))
