"""Checksums of files: SHA-1, and that of HDFS, which the portal reckons of its own files, so none of their bytes are
sent."""

from __future__ import annotations

import hashlib
import struct
import time
import zlib
from collections.abc import Iterator

from .errors import Unreachable
from .places import LocalSide, Location, RemotePlace

PIECE = 512  # bytes, of which each has a CRC-32
TRIES, PAUSE = 30, 4.0  # seconds: who has asked for 10 s of the portal's CPU is told to come back later


def sha1(pieces: Iterator[bytes]) -> hashlib._Hash:
    digest = hashlib.sha1(usedforsecurity=False)
    for piece in pieces:
        digest.update(piece)
    return digest


def is_same(source: Location, name: str, target: Location, its_name: str, size: int) -> bool:
    """Whether two files of one length have the same content, of which one is in the store."""
    if isinstance(source, RemotePlace):
        source, name, target, its_name = target, its_name, source, name
    assert isinstance(source, LocalSide) and isinstance(target, RemotePlace)
    per_block, theirs = _told(target, its_name)
    return theirs == _reckoned(source, name, size, per_block)


def _told(target: RemotePlace, name: str) -> tuple[int, str]:
    for _ in range(TRIES - 1):
        try:
            return target.checksum(name)
        except Unreachable:
            time.sleep(PAUSE)
    return target.checksum(name)


def _reckoned(source: LocalSide, name: str, size: int, per_block: int) -> str:
    """The MD5 of the MD5s of the blocks, each of the CRC-32s of its pieces; HDFS fills those up with zeros to a power
    of two. ``per_block`` is 0 for a file of one block."""
    block, sums = per_block * PIECE or size, b""
    for start in range(0, size, block or 1):
        digest = hashlib.md5(usedforsecurity=False)
        for data in source.read(name, start, block):
            crcs = [zlib.crc32(data[at : at + PIECE]) for at in range(0, len(data), PIECE)]
            digest.update(struct.pack(f">{len(crcs)}I", *crcs))
        sums += digest.digest()
    filled = sums.ljust(max(32, 1 << (len(sums) - 1).bit_length()) if sums else 32, b"\0")
    return hashlib.md5(filled, usedforsecurity=False).hexdigest()
