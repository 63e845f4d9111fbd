"""Keeps a task's log in the store before its container is removed.

The data files are written first and ``index.json`` last: with the index there the log is archived. Two workers may
archive the same task at once, and one may finish and have the container removed while the other still reads: what the
other then has is cut short. So each looks for the index between the end of its reading and the renaming of its part
file, and whoever finds one leaves everything as it is.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django.utils import timezone

from clusters.engines.runtime import ContainerRuntime, FaultReason, RuntimeFault, Stream
from clusters.engines.schemes import runtime_for
from jobs.logs.follow import spool_folder
from jobs.logs.lines import BLOCK, LineIndex
from jobs.logs.places import HEAD_GONE, STREAMS, LogPlace, find_archive, place_of
from jobs.models import Task
from portal.files.store import open_store
from portal.files.store.base import PathNotFound, Store

LOST = "The container was gone before its log could be kept."
# A log that the engine cannot read may be readable in a moment; its container, with all it holds on the disk, is not
# kept for ever.
UNREADABLE_FOR = timedelta(minutes=10)


class _KeptByAnother(Exception):
    """Another worker was quicker."""


def archive(task: Task, progress: Callable[[], None] = lambda: None) -> None:
    """Keep both streams of the task's container. Repeating is free; gone is no error (what a viewer has seen of it is
    kept, with a note). Raises RuntimeFault (not GONE) and StoreUnavailable: try again later.
    ``progress`` is called with every piece, and may raise too."""
    place, store = place_of(task), open_store()
    if find_archive(place, store) is not None:
        return
    try:
        if not place.container or not place.node:
            raise RuntimeFault("No container was made.", reason=FaultReason.GONE, permanent=True)
        said = _Said(patient=task.finished_at is None or timezone.now() - task.finished_at < UNREADABLE_FOR)
        engine = runtime_for(place.node)
        chunks = {stream: _told(_from_engine(engine, place, stream, said), progress) for stream in STREAMS}
        indexes = {stream: _keep(store, place, stream, chunks[stream]) for stream in STREAMS}
        _finish(store, place, indexes, complete=not said.missing, reason=said.missing)
    except _KeptByAnother:
        return
    except RuntimeFault as fault:
        if fault.reason is not FaultReason.GONE:
            raise
        _keep_what_is_left(store, place)


def _keep_what_is_left(store: Store, place: LogPlace) -> None:
    reason = LOST if place.container else f"{place.label} never had a container, so it has no log."
    try:
        indexes = {stream: _keep(store, place, stream, _left_over(store, place, stream)) for stream in STREAMS}
        _finish(store, place, indexes, complete=False, reason=reason)
    except _KeptByAnother:
        return


def _keep(store: Store, place: LogPlace, stream: Stream, chunks: Iterable[bytes]) -> LineIndex:
    """An empty stream gets no file."""
    index = LineIndex()
    pieces = iter(_indexed(store, place, chunks, index))
    first = next(pieces, None)
    if first is not None:
        store.write(f"{place.folder}/{stream}", _chain(first, pieces))
    return index


def _indexed(store: Store, place: LogPlace, chunks: Iterable[bytes], index: LineIndex) -> Iterator[bytes]:
    for chunk in chunks:
        if chunk:
            index.extend(chunk)
            yield chunk
    if find_archive(place, store) is not None:
        raise _KeptByAnother


def _chain(first: bytes, rest: Iterator[bytes]) -> Iterator[bytes]:
    yield first
    yield from rest


def _told(chunks: Iterator[bytes], progress: Callable[[], None]) -> Iterator[bytes]:
    for chunk in chunks:
        progress()
        yield chunk


@dataclass(slots=True)
class _Said:
    """What the engine could not give. ``patient``: what it cannot read now is asked for again later."""

    patient: bool
    missing: str = ""


def _from_engine(runtime: ContainerRuntime, place: LogPlace, stream: Stream, said: _Said) -> Iterator[bytes]:
    try:
        with closing(runtime.logs(place.container, stream)) as chunks:  # type: ignore[type-var]
            for chunk in chunks:
                if chunk.beheaded:
                    said.missing = HEAD_GONE
                yield chunk.data
    except RuntimeFault as fault:
        if fault.reason is not FaultReason.REFUSED or said.patient:
            raise
        said.missing = fault.sentence


def _left_over(store: Store, place: LogPlace, stream: Stream) -> Iterator[bytes]:
    """What is in the store without an index (a worker died in between), else what viewers on this host were shown."""
    try:
        file = store.open_read(f"{place.folder}/{stream}")
    except PathNotFound:
        spooled = spool_folder(place.task_id, stream) / "data"
        if not spooled.is_file():
            return
        file = spooled.open("rb")
    with file:
        while data := file.read(BLOCK):
            yield data


def _finish(store: Store, place: LogPlace, indexes: dict[Stream, LineIndex], *, complete: bool, reason: str) -> None:
    record: dict[str, Any] = {
        "version": 1,
        "complete": complete,
        "reason": reason,
        "archivedAt": int(time.time() * 1000),
    }
    for stream, index in indexes.items():
        record[stream] = {"bytes": index.size, "newlines": index.newlines, "blocks": list(index.blocks)}
    store.write(f"{place.folder}/index.json", [json.dumps(record).encode()])
