"""Keeps the spools of followed logs in a store that several hosts share, so that no host alone has a log.

Each host follows engines by itself: a page that host B answers needs nothing of host A. Only A's spool may have what
an engine has no longer, the beginning of a very long log or that of a node which is gone. So the process that copies a
log also writes its spool to the store every few seconds. A follower that begins without a spool begins with that copy,
at the same byte offsets, and asks the engine for the rest. A worker of any host archives it when the container is gone.
What is lost with a host are the seconds since it was last written, and these the engine has while the container exists.

To pass a request on to the host that has the spool would need a way between hosts, and would fail with that host. To
write all logs to the store all the time would cost much for logs that nobody looks at.

In the folder ``live`` beside the archive each stream has pieces of PIECE bytes, of which the last is replaced until it
is full, those of its times, and a state that is written last. It goes when the log is archived. With a store on this
host's disk there is no mirror: there is one host.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import suppress

import structlog
from django.conf import settings

from base.core.errors import LongshoreError
from base.files.store import open_store
from base.files.store.base import BadPath, PathNotFound, Store
from clusters.engines.runtime import Stream
from jobs.logs.places import LogPlace, find_archive
from jobs.logs.spool import STATE, Spool, SpoolState

EVERY = 5.0  # seconds
PIECE = 4 << 20  # bytes
_RECORD = 4096  # bytes of a state, more than any has
log = structlog.get_logger("jobs.logs")


def is_shared() -> bool:
    """Whether other hosts have the same store."""
    return bool(settings.STORE_URL)


class Mirror:
    """The copy of one spool in the store, written by the process that copies the log."""

    def __init__(self, place: LogPlace, stream: Stream) -> None:
        self._place, self._stream = place, stream
        self._lock = threading.Lock()
        self._size = 0  # bytes of the log that the store had last
        self._is_over = not is_shared()

    def begin(self, spool: Spool) -> None:
        """Give an empty spool what the store has. Without the store the engine has to be enough."""
        if self._is_over or spool.size():
            return
        try:
            store = open_store()
            state = stored(store, self._place, self._stream)
            if state and state.size and not spool.begin(state, *read(store, self._place, self._stream)):
                store.delete(_name(self._place, f"{self._stream}.state"))  # so that all of it is written anew
        except LongshoreError as error:
            log.info("a log is read from its engine alone", task=self._place.task_id, reason=error.message)

    def flush(self, spool: Spool) -> None:
        """Write what has come since the last time. While the store is down nothing is written, and the next call has
        more to write."""
        with self._lock:
            state = spool.state()
            if self._is_over or state.size <= self._size:
                return
            try:
                self._write(open_store(), spool, state)
            except LongshoreError as error:
                log.info("a log's copy is written later", task=self._place.task_id, reason=error.message)

    def close(self, spool: Spool) -> None:
        """The last time; nothing is read from the spool afterwards."""
        self.flush(spool)
        with self._lock:
            self._is_over = True

    def _write(self, store: Store, spool: Spool, state: SpoolState) -> None:
        there = stored(store, self._place, self._stream)
        if there and there.size and there.anchor.first != state.anchor.first:
            self._is_over = True  # it has an older beginning than this spool; their bytes have other offsets
            return
        begun = there.size if there else 0
        if begun < state.size:
            times_begun = spool.times_at(begun)
            _put(store, self._place, self._stream, spool.read, begun, state.size)
            _put(store, self._place, f"{self._stream}.times", spool.read_times, times_begun, spool.times_at(state.size))
            copied = STATE.dump_json(SpoolState(state.size, state.anchor))
            store.write(_name(self._place, f"{self._stream}.state"), [copied])
        self._size = state.size
        if find_archive(self._place, store) is not None:
            self._is_over = True
            drop(store, self._place)


def stored(store: Store, place: LogPlace, stream: Stream) -> SpoolState | None:
    """How far the store's copy is; None when there is none, and for what is no record of one: its user may write there
    too. Raises StoreUnavailable."""
    try:
        with store.open_read(_name(place, f"{stream}.state")) as file:
            state = STATE.validate_json(file.read(_RECORD), strict=True)
    except (PathNotFound, BadPath, ValueError):
        return None
    return SpoolState(state.size, state.anchor) if min(state.size, state.anchor.bytes) >= 0 else None


def read(store: Store, place: LogPlace, stream: Stream) -> tuple[Iterator[bytes], Iterator[bytes]]:
    """The bytes of the copy, and those of its times."""
    return _pieces(store, place, stream), _pieces(store, place, f"{stream}.times")


def drop(store: Store, place: LogPlace) -> None:
    """Delete the copies of both streams, once the log is archived."""
    if is_shared():
        with suppress(LongshoreError):
            store.delete(_name(place, ""), recursive=True)


def _put(store: Store, place: LogPlace, name: str, read: Callable[[int, int], bytes], begun: int, size: int) -> None:
    """Write the pieces that have grown."""
    for number in range(begun // PIECE, -(-size // PIECE)):
        start = number * PIECE
        store.write(_name(place, f"{name}-{number:06}"), [read(start, min(PIECE, size - start))])


def _pieces(store: Store, place: LogPlace, name: str) -> Iterator[bytes]:
    number = 0
    while True:
        try:
            with store.open_read(_name(place, f"{name}-{number:06}")) as file:
                data = file.read(PIECE + 1)
        except (PathNotFound, BadPath):
            return
        yield data
        if len(data) != PIECE:
            return
        number += 1


def _name(place: LogPlace, name: str) -> str:
    return f"{place.folder}/live/{name}".rstrip("/")
