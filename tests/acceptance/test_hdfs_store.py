"""The store on a real HDFS: the contract of all stores, and an HDFS that is down, silent, full or read-only."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

from base.files.quota.use import use_of
from base.files.quota.writes import Writes
from base.files.store import try_write
from base.files.store.base import PARTS, PathNotFound, QuotaExceeded, Store, StoreFull, StoreUnavailable, fill
from base.files.store.hdfs.store import HdfsStore
from base.files.store_actor import KnownAccounts
from base.models import User
from tests.bed.hdfs_bed import HdfsBed
from tests.contract_store import StoreContract, content
from tests.helpers import LIMIT, until

pytestmark = pytest.mark.hdfs


@pytest.fixture(autouse=True)
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Servers that are busy with other tests answer in the end; one that is stopped does not, whatever it is given."""
    for name, limit in {
        "NAMENODE": (LIMIT, LIMIT),
        "DATANODE": (LIMIT, LIMIT),
        "SENDS": LIMIT,
        "ANSWERS": LIMIT,
    }.items():
        monkeypatch.setattr(f"base.files.store.hdfs.client.{name}", limit)


@pytest.fixture
def store(hdfs: HdfsBed) -> Store:
    store = HdfsStore([hdfs.url], hdfs.user)
    for entry in store.list("/"):
        store.delete(entry.path, recursive=True)
    return store


class TestHdfsStore(StoreContract):
    pass


def test_it_finds_the_namenode_of_a_pair_that_answers(hdfs: HdfsBed, store: Store) -> None:
    pair = HdfsStore(["http://127.0.0.1:9", hdfs.url], hdfs.user)
    pair.write("/file", [b"x"])
    assert content(store, "/file") == b"x"


def test_one_more_small_file_in_a_folder_takes_few_questions(hdfs: HdfsBed, monkeypatch: pytest.MonkeyPatch) -> None:
    store = HdfsStore([hdfs.url], hdfs.user)
    store.write("/many/one", [b"x"], owner="mira")
    asked = questions(store, monkeypatch)
    store.write("/many/two", [b"x"], owner="mira")
    assert len(asked) == 4, asked  # where to write, how long it is, whose it is, its name
    assert (store.stat("/many/two").owner, store.stat("/many/two").mode) == ("mira", 0o644)
    asked.clear()
    with store.open_read("/many/two", known=store.stat("/many/two")) as file:
        assert file.read() == b"x"
    assert len([each for each in asked if "GETFILESTATUS" in each]) == 1, asked
    HdfsStore([hdfs.url], hdfs.user).delete("/many", recursive=True)  # another process of the portal
    store.write("/many/three", [b"x"], owner="mira")
    assert store.stat("/many").owner == "mira"


