"""Files of HDFS that are being written. A new one goes to a part file, whose length is compared before it gets its name
in one step: HDFS answers 201 also to a write that ran out of room."""

from __future__ import annotations

import time
from contextlib import suppress
from typing import TYPE_CHECKING

from portal.core.errors import LongshoreError
from portal.files.store.base import StoreFull
from portal.files.store.hdfs.client import refusal
from portal.files.store.hdfs.datanode import Sending
from portal.files.store.hdfs.paths import plain

if TYPE_CHECKING:
    from portal.files.store.hdfs.store import HdfsStore

TOUCH_EVERY = 600.0  # seconds


class Appended:
    """A file that is being written. ``written`` is its name until then."""

    def __init__(self, store: HdfsStore, path: str, written: str, sending: Sending, size: int) -> None:
        self._store, self._path, self._written, self._sending, self._size = store, path, written, sending, size

    def add(self, piece: bytes) -> None:
        self._sending.add(piece)
        self._size += len(piece)

    def keep(self) -> int:
        """Compares the length, because HDFS answers 201 also to bytes that it had no room for."""
        with self._store.namenode.translated(self._path):
            if (said := self._sending.end()) is not None:
                raise refusal(said)
        self._found = self._store.entry_at(self._written)
        if self._found.size != self._size:
            raise StoreFull(f"The file store (HDFS) did not keep all of {self._path}: it has no room left.")
        return self._size

    def drop(self) -> None:
        self._sending.close()


class New(Appended):
    """A new file, written to a part file that gets its name in one step."""

    def __init__(self, store: HdfsStore, path: str, part: str, owner: str, mode: int, overwrite: bool) -> None:
        super().__init__(store, path, part, store.send(path, part), 0)
        self._owner, self._mode, self._overwrite = owner, mode, overwrite
        self._kept, self._touched = False, time.monotonic()

    def add(self, piece: bytes) -> None:
        """Also dates the file anew now and then: HDFS does that only when it is opened and closed, and ``sweep``
        deletes old parts."""
        if time.monotonic() - self._touched >= TOUCH_EVERY:
            self._touched = time.monotonic()
            with suppress(LongshoreError), self._store.namenode.translated(self._written):
                self._store.namenode.client.set_times(self._written, modification_time=int(time.time() * 1000))
        super().add(piece)

    def keep(self) -> int:
        size = super().keep()
        owner = self._owner if self._found.owner != self._owner else ""
        self._store.mark(self._written, owner, self._mode if self._found.mode != self._mode else None)
        self._store.give_name(self._written, plain(self._path), self._owner, self._overwrite)
        self._kept = True
        return size

    def drop(self) -> None:
        super().drop()
        if not self._kept:
            with suppress(LongshoreError), self._store.namenode.translated(self._written):
                self._store.namenode.client.delete(self._written)
