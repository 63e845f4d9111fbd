"""What holds for every store. A subclass gives the fixture ``store``: an empty one."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from threading import Barrier

import pytest

from base.core.errors import BadRequest, LongshoreError
from base.files.store.base import BadPath, PathExists, PathNotFound, Store, TreeUsage, find
from jobs.containers.code import uploads
from jobs.containers.code.named import NamedFolders
from tests.helpers import LIMIT


def content(store: Store, path: str, offset: int = 0) -> bytes:
    with store.open_read(path, offset) as file:
        return file.read()


class StoreContract:
    GANGS = 5  # how often four writers make the same folders at once

    def test_it_writes_a_file_with_its_folders_and_reads_it_from_any_offset(self, store: Store) -> None:
        assert store.write("/a/b/file", [b"hello ", b"world"]) == 11
        assert content(store, "/a/b/file") == b"hello world"
        assert content(store, "/a/b/file", 6) == b"world"
        assert content(store, "/a/b/file", 99) == b""

    def test_it_changes_nothing_when_what_is_written_breaks_off(self, store: Store) -> None:
        def breaks_off() -> Iterator[bytes]:
            yield b"new"
            raise ConnectionError("the engine went away")

        store.write("/file", [b"old"])
        with pytest.raises(ConnectionError):
            store.write("/file", breaks_off())
        assert content(store, "/file") == b"old"
        assert [entry.name for entry in store.list("/")] == ["file"]

    def test_a_reader_keeps_the_file_it_opened(self, store: Store) -> None:
        store.write("/file", [b"old"])
        with store.open_read("/file") as file:
            store.write("/file", [b"new"])
            assert file.read() == b"old"
        assert content(store, "/file") == b"new"

    def test_it_lists_by_name_and_tells_files_from_folders(self, store: Store) -> None:
        store.write("/a/z", [b"12"])
        store.mkdirs("/a/b/c")
        assert [(e.path, e.name, e.is_dir, e.size) for e in store.list("/a")] == [
            ("/a/b", "b", True, 0),
            ("/a/z", "z", False, 2),
        ]
        assert store.stat("/a/z").size == 2
        assert store.stat("/").is_dir

    def test_it_does_not_list_a_file_that_is_being_written(self, store: Store) -> None:
        seen = []

        def looks() -> Iterator[bytes]:
            yield b"x"
            seen.extend(store.list("/a"))

        store.write("/a/file", looks())
        assert seen == []

    def test_it_renames_but_never_over_something(self, store: Store) -> None:
        store.write("/one", [b"1"])
        store.write("/two", [b"2"])
        with pytest.raises(PathExists):
            store.rename("/one", "/two")
        store.rename("/one", "/three")
        assert content(store, "/three") == b"1"
        with pytest.raises(PathNotFound):
            store.rename("/one", "/four")

    def test_it_renames_over_something_in_one_step_when_that_is_asked_for(self, store: Store) -> None:
        store.write("/one", [b"1"])
        store.write("/two", [b"two"])
        store.write("/full/file", [b"kept"])
        with pytest.raises(PathNotFound):
            store.rename("/none", "/two", overwrite=True)
        with pytest.raises(LongshoreError):
            store.rename("/one", "/full", overwrite=True)
        assert (content(store, "/two"), content(store, "/full/file")) == (b"two", b"kept")
        store.rename("/one", "/two", overwrite=True)
        assert content(store, "/two") == b"1" and find(store, "/one") is None

    def test_it_joins_no_file_twice(self, store: Store) -> None:
        store.write("/one", [b"1"])
        store.write("/two", [b"2"])
        with pytest.raises(BadPath):
            store.concat("/one", ["/two", "/two"])
        assert (content(store, "/one"), content(store, "/two")) == (b"1", b"2")

    def test_it_deletes_what_is_there_and_what_is_not(self, store: Store) -> None:
        store.write("/a/b/file", [b"1"])
        with pytest.raises(PathExists):
            store.delete("/a")
        store.delete("/a", recursive=True)
        store.delete("/a")
        with pytest.raises(PathNotFound):
            store.stat("/a")

    def test_it_reads_small_files_in_their_order_as_long_as_they_were_listed(self, store: Store) -> None:
        for name in ("a", "b", "c"):
            store.write(f"/small/{name}", [name.encode() * 4])
        listed = store.list("/small")
        store.write("/small/b", [b"b" * 8])
        assert store.read_each(listed[::-1]) == [b"cccc", b"bbbb", b"aaaa"]
        store.delete("/small/b")
        with pytest.raises(PathNotFound):
            store.read_each(listed)

    @pytest.mark.parametrize(
        "path",
        [
            *("", "relative", "/a/../../etc/passwd", "/..", "/a/./b", "/a\0b", "/" + "x" * 256, "/a/" + "€" * 86),
            *("/a/b.longshore-part", "/.longshore-part/a", "/half\ud800"),
        ],
    )
    def test_it_refuses_what_is_no_path_inside_it(self, store: Store, path: str) -> None:
        for act in (store.open_read, store.stat, store.list, store.mkdirs, store.delete):
            with pytest.raises(BadPath):
                act(path)
        with pytest.raises(BadPath):
            store.write(path, [b"x"])

    @pytest.mark.parametrize("path", ["/a/" + "x" * 255, "/a/" + "€" * 85, "/" + "/".join("x" * 200 for _ in range(4))])
    def test_it_takes_names_of_255_bytes_and_longer_paths(self, store: Store, path: str) -> None:
        store.write(path, [b"x"])
        assert content(store, path) == b"x"

    def test_reading_a_folder_and_listing_a_file_are_errors_of_ours(self, store: Store) -> None:
        store.write("/a/file", [b"x"])
        with pytest.raises(BadPath):
            content(store, "/a")
        with pytest.raises(BadPath):
            store.list("/a/file")
        with pytest.raises(BadPath):
            store.write("/a", [b"x"])
        with pytest.raises(BadPath):
            store.write("/a/file/below", [b"x"])

    def test_it_keeps_a_file_that_is_not_to_be_replaced(self, store: Store) -> None:
        store.write("/file", [b"old"])
        with pytest.raises(PathExists):
            store.write("/file", [b"new"], overwrite=False)
        assert content(store, "/file") == b"old"
        assert [entry.name for entry in store.list("/")] == ["file"]

    def test_of_two_that_make_a_file_one_is_told_that_it_is_there(self, store: Store) -> None:
        def slow() -> Iterator[bytes]:
            store.write("/file", [b"first"], overwrite=False)
            yield b"second"

        with pytest.raises(PathExists):
            store.write("/file", slow(), overwrite=False)
        assert content(store, "/file") == b"first"

    def test_files_and_new_folders_get_owner_and_mode(self, store: Store) -> None:
        store.mkdirs("/Container", mode=0o777)
        store.write("/Container/mira/job/config", [b"x"], owner="mira", mode=0o600)
        entry = store.stat("/Container/mira/job/config")
        assert (entry.owner, entry.mode) == ("mira", 0o600)
        folder = store.stat("/Container/mira/job")
        assert (folder.owner, folder.mode, store.stat("/Container").mode) == ("mira", 0o755, 0o777)
        assert store.stat("/Container").owner != "mira"

    def test_owner_and_mode_can_be_changed(self, store: Store) -> None:
        store.write("/file", [b"x"])
        store.change("/file", owner="mira", mode=0o640)
        assert (store.stat("/file").owner, store.stat("/file").mode) == ("mira", 0o640)
        store.change("/file", mode=0o600)
        assert store.stat("/file").owner == "mira"
        with pytest.raises(PathNotFound):
            store.change("/gone", mode=0o600)

    def test_the_time_of_the_last_change_is_set_or_left_as_it_was(self, store: Store) -> None:
        store.write("/folder/file", [b"x"], owner="mira", mode=0o640)
        before, asked = store.stat("/folder/file").modified_at, datetime(2019, 5, 4, 3, 2, 1, 123_000, tzinfo=UTC)
        store.change("/folder/file", modified_at=asked)
        entry = store.stat("/folder/file")
        assert entry.modified_at in (asked, before)
        assert (entry.owner, entry.mode, entry.size) == ("mira", 0o640, 1)
        with pytest.raises(PathNotFound):
            store.change("/gone", modified_at=asked)

    def test_the_entries_of_a_list_are_those_of_stat_when_that_is_asked_for(self, store: Store) -> None:
        store.write("/a/run.sh", [b"x"], owner="mira", mode=0o755)
        store.mkdirs("/a/folder", owner="noa")
        entries = store.exact(store.list("/a"))
        assert entries == [store.stat("/a/folder"), store.stat("/a/run.sh")]
        assert [(entry.owner, entry.mode) for entry in entries] == [("noa", 0o755), ("mira", 0o755)]
        assert store.exact([]) == []

    def test_it_appends_and_cuts(self, store: Store) -> None:
        store.write("/file", [b"one "])
        assert store.append("/file", [b"two ", b"three"]) == 13
        assert content(store, "/file") == b"one two three"
        with pytest.raises(BadRequest):
            store.truncate("/file", 14)
        with pytest.raises(PathNotFound):
            store.append("/gone", [b"x"])

    def test_it_joins_files(self, store: Store) -> None:
        for name in ("a", "b", "c"):
            store.write(f"/{name}", [name.encode()])
        store.concat("/a", ["/b", "/c"])
        assert content(store, "/a") == b"abc"
        assert [entry.name for entry in store.list("/")] == ["a"]
        with pytest.raises(BadPath):
            store.concat("/a", ["/a"])

    def test_it_sums_what_is_below(self, store: Store) -> None:
        store.write("/a/b/one", [b"123"])
        store.write("/a/two", [b"45"])
        assert store.usage("/a") == TreeUsage(5, 2, 2)
        assert store.usage("/a/two") == TreeUsage(2, 1, 0)
        with pytest.raises(PathNotFound):
            store.usage("/gone")

    def test_names_are_those_of_any_language(self, store: Store) -> None:
        store.write("/data/été & co 1 #2?.txt", [b"x"])
        store.write("/data/c++", [b"x"])
        assert [entry.name for entry in store.list("/data")] == ["c++", "été & co 1 #2?.txt"]
        assert content(store, "/data/été & co 1 #2?.txt") == b"x"

    def test_large_files_pass_in_pieces(self, store: Store) -> None:
        piece = bytes(range(256)) * 4096
        assert store.write("/big", (piece for _ in range(8))) == 8 << 20
        with store.open_read("/big", (7 << 20) + 5) as file:
            assert file.read(3) == bytes((5, 6, 7))
            assert len(file.read()) == (1 << 20) - 8

    def test_writers_who_make_the_same_folders_at_once_all_succeed(self, store: Store) -> None:
        start = Barrier(4)

        def write(number: int, folder: int) -> int:
            start.wait(LIMIT)
            return store.write(f"/gang-{folder}/logs/task-{number}/stdout", [b"kept"])

        with ThreadPoolExecutor(4) as threads:
            for folder in range(self.GANGS):
                assert list(threads.map(write, range(4), [folder] * 4)) == [4] * 4

    def test_what_a_command_uploaded_goes_where_nobody_changed_it(
        self, store: Store, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(NamedFolders, "has", lambda *_: False)  # no rows are asked here
        named = NamedFolders([])
        content = b"print()"
        told = {"folders": ["p", "p/a", "p/none"], "files": {"p/a/x.py": [7, hashlib.sha1(content).hexdigest()]}}
        for name in ("goes", "stays"):
            store.write(f"/users/mira/code/.longshore/{name}", [json.dumps(told).encode()], owner="mira")
            store.write(f"/users/mira/code/{name}/p/a/x.py", [content], owner="mira")
            store.mkdirs(f"/users/mira/code/{name}/p/none", owner="mira")
        store.write("/users/mira/code/stays/p/mine", [b""])
        for name in ("goes", "stays", "goes", "stays", "none"):
            uploads.remove(store, "mira", name, datetime.now(UTC) - timedelta(days=1), named)
        assert len(store.list("/users/mira/code/.longshore")) == 2, "they have just begun"
        for name in ("goes", "stays", "goes", "stays"):
            uploads.remove(store, "mira", name, datetime.now(UTC) + timedelta(days=1), named)
        assert find(store, "/users/mira/code/goes") is None
        assert [each.name for each in store.list("/users/mira/code/stays/p")] == ["a", "mine", "none"]
        assert store.list("/users/mira/code/.longshore") == []
