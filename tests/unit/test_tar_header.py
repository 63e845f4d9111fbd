"""Our own header of a tar says what Python's ``tarfile`` would write."""

from __future__ import annotations

import tarfile
from unittest import mock

import pytest

from base.files import tar_header

LONGEST = "n" * 100


def by_tarfile(name: str, is_dir: bool, size: int, mode: int, mtime: int, owner: str) -> bytes:
    info = tarfile.TarInfo(name)
    info.type = tarfile.DIRTYPE if is_dir else tarfile.REGTYPE
    info.size, info.mode, info.mtime, info.uname = size, mode, mtime, owner
    return info.tobuf(tarfile.PAX_FORMAT, "utf-8", "surrogateescape")


@pytest.mark.parametrize(
    ("name", "is_dir", "size", "mode", "mtime", "owner", "is_plain"),
    [
        ("pai/code/a.py", False, 0, 0o444, 0, "", True),
        ("pai/code/a.py", False, 1234, 0o1755, 1_700_000_000, "mira", True),
        ("pai/code", True, 0, 0o555, 1_700_000_000, "root", True),
        (LONGEST, False, 1, 0o444, 1, "", True),
        (f"{LONGEST}n", False, 1, 0o444, 1, "", False),
        (LONGEST[1:], True, 0, 0o555, 1, "", True),
        (LONGEST, True, 0, 0o555, 1, "", False),  # a folder's name has a slash behind it
        ("pai/code/größe.py", False, 1, 0o444, 1, "", False),
        ("pai/code/a.py", False, 8**11 - 1, 0o444, 1, "", True),
        ("pai/code/a.py", False, 8**11, 0o444, 1, "", False),
        ("pai/code/a.py", False, 1, 0o444, -1, "", False),
        ("pai/code/a.py", False, 1, 0o444, 8**11, "", False),
        ("pai/code/a.py", False, 1, 0o444, 1, "m" * 32, True),
        ("pai/code/a.py", False, 1, 0o444, 1, "m" * 33, False),
        ("pai/code/a.py", False, 1, 0o444, 1, "mirä", False),
    ],
)
def test_it_is_what_tarfile_writes(
    name: str, is_dir: bool, size: int, mode: int, mtime: int, owner: str, is_plain: bool
) -> None:
    expected = by_tarfile(name, is_dir, size, mode, mtime, owner)
    with mock.patch.object(tarfile.TarInfo, "tobuf", autospec=True, side_effect=tarfile.TarInfo.tobuf) as asked:
        header = tar_header.tar_header(name, size=size, mode=mode, mtime=mtime, is_dir=is_dir, owner=owner)
    assert header == expected
    assert asked.call_count == (not is_plain), "only what the plain format cannot say is left to tarfile"


@pytest.mark.parametrize(("size", "filled"), [(0, 0), (1, 511), (512, 0), (513, 511)])
def test_a_content_ends_with_its_block(size: int, filled: int) -> None:
    assert tar_header.filled_up(size) == bytes(filled)
