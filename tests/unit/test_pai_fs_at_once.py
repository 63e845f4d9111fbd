"""pai-fs, of two who copy to one place: nobody's file is replaced without -f, and whoever came second is told."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from client.pai_fs import sending
from client.pai_fs.errors import ThereAlready, Unreachable
from client.pai_fs.places import LocalSide, ThereFile
from tests.unit.test_pai_fs import Beside, _any_sides, _own_config, take

__all__ = ["_any_sides", "_own_config"]


class Forgetful(LocalSide):
    """The answer to a renaming is lost, once; so is that to a small file, which has its name then."""

    lost = False

    def rename(self, name: str, target: str, *, replace: bool) -> None:
        super().rename(name, target, replace=replace)
        if not Forgetful.lost:
            Forgetful.lost = True
            raise Unreachable("the answer was lost")


class Counted(LocalSide):
    looks: list[str]

    def there(self, folder: str) -> dict[str, ThereFile] | None:
        self.looks.append(folder)
        return super().there(folder)


@pytest.fixture(params=[0, 100], ids=["large", "small"])
def file(request: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr(sending, "SMALL", request.param)
    (tmp_path / "far").mkdir()
    (tmp_path / "file").write_bytes(b"0123456789abcdef")
    return str(tmp_path / "file")


def test_what_came_there_meanwhile_is_replaced_only_with_f(tmp_path: Path, file: str) -> None:
    target = tmp_path / "far" / "file"
    far = Beside(str(tmp_path / "far"), lambda: target.write_text("another's"))
    with pytest.raises(ThereAlready, match="file came there meanwhile, and stays as it is; -f replaces it") as refused:
        take(file, far)
    assert refused.value.code == 1
    assert target.read_text() == "another's" and os.listdir(tmp_path / "far") == ["file"], "no part is left"
    take(file, far, force=True)
    assert target.read_bytes() == b"0123456789abcdef" and os.listdir(tmp_path / "far") == ["file"]


def test_a_disk_without_links_takes_files_too(tmp_path: Path, file: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def link(*_: object) -> None:
        raise PermissionError

    monkeypatch.setattr(os, "link", link)
    take(file, LocalSide(str(tmp_path / "far")))
    assert (tmp_path / "far" / "file").read_bytes() == b"0123456789abcdef"


def test_whose_answer_was_lost_is_not_told_that_their_own_file_is_anothers(tmp_path: Path, file: str) -> None:
    Forgetful.lost = False
    take(file, Forgetful(str(tmp_path / "far")))
    assert Forgetful.lost and (tmp_path / "far" / "file").read_bytes() == b"0123456789abcdef"
    assert os.listdir(tmp_path / "far") == ["file"]


def test_below_a_folder_that_is_not_there_nothing_is_looked_for(tmp_path: Path) -> None:
    for number in range(20):
        (tmp_path / "data" / "deep" / str(number)).mkdir(parents=True)
        (tmp_path / "data" / "deep" / str(number) / "file").write_text("x")
    far = Counted(str(tmp_path / "far"))
    far.looks = []
    (tmp_path / "far").mkdir()
    take(str(tmp_path / "data"), far, recursive=True, force=True)
    assert far.looks == ["data"]
    far.looks.clear()
    take(str(tmp_path / "data"), far, recursive=True, force=True)
    assert len(far.looks) == len(set(far.looks)) == 22
