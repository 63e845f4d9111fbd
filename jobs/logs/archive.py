"""Archives a task's log in the store before its container is removed.

The data files are written first and ``index.json`` last: a log is archived when its index is there. Two workers may
archive the same task at once. One may finish and have the container removed while the other still reads, which cuts
the other's copy short. So each looks for the index after it has read everything and before its file takes its name;
a worker that finds an index changes nothing.
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
# A log that the engine cannot read may be readable in a moment. After this time what could be read is archived: the
# container takes room on the node's disk and cannot stay for ever.
UNREADABLE_FOR = timedelta(minutes=10)


class _ArchivedByAnother(Exception):
    """Another worker was quicker."""


def archive(task: Task, progress: Callable[[], None] = lambda: None) -> None:
    """Archive both streams of the task's container. Does nothing when that is done already.

    A container that is gone is no error: what viewers saw of its log is archived, with a note. ``progress`` is called
    with every piece and may raise to give up. Raises RuntimeFault (never GONE) and StoreUnavailable: try again later.
    """
    place, store = place_of(task), open_store()
    if find_archive(place, store) is not None:
        return
    try:
        if not place.container or not place.node:
            raise RuntimeFault("No container was made.", reason=FaultReason.GONE, permanent=True)
        gap = _Gap(patient=task.finished_at is None or timezone.now() - task.finished_at < UNREADABLE_FOR)
        engine = runtime_for(place.node)
        chunks = {stream: _with_progress(_from_engine(engine, place, stream, gap), progress) for stream in STREAMS}
        indexes = {stream: _write(store, place, stream, chunks[stream]) for stream in STREAMS}
        _finish(store, place, indexes, complete=not gap.reason, reason=gap.reason)
    except _ArchivedByAnother:
        return
    except RuntimeFault as fault:
        if fault.reason is not FaultReason.GONE:
            raise
        _archive_leftovers(store, place)


def _archive_leftovers(store: Store, place: LogPlace) -> None:
    reason = LOST if place.container else f"{place.label} never had a container, so it has no log."
    try:
        indexes = {stream: _write(store, place, stream, _leftovers(store, place, stream)) for stream in STREAMS}
        _finish(store, place, indexes, complete=False, reason=reason)
    except _ArchivedByAnother:
        return


def _write(store: Store, place: LogPlace, stream: Stream, chunks: Iterable[bytes]) -> LineIndex:
    """Write one stream, and return its index. An empty stream gets no file."""
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
        raise _ArchivedByAnother


def _chain(first: bytes, rest: Iterator[bytes]) -> Iterator[bytes]:
    yield first
    yield from rest


def _with_progress(chunks: Iterator[bytes], progress: Callable[[], None]) -> Iterator[bytes]:
    for chunk in chunks:
        progress()
        yield chunk


@dataclass(slots=True)
class _Gap:
    """Why the engine did not give all of a log. ``patient``: a log that it cannot read now is asked for again later."""

    patient: bool
    reason: str = ""


def _from_engine(runtime: ContainerRuntime, place: LogPlace, stream: Stream, gap: _Gap) -> Iterator[bytes]:
    try:
        with closing(runtime.logs(place.container, stream)) as chunks:  # type: ignore[type-var]
            for chunk in chunks:
                if chunk.beheaded:
                    gap.reason = HEAD_GONE
                yield chunk.data
    except RuntimeFault as fault:
        if fault.reason is not FaultReason.REFUSED or gap.patient:
            raise
        gap.reason = fault.sentence


def _leftovers(store: Store, place: LogPlace, stream: Stream) -> Iterator[bytes]:
    """The data file of a worker that died before it wrote the index, else the copy that viewers on this host were
    shown."""
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
