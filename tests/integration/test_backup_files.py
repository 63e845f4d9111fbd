"""The files of users in a backup: a store that is not there, or has lost most of them, is not called whole; and where
they come back when the store is no folder."""

from __future__ import annotations

import errno
import io
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from pytest_django.fixtures import Settings

from base.files.store import local_root, marker
from base.files.store.local import LocalStore
from portal.backup import encryption, files, restore
from tests import migrated

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def _store(tmp_path: Path, settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("LONGSHORE_BACKUP_PASSPHRASE", "a long passphrase")
    monkeypatch.setattr(encryption, "_MEMORY", 64)
    monkeypatch.setattr(restore.time, "sleep", lambda seconds: None)
    migrated.once(monkeypatch)
    settings.HOME, settings.STORE_ID = tmp_path / "home", None
    settings.HOME.mkdir()
    marker.prepare(local_root())
    for name in "abcde":
        LocalStore(local_root()).write(f"/users/alice/{name}", [b"12345"])
    yield
    marker.forget()


def backed_up(path: Path, *options: str) -> str:
    said = io.StringIO()
    call_command("backup", str(path), "--files", *options, stderr=said)
    return said.getvalue()


def restored(path: Path, *options: str) -> str:
    said = io.StringIO()
    call_command("restore", str(path), *options, stdout=said)
    return said.getvalue()


@pytest.mark.parametrize("mount", [False, True])
def test_a_store_that_is_not_there_is_not_backed_up(tmp_path: Path, mount: bool) -> None:
    local_root().rename(tmp_path / "away")
    if mount:
        local_root().mkdir()
    with pytest.raises(CommandError, match="The files of users cannot be backed up.*Is its disk mounted"):
        backed_up(tmp_path / "b")
    assert not list(tmp_path.glob("b*"))


def test_a_store_that_goes_away_meanwhile_is_not_backed_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    walk = files._walk

    def goes(*arguments: object, **more: bool) -> Iterator[tuple[Path, str]]:
        yield from walk(*arguments, **more)  # type: ignore[arg-type]
        if more:
            local_root().rename(tmp_path / "away")

    monkeypatch.setattr(files, "_walk", goes)
    with pytest.raises(CommandError, match="cannot be backed up"):
        backed_up(tmp_path / "b")


def test_a_folder_that_cannot_be_listed_is_no_empty_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scan = os.scandir

    def broken(path: str) -> object:
        if path.endswith("/alice"):
            raise OSError(errno.EIO, "Input/output error", path)
        return scan(path)

    monkeypatch.setattr(os, "scandir", broken)
    with pytest.raises(CommandError, match="alice cannot be read: Input/output error"):
        backed_up(tmp_path / "b")


def test_a_file_that_cannot_be_opened_is_not_the_target_s_fault(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = os.open

    def broken(path: Any, flags: int, *more: Any, **others: Any) -> int:
        if flags & os.O_NOFOLLOW and "store" in Path(path).parts:
            raise OSError(errno.EIO, "Input/output error", path)
        return opened(path, flags, *more, **others)

    monkeypatch.setattr(os, "open", broken)
    with pytest.raises(CommandError, match=r"store/.* cannot be read: Input/output error"):
        backed_up(tmp_path / "b")


def test_fewer_than_half_of_the_files_of_the_last_backup_are_told(tmp_path: Path) -> None:
    backed_up(tmp_path / "one")
    for name in "abcd":
        LocalStore(local_root()).delete(f"/users/alice/{name}")
    for path in (tmp_path / "two", tmp_path / "three"):
        with pytest.raises(CommandError, match=r"It has 2 files of users, and the last one had 6 \(20"):
            backed_up(path)
        assert path.exists()  # the database in it is worth something all the same
    LocalStore(local_root()).delete("/users/alice/e")
    with pytest.raises(CommandError, match="back up once with --fewer"):
        backed_up(tmp_path / "four")
    backed_up(tmp_path / "five", "--fewer")
    backed_up(tmp_path / "six")


def test_a_restore_tells_the_size_of_the_files(tmp_path: Path) -> None:
    backed_up(tmp_path / "b")
    assert "6 files of users (58 B)" in restored(tmp_path / "b", "--replace")
    assert "6 files of users (58 B)" in restored(tmp_path / "b", "--check")


def test_files_come_back_into_a_folder_and_are_moved_to_a_store_that_is_none(
    tmp_path: Path, settings: Settings
) -> None:
    backed_up(tmp_path / "b")
    settings.HOME, settings.STORE_URL = tmp_path / "other", "s3://team"
    settings.HOME.mkdir()
    said = restored(tmp_path / "b", "--replace")
    assert (
        f"Before the start bring them to where LONGSHORE_STORE_URL says: manage.py move_files '{local_root()}'" in said
    )
    assert (local_root() / "users/alice/a").read_text() == "12345"
    assert marker.known("s3://team") == marker.KnownStore(marker.read(local_root()), str(local_root()))
