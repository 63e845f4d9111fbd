"""The store on a real S3 server: the contract of all stores, what only a bucket asks for, and a server that is down,
silent, busy or that refuses."""

from __future__ import annotations

import io
import logging
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from base.core.errors import LongshoreError
from base.core.store_url import Bucket
from base.files.quota.use import use_of
from base.files.quota.writes import Writes
from base.files.store import try_write
from base.files.store.base import (
    BadPath,
    PathExists,
    PathNotFound,
    QuotaExceeded,
    StoreFull,
    StoreUnavailable,
    TreeUsage,
    fill,
)
from base.files.store.remote import Breaker
from base.files.store.s3 import client, tree, writing
from base.files.store.s3.store import S3Store
from base.files.store_actor import KnownAccounts
from base.models import User
from tests.bed.s3_bed import SECRET, S3Bed
from tests.contract_store import StoreContract, content
from tests.helpers import LIMIT, until

PIECE = bytes(range(256)) * 4096  # 1 MiB


@pytest.fixture(autouse=True)
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that is busy answers in the end; one that is stopped does not, whatever it is given."""
    for name in ("CONNECTS", "ANSWERS", "WORKS"):
        monkeypatch.setattr(client, name, LIMIT)


@pytest.fixture
def store(s3: S3Bed) -> S3Store:
    s3.empty()
    return s3.store("team/longshore")


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A request is sent once."""
    monkeypatch.setattr(client, "TRIES", 1)


def questions(store: S3Store) -> list[str]:
    """To the server from now on."""
    asked: list[str] = []
    for one in (store.server.client, store.server.patient):
        one.meta.events.register("before-call.s3", lambda model, **_: asked.append(model.name))
    return asked


class TestS3Store(StoreContract):
    pass


