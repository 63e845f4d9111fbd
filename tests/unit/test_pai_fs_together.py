"""pai-fs sends many small files to a portal together, and one by one where that cannot be."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any, cast

import pytest

from client.pai_fs import sending
from client.pai_fs.copying import CopyOptions, copy
from client.pai_fs.errors import PaiFsError
from client.pai_fs.places import LocalSide, RemotePlace
from client.pai_fs.remote import Remote
from tests.unit.test_pai_fs import Asked, Silent, _own_config

__all__ = ["_own_config"]


class Portal(Asked):
    def __init__(self, there: dict[str, bool]) -> None:
        super().__init__(there)
        self.files: dict[str, bytes] = {}

    def unpack(self, folder: str, tar: Iterable[bytes], *, replace: bool) -> int:
        self.calls.append("unpack")
        with tarfile.open(fileobj=io.BytesIO(b"".join(tar))) as whole:
            self.files |= {each.name: cast(Any, whole.extractfile(each)).read() for each in whole}
            return len(whole.getmembers())


class Earlier(Asked):
    """One of a release before, or a NameNode behind a token."""

    def unpack(self, folder: str, tar: Iterable[bytes], *, replace: bool) -> int:
        next(iter(tar))
        raise PaiFsError("Invalid value for webhdfs parameter 'op'")


def test_small_files_go_to_a_portal_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sending, "MOST", 8)
    (tmp_path / "code" / "ü").mkdir(parents=True)
    names = [f"{'ü/' * (number % 2)}{number}.py" for number in range(20)]
    for name in names:
        (tmp_path / "code" / name).write_text(name)
    portal = Portal({"/users/mira": True})
    far: Any = RemotePlace("/users/mira", cast(Remote, portal))
    copy(LocalSide(str(tmp_path / "code")), far, CopyOptions(recursive=True), Silent())
    assert portal.files == {f"code/{name}": name.encode() for name in names}
    assert portal.calls.count("unpack") == 3 and "create" not in portal.calls, portal.calls


def test_large_files_and_a_few_go_one_by_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sending, "SMALL", 3)
    (tmp_path / "code").mkdir()
    for name in ("a", "b", "c"):
        (tmp_path / "code" / name).write_text("x")
    portal = Portal({"/users/mira": True})
    far: Any = RemotePlace("/users/mira", cast(Remote, portal))
    copy(LocalSide(str(tmp_path / "code")), far, CopyOptions(recursive=True), Silent())
    assert portal.calls.count("create") == 3 and "unpack" not in portal.calls


def test_where_that_is_not_known_each_small_file_takes_one_request(tmp_path: Path) -> None:
    (tmp_path / "code").mkdir()
    for number in range(20):
        (tmp_path / "code" / f"{number}.py").write_text("x")
    portal = Earlier({"/users/mira": True})
    far: Any = RemotePlace("/users/mira", cast(Remote, portal))
    copy(LocalSide(str(tmp_path / "code")), far, CopyOptions(recursive=True), Silent())
    assert portal.calls.count("create") == 20 and len(portal.calls) <= 25, portal.calls
    taken: Any = RemotePlace("/users/mira", cast(Remote, Asked({"/users/mira": True, "/users/mira/code": True,
                                                          "/users/mira/code/7.py": False})))  # fmt: skip
    with pytest.raises(PaiFsError, match=r"7\.py exists already"):
        copy(LocalSide(str(tmp_path / "code")), taken, CopyOptions(recursive=True), Silent())
