"""The format of a ring file: what one task or node used, in three resolutions. Pure.

A file has a fixed size, however long it is written: 10 seconds for 2 hours, a minute for 2 days, 15 minutes for 90
days. Its parts, in order:

    head      one block: MAGIC, and the names of the columns
    summary   two slots, written in turn: of the whole time, for each column, the last, least, greatest and mean value,
              and when it was busy
    tiers     one after the other; a tier has a fixed number of rows, and the row of a moment is at
              (moment // step) % rows: a new lap overwrites the last one

Each row and slot begins with a checksum and the number of its bucket (moment // step), so a reader knows a row that
is torn, old or was never written; such a row is a gap. A value that nobody knows is a NaN.
"""

from __future__ import annotations

import json
import math
import struct
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

MAGIC = b"longshore ring 1"
BLOCK = 4096
NAN = math.nan
UNKNOWN = 300  # seconds without a value after which nobody can say that a GPU was idle meanwhile
_PREFIX = struct.Struct("<II")  # checksum, bucket


@dataclass(frozen=True, slots=True)
class Tier:
    step: int  # seconds
    rows: int

    @property
    def span(self) -> int:
        return self.step * self.rows


TIERS = (Tier(10, 720), Tier(60, 2_880), Tier(900, 8_640))


@dataclass(slots=True)
class Mean:
    """One column over some time. Times are seconds since 1970, 0 for never."""

    last: float = NAN  # known value
    least: float = NAN
    most: float = NAN
    total: float = 0.0
    count: int = 0
    known: int = 0  # when it was last known
    busy: int = 0  # when it was last above the limit of idleness, or was first known

    @property
    def mean(self) -> float:
        return self.total / self.count if self.count else NAN

    def add(self, value: float, at: int, idle: float) -> None:
        if math.isnan(value):
            return
        self.last = value
        self.least = value if math.isnan(self.least) else min(self.least, value)
        self.most = value if math.isnan(self.most) else max(self.most, value)
        self.total += value
        self.count += 1
        if value > idle or at - self.known > UNKNOWN:
            self.busy = at
        self.known = at


@dataclass(slots=True)
class RingSummary:
    """All columns over the whole time. Times are seconds since 1970; 0: nothing was written yet."""

    began: int
    at: int
    sequence: int
    columns: dict[str, Mean]


@dataclass(frozen=True, slots=True)
class CoarseRow:
    """A row of a coarse tier: of each column the least, greatest and mean value, and how many there were."""

    at: int
    least: tuple[float, ...]
    most: tuple[float, ...]
    mean: tuple[float, ...]


