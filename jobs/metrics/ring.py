"""Writes and reads ring files (jobs.metrics.layout).

One process writes, the sampler that holds the lease; any number read, and nobody locks anything. A sample is a few
small writes in place. Killed between two of them, the writer leaves a file whose rows are each whole or as they were
before; the next sample goes on there. A reader who meets a row just being written takes it for a gap.

The file is made with its full size and without blocks on the disk: it takes room as it is filled, and at most
``layout.size`` bytes: 0.1 MB, and 0.17 MB for each column.
"""

from __future__ import annotations

import math
import os
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from jobs.metrics.layout import BLOCK, TIERS, CoarseRow, Layout, RingSummary, layout_of, read_head

_HEADS = 16 * BLOCK  # bytes; more columns than that names has no node


@dataclass(frozen=True, slots=True)
class Contents:
    """What is in a file from some moment on. ``step`` in seconds."""

    columns: tuple[str, ...]
    step: int
    buckets: list[CoarseRow]


def write(
    path: Path, columns: tuple[str, ...], at: int, values: Sequence[float], idle: float = math.inf
) -> RingSummary:
    """Add the values of one moment (seconds since 1970), and return what the file has of the whole time. A file with
    other columns, or none, is begun anew. ``idle``: what the greatest value of an idle column may be, see
    ``Mean.busy``. Raises OSError."""
    layout = layout_of(columns)
    with _opened(path, layout) as file:
        return _write(file, layout, at, values, idle)


def read(path: Path, begin: int, end: int, step: int = 0) -> Contents | None:
    """What the file has of the time from ``begin`` to ``end``, in the finest tier whose step is at least ``step`` and
    that goes back so far. None when there is no file, or none that can be read."""
    try:
        with _reading(path) as (file, layout, summary):
            tier = _tier(begin, max(end, summary.at), step)
            return Contents(layout.columns, TIERS[tier].step, list(_rows(file, layout, tier, begin, end)))
    except (OSError, ValueError):
        return None


def summary(path: Path) -> RingSummary | None:
    """What it has of the whole time; None as in ``read``."""
    try:
        with _reading(path) as (_, _, summary):
            return summary
    except (OSError, ValueError):
        return None


def _write(file: int, layout: Layout, at: int, values: Sequence[float], idle: float) -> RingSummary:
    summary = _summary(file, layout)
    os.pwrite(file, layout.fine_row(at, values), layout.place(0, at))
    for tier in range(1, len(TIERS)):
        place = layout.place(tier, at)
        before = os.pread(file, layout.row_size(tier), place)
        os.pwrite(file, layout.coarse_row(tier, at, values, before), place)
    for mean, value in zip(summary.columns.values(), values, strict=True):
        mean.add(value, at, idle)
    summary.sequence, summary.began, summary.at = summary.sequence + 1, summary.began or at, at
    place, slot = layout.summary_slot(summary)
    os.pwrite(file, slot, place)
    return summary


def _rows(file: int, layout: Layout, tier: int, begin: int, end: int) -> Iterator[CoarseRow]:
    """The rows in order of time. A span reaches at most over one lap, so it is one piece of the tier or two."""
    step, rows, size = TIERS[tier].step, TIERS[tier].rows, layout.row_size(tier)
    first, number = begin // step, min(rows, -(-end // step) - begin // step)
    if number <= 0:
        return
    at = first % rows
    pieces = [(at, min(number, rows - at)), (0, number - min(number, rows - at))]
    for start, count in pieces:
        data = os.pread(file, count * size, layout.starts[tier] + start * size)
        yield from layout.buckets(tier, begin - begin % step, end, data, start)


def _tier(begin: int, end: int, step: int) -> int:
    for number, tier in enumerate(TIERS):
        if tier.step >= step and begin >= end - tier.span:
            return number
    return len(TIERS) - 1


def _summary(file: int, layout: Layout) -> RingSummary:
    return layout.summary(os.pread(file, 2 * layout.slot, layout.head_size))


@contextmanager
def _reading(path: Path) -> Iterator[tuple[int, Layout, RingSummary]]:
    file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        layout = layout_of(read_head(os.pread(file, _HEADS, 0)))
        yield file, layout, _summary(file, layout)
    finally:
        os.close(file)


@contextmanager
def _opened(path: Path, layout: Layout) -> Iterator[int]:
    try:
        file = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        file = -1
    if file >= 0 and os.pread(file, layout.head_size, 0) != layout.head():
        os.close(file)
        file = -1
    if file < 0:
        file = _made(path, layout)
    try:
        yield file
    finally:
        os.close(file)


def _made(path: Path, layout: Layout) -> int:
    """A new file at the path; whoever looks finds the old one or a whole new one."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    new = path.with_name(f".{uuid.uuid4().hex}")
    file = os.open(new, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        os.ftruncate(file, layout.size)
        os.pwrite(file, layout.head(), 0)
        os.replace(new, path)
    except BaseException:
        os.close(file)
        with suppress(OSError):
            new.unlink()
        raise
    return file
