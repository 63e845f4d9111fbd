"""Gives logs to be saved, in pieces: the lines of several as one text in the order of their times, or each as it was
written in a zip archive. Neither is ever whole in memory or on a disk."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from typing import IO, cast

from clusters.engines.stamps import stamp
from jobs.logs.lines import BLOCK, LogView
from jobs.logs.together.sources import Together

_LINES = 256  # that are put in order at once


def as_text(together: Together, rank: int, stop: int) -> Iterator[bytes]:
    """The lines with these ranks as they were written, each behind its stamp and, of several logs, behind task, attempt
    and stream."""
    while rank < stop:
        wanted = together.order.lines(rank, min(_LINES, stop - rank))
        if not wanted:
            return
        ready = {place: _lines(together, place, wanted) for place in {place for place, _ in wanted}}
        yield b"".join(next(ready[place], b"") for place, _ in wanted)
        rank += len(wanted)


def as_zip(together: Together) -> Iterator[bytes]:
    """An archive with a file for each log that has any bytes."""
    sink = _Sink()
    with zipfile.ZipFile(cast("IO[bytes]", sink), "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for log in together.logs:
            if not log.view.size:
                continue
            name = f"attempt-{log.source.task.attempt.number}/{log.source.task.label}.{log.source.stream}.txt"
            with archive.open(zipfile.ZipInfo(name), "w", force_zip64=True) as entry:
                for piece in _pieces(log.view):
                    entry.write(piece)
                    if ready := sink.take():
                        yield ready
    yield sink.take()


class _Sink:
    """Takes what zipfile writes. It cannot seek, so zipfile writes sizes and sums behind each file."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []

    def write(self, data: bytes, /) -> int:
        self._parts.append(bytes(data))
        return len(data)

    def flush(self) -> None:
        pass

    def take(self) -> bytes:
        parts, self._parts = self._parts, []
        return b"".join(parts)


def _lines(together: Together, place: int, wanted: list[tuple[int, int]]) -> Iterator[bytes]:
    """The wanted lines of one log, which follow each other."""
    numbers = [line for log, line in wanted if log == place]
    log = together.logs[place]
    source = log.source
    named = f" {source.task.label}.{source.task.attempt.number} {source.stream} " if len(together.logs) > 1 else " "
    begin, end = log.view.start_of(numbers[0] + 1), log.view.start_of(numbers[-1] + 2)
    data = log.view.read(begin, end - begin)
    lines = data.removesuffix(b"\n").split(b"\n")
    for text, at in zip(lines, log.times.of(numbers[0], len(numbers)), strict=False):
        yield f"{stamp(at)}{named}".encode() + text + b"\n"


def _pieces(view: LogView) -> Iterator[bytes]:
    start = 0
    while start < view.size:
        data = view.read(start, min(BLOCK * 4, view.size - start))
        if not data:
            return
        yield data
        start += len(data)
