"""The WebHDFS gateway as Hadoop's own clients ask it: what came with Hadoop 3, and what HDFS can and this cannot."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from base.accounts import budget
from base.files.store import delegation
from base.models import AuditEvent, User
from tests.api.test_webhdfs import ask, content, refused, value
from tests.submitting import submitted

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _own_store(tmp_path: Path, settings: Any) -> None:
    settings.HOME = tmp_path


def test_the_owner_that_applies_may_be_asked_for(alice: User, bob: User) -> None:
    for path in ("/users/alice/a", "/shared/a"):
        ask(alice, "PUT", path, "CREATE", iter([b"x"]))
    for path in ("/users/alice/a", "/shared/a"):  # what it has already, as clients ask that copy owners
        kept = ask(alice, "PUT", path, "SETOWNER", owner="alice", group="supergroup")
        assert (kept.status, kept.headers) == (200, {})
        given = ask(alice, "PUT", path, "SETOWNER", owner="bob")
        assert refused(given) == (403, "AccessControlException") and b"only an admin" in content(given)


def test_times_are_set_and_what_is_not_kept_is_said(alice: User) -> None:
    ask(alice, "PUT", "/user/alice/a", "CREATE", iter([b"x"]))
    for path in ("/user/alice/a", "/user/alice"):
        assert ask(alice, "PUT", path, "SETTIMES", modificationtime="0", accesstime="-1").headers == {}
        assert value(ask(alice, "GET", path, "GETFILESTATUS"))["FileStatus"]["modificationTime"] == 0
    assert value(ask(alice, "GET", "/user/alice", "LISTSTATUS"))["FileStatuses"]["FileStatus"]
    assert "access" in ask(alice, "PUT", "/user/alice/a", "SETTIMES", accesstime="5").headers["X-Warning"]
    far = ask(alice, "PUT", "/user/alice/a", "SETTIMES", modificationtime="9" * 18)
    assert refused(far) == (400, "IllegalArgumentException")


def test_a_file_has_one_copy_and_more_are_refused(alice: User) -> None:
    ask(alice, "PUT", "/user/alice/a", "CREATE", iter([b"x"]))
    assert value(ask(alice, "PUT", "/user/alice/a", "SETREPLICATION", replication="1")) == {"boolean": True}
    assert value(ask(alice, "PUT", "/user/alice", "SETREPLICATION", replication="1")) == {"boolean": False}
    more = ask(alice, "PUT", "/user/alice/a", "SETREPLICATION", replication="3")
    assert refused(more) == (400, "UnsupportedOperationException")


@pytest.mark.parametrize(
    ("method", "op"), [("GET", "GETACLSTATUS"), ("PUT", "SETXATTR"), ("DELETE", "DELETESNAPSHOT"), ("PUT", "SETQUOTA")]
)
def test_what_hdfs_can_and_this_cannot_is_told_apart_from_nonsense(alice: User, method: str, op: str) -> None:
    answer = ask(alice, method, "/user/alice", op)
    assert refused(answer) == (400, "UnsupportedOperationException")
    assert f"{op} is not supported here. This file store has no ".encode() in content(answer)
    # Hadoop's clients look for these words, and then ask in the way of an older server.
    assert b"Invalid value for webhdfs parameter" in content(ask(alice, method, "/user/alice", "DANCE"))


def test_hadoop_3_finds_its_own_operations(alice: User) -> None:
    for name in ("a", "b"):
        ask(alice, "PUT", f"/user/alice/{name}", "CREATE", iter([b"12"]))
    whole = value(ask(alice, "GET", "/user/alice", "LISTSTATUS_BATCH"))["DirectoryListing"]
    rows = whole["partialListing"]["FileStatuses"]["FileStatus"]
    assert ([row["pathSuffix"] for row in rows], whole["remainingEntries"]) == (["a", "b"], 0)
    rest = value(ask(alice, "GET", "/user/alice", "LISTSTATUS_BATCH", startafter="a"))["DirectoryListing"]
    assert [row["pathSuffix"] for row in rest["partialListing"]["FileStatuses"]["FileStatus"]] == ["b"]
    defaults = value(ask(alice, "GET", "/", "GETSERVERDEFAULTS"))["FsServerDefaults"]
    assert (defaults["trashInterval"], defaults["keyProviderUri"]) == (0, "")
    assert value(ask(alice, "GET", "/shared", "GETTRASHROOT")) == {"Path": "/user/alice/.Trash"}
    used = value(ask(alice, "GET", "/user/alice", "GETQUOTAUSAGE"))["QuotaUsage"]
    assert used == {"fileAndDirectoryCount": 3, "quota": -1, "spaceConsumed": 4, "spaceQuota": -1}
    blocks = value(ask(alice, "GET", "/user/alice/a", "GETFILEBLOCKLOCATIONS"))["BlockLocations"]["BlockLocation"]
    assert [(block["offset"], block["length"], block["hosts"]) for block in blocks] == [(0, 2, ["portal"])]


def test_a_large_folder_is_listed_in_parts(alice: User, bob: User, tmp_path: Path) -> None:
    ask(alice, "PUT", "/user/alice/many", "MKDIRS")
    for number in range(1005):
        (tmp_path / f"store/user/alice/many/{number:04}").touch()
    parts, after = [], ""
    for _ in range(2):
        listed = value(ask(alice, "GET", "/user/alice/many", "LISTSTATUS_BATCH", startafter=after))["DirectoryListing"]
        rows = [row["pathSuffix"] for row in listed["partialListing"]["FileStatuses"]["FileStatus"]]
        parts.append((rows[0], rows[-1], len(rows), listed["remainingEntries"]))
        after = rows[-1]
    assert parts == [("0000", "0999", 1000, 5), ("1000", "1004", 5, 0)]
    ask(bob, "PUT", "/user/bob", "MKDIRS")  # what a user does not see counts for nothing
    users = value(ask(alice, "GET", "/user", "LISTSTATUS_BATCH"))["DirectoryListing"]
    assert [row["pathSuffix"] for row in users["partialListing"]["FileStatuses"]["FileStatus"]] == ["alice"]


def test_what_a_user_deletes_is_recorded_and_what_a_job_deletes_is_not(alice: User) -> None:
    job = {"delegation": delegation.issue_for_attempt("alice", submitted(alice).attempts.get().app_id)}
    for asker, more in ((alice, {}), (None, job)):
        ask(alice, "PUT", "/user/alice/a", "CREATE", iter([b"x"]))
        for there in (True, False):
            assert value(ask(asker, "DELETE", "/user/alice/a", "DELETE", **more)) == {"boolean": there}
    row = AuditEvent.objects.get(action="files deleted")
    assert (row.actor, row.object, row.ip, row.way) == ("alice", "/user/alice/a", "10.0.0.9", "WebHDFS")


def test_what_is_refused_is_recorded(alice: User, bob: User) -> None:
    for number in range(2):  # an address once
        assert refused(ask(bob, "GET", "/user/alice/a", "OPEN", data=f"{bool(number)}"))[0] == 403
    assert refused(ask(bob, "DELETE", "/", "DELETE"))[0] == 403
    ask(bob, "PUT", "/user/bob/b", "CREATE", iter([b"x"]))
    assert refused(ask(bob, "PUT", "/user/bob/b", "RENAME", destination="/user/alice"))[0] == 403
    rows = AuditEvent.objects.filter(action="refused").order_by("id")
    assert [(row.actor, row.object, row.ip, row.way, row.data) for row in rows] == [
        ("bob", path, "10.0.0.9", "WebHDFS", {"method": op})
        for path, op in (("/user/alice/a", "OPEN"), ("/", "DELETE"), ("/user/bob/b", "RENAME"))
    ]


def test_checksums_take_no_more_than_a_user_s_share_of_the_cpu(
    alice: User, bob: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    budget.forget()
    monkeypatch.setattr(budget, "SECONDS", 1e-9)  # one checksum spends it
    monkeypatch.setattr(budget, "BACK", 1e-9)
    ask(alice, "PUT", "/shared/a", "CREATE", iter([b"x" * (1 << 20)]))
    assert ask(alice, "GET", "/shared/a", "GETFILECHECKSUM").status == 200
    again = ask(alice, "GET", "/shared/a", "GETFILECHECKSUM")
    assert refused(again) == (429, "RetriableException") and int(again.headers["Retry-After"]) > 0
    assert ask(bob, "GET", "/shared/a", "GETFILECHECKSUM").status == 200
    budget.forget()


def test_one_delegation_token_too_many_is_refused_with_what_to_do(alice: User, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delegation, "MOST", 0)
    answer = ask(alice, "GET", "/", "GETDELEGATIONTOKEN")
    assert refused(answer) == (403, "IOException") and b"Cancel some with CANCELDELEGATIONTOKEN" in content(answer)
