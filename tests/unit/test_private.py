"""Other users of the machine read nothing of ours: what is looser is tightened, or the start is refused."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from django.core.exceptions import ImproperlyConfigured

from base.core import private
from base.database import configure

HOME = "LONGSHORE_HOME"


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


def test_a_home_of_the_first_release_is_closed_with_what_is_in_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    home = tmp_path / "home"
    for folder in (home, home / "secrets", home / "secrets" / "nodes", home / "run"):
        folder.mkdir(mode=0o755)
        folder.chmod(0o755)
    files = [home / "longshore.sqlite3", home / "secrets" / "nodes" / "key.pem", home / "run" / "scheduler.lock"]
    for file in files:
        file.touch()
        file.chmod(0o644)
    private.home(HOME, home)
    assert [mode(each) for each in (home, home / "secrets", home / "run")] == [0o700] * 3
    assert [mode(each) for each in files] == [0o600] * 3
    assert capsys.readouterr().err == f"longshore: other users of this machine could read {home}; now they cannot\n"
    private.home(HOME, home)
    assert capsys.readouterr().err == ""


def test_a_new_home_is_closed_from_the_first_moment(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert mode(private.home(HOME, tmp_path / "a" / "b")) == 0o700
    assert capsys.readouterr().err == ""


def test_a_folder_of_somebody_else_is_refused_in_a_sentence(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root gives a folder away")
    os.chown(tmp_path, 65534, -1)
    with pytest.raises(ImproperlyConfigured, match=rf"^LONGSHORE_HOME: {tmp_path} belongs to nobody, .* Run: chown -R"):
        private.home(HOME, tmp_path)


def test_a_folder_that_cannot_be_closed_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tmp_path.chmod(0o755)
    monkeypatch.setattr(Path, "chmod", lambda self, mode: None)  # as on a disk without rights, such as FAT
    with pytest.raises(ImproperlyConfigured, match=r"can read .*: its file system keeps no rights\.$"):
        private.home(HOME, tmp_path)


def test_a_database_beside_the_home_is_closed_too(tmp_path: Path) -> None:
    files = [tmp_path / f"db.sqlite3{end}" for end in ("", "-wal", "-shm")]
    for file in files:
        file.touch(mode=0o644)
    configure(f"sqlite:///{tmp_path}/db.sqlite3")
    assert [mode(file) for file in files] == [0o600] * 3
