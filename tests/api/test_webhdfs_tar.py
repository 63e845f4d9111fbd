"""UNPACK and PACK of the gateway: a folder as one tar."""

from __future__ import annotations

import asyncio
import io
import json
import os
import tarfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from base.accounts import tokens
from base.core.errors import LongshoreError
from base.files.store import delegation, open_store
from base.files.store.base import PathNotFound, Store, find
from base.files.store.local import LocalStore
from base.models import User
from base.serving.bodies import RequestBody
from base.serving.places import Places
from portal.webhdfs import app, unpacking
from portal.webhdfs.messages import Answer, Request
from portal.webhdfs.operations import respond
from portal.webhdfs.writers import Writers
from tests.api.test_webhdfs import ask, content, refused, value
from tests.helpers import until
from tests.limits import LIMIT

pytestmark = pytest.mark.django_db
CODE = {"train.py": b"print(1)\n", "data/ü 100%.csv": b"a,b\n", "data/empty": b"", "big": os.urandom(600_000)}


@pytest.fixture(autouse=True)
def _own_store(tmp_path: Path, settings: Any) -> None:
    settings.HOME = tmp_path


def tar(files: dict[str, bytes], **more: Any) -> bytes:
    """``more``: attributes of each header."""
    whole = io.BytesIO()
    with tarfile.open(fileobj=whole, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for name, data in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            for key, attribute in more.items():
                setattr(info, key, attribute)
            archive.addfile(info, io.BytesIO(data))
    return whole.getvalue()


class Body:
    """What comes of a request's body."""

    ended = True

    def __init__(self, body: bytes, piece: int) -> None:
        self._pieces = [body[at : at + piece] for at in range(0, len(body), piece)]

    async def piece(self) -> bytes:
        return self._pieces.pop(0) if self._pieces else b""


def unpack(user: User, folder: str, body: bytes, piece: int = 1000, **params: str) -> Answer:
    answer = ask_into(user, folder, **params)
    if answer.into is None:
        return answer
    scope = {"method": "PUT", "path": folder}
    return asyncio.run(app._fill(scope, answer, answer.into, cast(RequestBody, Body(body, piece))))


def ask_into(user: User, folder: str, **params: str) -> Answer:
    headers = {"authorization": f"Bearer {tokens.issue(user, 3600)}"}
    return respond(Request("PUT", folder, {"op": "UNPACK", **params}, headers, "10.0.0.9", "http://p/", True))


def written(answer: Answer) -> list[str]:
    told: list[str] = json.loads(content(answer))["Unpacked"]["written"]
    return told


def files_below(store: Store, folder: str) -> dict[str, bytes]:
    found: dict[str, bytes] = {}
    for entry in store.list(folder):
        if entry.is_dir:
            found |= {f"{entry.name}/{name}": data for name, data in files_below(store, entry.path).items()}
        else:
            with store.open_read(entry.path) as file:
                found[entry.name] = file.read()
    return found


@pytest.mark.parametrize("piece", [7, 511, 700_000])
def test_the_files_of_a_tar_are_there_and_come_back_as_a_tar(alice: User, piece: int) -> None:
    body = tar({**CODE, "big": CODE["big"] if piece > 7 else b"x" * 600})
    answer = unpack(alice, "/users/alice/code", body, piece)
    assert value(answer) == {"Unpacked": {"fileCount": 4}}
    there = files_below(open_store(), "/users/alice/code")
    assert {**there, "big": b""} == {**CODE, "big": b""}
    assert open_store().stat("/users/alice/code/data/empty").owner == "alice"
    with tarfile.open(fileobj=io.BytesIO(content(ask(alice, "GET", "/users/alice/code", "PACK")))) as back:
        come = {each.name: back.extractfile(each).read() for each in back if each.isfile()}  # type: ignore[union-attr]
    assert come == {f"code/{name}": data for name, data in there.items()}


def test_what_gnu_tar_makes_of_a_folder_is_taken(alice: User, tmp_path: Path) -> None:
    """``tar -C folder -c .``, with names longer than a header has room for."""
    folder, long = tmp_path / "folder", "n" * 90 + "/" + "m" * 200
    (folder / "empty").mkdir(parents=True)
    (folder / long).parent.mkdir()
    (folder / long).write_bytes(b"long")
    (folder / "run.sh").write_bytes(b"#!/bin/sh\n")
    (folder / "run.sh").chmod(0o700)
    body = os.popen(f"tar --format=gnu -C '{folder}' -c .").buffer.read()  # type: ignore[attr-defined]
    assert value(unpack(alice, "/users/alice/gnu", body)) == {"Unpacked": {"fileCount": 2}}
    store = open_store()
    assert files_below(store, "/users/alice/gnu") == {long: b"long", "run.sh": b"#!/bin/sh\n"}
    assert store.stat("/users/alice/gnu/run.sh").mode == 0o755 and store.stat("/users/alice/gnu/empty").is_dir


@pytest.mark.parametrize("name", ["../bob/x", "a/../../x", "..", "a\udcff", "x" * 300])
def test_no_name_leads_out_of_the_folder(alice: User, name: str) -> None:
    answer = unpack(alice, "/users/alice/code", tar({name: b"x"}))
    assert answer.status == 400 and written(answer) == []
    assert find(open_store(), "/users/bob") is None and find(open_store(), "/users/alice/x") is None


def test_an_absolute_name_is_one_below_the_folder(alice: User) -> None:
    unpack(alice, "/users/alice/code", tar({"/etc/passwd": b"x"}))
    assert files_below(open_store(), "/users/alice/code") == {"etc/passwd": b"x"}


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.FIFOTYPE])
def test_nothing_but_files_and_folders_is_taken(alice: User, kind: bytes) -> None:
    answer = unpack(alice, "/users/alice/code", tar({"evil": b""}, type=kind, linkname="/etc/passwd"))
    assert refused(answer) == (400, "IllegalArgumentException")
    assert "evil is neither a file nor a folder" in content(answer).decode()


