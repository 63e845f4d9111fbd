"""Many small files as the body of one request: a tar, made while it is sent."""

from __future__ import annotations

import tarfile
from collections.abc import Callable, Iterable, Iterator

from .errors import CheckFailed, PaiFsError

FEW = 4  # small files from which on they are copied together
MOST, ROOM = 1000, 64 << 20  # files of one request, and their bytes


Sending = tuple[str, int, Iterator[bytes]]  # the name of a file, how many bytes it has, and these


def send(unpack: Callable[[Iterable[bytes]], int], files: list[Sending]) -> tuple[int, int]:
    """``unpack`` sends a tar and returns how many files were written. Returns how many files are there, and how many
    of the next may be, since their request failed; after that none is sent."""
    done = 0
    while done < len(files):
        some = files[done : done + count(size for _, size, _ in files[done:])]
        try:
            is_whole = unpack(tar(some)) == len(some)
        except (PaiFsError, OSError, ValueError, KeyError):
            is_whole = False
        if not is_whole:
            return done, len(some)
        done += len(some)
    return done, 0


def count(sizes: Iterable[int]) -> int:
    """How many of the files, in their order, go into one request."""
    room = ROOM
    for at, size in enumerate(sizes):
        room -= size
        if room < 0 or at == MOST:
            return max(1, at)
    return MOST


def tar(files: Iterable[Sending]) -> Iterator[bytes]:
    """The tar of the files. Raises CheckFailed."""
    for name, size, pieces in files:
        header = tarfile.TarInfo(name)
        header.size = size
        yield header.tobuf(tarfile.PAX_FORMAT, "utf-8")
        sent = 0
        for piece in pieces:
            yield piece
            sent += len(piece)
        if sent != size:
            raise CheckFailed(f"{name} has {sent} bytes and had {size}. Did it change meanwhile?")
        yield bytes(-size % tarfile.BLOCKSIZE)
    yield bytes(2 * tarfile.BLOCKSIZE)