def test_what_comes_into_a_folder_while_that_is_deleted_stays(store: S3Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """A bucket does not refuse to delete a folder that is not empty."""
    store.mkdirs("/a/b")
    delete = tree.Tree.delete

    def comes(self: tree.Tree, keys: Any, path: str) -> None:
        monkeypatch.setattr(tree.Tree, "delete", delete)
        store.write("/a/b/file", [b"x"])
        delete(self, keys, path)

    monkeypatch.setattr(tree.Tree, "delete", comes)
    store.delete("/a/b")
    assert [entry.path for entry in store.list("/a/b")] == ["/a/b/file"]


def test_a_whole_bucket_is_a_store_too(s3: S3Bed) -> None:
    s3.empty()
    store = s3.store()
    store.write("/a/file", [b"x"])
    store.rename("/a", "/b")
    assert [entry.path for entry in store.list("/")] == ["/b"] and store.usage("/") == TreeUsage(1, 1, 2)
    assert store.stat("/").is_dir and store.clean_up() == 0


def test_a_large_file_that_breaks_off_leaves_no_parts(s3: S3Bed, store: S3Store) -> None:
    store.write("/file", [b"old"])

    def breaks_off() -> Iterator[bytes]:
        for _ in range(9):
            yield PIECE
        assert len(s3.uploads()) == 1
        raise ConnectionError("the client went away")

    with pytest.raises(ConnectionError):
        store.write("/file", breaks_off())
    assert (content(store, "/file"), s3.uploads()) == (b"old", [])


def test_what_killed_writers_left_goes_and_what_is_being_written_stays(s3: S3Bed, store: S3Store) -> None:
    killed, elsewhere = store.begin("/killed"), s3.store("others").begin("/theirs")
    for each in (killed, elsewhere):
        each.add(PIECE * 9)
    assert store.clean_up() == 0
    assert store.clean_up(0) == 1
    assert [upload["Key"] for upload in s3.uploads()] == ["others/theirs"]
    elsewhere.drop()
    with pytest.raises(LongshoreError):
        killed.keep()


def test_a_large_file_grows_and_shrinks_without_passing_through_the_portal(
    s3: S3Bed, store: S3Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writing, "COPIED", 6 << 20)
    store.write("/big", [PIECE] * 14, owner="mira", mode=0o600)
    monkeypatch.setattr(store, "open_read", None)
    assert store.append("/big", [b"and ", b"more"]) == (14 << 20) + 8
    store.truncate("/big", (13 << 20) + 1)
    store.rename("/big", "/large")
    store.change("/large", owner="noa")
    monkeypatch.undo()
    assert content(store, "/large", (13 << 20) - 1) == b"\xff\0"
    assert (store.stat("/large").owner, store.stat("/large").mode) == ("noa", 0o600)
    assert s3.uploads() == []


def test_an_object_that_is_made_by_a_request_whose_answer_is_lost_is_made(
    store: S3Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    complete = store.server.patient.complete_multipart_upload

    def twice(**request: Any) -> None:
        complete(**request)
        complete(**request)  # as the library does when no answer comes

    monkeypatch.setattr(store.server.patient, "complete_multipart_upload", twice)
    assert store.write("/big", [PIECE] * 9) == store.stat("/big").size == 9 << 20


def test_many_who_write_into_a_new_folder_at_once_all_succeed(store: S3Store) -> None:
    with ThreadPoolExecutor(8) as pool:
        sizes = list(pool.map(lambda n: store.write(f"/new/folder/{n}", [b"x"]), range(16)))
    assert sizes == [1] * 16 and len(store.list("/new/folder")) == 16


def test_of_two_that_append_at_once_one_is_told(store: S3Store) -> None:
    store.write("/file", [b"one "])
    first, second = store.begin_append("/file"), store.begin_append("/file")
    first.add(b"two ")
    second.add(b"three")
    first.keep()
    try:
        with pytest.raises(PathExists):
            second.keep()
    finally:
        second.drop()
    assert content(store, "/file") == b"one two "


def test_a_folder_of_many_pages_is_listed_summed_renamed_and_deleted(
    s3: S3Bed, store: S3Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tree, "_PAGE", 3)
    for number in range(8):
        store.write(f"/many/{number}", [b"x"], owner="mira", mode=0o755)
        store.mkdirs(f"/many/below/{number}/empty")
    assert [entry.name for entry in store.list("/many")] == [*map(str, range(8)), "below"]
    assert store.usage("/many") == TreeUsage(8, 8, 18)
    store.rename("/many", "/all")
    assert store.usage("/all") == TreeUsage(8, 8, 18)
    assert (store.stat("/all/7").owner, store.stat("/all/7").mode) == ("mira", 0o755)
    assert [entry.name for entry in store.list("/")] == ["all"]
    store.delete("/all", recursive=True)
    assert [each["Key"] for each in s3.client.list_objects_v2(Bucket=s3.bucket).get("Contents", [])] == []


def test_a_folder_that_cannot_be_renamed_whole_stays_where_it_is(
    store: S3Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("one", "two", "three"):
        store.write(f"/a/{name}", [name.encode()])
    copy = store._copy

    def fails(path: str, *more: Any) -> None:
        if path == "/a/two":
            raise StoreUnavailable("The file store (S3) cannot be reached.")
        copy(path, *more)

    monkeypatch.setattr(store, "_copy", fails)
    with pytest.raises(StoreUnavailable):
        store.rename("/a", "/b")
    assert [entry.name for entry in store.list("/")] == ["a"]
    assert store.usage("/a").files == 3
    with pytest.raises(BadPath):
        store.rename("/a", "/a/below")
    with pytest.raises(PathNotFound):
        store.rename("/a/one", "/nowhere/one")


def test_what_is_deleted_while_a_list_is_read_stays_in_it(store: S3Store) -> None:
    store.write("/a/file", [b"x"])
    (file,) = store.list("/a")
    gone = replace(file, path="/a/gone")
    assert store.exact([gone, file]) == [gone, store.stat("/a/file")]


def test_what_other_programs_put_into_the_bucket_is_a_tree_too(s3: S3Bed, store: S3Store) -> None:
    for key in ("a/b/file", "a//odd", "x/../y", ".", "part.longshore-part", "n" * 300):
        s3.client.put_object(Bucket=s3.bucket, Key=f"team/longshore/data/{key}", Body=b"12")
    s3.client.put_object(Bucket=s3.bucket, Key="team/elsewhere", Body=b"x")
    assert [(entry.name, entry.is_dir) for entry in store.list("/data")] == [("a", True), ("x", True)]
    assert [entry.name for entry in store.list("/data/a")] == ["b"]
    assert store.stat("/data/a").is_dir
    assert (store.stat("/data/a/b/file").owner, content(store, "/data/a/b/file")) == ("root", b"12")
    assert [entry.name for entry in store.list("/")] == ["data"]
    store.write("/data/a/b/other", [b"x"])
    store.delete("/data", recursive=True)
    assert store.list("/") == []


NAMES = ["a b", "a+b", "100%", "a%2Fb", "a:b\t", "ü/é", "日本😀", "a'b\"c", "<a&b>", "a\\b", " ~", "#?"]


def test_odd_names_are_names(store: S3Store) -> None:
    for name in NAMES:
        store.write(f"/odd/{name}", [b"x"], owner="mira ü")
        store.rename(f"/odd/{name}", f"/odd/{name}2")
        store.change(f"/odd/{name}2", mode=0o600)
        store.append(f"/odd/{name}2", [b"y"])
    (inner,) = store.list("/odd/ü")
    found = [entry for entry in (inner, *store.list("/odd")) if not entry.is_dir]
    assert {entry.path for entry in found} == {f"/odd/{name}2" for name in NAMES}
    for entry in store.exact(found):
        assert (entry.owner, entry.mode, content(store, entry.path)) == ("mira ü", 0o600, b"xy")
    store.delete("/odd", recursive=True)
    assert store.list("/") == []


def test_a_path_that_is_too_long_for_a_key_is_refused(store: S3Store) -> None:
    with pytest.raises(BadPath, match="longer than an S3 store takes"):
        store.write("/" + "/".join(["x" * 200] * 6), [b"x"])
    with pytest.raises(BadPath):
        store.write("/\ud800", [b"x"])


def test_a_user_s_quota_holds_and_leaves_no_file_half_written(store: S3Store, alice: User, settings: Any) -> None:
    settings.STORE_QUOTA = 3 << 20
    writes, path = Writes(store, KnownAccounts()), "/users/alice/file"
    writes.write(path, [PIECE])
    with pytest.raises(QuotaExceeded):
        writes.begin("/users/alice/other", size=(2 << 20) + 1)
    with pytest.raises(QuotaExceeded):
        writes.write("/users/alice/other", [PIECE] * 4)
    with pytest.raises(QuotaExceeded):
        fill(writes.begin_append(path), [PIECE] * 3)
    assert [(entry.name, entry.size) for entry in store.list("/users/alice")] == [("file", 1 << 20)]
    writes.write(path, [PIECE] * 2)
    use_of("alice", store).outdate()
    assert use_of("alice", store).total() == 2 << 20


def test_many_small_files_take_few_requests(s3: S3Bed, store: S3Store) -> None:
    asked = questions(store)
    store.write("/many/one", [b"x"])
    asked.clear()
    store.write("/many/two", [b"x"])
    assert asked == ["ListObjectsV2", "PutObject"]  # is it a folder; the file
    asked.clear()
    store.list("/many")
    content(store, "/many/two", 0)
    assert asked == ["ListObjectsV2", "GetObject"]


def test_a_dead_server_is_told_and_used_again_when_it_is_back(s3: S3Bed, monkeypatch: pytest.MonkeyPatch) -> None:
    s3.empty()
    monkeypatch.setattr(client, "Breaker", Standing)
    store = s3.store("team/longshore")
    asked = questions(store)

    def dies() -> Iterator[bytes]:
        for _ in range(9):
            yield PIECE
        s3.kill()
        for _ in range(8):
            yield PIECE

    try:
        with pytest.raises(StoreUnavailable, match="cannot be reached"):
            store.write("/file", dies())
        asked.clear()
        with pytest.raises(StoreUnavailable):  # known to be down: not asked again
            store.list("/")
        assert not asked
    finally:
        s3.start()
    until(lambda: Standing.passes(client.REST) and _writes(store), every=0.1, what="the store is used again")


class Standing(Breaker):
    """Time goes on for it as the test says."""

    now = 0.0

    def __init__(self, rest: float, patience: float) -> None:
        super().__init__(rest, patience, lambda: Standing.now)

    @classmethod
    def passes(cls, seconds: float) -> bool:
        cls.now += seconds
        return True


def _writes(store: S3Store) -> bool:
    try:
        try_write(store)
    except StoreUnavailable:
        return False
    return True


@pytest.mark.usefixtures("impatient")
def test_a_silent_server_takes_nobody_s_time_for_long(s3: S3Bed, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("CONNECTS", "ANSWERS", "WORKS"):
        monkeypatch.setattr(client, name, 1.0)
    monkeypatch.setattr(client, "Breaker", Standing)
    store = s3.store()
    asked = questions(store)
    s3.freeze()
    try:
        with pytest.raises(StoreUnavailable, match="cannot be reached"):
            store.list("/")
        asked.clear()
        with pytest.raises(StoreUnavailable):
            store.write("/file", [b"x"])
        assert not asked
    finally:
        s3.thaw()


class _Refusing(BaseHTTPRequestHandler):
    """Answers everything with ``status`` and an error of S3's; a GET of an object breaks off half way."""

    status, code = 503, "SlowDown"

    def answer(self) -> None:
        body = f"<Error><Code>{self.code}</Code><Message>no</Message></Error>".encode()
        self.send_response(self.status)
        self.send_header("Content-Length", str(len(body) + 10 * (self.status == 200)))
        self.end_headers()
        self.wfile.write(b"" if self.command == "HEAD" else body)

    do_GET = do_PUT = do_HEAD = do_POST = do_DELETE = answer

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def refusing(status: int, code: str) -> Iterator[S3Store]:
    handler = type("Handler", (_Refusing,), {"status": status, "code": code})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield S3Store(Bucket("bucket", "", f"http://127.0.0.1:{server.server_port}", "", "key", SECRET))
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


REFUSALS = {
    (403, "AccessDenied"): "does not allow the portal's key",
    (403, "SignatureDoesNotMatch"): "LONGSHORE_S3_SECRET_KEY",
    (403, "RequestTimeTooSkewed"): "clock",
    (404, "NoSuchBucket"): "no bucket of the name",
    (400, "AuthorizationHeaderMalformed"): "LONGSHORE_S3_REGION",
    (503, "SlowDown"): "asks to wait",
    (500, "InternalError"): "answered with an error",
    (418, "<b>&#38;"): "answered with an error",
    (200, "Nonsense"): "S3",
}


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize(("answer", "sentence"), REFUSALS.items(), ids=lambda each: str(each)[:20])
def test_a_server_that_refuses_is_told_in_a_sentence(answer: tuple[int, str], sentence: str) -> None:
    with refusing(*answer) as store:
        for act in (
            lambda: store.list("/a"),
            lambda: content(store, "/a/file"),
            lambda: store.write("/a/file", [b"x"]),
            lambda: store.delete("/a", recursive=True),
            lambda: try_write(store),
        ):
            with pytest.raises(StoreUnavailable, match=sentence) as told:
                act()
            assert told.value.message.endswith(".") and SECRET not in str(told.value)


@pytest.mark.usefixtures("impatient")
def test_a_server_without_room_is_told_as_full() -> None:
    with refusing(507, "XMinioStorageFull") as store, pytest.raises(StoreFull):
        store.mkdirs("/a")


def test_no_log_has_a_key_or_a_signature(s3: S3Bed, store: S3Store) -> None:
    root, lines = logging.getLogger(), io.StringIO()
    handler, level = logging.StreamHandler(lines), root.level
    root.addHandler(handler)
    root.setLevel(logging.DEBUG)
    try:
        s3.store("other").write("/file", [b"x"])
    finally:
        root.removeHandler(handler)
        root.setLevel(level)
    assert not any(word in lines.getvalue() for word in (SECRET, "Signature=", "AKID", "Authorization"))
    assert SECRET not in repr(s3.at()) and SECRET not in repr(store.server)


def test_names_that_no_list_of_xml_can_have_are_deleted_like_others(store: S3Store) -> None:
    """Who writes one into a folder must not keep all that is in it from being deleted."""
    for name in ("plain", "\x01", "a\x0bb", "tab\t", "return\r", "\ufffe", "\U0001f600", "?a&b<c>\"'%+"):
        store.write(f"/a/{name}", [b"x"])
    assert len(store.list("/a")) == 8
    store.delete("/a/\x01")
    store.delete("/a", recursive=True)
    assert store.list("/") == []


def test_of_two_that_make_a_file_at_once_one_is_told(store: S3Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(S3Store, "refuse", lambda *_: None)  # when they looked, neither had written it yet
    store.write("/file", [b"first"], overwrite=False)
    with pytest.raises(PathExists):
        store.write("/file", [b"second"], overwrite=False)
    assert content(store, "/file") == b"first"
