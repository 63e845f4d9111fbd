"""Keeps the files of metrics in the store that hosts share: the sampler that acts writes them, the others fetch them.

One sampler asks the engines, so only its host has the files. Every PUSH seconds it writes those that have changed, an
object for each folder (an attempt's, a node's, the cluster's). The samplers of other hosts, which wait for the lease,
fetch what is new: pages of every host read files of their own disk, and whoever gets the lease goes on with the files
of the one before. With a host the samples since the last time are lost, as nobody can ask an engine for the past.

A file takes the place of another only if its last sample is newer, so it does not matter who wrote late. Where
LONGSHORE_METRICS names a folder that all hosts have, or the store is this host's, there is nothing to do.
"""

from __future__ import annotations

import json
import os
import threading
import time
import uuid
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from datetime import datetime
from pathlib import Path

import structlog
from django.conf import settings
from django.db import connections

from base.core.errors import LongshoreError
from base.files.store import open_store
from base.files.store.base import Entry, PathNotFound, Store
from base.files.store.rules import PORTAL
from jobs.metrics import latest, places, ring

FOLDER = f"/{PORTAL}/metrics"
PUSH, PULL = 20.0, 10.0  # seconds; pages take what is older than rates.FRESH for unknown
ALL = 3600.0  # seconds between two looks at all that is in the store
_SHARE = 5  # a round that took a second is followed by a pause of five at least
Act = Callable[[Store, list[Path]], None]
log = structlog.get_logger()


def is_shared() -> bool:
    return bool(settings.STORE_URL) and Path(settings.METRICS_DIR) == Path(settings.HOME) / "metrics"


class SharedRings:
    """``push`` and ``pull`` may be called often and return at once; a thread of its own does the work."""

    def __init__(self) -> None:
        self._thread: threading.Thread | None = None
        self._due = 0.0
        self._all_due = 0.0
        self._wanted: dict[Path, float] = {}  # folders, and when they were last in use
        self._pushed: dict[Path, int] = {}
        self._fetched: dict[str, tuple[datetime, int]] = {}

    def push(self, folders: Iterable[Path]) -> None:
        """``folders``: those of which files are written now."""
        self._step(folders, self._push, PUSH)

    def pull(self, folders: Iterable[Path]) -> None:
        """``folders``: those that pages show as they are now. The rest is fetched once an hour."""
        self._step(folders, self._pull, PULL)

    def wait(self, seconds: float) -> None:
        if self._thread is not None:
            self._thread.join(seconds)

    def _step(self, folders: Iterable[Path], act: Act, pause: float) -> None:
        now = time.monotonic()
        self._wanted.update(dict.fromkeys(folders, now))
        if not is_shared() or now < self._due or (self._thread is not None and self._thread.is_alive()):
            return
        self._due = now + pause
        self._wanted = {path: at for path, at in self._wanted.items() if now - at < 4 * PUSH}
        self._thread = threading.Thread(target=self._run, args=(act, [*self._wanted]), name="metrics", daemon=True)
        self._thread.start()

    def _run(self, act: Act, folders: list[Path]) -> None:
        began = time.monotonic()
        try:
            act(open_store(), folders)
        except LongshoreError as error:
            log.info("metrics are shared later", reason=error.message)
        except OSError:
            log.exception("the files of metrics cannot be shared")
        finally:
            connections.close_all()
            self._due = max(self._due, time.monotonic() + _SHARE * (time.monotonic() - began))

    def _push(self, store: Store, folders: list[Path]) -> None:
        for folder in folders:
            newest = max((file.stat().st_mtime_ns for file in _files_of(folder)), default=0)
            if newest > self._pushed.get(folder, 0):
                store.write(_name(folder), [pack(folder)], mode=0o600)
                self._pushed[folder] = newest

    def _pull(self, store: Store, folders: list[Path]) -> None:
        names = [_name(folder) for folder in folders]
        if time.monotonic() >= self._all_due:
            self._all_due = time.monotonic() + ALL
            names += [entry.path for entry in _all(store)]
        for name in dict.fromkeys(names):
            with suppress(PathNotFound):
                there = store.stat(name)
                if self._fetched.get(name) != (there.modified_at, there.size):
                    with store.open_read(name) as file:
                        unpack(file.read(), _folder(name))
                    self._fetched[name] = (there.modified_at, there.size)


