"""The checksum by which ``longshore cp --checksum`` compares a file here with one in the store."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, cast

import pytest

from client.pai_fs import checksums
from client.pai_fs.checksums import is_same
from client.pai_fs.errors import Unreachable
from client.pai_fs.places import LocalSide, RemotePlace
from client.pai_fs.remote import Remote
from portal.webhdfs import shapes

BLOCK = 1 << 20  # of the portal in these tests


class Portal:
    """What it answers to GETFILECHECKSUM of a file; first as often as ``busy`` that it has no time."""

    def __init__(self, file: Path, busy: int = 0) -> None:
        self.file, self.busy = file, busy

    def _ask(self, *_: str) -> dict[str, Any]:
        self.busy -= 1
        if self.busy >= 0:
            raise Unreachable("Come back later.")
        with self.file.open("rb") as file:
            return shapes.file_checksum(file, self.file.stat().st_size)

    def checksum(self, path: str) -> tuple[int, str]:
        return Remote.checksum(cast(Any, self), path)


@pytest.mark.parametrize("size", [0, 1, 512, 513, BLOCK, BLOCK + 1, 4 * BLOCK + 700])
def test_it_is_the_portal_s_and_one_byte_makes_another(
    size: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shapes, "BLOCK_SIZE", BLOCK)
    data = os.urandom(size)
    (tmp_path / "here").write_bytes(data)
    (tmp_path / "there").write_bytes(data)
    here, there = LocalSide(str(tmp_path)), RemotePlace("/", cast(Any, Portal(tmp_path / "there")))
    assert is_same(here, "here", there, "there", size) and is_same(there, "there", here, "here", size)
    if size:
        (tmp_path / "here").write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
        assert not is_same(here, "here", there, "there", size)


def test_it_waits_where_the_portal_has_reckoned_enough(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checksums, "PAUSE", 0.0)
    (tmp_path / "a").write_bytes(b"x")
    here = LocalSide(str(tmp_path))
    for busy in (checksums.TRIES - 1, checksums.TRIES):
        there = RemotePlace("/", cast(Any, Portal(tmp_path / "a", busy)))
        if busy < checksums.TRIES:
            assert is_same(here, "a", there, "a", 1)
        else:
            with pytest.raises(Unreachable):
                is_same(here, "a", there, "a", 1)
