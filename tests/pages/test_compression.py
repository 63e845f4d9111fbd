"""Pages and JSON are compressed for who takes it; streams, files and what is encoded already are left alone."""

from __future__ import annotations

import gzip
import http.client
import re
from collections.abc import Callable
from dataclasses import dataclass
from time import thread_time
from urllib.parse import urlsplit

import pytest
from django.test import Client
from django.utils.text import compress_string

from base.accounts import audit, tokens
from base.files.store import open_store
from base.models import User
from tests.builders import make_node
from tests.helpers import LIMIT
from tests.pages.conftest import session_of

GZIP = {"Accept-Encoding": "gzip, deflate, br"}
TOKEN = re.compile(r'name="csrfmiddlewaretoken" value="(\w+)"')


@dataclass(frozen=True)
class Got:
    status: int
    headers: http.client.HTTPMessage
    body: bytes


Ask = Callable[..., Got]


@pytest.fixture
def ask(site: str, alice: User) -> Ask:
    """A request of alice's browser, and of nothing that decodes an answer."""
    cookie = f"longshore={session_of(alice)}"

    def asked(path: str, method: str = "GET", read: int | None = None, **headers: str) -> Got:
        connection = http.client.HTTPConnection(urlsplit(site).netloc, timeout=LIMIT)
        connection.request(method, path, headers={"Cookie": cookie, **headers})
        answer = connection.getresponse()
        got = Got(answer.status, answer.headers, answer.read(read))
        connection.close()
        return got

    return asked


def test_a_page_is_compressed_for_who_takes_it(ask: Ask) -> None:
    make_node()
    plain, packed, again = ask("/submit"), ask("/submit", **GZIP), ask("/submit", **GZIP)
    assert plain.status == packed.status == 200
    assert packed.headers["Content-Encoding"] == "gzip" and "Content-Encoding" not in plain.headers
    assert "Content-Encoding" not in ask("/submit", **{"Accept-Encoding": "gzip;q=0, br"}).headers
    for answer in (plain, packed):
        assert "Accept-Encoding" in answer.headers["Vary"] and int(answer.headers["Content-Length"]) == len(answer.body)
    assert len(packed.body) < len(plain.body) / 4
    pages = [plain.body.decode(), gzip.decompress(packed.body).decode(), gzip.decompress(again.body).decode()]
    assert len({TOKEN.sub("", page).count("<") for page in pages}) == 1
    assert not set(TOKEN.findall(pages[1])) & set(TOKEN.findall(pages[2]))  # what is compressed is never twice the same
    assert (
        packed.body[3] == 8
    )  # it has the name of a file, which is of random length: two may have the same, not twenty
    named = [answer.body[10 : answer.body.index(b"\0", 10)] for answer in (ask("/submit", **GZIP) for _ in range(20))]
    assert len({*map(len, named)}) > 1


def test_head_and_errors_are_as_get(ask: Ask) -> None:
    head = ask("/jobs", "HEAD", **GZIP)
    assert (head.status, head.body, head.headers["Content-Encoding"]) == (200, b"", "gzip")
    missing = ask("/nodes/nothing", **GZIP)
    assert missing.status == 404 and b"</html>" in gzip.decompress(missing.body)


def test_what_is_known_by_its_etag_is_not_sent_again(ask: Ask) -> None:
    first = ask("/submit/schema", **GZIP)
    assert first.headers["ETag"].startswith('W/"') and first.headers["Content-Encoding"] == "gzip"
    for accepts in (GZIP, {}):
        again = ask("/submit/schema", **{"If-None-Match": first.headers["ETag"], **accepts})
        assert (again.status, again.body) == (304, b"")


def test_streams_are_sent_as_they_come(ask: Ask, alice: User) -> None:
    events = ask("/stream/page?page=jobs", read=1, **GZIP)
    assert (events.status, len(events.body)) == (200, 1)
    assert events.headers["Content-Type"].startswith("text/event-stream")
    assert "Content-Encoding" not in events.headers
    audit.record(alice.username, "login")
    export = ask("/api/v1/audit?format=csv", Authorization=f"Bearer {tokens.issue(alice, 600)}", **GZIP)
    assert export.body.startswith(b"id,time,who") and "Content-Encoding" not in export.headers


def test_a_file_can_be_resumed_at_a_byte(ask: Ask, alice: User) -> None:
    text = b"<html>" + b"abcdefgh" * 1000
    open_store().write("/users/alice/page.html", [text], owner="alice")
    path = "/webhdfs/v1/users/alice/page.html?op=OPEN"
    whole, rest = ask(path, **GZIP), ask(path, Range="bytes=4000-", **GZIP)
    for answer in (whole, rest):
        assert "Content-Encoding" not in answer.headers and int(answer.headers["Content-Length"]) == len(answer.body)
    assert (whole.body, rest.status, rest.body) == (text, 206, text[4000:])


@pytest.mark.timed
def test_a_page_costs_far_more_than_its_compression(browse: Callable[[User | None], Client], alice: User) -> None:
    make_node()
    client = browse(alice)
    body = client.get("/submit").content
    made, packed = [], []
    for _ in range(5):
        begun = thread_time()
        client.get("/submit")
        middle = thread_time()
        compress_string(body, max_random_bytes=100)
        made.append(middle - begun)
        packed.append(thread_time() - middle)
    assert min(packed) < min(made) / 4