@pytest.mark.parametrize("cut", [0, 100, 512, 1536, 2000, 2500, 3072])
def test_what_is_cut_off_is_no_whole_tar_and_its_last_file_is_not_there(alice: User, cut: int) -> None:
    body = tar({"one": b"1" * 600, "two": b"2" * 600})  # each has a header and two blocks
    answer = unpack(alice, "/users/alice/code", body[:cut])
    assert answer.status == 400, content(answer)
    there = find(open_store(), "/users/alice/code")
    found = files_below(open_store(), "/users/alice/code") if there else {}
    assert all(data in (b"1" * 600, b"2" * 600) for data in found.values())
    if "written" in content(answer).decode():
        assert sorted(found) == written(answer)


def test_a_broken_header_is_not_taken_for_the_end(alice: User) -> None:
    body = bytearray(tar({"one": b"1", "two": b"2"}))
    body[1024 + 3] ^= 1
    answer = unpack(alice, "/users/alice/code", bytes(body))
    assert answer.status == 400 and written(answer) == ["one"]


@given(body=st.binary(max_size=2000), at=st.integers(0, 3000))
def test_whatever_comes_is_answered(body: bytes, at: int) -> None:
    """No body makes the portal fail, or write outside of the folder."""
    good = bytearray(tar({"a": b"x" * 600, "b/c": b"y"}))
    good[at : at + len(body)] = body
    store = Memory()
    into = unpacking.Unpacking(store.call(), 0, overwrite=True)
    try:
        into.add(bytes(good))
        into.keep()
    except LongshoreError as error:
        assert error.status == 400, error.message
    finally:
        into.drop()
    assert all(path.startswith("/users/alice/code/") for path in store.files)


