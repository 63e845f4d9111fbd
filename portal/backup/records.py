"""What is in a backup, as records one after the other: notes (JSON), rows of the table that the last note named, bytes
of the file that the last note named. Compressed, and never more than some of them in memory."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from portal.backup.encryption import DISORDER, BackupError, Sealing

Row = Sequence[Any]
_NOTE, _ROWS, _BYTES = b"N", b"R", b"B"
_FULL = 128 * 1024  # characters of rows that make a record
_LARGEST = 1 << 28  # bytes of a record; a single row can be large
_BLOCK = 1 << 16
_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


@dataclass(slots=True)
class Records:
    """Writes the records of a backup."""

    box: Sealing
    _squeeze: Any = field(default_factory=lambda: zlib.compressobj(level=1))
    _rows: list[str] = field(default_factory=list)
    _waiting: int = 0

    def note(self, kind: str, **says: Any) -> None:
        self._flush()
        self._put(_NOTE, _encode({"kind": kind, **says}).encode("utf-8", "surrogatepass"))

    def row(self, row: Row) -> None:
        """Add a row of the table that the last note named."""
        text = _encode(row)
        self._rows.append(text)
        self._waiting += len(text)
        if self._waiting >= _FULL:
            self._flush()

    def piece(self, data: bytes) -> None:
        """Add bytes of the file that the last note named."""
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


def read(pieces: Iterable[bytes]) -> Iterator[tuple[str, Any]]:
    """All records: a note's kind with what it says, ``rows`` with a list of them, or ``bytes``. The last one is the
    note ``end``. BackupError where they are not in order: who acts on records before that must be able to take it
    back."""
    stream, waiting = _stretched(pieces), bytearray()

    def take(size: int) -> bytes:
        while len(waiting) < size and (more := next(stream, b"")):
            waiting.extend(more)
        taken = bytes(waiting[:size])
        del waiting[:size]
        return taken

    while head := take(5):
        kind, length = head[:1], int.from_bytes(head[1:])
        content = take(length) if len(head) == 5 and length <= _LARGEST else b""
        if len(content) != length or len(head) != 5:
            break
        name, value = _record(kind, content)
        if name == "end":
            if not take(1):
                yield name, value
                return
            break
        yield name, value
    raise BackupError(DISORDER)


def _record(kind: bytes, content: bytes) -> tuple[str, Any]:
    if kind == _BYTES:
        return "bytes", content
    value = json.loads(content.decode("utf-8", "surrogatepass"))
    return ("rows", value) if kind == _ROWS else (value.pop("kind"), value)


def _stretched(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """The bytes before they were compressed, never many at once."""
    stretch = zlib.decompressobj()
    for piece in pieces:
        while data := stretch.decompress(piece, _BLOCK):
            yield data
            piece = stretch.unconsumed_tail
