"""The store on a local folder. What holds for every store is written so that another one can be put in its place."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from portal.store.base import BadPath, PathExists, PathNotFound, Store
from portal.store.local import LocalStore


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return LocalStore(tmp_path / "store")


def content(store: Store, path: str, offset: int = 0) -> bytes:
    with store.open_read(path, offset) as file:
        return file.read()


def test_it_writes_a_file_with_its_folders_and_reads_it_from_any_offset(store: Store) -> None:
    assert store.write("/a/b/file", [b"hello ", b"world"]) == 11
    assert content(store, "/a/b/file") == b"hello world"
    assert content(store, "/a/b/file", 6) == b"world"
    assert content(store, "/a/b/file", 99) == b""


def test_it_changes_nothing_when_what_is_written_breaks_off(store: Store) -> None:
    def breaks_off() -> Iterator[bytes]:
        yield b"new"
        raise ConnectionError("the engine went away")

    store.write("/file", [b"old"])
    with pytest.raises(ConnectionError):
        store.write("/file", breaks_off())
    assert content(store, "/file") == b"old"
    assert [entry.name for entry in store.list("/")] == ["file"]


def test_a_reader_keeps_the_file_it_opened(store: Store) -> None:
    store.write("/file", [b"old"])
    with store.open_read("/file") as file:
        store.write("/file", [b"new"])
        assert file.read() == b"old"
    assert content(store, "/file") == b"new"


def test_it_lists_by_name_and_tells_files_from_folders(store: Store) -> None:
    store.write("/a/z", [b"12"])
    store.mkdirs("/a/b/c")
    assert [(e.path, e.name, e.is_dir, e.size) for e in store.list("/a")] == [
        ("/a/b", "b", True, 0),
        ("/a/z", "z", False, 2),
    ]
    assert store.stat("/a/z").size == 2
    assert store.stat("/").is_dir


def test_it_does_not_list_a_file_that_is_being_written(store: Store) -> None:
    seen = []

    def looks() -> Iterator[bytes]:
        yield b"x"
        seen.extend(store.list("/a"))

    store.write("/a/file", looks())
    assert seen == []


def test_it_renames_but_never_over_something(store: Store) -> None:
    store.write("/one", [b"1"])
    store.write("/two", [b"2"])
    with pytest.raises(PathExists):
        store.rename("/one", "/two")
    store.rename("/one", "/three")
    assert content(store, "/three") == b"1"
    with pytest.raises(PathNotFound):
        store.rename("/one", "/four")


def test_it_deletes_what_is_there_and_what_is_not(store: Store) -> None:
    store.write("/a/b/file", [b"1"])
    with pytest.raises(PathExists):
        store.delete("/a")
    store.delete("/a", recursive=True)
    store.delete("/a")
    with pytest.raises(PathNotFound):
        store.stat("/a")


@pytest.mark.parametrize("path", ["", "relative", "/a/../../etc/passwd", "/..", "/a/./b", "/a\0b", "/" + "x" * 300])
def test_it_refuses_what_is_no_path_inside_it(store: Store, path: str) -> None:
    for act in (store.open_read, store.stat, store.list, store.mkdirs, store.delete):
        with pytest.raises(BadPath):
            act(path)
    with pytest.raises(BadPath):
        store.write(path, [b"x"])


def test_it_refuses_a_link_that_leads_outside(store: Store, tmp_path: Path) -> None:
    store.mkdirs("/")
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret" / "key").write_bytes(b"key")
    (tmp_path / "store" / "link").symlink_to(tmp_path / "secret")
    (tmp_path / "store" / "key").symlink_to(tmp_path / "secret" / "key")
    with pytest.raises(BadPath):
        store.open_read("/link/key")
    with pytest.raises(BadPath):
        store.open_read("/key")
    with pytest.raises(BadPath):
        store.write("/link/key", [b"x"])


def test_reading_a_folder_and_listing_a_file_are_errors_of_ours(store: Store) -> None:
    store.write("/a/file", [b"x"])
    with pytest.raises(BadPath):
        content(store, "/a")
    with pytest.raises(BadPath):
        store.list("/a/file")
    with pytest.raises(BadPath):
        store.write("/a", [b"x"])
    with pytest.raises(BadPath):
        store.write("/a/file/below", [b"x"])


def test_only_the_portal_may_read_its_files(store: Store, tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        store.write("/a/b/file", [b"x"])
    finally:
        os.umask(before)
    root = tmp_path / "store"
    assert stat.S_IMODE((root / "a" / "b" / "file").stat().st_mode) == 0o600
    assert {stat.S_IMODE(path.stat().st_mode) for path in (root, root / "a", root / "a" / "b")} == {0o700}
