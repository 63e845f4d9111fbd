"""The store on HDFS before servers that answer as no single NameNode of a test can: a pair's standby, a stranger."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import pytest

from base.files.store.base import StoreFull, StoreUnavailable
from base.files.store.hdfs import client
from base.files.store.hdfs.store import HdfsStore
from portal.webhdfs.shapes import remote_exception
from tests.helpers import LIMIT

_STANDBY = {"RemoteException": {"exception": "StandbyException", "message": "Operation READ is not supported"}}
_FOLDER = {
    "FileStatus": {
        "type": "DIRECTORY",
        "length": 0,
        "modificationTime": 0,
        "owner": "hdfs",
        "group": "supergroup",
        "permission": "755",
    }
}


@pytest.fixture(autouse=True)
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """The servers are threads of this process, and may be slow to answer."""
    monkeypatch.setattr(client, "NAMENODE", (LIMIT, LIMIT))


@contextmanager
def server(status: int, body: str) -> Iterator[tuple[str, list[str]]]:
    """Gives every request the same answer; yields its address and the requests it got."""
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_response(status)
            self.send_header("Content-Length", str(len(body.encode())))
            self.end_headers()
            self.wfile.write(body.encode())

        def log_message(self, *_: object) -> None:
            pass

    http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=http.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{http.server_port}", asked
    finally:
        http.shutdown()
        http.server_close()
        thread.join(LIMIT)


def test_of_a_pair_the_one_that_is_no_standby_is_asked_from_then_on() -> None:
    with server(403, json.dumps(_STANDBY)) as (standby, wrong), server(200, json.dumps(_FOLDER)) as (active, right):
        store = HdfsStore([standby, active], "hdfs")
        assert store.stat("/").is_dir
        assert store.stat("/a").is_dir
    assert (len(wrong), len(right)) == (1, 2)


def test_of_a_pair_without_an_active_one_it_says_so() -> None:
    standby = json.dumps(_STANDBY)
    with server(403, standby) as (one, _), server(403, standby) as (two, _), pytest.raises(StoreUnavailable) as told:
        HdfsStore([one, two], "hdfs").stat("/")
    assert "standby" in told.value.message


@pytest.mark.parametrize("kind", ["DSQuotaExceededException", "NSQuotaExceededException"])
def test_a_quota_of_its_own_is_told_to_clients_as_one_and_not_as_something_to_try_again(kind: str) -> None:
    body = json.dumps({"RemoteException": {"exception": kind, "javaClassName": kind, "message": "exceeded"}})
    with server(403, body) as (url, _), pytest.raises(StoreFull) as told:
        HdfsStore([url], "hdfs").mkdirs("/a")
    name = remote_exception(told.value)[0]["RemoteException"]["exception"]
    assert (name, told.value.status, isinstance(told.value, StoreUnavailable)) == (
        "DSQuotaExceededException",
        507,
        True,
    )


@pytest.mark.parametrize(
    ("status", "body"),
    [(404, "<html>nothing here</html>"), (200, "<html>welcome</html>"), (200, "{}"), (200, "[]"), (500, "[]")],
)
def test_a_server_that_is_no_hdfs_is_one_that_cannot_be_reached(status: int, body: str) -> None:
    with server(status, body) as (url, _), pytest.raises(StoreUnavailable):
        HdfsStore([url], "hdfs").stat("/")


def test_names_that_the_library_would_read_its_own_way_are_names() -> None:
    with server(200, json.dumps(_FOLDER)) as (url, asked):
        store = HdfsStore([url], "hdfs")
        store.stat("/a/x#LATEST")
        store.stat("/a/#LATEST{2}")
    assert [path.partition("?")[0] for path in asked] == ["/webhdfs/v1/a/x%23LATEST", "/webhdfs/v1/a/%23LATEST%7B2%7D"]
