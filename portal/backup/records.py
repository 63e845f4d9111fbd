"""What is in a backup, as records one after the other: notes (JSON), rows of the table that the last note named, bytes
of the file that the last note named. Compressed, and never more than some of them in memory."""

from __future__ import annotations

import io
import json
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from portal.backup.box import DISORDER, BackupError, Opening, Sealing

Row = Sequence[Any]
_NOTE, _ROWS, _BYTES = b"N", b"R", b"B"
_FULL = 128 * 1024  # characters of rows that make a record
_LARGEST = 1 << 28  # bytes of a record; a single row can be large
_BLOCK = 1 << 16
_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


@dataclass(slots=True)
class Records:
    """Writes them."""

    box: Sealing
    _squeeze: Any = field(default_factory=lambda: zlib.compressobj(level=1))
    _rows: list[str] = field(default_factory=list)
    _waiting: int = 0

    def note(self, kind: str, **says: Any) -> None:
        self._flush()
        self._put(_NOTE, _encode({"kind": kind, **says}).encode("utf-8", "surrogatepass"))

    def row(self, row: Row) -> None:
        """Of the table that the last note named."""
        text = _encode(row)
        self._rows.append(text)
        self._waiting += len(text)
        if self._waiting >= _FULL:
            self._flush()

    def piece(self, data: bytes) -> None:
        """Of the file that the last note named."""
        self._put(_BYTES, data)

    def close(self) -> str:
        """Returns the checksum of the whole backup (hex)."""
        self.note("end")
        self.box.write(self._squeeze.flush())
        return self.box.close()

    def _flush(self) -> None:
        if self._rows:
            rows, self._rows, self._waiting = f"[{','.join(self._rows)}]", [], 0
            self._put(_ROWS, rows.encode("utf-8", "surrogatepass"))

    def _put(self, kind: bytes, content: bytes) -> None:
        self.box.write(self._squeeze.compress(kind + len(content).to_bytes(4) + content))


@dataclass(frozen=True, slots=True)
class Note:
    kind: str
    says: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Rows:
    rows: list[list[Any]]


@dataclass(frozen=True, slots=True)
class Bytes:
    data: bytes


def read(box: Opening) -> Iterator[Note | Rows | Bytes]:
    """All records; the last one is the note ``end``. BackupError where the backup is damaged or not whole: who acts on
    records before that must be able to take it back."""
    stream = io.BufferedReader(_Stretched(box), _BLOCK)
    while head := stream.read(5):
        kind, length = head[:1], int.from_bytes(head[1:])
        content = stream.read(length) if len(head) == 5 and length <= _LARGEST else b""
        if len(content) != length or len(head) != 5:
            break
        record = _record(kind, content)
        if isinstance(record, Note) and record.kind == "end":
            if not stream.read(1):
                yield record
                return
            break
        yield record
    raise BackupError(DISORDER)


def _record(kind: bytes, content: bytes) -> Note | Rows | Bytes:
    if kind == _BYTES:
        return Bytes(content)
    found = json.loads(content.decode("utf-8", "surrogatepass"))
    return Rows(found) if kind == _ROWS else Note(found.pop("kind"), found)


class _Stretched(io.RawIOBase):
    """The bytes before they were compressed."""

    def __init__(self, source: Opening) -> None:
        self._source = source
        self._stretch = zlib.decompressobj()
        self._ended = False

    def readable(self) -> Literal[True]:
        return True

    def readinto(self, buffer: Any, /) -> int:
        data = b""
        while not data and not self._ended:
            rest = self._stretch.unconsumed_tail or self._source.read(_BLOCK)
            data = self._stretch.decompress(rest or b"", len(buffer))
            self._ended = not rest
        buffer[: len(data)] = data
        return len(data)
