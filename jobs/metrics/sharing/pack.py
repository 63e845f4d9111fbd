"""Packs the ring files of a folder into one piece of bytes, and makes them again."""

from __future__ import annotations

import json
import os
import uuid
import zlib
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import structlog

from jobs.metrics import ring

log = structlog.get_logger()


def files_of(folder: Path) -> list[Path]:
    """The ring files right in the folder."""
    with suppress(FileNotFoundError):
        return sorted(file for file in folder.glob("*.ring") if file.is_file())
    return []


def pack(folder: Path) -> bytes:
    """The ring files in the folder, without the parts of them that were never written."""
    heads, pieces = [], []
    for file in files_of(folder):
        fd = os.open(file, os.O_RDONLY | os.O_CLOEXEC)
        try:
            extents = list(_extents(fd))
            heads.append({"name": file.name, "size": os.fstat(fd).st_size, "extents": extents})
            pieces += [os.pread(fd, length, start) for start, length in extents]
        finally:
            os.close(fd)
    head = json.dumps(heads).encode()
    return zlib.compress(b"".join([len(head).to_bytes(4, "big"), head, *pieces]), 1)


def unpack(data: bytes, folder: Path) -> None:
    """Make the files of a pack, but for those whose last sample is not newer than that of the file that is there."""
    try:
        whole = zlib.decompress(data)
        at = 4 + int.from_bytes(whole[:4], "big")
        heads = json.loads(whole[4:at])
    except (zlib.error, ValueError):
        log.warning("a pack of metrics cannot be read", folder=folder.name)
        return
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    for head in heads:
        target, new = folder / Path(head["name"]).name, folder / f".{uuid.uuid4().hex}"
        fd = os.open(new, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            os.ftruncate(fd, head["size"])
            for start, length in head["extents"]:
                os.pwrite(fd, whole[at : at + length], start)
                at += length
            if _last(new) > _last(target):
                new.replace(target)
        finally:
            os.close(fd)
            new.unlink(missing_ok=True)


def _last(path: Path) -> int:
    found = ring.summary(path)
    return found[1].at if found else 0


def _extents(fd: int) -> Iterator[tuple[int, int]]:
    size, at = os.fstat(fd).st_size, 0
    while at < size:
        try:
            start = os.lseek(fd, at, os.SEEK_DATA)
        except OSError:  # nothing but a hole is left
            return
        at = os.lseek(fd, start, os.SEEK_HOLE)
        yield start, at - start