class Layout:
    """Where the parts of a file with these columns are, and how they are written. Use ``layout_of``."""

    def __init__(self, columns: tuple[str, ...]) -> None:
        self.columns = columns
        number = len(columns)
        self._fine = struct.Struct(f"<II{number}f")
        self._coarse = struct.Struct("<II" + "fffH" * number)
        self._summary = struct.Struct("<IIII" + "fffdIII" * number)  # checksum, sequence, began, at
        self.head_size = _up(len(MAGIC) + 4 + len(self._names()), BLOCK)
        self.slot = _up(self._summary.size, 512)
        self.starts: list[int] = []
        at = _up(self.head_size + 2 * self.slot, BLOCK)
        for tier in range(len(TIERS)):
            self.starts.append(at)
            at = _up(at + TIERS[tier].rows * self.row_size(tier), BLOCK)
        self.size = at

    def head(self) -> bytes:
        names = self._names()
        return (MAGIC + struct.pack("<I", len(names)) + names).ljust(self.head_size, b"\0")

    def row_size(self, tier: int) -> int:
        return (self._coarse if tier else self._fine).size

    def place(self, tier: int, at: int) -> int:
        """Return the offset of the row of a moment."""
        bucket = at // TIERS[tier].step
        return self.starts[tier] + bucket % TIERS[tier].rows * self.row_size(tier)

    def fine_row(self, at: int, values: Sequence[float]) -> bytes:
        return _sealed(self._fine.pack(0, at // TIERS[0].step, *values))

    def coarse_row(self, tier: int, at: int, values: Sequence[float], before: bytes) -> bytes:
        """The row of the moment with ``values`` in it, beside those of ``before``, what is at its place now."""
        bucket = at // TIERS[tier].step
        is_known = _is_whole(before, self._coarse.size) and _PREFIX.unpack_from(before)[1] == bucket
        known = self._coarse.unpack(before) if is_known else None
        parts: list[float] = []
        for at_column, value in enumerate(values):
            least, most, mean, count = known[2 + 4 * at_column :][:4] if known else (NAN, NAN, NAN, 0)
            if not math.isnan(value):
                least, most = (min(least, value), max(most, value)) if count else (value, value)
                count = min(count + 1, 65_535)
                mean = mean + (value - mean) / count if count > 1 else value
            parts += (least, most, mean, count)
        return _sealed(self._coarse.pack(0, bucket, *parts))

    def buckets(self, tier: int, begin: int, end: int, data: bytes, first: int) -> Iterator[CoarseRow]:
        """The rows of the moments from ``begin`` to ``end`` that are in ``data``, whose first row is number ``first``
        of the tier. Gaps are left out. In the finest tier the least, greatest and mean value are the same."""
        row, step, size = (self._coarse if tier else self._fine), TIERS[tier].step, self.row_size(tier)
        for number in range(len(data) // size):
            piece = data[number * size :][:size]
            bucket = _PREFIX.unpack_from(piece)[1]
            at = bucket * step
            if not begin <= at < end or bucket % TIERS[tier].rows != first + number or not _is_whole(piece, size):
                continue
            values = row.unpack(piece)[2:]
            if tier:
                yield CoarseRow(at, values[0::4], values[1::4], values[2::4])
            else:
                yield CoarseRow(at, values, values, values)

    def summary_slot(self, summary: RingSummary) -> tuple[int, bytes]:
        """Where it is written, and its bytes."""
        parts: list[float] = []
        for mean in summary.columns.values():
            parts += (mean.last, mean.least, mean.most, mean.total, mean.count, mean.known, mean.busy)
        data = _sealed(self._summary.pack(0, summary.sequence, summary.began, summary.at, *parts))
        return self.head_size + summary.sequence % 2 * self.slot, data

    def summary(self, slots: bytes) -> RingSummary:
        """The newer one of the two slots that is whole; an empty one where neither is."""
        pieces = (slots[at:][: self._summary.size] for at in (0, self.slot))
        whole = [self._summary.unpack(piece) for piece in pieces if _is_whole(piece, self._summary.size)]
        if not whole:
            return RingSummary(0, 0, 0, {name: Mean() for name in self.columns})
        _, sequence, began, at, *parts = max(whole, key=lambda slot: slot[1])
        columns = {name: Mean(*parts[7 * number :][:7]) for number, name in enumerate(self.columns)}
        return RingSummary(began, at, sequence, columns)

    def _names(self) -> bytes:
        return json.dumps(self.columns, separators=(",", ":")).encode()


@lru_cache(maxsize=256)
def layout_of(columns: tuple[str, ...]) -> Layout:
    return Layout(columns)


def read_head(data: bytes) -> tuple[str, ...]:
    """The columns that a file names in its first block. Raises ValueError for what is no ring file."""
    if not data.startswith(MAGIC) or len(data) < len(MAGIC) + 4:
        raise ValueError("not a ring file")
    (size,) = struct.unpack_from("<I", data, len(MAGIC))
    names = json.loads(data[len(MAGIC) + 4 :][:size])
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise ValueError("not a ring file")
    return tuple(names)


def _sealed(row: bytes) -> bytes:
    return struct.pack("<I", zlib.crc32(row[4:]) or 1) + row[4:]


def _is_whole(row: bytes, size: int) -> bool:
    return len(row) == size and bool(_PREFIX.unpack_from(row)[0] == (zlib.crc32(row[4:]) or 1))


def _up(size: int, unit: int) -> int:
    return -(-size // unit) * unit
