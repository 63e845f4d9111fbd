"""Copies a live log to this host's disk: read once from the engine, then by every viewer, at byte offsets.

Engines know time stamps and no offsets, so a viewer who comes back could not say how far they were. The spool gives
each byte an offset. Each stream has one folder:

    data   the bytes of the stream, in order
    times  when each line was written, 8 bytes a line (jobs/logs/times.py)
    blocks the newlines before each block of ``data``, 8 bytes a block (jobs/logs/lines.py)
    state  one JSON record, rewritten in place: how far ``data`` is valid, and where in the engine's log that is
    lock   locked (flock) by the process that copies; when it dies another one goes on from ``state``
    users  locked for sharing by everybody who has the spool open; whoever can lock it alone may delete the folder

``times`` is written first, then ``data``, then ``state``. After a crash ``state`` is right and the others may be
longer; they are then cut back and the rest is copied again. Readers in all processes of this host read the same files.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import threading
import time
import uuid
from array import array
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path

from pydantic import TypeAdapter

from base.core.errors import is_disk_full
from clusters.engines.runtime import LogChunk
from jobs.logs.lines import BLOCK, LineIndex, LogView, view_of
from jobs.logs.times import WIDTH, TimeIndex, Times, begun

_RECORD = 1024  # bytes of the state file
_SAVE_EVERY = 256 * 1024
_SCAN = 1 << 20


@dataclass(frozen=True, slots=True)
class Anchor:
    """Where in the engine's log the copy ends: the rest comes when the engine is asked for everything stamped ``at`` or
    later and the first ``bytes`` of its answer are passed over. ``newest`` is the greatest stamp so far, ``first`` and
    ``last`` are the stamps at both ends of the copy."""

    at: str = ""
    bytes: int = 0
    newest: str = ""
    first: str = ""
    last: str = ""

    def after(self, chunk: LogChunk, skipped: int, size: int) -> Anchor:
        """The anchor behind ``chunk``, whose first ``skipped`` bytes were in the copy already. ``size`` is the copy's
        size before."""
        taken, first = len(chunk.data) - skipped, self.first if size else chunk.at
        if chunk.at > self.newest:
            return Anchor(chunk.at, len(chunk.data), chunk.at, first, chunk.at)
        if skipped:  # the chunk contains the anchor's place, and may begin before it
            return replace(self, bytes=self.bytes + taken)
        if chunk.at < self.newest:  # the node's clock was set back: only bytes from the log's beginning can be counted
            return Anchor("", size + taken, self.newest, first, chunk.at)
        return replace(self, bytes=self.bytes + taken, last=chunk.at)


@dataclass(frozen=True, slots=True)
class SpoolState:
    """How far the copy is. ``caught_up``: it has everything that the engine had when it was asked. ``ended``: nothing
    more will come. ``problem``: a sentence for the user that says why nothing comes at the moment."""

    size: int = 0
    anchor: Anchor = field(default_factory=Anchor)
    caught_up: bool = False
    ended: bool = False
    problem: str = ""


STATE = TypeAdapter(SpoolState)


class Spool:
    """The copy of one stream, opened by a reader or by the process that copies."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._users = _enter(folder)
        self._data = _File(folder / "data")
        self._times_file = _File(folder / "times")
        self._blocks_file = _File(folder / "blocks")
        self._state_file = _File(folder / "state")
        self._lock: _File | None = None
        self._state = SpoolState()  # the copier's
        self._saved = 0
        self._size = 0
        self._index = LineIndex()
        self._times = TimeIndex()
        self._name = uuid.uuid4().hex  # a block of the times of this copy is not taken for one of another
        self._guard = threading.Lock()

    # --- reading, in any process -----------------------------------------------------------------------------------

    def view(self) -> LogView:
        """The log as it is now."""
        with self._guard:
            if self._lock is None:
                self._learn(os.fstat(self._data.fd).st_size)
            times = Times(self._lines(), self._times.tops, self._read_times, self._name)
            return view_of(self._index, self.read, times)

    def read(self, offset: int, limit: int) -> bytes:
        return os.pread(self._data.fd, max(0, limit), offset)

    def read_times(self, offset: int, limit: int) -> bytes:
        """A part of the file of times; offset and limit are in bytes."""
        return os.pread(self._times_file.fd, max(0, limit), offset)

    def times_at(self, size: int) -> int:
        """The bytes of the times of the lines that begin in the first ``size`` bytes, which are copied."""
        with self._guard:
            view = view_of(self._index, self.read)
        return view.number_at(size - 1) * WIDTH if size else 0

    def size(self) -> int:
        """Bytes copied so far; cheaper than a view."""
        return os.fstat(self._data.fd).st_size

    def state(self) -> SpoolState:
        if self._lock is not None:
            return self._state
        try:
            return STATE.validate_json(os.pread(self._state_file.fd, _RECORD, 0))
        except ValueError:
            return SpoolState()  # nothing is written yet, or a write is under way

    @property
    def copies(self) -> bool:
        """Whether this process is the one that copies. Another one wakes nobody here, so viewers have to poll."""
        return self._lock is not None

    # --- copying, in the one process that holds the lock --------------------------------------------------------------

    def acquire(self) -> bool:
        """Become the process that copies; False when another one is. The copy goes on at ``state().anchor``."""
        if self._lock is not None:
            return True
        lock = _File(self._folder / "lock")
        if not _flock(lock, fcntl.LOCK_EX):
            return False
        state = self.state()
        if os.fstat(self._data.fd).st_size < state.size:
            state = SpoolState()  # the host went down before all of it was on the disk
        os.ftruncate(self._data.fd, state.size)
        os.ftruncate(self._blocks_file.fd, -(-state.size // BLOCK) * WIDTH)
        with self._guard:
            self._learn(state.size)
            os.ftruncate(self._times_file.fd, self._lines() * WIDTH)
        self._state, self._size, self._saved = state, state.size, state.size
        self._lock = lock
        return True

    def begin(self, state: SpoolState, data: Iterable[bytes], times: Iterable[bytes]) -> bool:
        """Take another copy of the stream into this one, which is empty. False when that one is not whole."""
        for file, pieces in ((self._data, data), (self._times_file, times)):
            size = 0
            for piece in pieces:
                _write_all(file.fd, piece, size)
                size += len(piece)
        is_whole = self.size() >= state.size
        size = state.size if is_whole else 0
        os.ftruncate(self._data.fd, size)
        with self._guard:
            self._learn(size)
            if self._times.count < self._lines():
                is_whole, size = False, 0
                os.ftruncate(self._data.fd, 0)
                self._learn(0)
            os.ftruncate(self._times_file.fd, self._lines() * WIDTH)
        _write_all(self._blocks_file.fd, self._index.blocks.tobytes(), 0)
        self._state, self._size = (state, size) if is_whole else (SpoolState(), 0)
        self._save()
        return is_whole

    def append(self, chunk: LogChunk, skipped: int = 0) -> None:
        """Add ``chunk`` without its first ``skipped`` bytes, which the copy has already."""
        anchor = self._state.anchor.after(chunk, skipped, self._size)
        data = chunk.data[skipped:] if skipped else chunk.data
        times = begun(chunk, skipped, self._times.count == self._index.newlines)
        _write_all(self._times_file.fd, times.tobytes(), self._times.count * WIDTH)
        _write_all(self._data.fd, data, self._size)
        with self._guard:
            blocks = len(self._index.blocks)
            self._times.extend(times)
            self._index.extend(data)
        if fresh := self._index.blocks[blocks:]:
            try:
                _write_all(self._blocks_file.fd, fresh.tobytes(), blocks * WIDTH)
            except OSError:  # the chunk comes again
                with self._guard:
                    self._learn(self._size)
                raise
        self._size += len(data)
        self._state = replace(self._state, size=self._size, anchor=anchor)
        if self._size - self._saved >= _SAVE_EVERY:
            self._save()

    def mark(self, problem: str, *, caught_up: bool = False, ended: bool = False) -> None:
        """Note why nothing comes, or that it goes on, and what is reached by now; saves the state."""
        before = self._state
        caught_up, ended = caught_up or before.caught_up, ended or before.ended
        self._state = replace(before, problem=problem[:400], caught_up=caught_up, ended=ended)
        self._save()

    def close(self) -> None:
        """Stop copying, and delete the folder unless another process has it open. Views can still be read."""
        if self._lock is not None:
            self._save()
            self._lock.close()
            self._lock = None
        if _flock(self._users, fcntl.LOCK_EX):
            grave = self._folder.with_name(f".{uuid.uuid4().hex}")
            with contextlib.suppress(OSError):
                self._folder.rename(grave)  # one step, so that nobody enters a half-deleted folder
            shutil.rmtree(grave, ignore_errors=True)
        self._users.close()

    def _learn(self, size: int) -> None:
        """Bring the indexes up to ``size`` bytes of data from the files. Call it with the guard held."""
        if size < self._index.size:  # the copier died and its successor cut back
            self._index, self._times, self._name = LineIndex(), TimeIndex(), uuid.uuid4().hex
        if size - self._index.size > BLOCK:
            known = array("Q", os.pread(self._blocks_file.fd, (size // BLOCK + 1) * WIDTH, 0))
            if len(known) > len(self._index.blocks):
                self._index = LineIndex.begun(known)
        while self._index.size < size:
            data = os.pread(self._data.fd, min(_SCAN, size - self._index.size), self._index.size)
            if not data:
                break
            self._index.extend(data)
        while (missing := self._lines() - self._times.count) > 0:
            times = self._read_times(self._times.count, min(missing, _SCAN))
            if not times:
                break
            self._times.extend(times)

    def _lines(self) -> int:
        """The lines that have begun."""
        size = self._index.size
        return self._index.newlines + bool(size and os.pread(self._data.fd, 1, size - 1) != b"\n")

    def _read_times(self, first: int, count: int) -> array[int]:
        data = os.pread(self._times_file.fd, max(0, count) * WIDTH, first * WIDTH)
        return array("q", data[: len(data) // WIDTH * WIDTH])

    def _save(self) -> None:
        """Save the state. On a full disk the one before stays, which is true of less."""
        try:
            os.pwrite(self._state_file.fd, STATE.dump_json(self._state).ljust(_RECORD), 0)
        except OSError as error:
            if not is_disk_full(error):
                raise
        self._saved = self._size


def clean_up(root: Path) -> None:
    """Delete the spools that nobody has open: those of an earlier start of the portal."""
    for folder in root.glob("*") if root.is_dir() else ():
        if folder.name.startswith("."):
            shutil.rmtree(folder, ignore_errors=True)
        else:
            Spool(folder).close()


class _File:
    """An open file that is closed when nobody refers to it any more. Closed earlier, its descriptor's number could
    already stand for another file."""

    def __init__(self, path: Path) -> None:
        self.fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)

    def close(self) -> None:
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1

    def __del__(self) -> None:
        if getattr(self, "fd", -1) >= 0 and os is not None:  # at the end of a process modules may be gone already
            self.close()


def _enter(folder: Path) -> _File:
    """The locked file ``users`` of the folder, which is made if it is missing or was just deleted."""
    while True:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        try:
            users = _File(folder / "users")
            if _flock(users, fcntl.LOCK_SH) and os.path.samestat(os.fstat(users.fd), (folder / "users").stat()):
                return users
        except FileNotFoundError:
            pass  # deleted between two of these calls
        time.sleep(0.005)


def _flock(file: _File, kind: int) -> bool:
    try:
        fcntl.flock(file.fd, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _write_all(file: int, data: bytes, offset: int) -> None:
    view = memoryview(data)
    while view:
        written = os.pwrite(file, view, offset)
        offset += written
        view = view[written:]
