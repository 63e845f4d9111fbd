"""Gives logs to be saved, in pieces: the lines of several as one text in the order of their times, or each as it was
written in a zip archive. Neither is ever whole in memory or on a disk."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from typing import IO, cast

from clusters.engines.logs.stamps import stamp
from jobs.logs.lines import LogView
from jobs.logs.together.sources import MergedLogs

_LINES = 256  # that are put in order at once
_MOST = 1 << 20  # bytes that are read at once; a longer line leaves in pieces


def as_text(together: MergedLogs, rank: int, stop: int) -> Iterator[bytes]:
    """The lines with these ranks as they were written, each behind its stamp and, of several logs, behind task, attempt
    and stream."""
    count = _LINES
    while rank < stop:
        wanted = together.order.lines(rank, min(count, stop - rank))
        if not wanted:
            return
        if len(wanted) > 1 and _size(together, wanted) > _MOST:
            count = len(wanted) // 2
            continue
        if len(wanted) == 1:
            yield from _line(together, *wanted[0])
        else:
            ready = {place: _lines(together, place, wanted) for place in {place for place, _ in wanted}}
            yield b"".join(next(ready[place], b"") for place, _ in wanted)
        rank += len(wanted)
        count = min(2 * count, _LINES)


def as_zip(together: MergedLogs) -> Iterator[bytes]:
    """An archive with a file for each log that has any bytes."""
    sink = _Sink()
    with zipfile.ZipFile(cast("IO[bytes]", sink), "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for log in together.logs:
            if not log.view.size:
                continue
            name = f"attempt-{log.source.task.attempt.number}/{log.source.task.label}.{log.source.stream}.txt"
            with archive.open(zipfile.ZipInfo(name), "w", force_zip64=True) as entry:
                for piece in log.view.pieces():
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


def _lines(together: MergedLogs, place: int, wanted: list[tuple[int, int]]) -> Iterator[bytes]:
    """The wanted lines of one log, which follow each other."""
    numbers = [line for log, line in wanted if log == place]
    log = together.logs[place]
    begin, end = _span(log.view, numbers[0], numbers[-1])
    lines = log.view.read(begin, end - begin).removesuffix(b"\n").split(b"\n")
    for text, at in zip(lines, log.times.of(numbers[0], len(numbers)), strict=False):
        yield _head(together, place, at) + text + b"\n"


def _line(together: MergedLogs, place: int, number: int) -> Iterator[bytes]:
    """One line, which may be of any length, in pieces."""
    log = together.logs[place]
    begin, end = _span(log.view, number, number)
    for at in log.times.of(number, 1):
        yield _head(together, place, at)
        last = b"\n"
        for piece in log.view.pieces(begin, end):
            yield piece
            last = piece[-1:]
        if last != b"\n" or begin == end:
            yield b"\n"


def _head(together: MergedLogs, place: int, at: int) -> bytes:
    source = together.logs[place].source
    named = f" {source.task.label}.{source.task.attempt.number} {source.stream} " if len(together.logs) > 1 else " "
    return f"{stamp(at)}{named}".encode()


def _size(together: MergedLogs, wanted: list[tuple[int, int]]) -> int:
    """Bytes of these lines."""
    first, last = dict(reversed(wanted)), dict(wanted)
    spans = [_span(together.logs[place].view, first[place], last[place]) for place in first]
    return sum(end - begin for begin, end in spans)


def _span(view: LogView, first: int, last: int) -> tuple[int, int]:
    """Where these lines, counted from 0, begin and end."""
    return view.start_of(first + 1), view.start_of(last + 2)
