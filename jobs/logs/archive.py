"""Archives a task's log in the store before its container is removed.

Each stream has its bytes and, beside them, the times of its lines. They are written first and ``index.json`` last: a
log is archived when its index is there. Two workers may archive the same task at once. One may finish and have the
container removed while the other still reads, which cuts the other's copy short. So each looks for the index after it
has read everything and before its file takes its name; a worker that finds an index changes nothing.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from datetime import timedelta
from tempfile import SpooledTemporaryFile
from typing import IO, Any

import structlog
from django.db.models import F
from django.utils import timezone

from base.core.errors import LongshoreError
from base.files.store import open_store
from base.files.store.base import PathNotFound, Store, StoreUnavailable
from clusters.engines.runtime import ContainerRuntime, FaultReason, LogChunk, RuntimeFault, Stream
from clusters.engines.schemes import runtime_for
from jobs.logs import mirror
from jobs.logs.follow import spool_folder
from jobs.logs.lines import BLOCK, LineIndex
from jobs.logs.places import HEAD_GONE, STREAMS, LogPlace, find_archive, place_of, write_index
from jobs.logs.times import WIDTH, TimeIndex, begun
from jobs.models import Attempt, Task

LOST = "The container was gone before its log could be kept."
# A log that the engine cannot read may be readable in a moment. After this time what could be read is archived: the
# container takes room on the node's disk and cannot stay for ever.
UNREADABLE_FOR = timedelta(minutes=10)


_IN_MEMORY = 8 << 20  # bytes of times; more wait in a file for the end of the log
log = structlog.get_logger()

# A piece of a log, and the stamps of the lines that begin in it; None where they are not known.
Piece = tuple[bytes, bytes | None]


class _ArchivedByAnother(Exception):
    """Another worker was quicker."""


def archive(task: Task, progress: Callable[[], None] = lambda: None) -> None:
    """Archive both streams of the task's container. Does nothing when that is done already.

    A container that is gone is no error: what viewers saw of its log is archived, with a note. Where the user has put
    something else in the log's place it is not kept. ``progress`` is called with every piece and may raise to give up.
    Raises RuntimeFault (never GONE) and StoreUnavailable: try again later.
    """
    place, store = place_of(task), open_store()
    try:
        if find_archive(place, store) is None:
            _archive(task, place, store, progress)
    except _ArchivedByAnother:
        return
    except StoreUnavailable:
        raise
    except LongshoreError as error:  # it would fail each time, and the container would stay for ever
        log.warning("a log is not kept", task=task.pk, reason=error.message)


def _archive(task: Task, place: LogPlace, store: Store, progress: Callable[[], None]) -> None:
    try:
        if not place.container or not place.node:
            raise RuntimeFault("No container was made.", reason=FaultReason.GONE, permanent=True)
        gap = _Gap(patient=task.finished_at is None or timezone.now() - task.finished_at < UNREADABLE_FOR)
        engine = runtime_for(place.node)
        whole = engine.short_logs(place.container)
        logs: Mapping[Stream, Iterable[LogChunk]] = whole or {
            stream: _from_engine(engine, place, stream, gap) for stream in STREAMS
        }
        chunks = {stream: _with_progress(logs[stream], gap, progress) for stream in STREAMS}
        indexes = {stream: _write(store, place, stream, chunks[stream]) for stream in STREAMS}
        write_index(store, place.folder, indexes, complete=not gap.reason, reason=gap.reason)
        mirror.drop(store, place)
        size = sum(index["bytes"] for index in indexes.values())
        if size:
            Attempt.objects.filter(pk=task.attempt_id).update(log_bytes=F("log_bytes") + size)
    except RuntimeFault as fault:
        if fault.reason is not FaultReason.GONE:
            raise
        _archive_leftovers(store, place)


def _archive_leftovers(store: Store, place: LogPlace) -> None:
    reason = LOST if place.container else f"{place.label} never had a container, so it has no log."
    indexes = {stream: _write(store, place, stream, _leftovers(store, place, stream)) for stream in STREAMS}
    write_index(store, place.folder, indexes, complete=False, reason=reason)
    mirror.drop(store, place)


def _write(store: Store, place: LogPlace, stream: Stream, pieces: Iterator[Piece]) -> dict[str, Any]:
    """Write one stream, and return what the index says of it. An empty stream gets no files."""
    with SpooledTemporaryFile(_IN_MEMORY) as times:
        indexed = _Indexed(pieces, times)
        data = iter(indexed)
        if first := next(data, b""):
            store.write(f"{place.folder}/{stream}", _unless_archived(store, place, first, data))
            times.seek(0)
            store.write(f"{place.folder}/{stream}.times", iter(lambda: times.read(BLOCK), b""))
        return indexed.record()


def _unless_archived(store: Store, place: LogPlace, first: bytes, rest: Iterator[bytes]) -> Iterator[bytes]:
    yield first
    yield from rest
    if find_archive(place, store) is not None:
        raise _ArchivedByAnother


class _Indexed:
    """The bytes of the pieces, with an index of their lines and times that is complete when they are. The times go to
    a file of their own."""

    def __init__(self, pieces: Iterator[Piece], times: IO[bytes]) -> None:
        self._pieces, self._times = pieces, times
        self._lines, self._tops = LineIndex(), TimeIndex()
        self._timed = True

    def __iter__(self) -> Iterator[bytes]:
        for data, times in self._pieces:
            if times is None:
                self._timed = False
            elif times:
                self._tops.extend(memoryview(times).cast("q"))
                self._times.write(times)
            self._lines.extend(data)
            if data:
                yield data

    def record(self) -> dict[str, Any]:
        index = self._lines
        told = {"bytes": index.size, "newlines": index.newlines, "blocks": list(index.blocks)}
        if not self._timed:
            return told
        return {**told, "lines": self._tops.count, "tops": base64.b64encode(self._tops.tops.tobytes()).decode()}


def _with_progress(chunks: Iterable[LogChunk], gap: _Gap, progress: Callable[[], None]) -> Iterator[Piece]:
    at_start = True
    for chunk in chunks:
        progress()
        if chunk.beheaded:
            gap.reason = HEAD_GONE
        yield chunk.data, begun(chunk, 0, at_start).tobytes()
        at_start = chunk.data.endswith(b"\n") if chunk.data else at_start


@dataclass(slots=True)
class _Gap:
    """Why the engine did not give all of a log. ``patient``: a log that it cannot read now is asked for again later."""

    patient: bool
    reason: str = ""


def _from_engine(runtime: ContainerRuntime, place: LogPlace, stream: Stream, gap: _Gap) -> Iterator[LogChunk]:
    try:
        with closing(runtime.logs(place.container, stream)) as chunks:  # type: ignore[type-var]
            yield from chunks
    except RuntimeFault as fault:
        if fault.reason is not FaultReason.REFUSED or gap.patient:
            raise
        gap.reason = fault.sentence


def _leftovers(store: Store, place: LogPlace, stream: Stream) -> Iterator[Piece]:
    """The data file of a worker that died before it wrote the index, else what viewers were shown: on any host, or on
    this one."""
    spool = spool_folder(place.task_id, stream)
    try:
        file = store.open_read(f"{place.folder}/{stream}")
        times = None
    except PathNotFound:
        mirrored = mirror.stored(store, place, stream) if mirror.is_shared() else None
        here = (spool / "data").stat().st_size if (spool / "data").is_file() else 0
        if mirrored and mirrored.size >= here:
            pieces, stamps = mirror.read(store, place, stream)
            yield from ((piece, b"") for piece in pieces)
            yield from ((b"", piece) for piece in stamps)
            return
        if not here:
            return
        file, times = (spool / "data").open("rb"), spool / "times"
    with file:
        while data := file.read(BLOCK):
            yield data, b"" if times else None
    if times:
        with times.open("rb") as stamped:
            while piece := stamped.read(BLOCK):
                yield b"", piece[: len(piece) // WIDTH * WIDTH]
