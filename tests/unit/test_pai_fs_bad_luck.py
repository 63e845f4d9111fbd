"""pai-fs with bad luck: names that no store takes, files that go or grow meanwhile, and slips of the hand."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from client.pai_fs import sending
from client.pai_fs.config import Config, _setting
from client.pai_fs.copying import CopyOptions, copy
from client.pai_fs.errors import PaiFsError, WrongUsage
from client.pai_fs.main import run
from client.pai_fs.places import LocalSide, RemotePlace, place
from client.pai_fs.remote import Remote
from tests.unit.test_pai_fs import Silent, _any_sides, _own_config, take

__all__ = ["_any_sides", "_own_config"]


class Notes(Silent):
    def __init__(self) -> None:
        self.said: list[str] = []

    def note(self, text: str) -> None:
        self.said.append(text)


class Fleeting(LocalSide):
    """Some of its files are deleted right before they are read."""

    def __init__(self, path: str, goes: str) -> None:
        super().__init__(path)
        self.goes = goes

    def read(self, name: str, offset: int, most: int | None) -> Iterator[bytes]:
        if self.goes in name:
            self._at(name).unlink(missing_ok=True)
        return super().read(name, offset, most)

    def split(self) -> tuple[LocalSide, str]:
        folder, name = super().split()
        return Fleeting(folder.path, self.goes), name


class Growing(LocalSide):
    """Whoever reads a file finds that more was added to it."""

    def read(self, name: str, offset: int, most: int | None) -> Iterator[bytes]:
        with self._at(name).open("ab") as file:
            file.write(b"more")
        return super().read(name, offset, most)

    def split(self) -> tuple[LocalSide, str]:
        folder, name = super().split()
        return Growing(folder.path), name


@pytest.fixture(params=[0, 100], ids=["large", "small"])
def data(request: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(sending, "SMALL", request.param)
    (tmp_path / "data").mkdir()
    for name in ("a", "gone", "gone-2", "z"):
        (tmp_path / "data" / name).write_text(name)
    (tmp_path / "far").mkdir()
    return tmp_path / "data"


def test_what_goes_while_a_folder_is_copied_is_named_and_the_rest_copied(data: Path, tmp_path: Path) -> None:
    notes = Notes()
    far = LocalSide(str(tmp_path / "far"))
    done = copy(Fleeting(str(data), "gone"), far, CopyOptions(contents=True, recursive=True), notes)
    assert (done.files, done.size, done.left_out) == (2, 2, 2)
    assert sorted(os.listdir(tmp_path / "far")) == ["a", "z"], "no part is left"
    assert sorted(notes.said) == [
        f"left out: {data}/{name} (it went while the others were copied)" for name in ("gone", "gone-2")
    ]
    with pytest.raises(FileNotFoundError):
        (data / "gone").write_text("x")
        copy(Fleeting(str(data / "gone"), "gone"), far, CopyOptions(recursive=True), notes)


def test_a_file_that_grows_is_copied_as_long_as_it_was(data: Path, tmp_path: Path) -> None:
    copy(Growing(str(data / "z")), LocalSide(str(tmp_path / "far")), CopyOptions(), Silent())
    assert (tmp_path / "far" / "z").read_text() == "z"


def test_a_name_that_no_store_takes_is_named_and_the_rest_copied(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    for name in (b"good", b"bad\xff", b"x.longshore-part"):
        (tmp_path / "data" / os.fsdecode(name)).write_text("x")
    found = LocalSide(str(tmp_path / "data")).files()
    assert [file.name for file in found.files] == ["good"]
    assert [each.rpartition(" (")[2] for each in found.left_out] == ["the store takes no such name)"] * 2


@pytest.mark.parametrize(
    "arguments",
    [
        ["-rm", "-r", "hdfs://users/mira/data/.."],
        ["-ls", "hdfs://users/./mira"],
        ["-mkdir", "hdfs://.."],
        ["-cp", "file", "hdfs://users/mira/../bob"],
        ["-ls", "hdfs://users/bad\udcff"],
    ],
)
def test_a_path_that_would_be_another_one_is_refused(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    Path("file").write_text("x")
    assert run([*arguments, "--host", "127.0.0.1", "--port", "9"]) == 2
    assert "a path in the store" in capsys.readouterr().err
    assert place("hdfs://users//mira/...", cast(Remote, Remote(Config()))).path == "/users/mira/..."


def test_a_target_with_a_slash_at_its_end_is_a_folder(tmp_path: Path) -> None:
    Path("file").write_text("x")
    assert run(["-cp", "file", "new/"]) == 0 and os.listdir("new") == ["file"]
    with pytest.raises(PaiFsError, match="file is a file"):
        take("file", LocalSide("file"), into=True)


def test_an_address_in_place_of_a_host_is_understood() -> None:
    assert _setting("host", "https://portal.lab") == {"host": "portal.lab", "port": 443, "secure": True}
    with pytest.raises(WrongUsage):
        _setting("host", "ftp://portal.lab")


def test_a_folder_goes_into_a_target_with_a_slash_whether_it_is_there_or_not(tmp_path: Path) -> None:
    Path("data").mkdir()
    Path("data", "file").write_text("x")
    for _ in range(2):
        take("data", LocalSide("new/"), recursive=True, into=True, force=True)
    assert sorted(str(path) for path in Path("new").rglob("*")) == ["new/data", "new/data/file"]


class Root(LocalSide):
    """Of a disk with nothing else on it."""

    def split(self) -> tuple[LocalSide, str]:
        return self, LocalSide("/").split()[1]


@pytest.mark.parametrize("into", [False, True])
def test_the_whole_store_goes_into_the_target_and_not_beside_it(tmp_path: Path, into: bool) -> None:
    assert RemotePlace("/", cast(Remote, Remote(Config()))).split()[1] == LocalSide("/").split()[1] == ""
    (tmp_path / "root").mkdir()
    (tmp_path / "root" / "file").write_text("x")
    (tmp_path / "far").mkdir()
    root, far = Root(str(tmp_path / "root")), LocalSide(str(tmp_path / "far"))
    copy(root, far, CopyOptions(recursive=True, into=into), Notes())
    assert os.listdir(tmp_path / "far") == ["file"]