def clean_up(keep: Callable[[set[str]], set[str]], before: float) -> None:
    """Delete from the store what was not written since ``before`` (seconds since 1970) and what ``keep`` does not name
    of the application ids that it is given."""
    if not is_shared():
        return
    try:
        store = open_store()
        entries = {entry: places.app_id_of(_folder(entry.path)) for entry in _list(store, f"{FOLDER}/attempts")}
        known = keep(set(entries.values()))
        for entry, app_id in entries.items():
            if app_id not in known or entry.modified_at.timestamp() < before:
                store.delete(entry.path)
    except LongshoreError as error:
        log.info("old metrics are deleted later", reason=error.message)


def _name(folder: Path) -> str:
    """Its name in the store, where not every one takes a per cent sign; names of folders have no equals sign."""
    inside = folder.relative_to(places.root()).as_posix().replace("%", "=")
    return f"{FOLDER}/{'cluster' if inside == '.' else inside}"


def _folder(name: str) -> Path:
    inside = name.removeprefix(f"{FOLDER}/").replace("=", "%")
    return places.root() if inside == "cluster" else places.root() / inside


def _all(store: Store) -> list[Entry]:
    """Return the newest first."""
    entries = [entry for kind in ("", "/nodes", "/attempts") for entry in _list(store, f"{FOLDER}{kind}")]
    return sorted(entries, key=lambda entry: entry.modified_at, reverse=True)


def _list(store: Store, folder: str) -> list[Entry]:
    try:
        return [entry for entry in store.list(folder) if not entry.is_dir]
    except PathNotFound:
        return []


def _files_of(folder: Path) -> list[Path]:
    """The ring files right in the folder, and what was measured last."""
    with suppress(FileNotFoundError):
        return sorted(file for kind in ("*.ring", places.LATEST) for file in folder.glob(kind) if file.is_file())
    return []


def pack(folder: Path) -> bytes:
    """The files in the folder, without the parts of them that were never written."""
    heads, pieces = [], []
    for file in _files_of(folder):
        fd = os.open(file, os.O_RDONLY | os.O_CLOEXEC)
        try:
            extents = list(_extents(fd))
            heads.append({"name": file.name, "size": os.fstat(fd).st_size, "extents": extents})
            pieces += [os.pread(fd, length, start) for start, length in extents]
        finally:
            os.close(fd)
    head = json.dumps(heads).encode()
    return zlib.compress(b"".join([len(head).to_bytes(4, "big"), head, *pieces]), 1)


def unpack(data: bytes, folder: Path) -> None:
    """Make the files of a pack, but for those whose last sample is not newer than that of the file that is there."""
    try:
        whole = zlib.decompress(data)
        at = 4 + int.from_bytes(whole[:4], "big")
        heads = json.loads(whole[4:at])
    except (zlib.error, ValueError):
        log.warning("a pack of metrics cannot be read", folder=folder.name)
        return
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    for head in heads:
        target, new = folder / Path(head["name"]).name, folder / f".{uuid.uuid4().hex}"
        fd = os.open(new, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            os.ftruncate(fd, head["size"])
            for start, length in head["extents"]:
                os.pwrite(fd, whole[at : at + length], start)
                at += length
            if _last(new, target.name) > _last(target, target.name):
                new.replace(target)
        finally:
            os.close(fd)
            new.unlink(missing_ok=True)


def _last(path: Path, name: str) -> int:
    """When something was measured last of which a file tells, that has this name in the end."""
    if name == places.LATEST:
        return latest.read_file(path).at
    summary = ring.summary(path)
    return summary.at if summary else 0


def _extents(fd: int) -> Iterator[tuple[int, int]]:
    size, at = os.fstat(fd).st_size, 0
    while at < size:
        try:
            start = os.lseek(fd, at, os.SEEK_DATA)
        except OSError:  # nothing but a hole is left
            return
        at = os.lseek(fd, start, os.SEEK_HOLE)
        yield start, at - start
