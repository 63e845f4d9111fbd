"""What stands before and after the contents of a tar that is written piece by piece."""

from __future__ import annotations

import tarfile

END = bytes(2 * tarfile.BLOCKSIZE)


def tar_header(name: str, *, size: int, mode: int, mtime: int, is_dir: bool = False, owner: str = "") -> bytes:
    """The header of a file or folder."""
    info = tarfile.TarInfo(name)
    info.size, info.mode, info.mtime, info.uname = size, mode, mtime, owner
    if is_dir:
        info.type = tarfile.DIRTYPE
    return info.tobuf(tarfile.PAX_FORMAT, "utf-8", "surrogateescape")


def filled_up(size: int) -> bytes:
    """What follows a content of this size: it ends with its block."""
    return bytes(-size % tarfile.BLOCKSIZE)
