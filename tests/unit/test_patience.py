"""A server that is away: copies of ``longshore`` wait for it, those of pai-fs give up after as many tries as ever."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from client.pai_fs import patience
from client.pai_fs.copying import CopyOptions, copy
from client.pai_fs.errors import GaveUp, SignedOut, Unreachable
from client.pai_fs.places import FoundFiles, LocalSide
from tests.unit.test_command import Clock
from tests.unit.test_pai_fs import Shaky, _any_sides, _own_config
from tests.unit.test_pai_fs_bad_luck import Notes

__all__ = ["_any_sides", "_own_config"]
WAITS = "gone. This waits, and goes on where it was."


class Away(LocalSide):
    """It does not answer when it is asked for the first so many times what is in it."""

    def __init__(self, path: str, times: int) -> None:
        super().__init__(path)
        self.times = times

    def files(self) -> FoundFiles:
        self.times -= 1
        if self.times >= 0:
            raise Unreachable("gone.")
        return super().files()


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patience, "FIRST_PAUSE", 0.0)
    monkeypatch.setattr(patience, "time", Clock())


@pytest.fixture
def data(tmp_path: Path) -> Path:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "a").write_text("a")
    return tmp_path / "data"


def test_one_that_is_away_before_the_first_file_is_waited_for_and_told_once(data: Path, tmp_path: Path) -> None:
    notes = Notes()
    far = LocalSide(str(tmp_path / "far"))
    copy(Away(str(data), times=20), far, CopyOptions(recursive=True, patience=600), notes)
    assert os.listdir(tmp_path / "far") == ["a"]
    assert notes.said == [WAITS, "It goes on."]


def test_pai_fs_does_not_wait_for_one_that_does_not_answer_at_first(data: Path, tmp_path: Path) -> None:
    notes = Notes()
    with pytest.raises(Unreachable, match="gone"):
        copy(Away(str(data), times=1), LocalSide(str(tmp_path / "far")), CopyOptions(recursive=True), notes)
    assert notes.said == []


@pytest.mark.parametrize("seconds", [0, 600])
def test_a_file_that_breaks_off_too_often_is_given_up(data: Path, seconds: int, tmp_path: Path) -> None:
    notes = Notes()
    far = Shaky(str(tmp_path / "copy"), after=0, times=patience.TRIES)
    if seconds:
        copy(LocalSide(str(data / "a")), far, CopyOptions(patience=seconds), notes)
        return
    with pytest.raises(GaveUp):
        copy(LocalSide(str(data / "a")), far, CopyOptions(), notes)
    assert notes.said == []


def test_the_pauses_end_when_the_patience_does(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, asked = Clock(), 0
    monkeypatch.setattr(patience, "time", clock)
    monkeypatch.setattr(patience, "FIRST_PAUSE", 0.5)
    waits = patience.Patience(60, lambda _: None)
    monkeypatch.setattr(waits.stop, "wait", clock.sleep)

    def ask() -> None:
        nonlocal asked
        asked += 1
        raise Unreachable("gone.")

    with pytest.raises(Unreachable):
        waits.until_done(ask)
    assert 50 < clock.now <= 60 and asked > 10


def test_a_token_that_ends_leaves_what_arrived(data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from client.pai_fs import sending

    monkeypatch.setattr(sending, "SMALL", 0)

    class Ends(LocalSide):
        def rename(self, name: str, target: str, *, replace: bool) -> None:
            raise SignedOut("Sign in.")

        def split(self) -> tuple[LocalSide, str]:
            folder, name = super().split()
            return Ends(folder.path), name

    with pytest.raises(SignedOut):
        copy(LocalSide(str(data / "a")), Ends(str(tmp_path / "copy")), CopyOptions(), Notes())
    (part,) = tmp_path.glob(".copy.*")
    copy(LocalSide(str(data / "a")), LocalSide(str(tmp_path / "copy")), CopyOptions(), Notes())
    assert (tmp_path / "copy").read_text() == "a" and not part.exists()


def test_what_is_there_is_known_unless_it_was_changed_since(data: Path, tmp_path: Path) -> None:
    far, again = LocalSide(str(tmp_path / "far")), CopyOptions(contents=True, recursive=True, force=True, missing=True)
    assert copy(LocalSide(str(data)), far, again, Notes()).files == 1
    assert copy(LocalSide(str(data)), far, again, Notes()).files == 0
    (data / "a").write_text("b")
    os.utime(data / "a", (2e9, 2e9))
    assert copy(LocalSide(str(data)), far, again, Notes()).files == 1
    assert (tmp_path / "far" / "a").read_text() == "b"