def questions(store: HdfsStore, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """To HDFS from now on."""
    asked: list[str] = []
    send = store.namenode.client._session.request

    def request(method: str, url: str, **more: Any) -> Any:
        asked.append(f"{method} {more.get('params', {}).get('op')}")
        return send(method, url, **more)

    monkeypatch.setattr(store.namenode.client._session, "request", request)
    return asked


def test_in_safe_mode_it_reads_and_says_why_it_does_not_write(hdfs: HdfsBed, store: Store) -> None:
    store.write("/file", [b"x"])
    hdfs.admin("-safemode", "enter")
    try:
        with pytest.raises(StoreUnavailable, match="safe mode"):
            store.mkdirs("/folder")
        with pytest.raises(StoreUnavailable):
            store.write("/file", [b"y"])
        assert content(store, "/file") == b"x"
    finally:
        hdfs.admin("-safemode", "leave")
    store.write("/file", [b"y"])


def test_what_hdfs_did_not_keep_is_told(hdfs: HdfsBed, store: Store) -> None:
    """It answers 201 to a write beyond the room of a folder."""
    store.mkdirs("/small")
    hdfs.admin("-setSpaceQuota", "1m", "/small")
    with pytest.raises(StoreFull):
        store.write("/small/file", [b"x" * (4 << 20)])
    assert store.list("/small") == []
    hdfs.admin("-setQuota", "1", "/small")
    with pytest.raises(StoreFull, match="a quota of its own is used up"):
        store.mkdirs("/small/folder")


def test_a_user_s_quota_holds_and_leaves_no_file_half_written(store: Store, alice: User, settings: Any) -> None:
    settings.STORE_QUOTA = 3 << 20
    writes, path, piece = Writes(store, KnownAccounts()), "/users/alice/file", b"x" * (1 << 20)
    writes.write(path, [piece])
    with pytest.raises(QuotaExceeded):
        writes.begin("/users/alice/other", size=(2 << 20) + 1)
    with pytest.raises(QuotaExceeded):
        writes.write("/users/alice/other", [piece] * 4)
    with pytest.raises(QuotaExceeded):
        fill(writes.begin_append(path), [piece] * 3)
    assert 1 << 20 <= store.stat(path).size <= 3 << 20, "of what fitted, HDFS keeps what its DataNode had taken"
    assert [entry.name for entry in store.list("/users/alice")] == ["file"]
    store.write("/Container/alice/alice~job/log/0", [piece] * 3)

    def counted() -> bool:
        use_of("alice", store).outdate()
        return use_of("alice", store).total() == (3 << 20) + store.stat(path).size

    until(counted, what="what jobs leave is not refused, but counts")


def test_what_killed_writers_left_goes_and_what_is_being_written_stays(
    hdfs: HdfsBed, store: HdfsStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.clean_up(0)  # of the tests before
    monkeypatch.setattr("base.files.store.hdfs.store._TOUCH_EVERY", 0.0)
    client = store.namenode.client
    killed, late = store.begin("/killed"), store.begin("/late")
    for writing in (killed, late):
        writing.add(b"half")
        until(partial(client.status, writing._written, strict=False), what="made by the DataNode")  # type: ignore[attr-defined]
    killed._sending.close()  # type: ignore[attr-defined]
    # The DataNode closes the file of a writer that is gone, and dates it anew.
    until(lambda: client.status(killed._written)["length"] == 4, what="closed by the DataNode")  # type: ignore[attr-defined]
    for writing in (killed, late):
        client.set_times(writing._written, modification_time=1000)  # type: ignore[attr-defined]
    late.add(b" and half")
    assert store.clean_up() == 1
    assert (late.keep(), content(store, "/late")) == (13, b"half and half")
    assert [entry.name for entry in store.list("/")] == ["late"]
    assert killed._written.rpartition("/")[2] not in client.list(PARTS)  # type: ignore[attr-defined]


def test_a_silent_namenode_takes_nobody_s_time_for_long(hdfs: HdfsBed, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("base.files.store.hdfs.client.NAMENODE", (1.0, 1.0))
    monkeypatch.setattr("base.files.store.hdfs.client.REST", LIMIT)
    store = HdfsStore([hdfs.url], hdfs.user)
    asked = questions(store, monkeypatch)
    hdfs.freeze()
    try:
        with pytest.raises(StoreUnavailable, match="cannot be reached"):
            store.list("/")
        assert asked
        asked.clear()
        with pytest.raises(StoreUnavailable):  # known to be down: not asked again
            store.list("/")
        assert not asked
    finally:
        hdfs.thaw()


def test_a_silent_datanode_is_no_reason_to_give_up_the_namenode(
    hdfs: HdfsBed, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.write("/file", [b"x"])
    hdfs.freeze("datanode")
    try:
        with monkeypatch.context() as hurried:
            # A read is sent on to the DataNode by the NameNode, whose limits hold for both then.
            limits = {"NAMENODE": (LIMIT, 10.0), "DATANODE": (1.0, 1.0), "SENDS": 1.0, "ANSWERS": 1.0}
            for name, limit in limits.items():
                hurried.setattr(f"base.files.store.hdfs.client.{name}", limit)
            with pytest.raises(StoreUnavailable, match="DataNode"):
                content(store, "/file")
            with pytest.raises(StoreUnavailable, match="DataNode"):
                store.write("/other", [b"x"])
        assert [entry.name for entry in store.list("/")] == ["file"]
    finally:
        hdfs.thaw("datanode")
    until(lambda: _reads(store, "/file"), every=0.1, what="the DataNode is back")


def test_a_write_that_hdfs_dies_in_leaves_what_was_there_and_the_store_is_used_again(
    hdfs: HdfsBed, store: Store
) -> None:
    store.write("/file", [b"x"])

    def dies() -> Iterator[bytes]:
        yield b"x" * (1 << 20)
        hdfs.kill()
        for _ in range(64):
            yield b"x" * (1 << 20)

    try:
        with pytest.raises(StoreUnavailable):
            store.write("/file", dies())
        with pytest.raises(StoreUnavailable):
            store.stat("/file")
    finally:
        hdfs.start()
    until(lambda: _reads(store, "/file"), 3 * LIMIT, 0.1, what="the store is used again")
    assert [entry.name for entry in store.list("/") if not entry.is_dir] == ["file"]
    with pytest.raises(PathNotFound):
        store.stat("/gone")


def _reads(store: Store, path: str) -> bool:
    try:
        return content(store, path) == b"x"
    except StoreUnavailable:
        return False


def test_a_user_who_may_not_write_is_told_at_the_start(hdfs: HdfsBed, store: Store) -> None:
    with pytest.raises(StoreUnavailable, match="LONGSHORE_STORE_USER"):
        try_write(HdfsStore([hdfs.url], "somebody"))
    try_write(store)
    assert store.list("/") == []