class Memory:
    """A store that keeps what it gets."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}

    def write(self, path: str, chunks: Iterator[bytes], **more: Any) -> int:
        self.files[path] = b"".join(chunks)
        return len(self.files[path])

    def mkdirs(self, path: str, **more: Any) -> None: ...

    def call(self, user: str = "alice") -> Any:
        class Limitless:
            store, path, name = self, f"/users/{user}/code", user

            def owner_for(self, path: str) -> str:
                return user

            class writes:
                @staticmethod
                def room(path: str, size: int) -> None: ...

        return Limitless()


def test_many_headers_for_one_name_are_refused_before_they_fill_the_memory(alice: User) -> None:
    info = tarfile.TarInfo("a")
    info.pax_headers = {"comment": "x" * 200_000}
    answer = unpack(alice, "/users/alice/code", info.tobuf(tarfile.PAX_FORMAT) + bytes(1024))
    assert answer.status == 400 and "a name in it is too long" in content(answer).decode()


def test_more_files_than_a_tar_may_have_and_one_twice_are_refused(alice: User, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unpacking, "MOST", 3)
    answer = unpack(alice, "/users/alice/code", tar(dict.fromkeys("abcd", b"x")))
    assert answer.status == 400 and "at most 3 files" in content(answer).decode()
    assert sorted(files_below(open_store(), "/users/alice/code")) == written(answer)
    twice = tar({"a": b"1"}).rstrip(b"\0") + bytes(511) + tar({"a": b"2"})
    assert "a is in the tar twice" in content(unpack(alice, "/users/alice/twice", twice)).decode()


def test_what_is_there_stays_unless_it_may_be_replaced(alice: User) -> None:
    unpack(alice, "/users/alice/code", tar({"b": b"old"}))
    answer = unpack(alice, "/users/alice/code", tar({"b": b"new"}))
    assert refused(answer) == (403, "FileAlreadyExistsException") and written(answer) == []
    assert unpack(alice, "/users/alice/code", tar({"b": b"new"}), overwrite="true").status == 200
    assert files_below(open_store(), "/users/alice/code") == {"b": b"new"}


def test_the_quota_is_of_all_files_together(alice: User, settings: Any) -> None:
    settings.STORE_QUOTA = 100
    answer = unpack(alice, "/users/alice/code", tar({"a": b"x" * 60}), length="101")
    assert refused(answer) == (403, "DSQuotaExceededException") and find(open_store(), "/users/alice/code") is None
    answer = unpack(alice, "/users/alice/code", tar({"a": b"x" * 60, "b": b"x" * 60}))
    assert refused(answer) == (403, "DSQuotaExceededException") and written(answer) == ["a"]
    assert unpack(alice, "/users/alice/code", tar({"c": b"x" * 40})).status == 200, "what did not come took nothing"
    assert unpack(alice, "/shared/code", tar({"c": b"x" * 400})).status == 200


@pytest.mark.parametrize("folder", ["/users/bob/code", "/users/bob", "/users", "/", "/data", "/.longshore/x"])
def test_others_folders_are_closed(alice: User, bob: User, folder: str) -> None:
    answer = unpack(alice, folder, tar({"bob/x": b"x"}))
    assert refused(answer) == (403, "AccessControlException"), content(answer)
    assert find(open_store(), "/users/bob/x") is None


def test_folders_of_all_users_are_for_nobody(admin: User) -> None:
    for folder in ("/", "/users"):
        assert refused(unpack(admin, folder, tar({"alice/x": b"x"}))) == (400, "IllegalArgumentException")
        assert ask(admin, "GET", folder, "PACK").status in (400, 404)
    assert ask(admin, "GET", "/nowhere", "PACK").status == 404


def test_a_token_for_something_else_unpacks_nothing(alice: User, bob: User) -> None:
    token = delegation.issue("alice", seconds=60, path="/users/alice/a", ops=("CREATE",))
    assert ask(None, "PUT", "/users/alice/a", "UNPACK", b"", delegation=token).status == 403
    assert ask(alice, "GET", "/users/bob", "PACK").status == 403


def test_only_so_many_at_once_and_each_that_ends_makes_room(alice: User, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unpacking, "_places", Places(1))
    first = ask_into(alice, "/users/alice/code").into
    assert first is not None
    first.add(b"x" * 512)
    answer = unpack(alice, "/users/alice/code", tar({"a": b"x"}))
    assert refused(answer) == (503, "RetriableException")
    first.drop()
    first.drop()
    assert unpack(alice, "/users/alice/code", tar({"a": b"x"})).status == 200


def test_who_keeps_their_places_keeps_nobody_else_out(alice: User, bob: User, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unpacking, "_places", Places(unpacking.AT_ONCE))
    kept = [ask_into(alice, f"/users/alice/{number}").into for number in range(unpacking.AT_ONCE // 2)]
    for into in kept:
        assert into is not None
        into.add(b"x" * 512)
    assert unpack(alice, "/users/alice/more", tar({"a": b"x"})).status == 503
    assert unpack(bob, "/users/bob/code", tar({"a": b"x"})).status == 200
    for into in kept:
        assert into is not None
        into.drop()
    assert unpack(alice, "/users/alice/more", tar({"a": b"x"})).status == 200


class Slow(Memory):
    """A store that says when a file comes, and takes none before it is told to."""

    def __init__(self) -> None:
        super().__init__()
        self.opened, self.lock = threading.Event(), threading.Lock()
        self.came: list[str] = []  # whose
        self.under_way = self.most = 0

    def write(self, path: str, chunks: Iterator[bytes], **more: Any) -> int:
        with self.lock:
            self.came.append(path.split("/")[2])
            self.under_way += 1
            self.most = max(self.most, self.under_way)
        assert self.opened.wait(LIMIT)
        with self.lock:
            self.under_way -= 1
        return super().write(path, chunks, **more)


def begun(store: Memory, user: str, files: int) -> unpacking.Unpacking:
    """A tar of so many files, all of which have been sent."""
    into = unpacking.Unpacking(store.call(user), 0, overwrite=True)
    into.add(tar({f"{number}": b"x" for number in range(files)}))
    return into


def ended(store: Slow, *tars: unpacking.Unpacking) -> None:
    store.opened.set()
    for into in tars:
        into.keep()
        into.drop()


def waiting(user: str) -> int:
    """How many of their files wait for a thread."""
    return len(unpacking._writers._waiting.get(user, ()))


def test_all_tars_share_a_few_threads() -> None:
    store, users, before = Slow(), ("alice", "bob", "carol"), set(threading.enumerate())
    tars = [begun(store, user, 40) for user in users]
    try:
        until(lambda: sum(map(waiting, users)) == 3 * unpacking.AHEAD - unpacking.THREADS)
        new = [each for each in set(threading.enumerate()) - before if each.name.startswith("unpack")]
        assert len(new) <= unpacking.THREADS + len(tars)
    finally:
        ended(store, *tars)
    assert store.most == unpacking.THREADS and len(store.files) == 3 * 40
    assert not [each for each in new if each.is_alive() and each.name == "unpack"], "each reader ends with its tar"


def test_a_user_waits_for_one_file_of_another_not_for_a_tar(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unpacking, "_writers", Writers(1))
    store = Slow()
    tars = [begun(store, "alice", 10)]
    try:
        until(lambda: waiting("alice") == 9)
        tars.append(begun(store, "bob", 3))
        until(lambda: waiting("bob") == 3)
    finally:
        ended(store, *tars)
    assert store.came == ["alice", *["alice", "bob"] * 3, *["alice"] * 6]


def test_what_breaks_off_leaves_whole_files_alone(alice: User) -> None:
    into = ask_into(alice, "/users/alice/code").into
    assert into is not None
    body = tar({"a": b"x" * 10, "big": b"y" * 400_000})
    into.add(body[:300_000])
    into.drop()
    assert files_below(open_store(), "/users/alice/code") == {"a": b"x" * 10}


def test_a_store_that_goes_away_in_the_middle_is_told_with_what_is_written(
    alice: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = LocalStore.write

    def failing(self: LocalStore, path: str, *more: Any, **options: Any) -> int:
        if path.endswith("b"):
            raise PathNotFound(f"{path} is gone.")
        return write(self, path, *more, **options)

    monkeypatch.setattr(LocalStore, "write", failing)
    monkeypatch.setattr(unpacking, "_SMALL", 0)  # one after the other
    answer = unpack(alice, "/users/alice/code", tar(dict.fromkeys("abc", b"x")))
    assert refused(answer) == (404, "FileNotFoundException") and written(answer) == ["a"]


def test_without_a_body_it_says_what_is_missing(alice: User) -> None:
    assert "Send a tar" in content(unpack(alice, "/users/alice/code", b"")).decode()


def test_a_file_is_no_folder_to_unpack_into(alice: User) -> None:
    ask(alice, "PUT", "/users/alice/file", "CREATE", iter([b"x"]))
    assert unpack(alice, "/users/alice/file", tar({"a": b"x"})).status == 400
