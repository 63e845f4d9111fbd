"""Computes HDFS's checksum of a file: the MD5 of the MD5s of its blocks, each of the CRC-32s of its pieces. Pure but
for reading.

It is that of an HDFS with ``dfs.checksum.type=CRC32``; the usual CRC-32C is not in Python's library.
"""

from __future__ import annotations

import hashlib
import struct
import zlib
from typing import Any, BinaryIO

BLOCK = 128 << 20
PIECE = 512
_AT_ONCE = 1 << 20


def of_file(file: BinaryIO, size: int) -> dict[str, Any]:
    """WebHDFS's FileChecksum of ``size`` bytes of it."""
    blocks = [_of_block(file, min(BLOCK, size - start)) for start in range(0, size, BLOCK)]
    per_block = BLOCK // PIECE if len(blocks) > 1 else 0
    whole = hashlib.md5(_padded(b"".join(blocks)), usedforsecurity=False).digest()
    checksum = struct.pack(">iq", PIECE if blocks else 0, per_block) + whole
    name = f"MD5-of-{per_block}MD5-of-{PIECE if blocks else 0}CRC32"
    return {"algorithm": name, "bytes": checksum.hex(), "length": len(checksum)}


def _padded(sums: bytes) -> bytes:
    """HDFS computes over its whole buffer, which has 32 bytes and doubles as needed."""
    size = 32
    while size < len(sums):
        size *= 2
    return sums.ljust(size, b"\0")


def _of_block(file: BinaryIO, left: int) -> bytes:
    sums = hashlib.md5(usedforsecurity=False)
    while left > 0 and (data := _exactly(file, min(_AT_ONCE, left))):
        left -= len(data)
        crcs = [zlib.crc32(data[start : start + PIECE]) for start in range(0, len(data), PIECE)]
        sums.update(struct.pack(f">{len(crcs)}I", *crcs))
    return sums.digest()


def _exactly(file: BinaryIO, size: int) -> bytes:
    """A short read in the middle would shift the pieces."""
    pieces = []
    while size > 0 and (data := file.read(size)):
        pieces.append(data)
        size -= len(data)
    return b"".join(pieces)
