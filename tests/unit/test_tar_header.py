"""A tar that is written piece by piece is one."""

from __future__ import annotations

import io
import tarfile

from base.files.tar_header import END, filled_up, tar_header

FILES = {"code/empty": b"", "code/a": b"a" * 511, "code/b": b"b" * 512, "code/größe" + "n" * 300: b"c" * 513}


def test_it_has_each_file_as_it_was_written() -> None:
    written = tar_header("code", size=0, mode=0o555, mtime=1, is_dir=True)
    for name, content in FILES.items():
        header = tar_header(name, size=len(content), mode=0o640, mtime=1_700_000_000, owner="mira")
        written += header + content + filled_up(len(content))
    assert len(written) % tarfile.BLOCKSIZE == 0
    with tarfile.open(fileobj=io.BytesIO(written + END), mode="r:") as tar:
        folder, *files = tar
        assert (folder.name, folder.isdir(), folder.mode, folder.mtime) == ("code", True, 0o555, 1)
        assert {each.name: tar.extractfile(each).read() for each in files} == FILES  # type: ignore[union-attr]
        assert {(each.isreg(), each.mode, each.mtime, each.uname) for each in files} == {
            (True, 0o640, 1_700_000_000, "mira")
        }
