"""A backup as bytes: a head that anybody can read, and behind it an encrypted stream that nobody can change or shorten.

    LONGSHORE BACKUP 1
    {"release": ..., "made": ..., "salt": ...}      one line of JSON, not secret
    <length><piece> ... <0>                         pieces of at most PIECE bytes, AES-256-GCM, lengths of 4 bytes
    <SHA-256 of all that>

The key is made of the passphrase by Argon2id, so that guessing costs memory and time (RFC 9106). Pieces are numbered in
their nonces and the last one is marked there (Hoang, Reyhanitabar, Rogaway, Vizár 2015, "STREAM"); the head belongs to
what each piece authenticates. The checksum at the end serves those who have no passphrase and ask whether a copy is
whole. Both ends hold one piece in memory, whatever the size.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, BinaryIO

from argon2.low_level import Type, hash_secret_raw
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

MAGIC = b"LONGSHORE BACKUP 1\n"
PIECE = 256 * 1024  # bytes of plain text
_TAG = 16
_LONGEST_HEAD = 65_536
_MEMORY, _PASSES, _LANES = 64 * 1024, 3, 4  # KiB; RFC 9106, its second recommended choice
_DAMAGED = "The backup is damaged: what is in it is not what was written. Take another copy."
DISORDER = "The backup cannot be read: its records are not in order."
_CUT = "The backup is not whole: its end is missing. Take another copy."


class BackupError(Exception):
    """A backup cannot be made, read or restored. The message says why, in one sentence or two."""


@dataclass(frozen=True, slots=True)
class Head:
    """What can be read without the passphrase. ``line``: the same as bytes, as in the file."""

    line: bytes
    says: Mapping[str, Any]


@dataclass(slots=True)
class Sealing:
    """Takes plain bytes (``write``) and puts them into ``file`` encrypted. Nothing is whole before ``close``."""

    file: BinaryIO
    passphrase: str
    about: Mapping[str, Any]  # for the head
    size: int = 0  # bytes written to the file
    _plain: bytearray = field(default_factory=bytearray)
    _sum: Any = field(default_factory=hashlib.sha256)
    _number: int = 0
    _cipher: AESGCM = field(init=False)
    _bound: bytes = field(init=False)

    def __post_init__(self) -> None:
        salt = os.urandom(16)
        costs = {"memory": _MEMORY, "passes": _PASSES, "lanes": _LANES}
        key, check = _keys(self.passphrase, salt, **costs)
        head = {**self.about, "salt": _text(salt), **costs, "check": _text(check)}
        line = json.dumps(head).encode() + b"\n"
        self._cipher, self._bound = AESGCM(key), hashlib.sha256(MAGIC + line).digest()
        self._put(MAGIC + line)

    def write(self, data: bytes) -> None:
        self._plain += data
        while len(self._plain) > PIECE:  # the last piece is marked, so one is always kept
            piece = bytes(self._plain[:PIECE])
            del self._plain[:PIECE]
            self._seal(piece, last=False)

    def close(self) -> str:
        """Write what is left and the checksum, which is returned (hex)."""
        self._seal(bytes(self._plain), last=True)
        self._put(bytes(4))
        digest = self._sum.digest()
        self.file.write(digest)
        self.size += len(digest)
        return str(digest.hex())

    def _seal(self, piece: bytes, *, last: bool) -> None:
        sealed = self._cipher.encrypt(_nonce(self._number, last=last), piece, self._bound)
        self._number += 1
        self._put(len(sealed).to_bytes(4) + sealed)

    def _put(self, data: bytes) -> None:
        self._sum.update(data)
        self.file.write(data)
        self.size += len(data)


def opened(file: BinaryIO, passphrase: str, head: Head) -> Iterator[bytes]:
    """The plain bytes, piece by piece; ``file`` has been read up to the end of its head. BackupError at once when the
    passphrase is wrong; later where the backup is damaged or its end is missing."""
    key, check = _keys_of(head, passphrase)
    if not hmac.compare_digest(check, _bytes(head, "check")):
        raise BackupError("The passphrase is not the one of this backup.")
    return _decrypted(AESGCM(key), file, head)


def _decrypted(cipher: AESGCM, file: BinaryIO, head: Head) -> Iterator[bytes]:
    bound = hashlib.sha256(MAGIC + head.line).digest()
    for number, (sealed, last) in enumerate(_pieces(file, head)):
        try:
            yield cipher.decrypt(_nonce(number, last=last), sealed, bound)
        except InvalidTag:
            raise BackupError(_DAMAGED) from None


def read_head(file: BinaryIO) -> Head:
    """The head of the backup, up to whose end ``file`` has been read then. BackupError when it is no backup, or one of
    a format that this release does not know."""
    magic = file.read(len(MAGIC))
    if magic != MAGIC:
        if magic.startswith(b"LONGSHORE BACKUP "):
            raise BackupError(
                "The backup was made by a newer release of Longshore, in a format that this one cannot read."
            )
        raise BackupError("This is no backup of Longshore." if magic else "The file is empty.")
    line = file.readline(_LONGEST_HEAD)
    try:
        says = json.loads(line)
    except (ValueError, RecursionError):
        raise BackupError(_CUT if not line.endswith(b"\n") else _DAMAGED) from None
    if not isinstance(says, dict):
        raise BackupError(_DAMAGED)
    return Head(line, says)


def require_whole(file: BinaryIO, head: Head) -> None:
    """Read to the end, without the passphrase: BackupError unless the checksum is that of the bytes before it."""
    for _ in _pieces(file, head):
        pass


def _pieces(file: BinaryIO, head: Head) -> Iterator[tuple[bytes, bool]]:
    """Each piece as it is in the file, and whether it is the last one. BackupError at the end when the checksum is
    another one."""
    checksum = hashlib.sha256(MAGIC + head.line)
    if not (length := _length(file, checksum)):
        raise BackupError(_DAMAGED)
    while length:
        sealed = _exactly(file, length)
        checksum.update(sealed)
        length = _length(file, checksum)
        yield sealed, not length
    if _exactly(file, 32) != checksum.digest():
        raise BackupError(_DAMAGED)


def _length(file: BinaryIO, checksum: Any) -> int:
    data = _exactly(file, 4)
    checksum.update(data)
    length = int.from_bytes(data)
    if length and not _TAG <= length <= PIECE + _TAG:
        raise BackupError(_DAMAGED)
    return length


def _exactly(file: BinaryIO, size: int) -> bytes:
    data = file.read(size)
    if len(data) < size:
        raise BackupError(_CUT)
    return data


def _nonce(number: int, *, last: bool) -> bytes:
    """Each key encrypts one backup, so counting makes them unique."""
    return number.to_bytes(11) + bytes([last])


def _keys_of(head: Head, passphrase: str) -> tuple[bytes, bytes]:
    costs = {name: head.says.get(name) for name in ("memory", "passes", "lanes")}
    if not all(isinstance(cost, int) for cost in costs.values()):
        raise BackupError(_DAMAGED)
    memory, passes, lanes = (int(cost) for cost in costs.values())  # type: ignore[arg-type]
    # Whoever made the file chose these: they must not take all memory of this machine.
    if not (8 * lanes <= memory <= 1 << 20 and 1 <= passes <= 16 and 1 <= lanes <= 16):
        raise BackupError(_DAMAGED)
    return _keys(passphrase, _bytes(head, "salt"), memory=memory, passes=passes, lanes=lanes)


def _keys(passphrase: str, salt: bytes, *, memory: int, passes: int, lanes: int) -> tuple[bytes, bytes]:
    """The key of the encryption, and a value that tells a wrong passphrase from a damaged file."""
    derived = hash_secret_raw(passphrase.encode(), salt, passes, memory, lanes, 64, Type.ID)
    return derived[:32], hashlib.sha256(b"longshore backup check" + derived[32:]).digest()


def _bytes(head: Head, name: str) -> bytes:
    try:
        data = base64.b64decode(head.says[name], validate=True)
    except (KeyError, TypeError, ValueError):
        raise BackupError(_DAMAGED) from None
    if not 16 <= len(data) <= 64:
        raise BackupError(_DAMAGED)
    return data


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode()
