"""Quotas at the WebHDFS gateway: HDFS's answer, and nothing half-written."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from base.accounts import tokens
from base.models import User
from portal.webhdfs.messages import Request
from portal.webhdfs.operations import respond
from tests.api.test_webhdfs import URL, ask, content, refused, value

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _hundred_bytes(tmp_path: Path, settings: Any) -> None:
    settings.HOME, settings.STORE_QUOTA = tmp_path, 100


def test_a_body_of_known_length_is_refused_as_hdfs_does_before_it_is_taken(alice: User) -> None:
    headers = {"authorization": f"Bearer {tokens.issue(alice, 3600)}", "content-length": "101"}
    sent = Request("PUT", "/user/alice/a", {"op": "CREATE"}, headers, "10.0.0.9", f"{URL}/a", has_body=True)
    answer = respond(sent)
    assert answer.into is None
    assert refused(answer) == (403, "DSQuotaExceededException")
    assert "The files of alice may take 100 B in the store" in content(answer).decode()


def test_who_says_the_whole_length_first_is_refused_before_the_first_byte_of_many(alice: User) -> None:
    ask(alice, "PUT", "/user/alice/a", "CREATE", iter([b"x" * 60]))
    answer = ask(alice, "PUT", "/user/alice/new/b", "CREATE", length="41")
    assert refused(answer) == (403, "DSQuotaExceededException")
    assert "40 B of that is free: 41 B more does not fit" in content(answer).decode()
    for _ in range(3):
        assert ask(alice, "PUT", "/user/alice/new/b", "CREATE", length="40").status == 307, "to ask takes no room"
    assert ask(alice, "GET", "/user/alice/new", "LISTSTATUS").status == 404
    assert ask(alice, "PUT", "/shared/b", "CREATE", length="4100").status == 307
    assert ask(alice, "PUT", "/user/alice/b", "CREATE", length="x").status == 400


@pytest.mark.parametrize(("method", "op", "left"), [("PUT", "CREATE", b"old"), ("POST", "APPEND", b"old" + b"x" * 60)])
def test_a_body_of_unknown_length_is_refused_where_it_exceeds_the_quota(
    alice: User, method: str, op: str, left: bytes
) -> None:
    ask(alice, "PUT", "/user/alice/a", "CREATE", iter([b"old"]))
    answer = ask(alice, method, "/user/alice/a", op, iter([b"x" * 60, b"x" * 60]), overwrite="true")
    assert refused(answer) == (403, "DSQuotaExceededException")
    assert content(ask(alice, "GET", "/user/alice/a", "OPEN")) == left


def test_a_quota_is_of_the_tree_whoever_writes_and_moves_into_it(alice: User, admin: User) -> None:
    assert ask(admin, "PUT", "/user/alice/a", "CREATE", iter([b"x" * 101])).status == 403
    assert ask(alice, "PUT", "/shared/a", "CREATE", iter([b"x" * 101])).status == 201
    assert refused(ask(alice, "PUT", "/shared/a", "RENAME", destination="/user/alice/a"))[0] == 403
    assert value(ask(alice, "GET", "/shared/a", "GETFILESTATUS"))["FileStatus"]["length"] == 101
