"""The store on a local folder: the contract of all stores, and what only it can promise."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from base.core.errors import LongshoreError
from base.core.store_url import namenodes
from base.files.store.base import BadPath, Store, StoreUnavailable
from base.files.store.local import MARKER, LocalStore
from tests.contract_store import StoreContract, content


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return LocalStore(tmp_path / "store")


class TestLocalStore(StoreContract):
    GANGS = 300  # a folder is made within microseconds


def test_what_killed_writers_left_goes_and_what_is_being_written_stays(store: Store, tmp_path: Path) -> None:
    killed, late, fresh = (store.begin(f"/user/{name}") for name in ("killed", "late", "fresh"))
    for writing in (killed, late, fresh):
        writing.add(b"half")
    killed._file.close()  # type: ignore[attr-defined]  # the kernel does, when a process dies
    parts = list((tmp_path / "store" / ".longshore-part").iterdir())
    assert len(parts) == 3 and store.clean_up() == 0
    for part in parts:
        os.utime(part, (0, 0))
    assert store.clean_up() == 1
    late.add(b" and half")
    assert late.keep() == 13
    fresh.drop()
    assert content(store, "/user/late") == b"half and half"
    assert [entry.name for entry in store.list("/")] == ["user"]
    assert not list((tmp_path / "store" / ".longshore-part").iterdir())


def test_it_cuts_a_file(store: Store) -> None:
    store.write("/file", [b"12345"])
    store.truncate("/file", 2)
    assert content(store, "/file") == b"12"


@pytest.mark.parametrize("id_of_folder", ["", "one"])
def test_it_refuses_a_link_that_leads_outside(id_of_folder: str, tmp_path: Path) -> None:
    store = LocalStore(tmp_path / "store", id_of_folder)
    (tmp_path / "store").mkdir()
    (tmp_path / "store" / MARKER).write_text(id_of_folder)
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
    with pytest.raises(BadPath):
        store.list("/link")


def test_its_folder_may_be_a_link_that_is_led_elsewhere_while_it_is_open(tmp_path: Path) -> None:
    """As somebody does who moves it to a larger disk."""
    link = tmp_path / "store"
    for disk in ("small", "large"):
        (tmp_path / disk).mkdir()
    link.symlink_to("small")
    store = LocalStore(link)
    store.write("/a/one.txt", [b"1"])
    link.unlink()
    link.symlink_to("large")
    store.write("/b/two.txt", [b"2"])
    assert (tmp_path / "large" / "b" / "two.txt").read_bytes() == b"2"


def test_a_folder_that_cannot_be_made_is_a_store_that_cannot_be_reached(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(LongshoreError):
        LocalStore(tmp_path / "file" / "store").stat("/")


def test_only_the_portal_may_read_its_files(store: Store, tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        store.write("/a/b/file", [b"x"])
    finally:
        os.umask(before)
    root = tmp_path / "store"
    assert stat.S_IMODE((root / "a" / "b" / "file").stat().st_mode) == 0o600
    assert {stat.S_IMODE(path.stat().st_mode) for path in (root, root / "a", root / "a" / "b")} == {0o700}


@pytest.mark.parametrize(
    ("url", "found"),
    [
        ("webhdfs://nn1:9870;nn2:9870", ["http://nn1:9870", "http://nn2:9870"]),
        ("http://nn1:50070;http://nn2:50070/", ["http://nn1:50070", "http://nn2:50070"]),
        ("hdfs://nn", ["http://nn:9870"]),
        ("swebhdfs://[::1]:9871", ["https://[::1]:9871"]),
    ],
)
def test_the_address_of_an_hdfs_is_read_in_all_its_forms(url: str, found: list[str]) -> None:
    assert namenodes(url) == found


@pytest.mark.parametrize(
    "url", ["", ";", "nn1:9870", "ftp://nn1", "http://nn1:99999", "http://nn1/webhdfs/v1", "http://"]
)
def test_an_address_that_is_none_is_refused(url: str) -> None:
    with pytest.raises(ValueError):
        namenodes(url)


def test_a_folder_without_its_marker_is_no_store_and_is_not_made_anew(tmp_path: Path) -> None:
    root = tmp_path / "store"
    guarded = LocalStore(root, "one")
    for act in (guarded.stat, guarded.list, guarded.mkdirs, guarded.open_read, lambda path: guarded.write(path, [b""])):
        with pytest.raises(StoreUnavailable, match="Is its disk mounted"):
            act("/Container")
    assert not root.exists()
    root.mkdir()
    (root / MARKER).write_text("another\n")
    with pytest.raises(StoreUnavailable):
        guarded.stat("/")
    (root / MARKER).write_text("one\n")
    guarded.write("/Container/file", [b"x"])
    assert [entry.path for entry in guarded.list("/")] == ["/Container"]


@pytest.mark.parametrize("path", [f"/{MARKER}", f"/{MARKER}/x"])
def test_nobody_gets_at_the_marker(store: Store, path: str) -> None:
    store.write("/file", [b"x"])
    for act in (store.stat, store.delete, lambda path: store.rename("/file", path), lambda path: store.write(path, [])):
        with pytest.raises(BadPath):
            act(path)
