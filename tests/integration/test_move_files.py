"""``manage.py move_files`` between folders: what arrives, what is refused, and what a start says of a store to which
nothing was moved. HDFS and S3 are tried in tests/acceptance/test_move_files.py."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command
from pytest_django.fixtures import Settings

from base.files.store import local_root, marker, store_at
from base.files.store.base import Store
from base.files.store.local import LocalStore
from base.models import LeaseRow
from portal.backup import restore
from portal.management.commands.up import _prepare_store

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def source(tmp_path: Path, settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    """The store of a portal that has been started, with files in it."""
    settings.HOME, settings.STORE_ID = tmp_path / "home", None
    settings.HOME.mkdir()
    (tmp_path / "new").mkdir()
    monkeypatch.setattr(restore.time, "sleep", lambda seconds: None)
    marker.prepare(local_root())
    store = LocalStore(local_root())
    store.mkdirs("/users/alice/empty", owner="alice", mode=0o700)
    store.write("/users/alice/run.sh", [b"true\n"], owner="alice", mode=0o755)
    store.write("/shared/data", [b"x" * 3_000_000], owner="bob", mode=0o640)
    yield store
    marker.forget()


def moved(*arguments: str | Path) -> str:
    said = io.StringIO()
    call_command("move_files", *map(str, arguments), stdout=said)
    return said.getvalue()


def tree(store: Store, path: str = "/") -> dict[str, object]:
    """All that is below a path: owners, modes and contents."""
    found: dict[str, object] = {}
    for entry in store.exact(store.list(path)):
        with store.open_read(entry.path) if not entry.is_dir else io.BytesIO() as file:
            found[entry.path] = (entry.owner, entry.mode, file.read())
        found |= tree(store, entry.path) if entry.is_dir else {}
    return found


def test_everything_arrives_with_its_owner_and_mode_and_the_portal_goes_on_there(
    tmp_path: Path, source: Store, settings: Settings
) -> None:
    before = tree(source)
    said = moved(local_root(), tmp_path / "new")
    assert "2 files in 4 folders: 2 copied (2.9 MB), 0 there already. Lengths and SHA-256 are the same." in said
    assert tree(store_at(str(tmp_path / "new"))) == before == tree(source)
    with pytest.raises(CommandError, match=r"knows files that .*/home/store has not: they were at .*/new\. Move them"):
        _prepare_store()
    settings.HOME = tmp_path / "there"
    settings.HOME.mkdir()
    (tmp_path / "new").rename(local_root())
    _prepare_store()


def test_a_move_that_was_killed_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: Store) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(marker, "give", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            moved(local_root(), tmp_path / "new")
    assert (tmp_path / "new/shared/data").exists()
    _prepare_store()  # the old one is the store still
    (tmp_path / "new/shared/data").unlink()
    assert "1 copied (2.9 MB), 1 there already" in moved(local_root(), tmp_path / "new")
    with pytest.raises(CommandError, match="have been moved already"):
        moved(local_root(), tmp_path / "new")


def test_a_file_of_the_target_is_not_written_over_unasked(tmp_path: Path) -> None:
    other = tmp_path / "new/shared/data"
    other.parent.mkdir()
    other.write_bytes(b"y" * 3_000_000)
    with pytest.raises(CommandError, match=r"1 file not copied, .*--replace.*\n  /shared/data: .* another file"):
        moved(local_root(), tmp_path / "new")
    _prepare_store()  # the files are where they were
    moved(local_root(), tmp_path / "new", "--replace")
    assert other.read_bytes() == b"x" * 3_000_000


def test_it_is_refused_while_the_portal_runs_but_copies_ahead(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    LeaseRow.objects.create(name="scheduler", epoch=3)
    monkeypatch.setattr(restore.time, "sleep", lambda seconds: LeaseRow.objects.update(beats=9))
    with pytest.raises(CommandError, match="its scheduler is alive. Stop it on every host first. Or copy ahead"):
        moved(local_root(), tmp_path / "new")
    assert "Now stop the portal" in moved(local_root(), tmp_path / "new", "--ahead")
    assert marker.read(tmp_path / "new") == "" and marker.read(local_root())


def test_an_empty_mount_point_and_a_strangers_store_are_no_ends_of_a_move(tmp_path: Path) -> None:
    (tmp_path / "mount").mkdir()
    with pytest.raises(CommandError, match="has not the files that this portal's database knows"):
        moved(tmp_path / "mount", tmp_path / "new")
    (tmp_path / "new" / marker.MARKER).write_text("of somebody else")
    with pytest.raises(CommandError, match="the file store of another portal"):
        moved(local_root(), tmp_path / "new")
    with pytest.raises(CommandError, match="is not there"):
        moved(local_root(), tmp_path / "nothing")
    with pytest.raises(CommandError, match="Give a folder by its whole path"):
        moved("store", tmp_path / "new")


def test_files_can_be_given_up(tmp_path: Path, settings: Settings) -> None:
    settings.HOME = tmp_path / "elsewhere"
    local_root().mkdir(parents=True)
    with pytest.raises(CommandError, match=r"they were at .*/home/store\. Move them: manage.py move_files"):
        _prepare_store()
    assert list(local_root().iterdir()) == []
    moved("none", local_root())
    _prepare_store()
