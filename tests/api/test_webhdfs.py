"""The WebHDFS gateway, operation by operation: answers, errors and who may."""

from __future__ import annotations

import ipaddress
import json
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from hypothesis import given
from hypothesis import strategies as st

from base.accounts import tokens
from base.core.errors import LongshoreError
from base.files.store import delegation, open_store
from base.files.store.base import fill
from base.files.store.local import LocalStore
from base.models import User
from clusters.users import services as users
from portal.webhdfs import shapes
from portal.webhdfs.messages import Answer, Request, params_in, path_in
from portal.webhdfs.operations import _OPS, respond
from portal.webhdfs.operations import refused as refusal
from tests.http import Client
from tests.submitting import submitted

pytestmark = pytest.mark.django_db
URL = "http://portal/files/webhdfs/v1"


@pytest.fixture(autouse=True)
def _own_store(tmp_path: Path, settings: Any) -> None:
    settings.HOME = tmp_path


def ask(user: User | None, method: str, path: str, op: str, body: Any = None, **params: str) -> Answer:
    headers = {"authorization": f"Bearer {tokens.issue(user, 3600)}"} if user else {}
    request = Request(method, path, {"op": op, **params}, headers, "10.0.0.9", f"{URL}{path}", body is not None)
    answer = respond(request)
    if answer.into is not None:
        try:
            fill(answer.into, body or ())
        except LongshoreError as error:
            return refusal(error)
    return answer


def content(answer: Answer) -> bytes:
    return answer.body if isinstance(answer.body, bytes) else b"".join(answer.body)


def value(answer: Answer) -> Any:
    assert answer.status == 200, content(answer)
    return json.loads(content(answer))


def refused(answer: Answer) -> tuple[int, str]:
    return answer.status, json.loads(content(answer))["RemoteException"]["exception"]


def test_a_file_is_made_in_two_steps_and_read_back(alice: User) -> None:
    path = "/user/alice/data.bin"
    first = ask(alice, "PUT", path, "CREATE")
    assert (first.status, content(first)) == (307, b"")
    assert first.headers["Location"] == f"{URL}{path}?op=CREATE&data=true"
    assert ask(alice, "PUT", path, "CREATE", iter([b"hello ", b"world"]), data="true").status == 201
    assert content(ask(alice, "GET", path, "OPEN")) == b"hello world"
    assert content(ask(alice, "GET", path, "OPEN", offset="6", length="3")) == b"wor"
    status = value(ask(alice, "GET", path, "GETFILESTATUS"))["FileStatus"]
    assert (status["type"], status["length"], status["owner"], status["permission"]) == ("FILE", 11, "alice", "600")


def test_a_body_sent_at_once_needs_no_second_step(alice: User) -> None:
    assert ask(alice, "PUT", "/user/alice/a", "create", iter([b"x"]), permission="600").status == 201
    assert open_store().stat("/user/alice/a").mode == 0o600


def test_an_empty_file_is_the_second_step_without_a_body(alice: User) -> None:
    assert ask(alice, "PUT", "/user/alice/a", "CREATE", data="true").status == 201
    assert open_store().stat("/user/alice/a").size == 0


def test_where_to_write_is_told_to_those_who_follow_no_redirect(alice: User) -> None:
    told = value(ask(alice, "PUT", "/user/alice/a", "CREATE", noredirect="true"))
    assert "data=true" in told["Location"]


@pytest.mark.parametrize("op", ["OPEN", "GETFILECHECKSUM"])
def test_who_reads_by_a_name_is_redirected_as_a_namenode_does(alice: User, settings: Any, op: str) -> None:
    settings.WEBHDFS_TRUST = (ipaddress.ip_network("10.0.0.0/8"),)
    ask(alice, "PUT", "/user/alice/a", "CREATE", iter([b"0123"]))
    first = ask(None, "GET", "/user/alice/a", op, offset="1", **{"user.name": "alice"})
    location = first.headers.get("Location", "")
    assert (first.status, content(first), location.partition("?")[0]) == (307, b"", f"{URL}/user/alice/a")
    params = params_in(location.partition("?")[2].encode())
    assert params == {"op": op, "offset": "1", "user.name": "alice", "data": "true"}
    second = respond(Request("GET", "/user/alice/a", params, {}, "10.0.0.9", f"{URL}/user/alice/a"))
    assert second.status == 200 and (op != "OPEN" or content(second) == b"123")


@pytest.mark.parametrize(("method", "op"), [("GET", "OPEN"), ("GET", "GETFILECHECKSUM"), ("PUT", "CREATE")])
def test_who_follows_no_redirect_is_told_the_address_and_can_use_it(alice: User, method: str, op: str) -> None:
    ask(alice, "PUT", "/user/alice/a", "CREATE", iter([b"old"]))
    told = value(ask(alice, method, "/user/alice/a", op, noredirect="true", overwrite="true"))
    params = params_in(told["Location"].partition("?")[2].encode())
    assert params == {"op": op, "overwrite": "true", "data": "true"}
    assert ask(alice, method, "/user/alice/a", op, **{k: v for k, v in params.items() if k != "op"}).status < 300


def test_a_missing_file_is_told_before_any_redirect(alice: User, settings: Any) -> None:
    settings.WEBHDFS_TRUST = (ipaddress.ip_network("10.0.0.0/8"),)
    assert refused(ask(None, "GET", "/user/alice/a", "OPEN", **{"user.name": "alice"})) == (
        404,
        "FileNotFoundException",
    )
    assert refused(ask(None, "GET", "/user/bob/a", "OPEN", **{"user.name": "alice"}))[0] == 403


def test_credentials_need_no_second_step_to_read(alice: User) -> None:
    ask(alice, "PUT", "/user/alice/a", "CREATE", iter([b"x"]))
    assert content(ask(alice, "GET", "/user/alice/a", "OPEN")) == b"x"
    token = delegation.issue("alice", seconds=3600)
    assert content(ask(None, "GET", "/user/alice/a", "OPEN", delegation=token)) == b"x"


def test_the_checksum_is_that_of_hdfs_with_crc32(alice: User) -> None:
    """The expected one was made by Hadoop 2.7.3 with -Ddfs.checksum.type=CRC32."""
    ask(alice, "PUT", "/user/alice/a", "CREATE", iter([b"0123456789" * 500]))
    told = value(ask(alice, "GET", "/user/alice/a", "GETFILECHECKSUM"))["FileChecksum"]
    assert told["algorithm"] == "MD5-of-0MD5-of-512CRC32" and told["length"] == 28
    assert told["bytes"] == "000002000000000000000000597fec96ff09126bddd70c1cd420ba40"


def test_the_checksum_of_several_blocks_and_of_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """As Hadoop 2.7.3 has it, with -Ddfs.blocksize=1048576 for the larger."""
    monkeypatch.setattr(shapes, "BLOCK_SIZE", 1 << 20)
    none = shapes.file_checksum(BytesIO(), 0)["FileChecksum"]
    assert none["bytes"] == "00000000000000000000000070bc8f4b72a86921468bf8e8441dce51"
    told = shapes.file_checksum(BytesIO(b"0123456789abcdef" * (3 << 16)), 3 << 20)["FileChecksum"]
    assert told["algorithm"] == "MD5-of-2048MD5-of-512CRC32"
    assert told["bytes"] == "0000020000000000000008005d2d8320f2dcc51f637bc786ec5cfb42"


def test_a_file_that_is_there_is_replaced_only_when_asked(alice: User) -> None:
    ask(alice, "PUT", "/user/alice/a", "CREATE", iter([b"old"]))
    assert refused(ask(alice, "PUT", "/user/alice/a", "CREATE")) == (403, "FileAlreadyExistsException")
    assert ask(alice, "PUT", "/user/alice/a", "CREATE", iter([b"new"]), overwrite="true").status == 201
    assert content(ask(alice, "GET", "/user/alice/a", "OPEN")) == b"new"


def test_a_caller_who_goes_away_leaves_nothing(alice: User) -> None:
    def breaks_off() -> Iterator[bytes]:
        yield b"half"
        raise ConnectionResetError

    with pytest.raises(ConnectionResetError):
        ask(alice, "PUT", "/user/alice/a", "CREATE", breaks_off())
    assert open_store().list("/user/alice") == []


def test_it_appends_cuts_and_joins(alice: User) -> None:
    ask(alice, "PUT", "/user/alice/a", "CREATE", iter([b"one "]))
    ask(alice, "PUT", "/user/alice/b", "CREATE", iter([b"three"]))
    assert ask(alice, "POST", "/user/alice/a", "APPEND").status == 307
    assert ask(alice, "POST", "/user/alice/a", "APPEND", iter([b"two "])).status == 200
    assert ask(alice, "POST", "/user/alice/a", "CONCAT", sources="/user/alice/b").status == 200
    assert content(ask(alice, "GET", "/user/alice/a", "OPEN")) == b"one two three"
    assert value(ask(alice, "POST", "/user/alice/a", "TRUNCATE", newlength="3")) == {"boolean": True}
    assert content(ask(alice, "GET", "/user/alice/a", "OPEN")) == b"one"


def test_folders_are_made_listed_renamed_and_deleted(alice: User) -> None:
    assert value(ask(alice, "PUT", "/user/alice/a/b", "MKDIRS")) == {"boolean": True}
    ask(alice, "PUT", "/user/alice/a/file", "CREATE", iter([b"12"]))
    rows = value(ask(alice, "GET", "/user/alice/a", "LISTSTATUS"))["FileStatuses"]["FileStatus"]
    assert [(row["pathSuffix"], row["type"]) for row in rows] == [("b", "DIRECTORY"), ("file", "FILE")]
    assert value(ask(alice, "GET", "/user/alice/a", "GETCONTENTSUMMARY"))["ContentSummary"]["length"] == 2
    renamed = ask(alice, "PUT", "/user/alice/a/file", "RENAME", destination="/user/alice/a/b")
    assert value(renamed) == {"boolean": True}
    assert open_store().stat("/user/alice/a/b/file").size == 2
    assert value(ask(alice, "PUT", "/user/alice/gone", "RENAME", destination="/user/alice/x")) == {"boolean": False}
    assert refused(ask(alice, "DELETE", "/user/alice/a", "DELETE")) == (403, "FileAlreadyExistsException")
    assert value(ask(alice, "DELETE", "/user/alice/a", "DELETE", recursive="true")) == {"boolean": True}
    assert value(ask(alice, "DELETE", "/user/alice/a", "DELETE")) == {"boolean": False}


@pytest.mark.parametrize("destination", ["/user/alice/a/file", "/user/alice/a", "/user/alice/a/b/file/x"])
def test_what_cannot_be_renamed_over_something_loses_nothing(alice: User, destination: str) -> None:
    ask(alice, "PUT", "/user/alice/a/file", "CREATE", iter([b"12"]))
    ask(alice, "PUT", "/user/alice/a/b/file", "CREATE", iter([b"34"]))
    for source in ("/user/alice/a/file", "/user/alice/a/b"):
        ask(alice, "PUT", source, "RENAME", destination=destination, renameoptions="OVERWRITE")
    sizes = sorted(entry.size for entry in open_store().list("/user/alice/a") if not entry.is_dir)
    assert sizes == [2] and open_store().stat("/user/alice/a/b/file").size == 2


def test_a_part_can_be_asked_for_as_browsers_do(alice: User) -> None:
    ask(alice, "PUT", "/user/alice/a", "CREATE", iter([b"0123456789"]))
    headers = {"authorization": f"Bearer {tokens.issue(alice, 3600)}", "range": "bytes=7-"}
    answer = respond(Request("GET", "/user/alice/a", {"op": "OPEN"}, headers))
    assert (answer.status, content(answer), answer.headers["Content-Range"]) == (206, b"789", "bytes 7-9/10")
    headers["range"] = f"bytes={'9' * 5000}-"
    answer = respond(Request("GET", "/user/alice/a", {"op": "OPEN"}, headers))
    assert (answer.status, content(answer)) == (200, b"0123456789")


def test_what_is_stored_cannot_run_in_the_portal_s_name(alice: User) -> None:
    ask(alice, "PUT", "/user/alice/a.html", "CREATE", iter([b"<script>"]))
    headers = ask(alice, "GET", "/user/alice/a.html", "OPEN").headers
    assert headers["Content-Type"] == "application/octet-stream" and headers["X-Content-Type-Options"] == "nosniff"
    assert "sandbox" in headers["Content-Security-Policy"]
    assert headers["Content-Disposition"].startswith("attachment")


def test_others_files_are_neither_read_nor_changed_nor_seen(alice: User, bob: User, admin: User) -> None:
    ask(alice, "PUT", "/users/alice/a", "CREATE", iter([b"x"]))
    for method, op in (
        ("GET", "OPEN"),
        ("GET", "LISTSTATUS"),
        ("PUT", "CREATE"),
        ("PUT", "MKDIRS"),
        ("DELETE", "DELETE"),
    ):
        assert refused(ask(bob, method, "/users/alice/a", op)) == (403, "AccessControlException")
    ask(bob, "PUT", "/users/bob/b", "CREATE", iter([b"x"]))
    for target in ("/users/alice/b", "/elsewhere"):
        moved = ask(bob, "PUT", "/users/bob/b", "RENAME", destination=target)
        assert refused(moved) == (403, "AccessControlException")
    assert refused(ask(bob, "POST", "/users/bob/b", "CONCAT", sources="/users/alice/a"))[0] == 403
    rows = value(ask(bob, "GET", "/users", "LISTSTATUS"))["FileStatuses"]["FileStatus"]
    assert [row["pathSuffix"] for row in rows] == ["bob"]
    assert refused(ask(bob, "GET", "/users", "GETCONTENTSUMMARY"))[0] == 403
    assert content(ask(admin, "GET", "/users/alice/a", "OPEN")) == b"x"


def test_a_top_folder_of_an_account_s_name_is_that_user_s_tree(alice: User, bob: User, admin: User) -> None:
    assert ask(alice, "PUT", "/alice", "MKDIRS").status == 200
    assert ask(alice, "PUT", "/alice/code/train.py", "CREATE", iter([b"x"])).status == 201
    for method, path, op in (
        ("GET", "/alice/code/train.py", "OPEN"),
        ("GET", "/alice", "LISTSTATUS"),
        ("GET", "/alice/code", "GETCONTENTSUMMARY"),
        ("GET", "/alice/code", "CHECKACCESS"),
        ("PUT", "/alice/mine", "CREATE"),
        ("DELETE", "/alice/code", "DELETE"),
    ):
        assert refused(ask(bob, method, path, op)) == (403, "AccessControlException"), op
    rows = value(ask(bob, "GET", "/", "LISTSTATUS"))["FileStatuses"]["FileStatus"]
    assert [row["pathSuffix"] for row in rows] == []
    assert ask(alice, "DELETE", "/alice", "DELETE", recursive="true").status == 403
    assert ask(admin, "PUT", "/alice/from-admin", "CREATE", iter([b"x"])).status == 201
    assert open_store().stat("/alice/from-admin").owner == "alice"
    assert ask(bob, "PUT", "/carol", "MKDIRS").status == 403


@pytest.mark.parametrize("name", ["user", "users", "home", "tmp", "shared", "Container", "Output"])
def test_a_user_named_as_a_known_folder_gets_nothing_by_it(alice: User, name: str) -> None:
    odd = User.objects.create_user(name, "correct horse")
    ask(alice, "PUT", "/users/alice/a", "CREATE", iter([b"x"]))
    assert ask(odd, "GET", "/users/alice/a", "OPEN").status == 403
    assert ask(odd, "PUT", f"/{name}", "MKDIRS").status == 403
    assert ask(odd, "PUT", f"/users/{name}/a", "CREATE", iter([b"x"])).status == 201
    assert ask(alice, "PUT", "/tmp/a", "CREATE", iter([b"x"])).status == 201
    assert ask(odd, "GET", "/tmp/a", "OPEN").status == 200


def test_files_of_a_deleted_account_stay_closed(alice: User, bob: User, admin: User) -> None:
    ask(alice, "PUT", "/alice/a", "CREATE", iter([b"x"]))
    users.delete_user(admin, "alice")
    assert ask(bob, "GET", "/alice/a", "OPEN").status == 403
    assert ask(admin, "GET", "/alice/a", "OPEN").status == 200


def test_listing_the_root_asks_the_database_once_for_all_names(alice: User, admin: User) -> None:
    for number in range(20):
        ask(admin, "PUT", f"/top-{number}", "MKDIRS")
    headers = {"authorization": f"Bearer {tokens.issue(alice, 3600)}"}
    with CaptureQueriesContext(connection) as queries:
        assert respond(Request("GET", "/", {"op": "LISTSTATUS"}, headers)).status == 200
    assert len([each for each in queries if "IN (" in each["sql"]]) == 2, queries.captured_queries


@pytest.mark.parametrize("path", ["/users/alice/f", "/alice/f", "/shared/f", "/tmp/d/f", "/data/f", "/Output/bob/f"])
def test_what_a_listing_shows_as_a_right_is_the_right(alice: User, bob: User, admin: User, path: str) -> None:
    assert ask(admin, "PUT", path, "CREATE", iter([b"x"])).status == 201
    folder = path.rpartition("/")[0]
    for shown_path in (path, folder):
        shown = value(ask(admin, "GET", shown_path, "GETFILESTATUS"))["FileStatus"]
        for user in (alice, bob):
            bits = int(shown["permission"], 8) >> (6 if shown["owner"] == user.username else 0)
            read = ask(user, "GET", shown_path, "OPEN" if shown_path == path else "LISTSTATUS")
            assert (read.status == 200) == bool(bits & 4), (user, shown)
            inside = f"{folder}/of-{user}" if shown_path == folder else path
            written = ask(user, "PUT", inside, "CREATE", iter([b"y"]), overwrite="true")
            assert (written.status == 201) == bool(bits & 2), (user, shown)


def test_setting_a_mode_answers_what_will_be(alice: User, admin: User) -> None:
    for path in ("/users/alice/a", "/shared/a"):
        ask(alice, "PUT", path, "CREATE", iter([b"x"]))
    same = ask(alice, "PUT", "/users/alice/a", "SETPERMISSION", permission="600")
    assert (same.status, same.headers) == (200, {})
    other = ask(alice, "PUT", "/users/alice/a", "SETPERMISSION", permission="755")
    assert (other.status, other.headers["X-Warning"].partition(":")[0]) == (200, "Rights follow the path here")
    assert value(ask(alice, "GET", "/users/alice/a", "GETFILESTATUS"))["FileStatus"]["permission"] == "700"
    secret = ask(alice, "PUT", "/shared/a", "SETPERMISSION", permission="600")
    assert refused(secret) == (403, "AccessControlException") and b"/users/alice" in content(secret)
    assert ask(alice, "PUT", "/shared/a", "SETPERMISSION", permission="666").headers == {}


def test_setting_an_owner_answers_what_will_be(alice: User, admin: User) -> None:
    for path in ("/users/alice/a", "/data/a", "/shared/a"):
        ask(admin, "PUT", path, "CREATE", iter([b"x"]))
    assert ask(admin, "PUT", "/users/alice/a", "SETOWNER", owner="alice").status == 200
    for path, owner in (("/users/alice/a", "bob"), ("/data/a", "alice")):
        assert refused(ask(admin, "PUT", path, "SETOWNER", owner=owner)) == (403, "AccessControlException")
    assert ask(admin, "PUT", "/shared/a", "SETOWNER", owner="alice").status == 200
    assert value(ask(alice, "GET", "/shared/a", "GETFILESTATUS"))["FileStatus"]["owner"] == "alice"
    assert "X-Warning" in ask(admin, "PUT", "/shared/a", "SETOWNER", group="team").headers


@pytest.mark.parametrize("place", ["/users/alice", "/user/alice", "/Output/alice", "/shared"])
def test_one_s_own_folders_are_there_before_anybody_made_them(alice: User, bob: User, place: str) -> None:
    shown = value(ask(alice, "GET", place, "GETFILESTATUS"))["FileStatus"]
    assert shown["type"] == "DIRECTORY"
    assert value(ask(alice, "GET", place, "LISTSTATUS")) == {"FileStatuses": {"FileStatus": []}}
    assert refused(ask(alice, "PUT", place, "CREATE", iter([b"x"])))[0] == 403
    ask(alice, "PUT", "/tmp/x", "CREATE", iter([b"x"]))
    assert value(ask(alice, "PUT", "/tmp/x", "RENAME", destination=place)) == {"boolean": True}
    assert open_store().stat(f"{place}/x").size == 1
    if place != "/shared":
        assert ask(bob, "GET", place, "GETFILESTATUS").status == 403
    assert ask(alice, "GET", "/users/alice/gone", "GETFILESTATUS").status == 404


def test_the_root_of_a_tree_stays(alice: User) -> None:
    ask(alice, "PUT", "/user/alice/a", "CREATE", iter([b"x"]))
    for path in ("/user/alice", "/user", "/", "/shared"):
        assert ask(alice, "DELETE", path, "DELETE", recursive="true").status == 403
    assert open_store().stat("/user/alice/a").size == 1


def test_shared_files_are_everyone_s(alice: User, bob: User) -> None:
    ask(alice, "PUT", "/shared/set/a", "CREATE", iter([b"x"]))
    assert content(ask(bob, "GET", "/shared/set/a", "OPEN")) == b"x"
    assert ask(bob, "PUT", "/elsewhere", "MKDIRS").status == 403


def test_guests_and_bad_tokens_get_nothing(alice: User) -> None:
    assert refused(ask(None, "GET", "/", "LISTSTATUS")) == (401, "SecurityException")
    assert ask(None, "GET", "/", "LISTSTATUS", **{"user.name": "alice"}).status == 401
    assert ask(None, "GET", "/", "LISTSTATUS", delegation="nonsense").status == 401


def test_a_name_is_enough_where_the_admin_trusts_the_network(alice: User, admin: User, settings: Any) -> None:
    settings.WEBHDFS_TRUST = (ipaddress.ip_network("10.0.0.0/8"),)
    assert ask(None, "GET", "/", "LISTSTATUS", **{"user.name": "alice"}).status == 200
    for name in ("admin", "nobody"):
        assert ask(None, "GET", "/", "LISTSTATUS", **{"user.name": name}).status == 401
    settings.WEBHDFS_TRUST_ADMINS = True
    assert ask(None, "GET", "/", "LISTSTATUS", **{"user.name": "admin"}).status == 200
    settings.WEBHDFS_TRUST = ()
    assert ask(None, "GET", "/", "LISTSTATUS", **{"user.name": "admin"}).status == 401


def test_a_delegation_token_is_got_and_used(alice: User) -> None:
    token = value(ask(alice, "GET", "/", "GETDELEGATIONTOKEN"))["Token"]["urlString"]
    assert ask(None, "PUT", "/user/alice/a", "MKDIRS", delegation=token).status == 200


def test_a_delegation_token_is_renewed_and_cancelled_but_gets_no_other(alice: User, bob: User) -> None:
    token = value(ask(alice, "GET", "/", "GETDELEGATIONTOKEN"))["Token"]["urlString"]
    assert refused(ask(None, "GET", "/", "GETDELEGATIONTOKEN", delegation=token)) == (403, "AccessControlException")
    assert value(ask(None, "PUT", "/", "RENEWDELEGATIONTOKEN", delegation=token, token=token))["long"] > 1e12
    assert ask(bob, "PUT", "/", "CANCELDELEGATIONTOKEN", token=token).status == 403
    assert ask(alice, "PUT", "/", "CANCELDELEGATIONTOKEN", token=token).status == 200
    assert ask(None, "GET", "/", "LISTSTATUS", delegation=token).status == 401
    assert ask(alice, "PUT", "/", "RENEWDELEGATIONTOKEN", token=token).status == 403


def test_a_token_for_one_thing_renews_no_other(alice: User) -> None:
    wide = delegation.grant(alice)
    narrow = delegation.issue("alice", seconds=3600, path="/user/alice/key", ops=["OPEN"])
    job = delegation.issue_for_attempt("alice", submitted(alice).attempts.get().app_id)
    for token in (narrow, job):
        for op in ("RENEWDELEGATIONTOKEN", "CANCELDELEGATIONTOKEN"):
            assert ask(None, "PUT", "/", op, delegation=token, token=wide).status == 403
    assert delegation.read(wide)


_PARAMS = {"permission": "700", "newlength": "1", "sources": "/user/alice/mine", "destination": "/user/alice/new"}


@pytest.mark.parametrize(
    ("method", "op"), [(method, op) for method, ops in _OPS.items() for op in sorted(ops) if "TOKEN" not in op]
)
def test_no_operation_tells_whether_a_path_of_somebody_else_exists(
    alice: User, bob: User, method: str, op: str
) -> None:
    """Of what is there, of what is not, and of what is there as a folder the answer is the same."""
    open_store().write("/user/bob/secret/file", [b"hello"], owner="bob")
    open_store().write("/user/alice/mine", [b"hello"], owner="alice")
    answers = set()
    for path in ("/user/bob/secret/file", "/user/bob/nothing", "/user/bob/secret"):
        asked = [ask(alice, method, path, op, **_PARAMS)]
        if op in ("RENAME", "CONCAT"):
            other = {"destination": path, "sources": path}
            asked.append(ask(alice, method, "/user/alice/mine", op, **{**_PARAMS, **other}))
        answers.add(tuple((each.status, content(each).replace(path.encode(), b"?")) for each in asked))
    assert len(answers) == 1, answers


def test_a_token_for_one_file_opens_nothing_else(alice: User) -> None:
    ask(alice, "PUT", "/user/alice/key", "CREATE", iter([b"x"]))
    token = delegation.issue("alice", seconds=3600, path="/user/alice/key", ops=["OPEN"])
    assert content(ask(None, "GET", "/user/alice/key", "OPEN", delegation=token)) == b"x"
    assert ask(None, "GET", "/user/alice", "LISTSTATUS", delegation=token).status == 403
    assert ask(None, "GET", "/", "GETDELEGATIONTOKEN", delegation=token).status == 403


def test_an_admin_s_job_opens_their_own_files_and_nobody_else_s(alice: User, admin: User) -> None:
    ask(alice, "PUT", "/user/alice/key", "CREATE", iter([b"x"]))
    app_id = submitted(admin, "train").attempts.get().app_id
    job = {"delegation": delegation.issue_for_attempt("admin", app_id)}
    assert ask(None, "PUT", "/Output/admin/train", "MKDIRS", **job).status == 200
    assert ask(None, "GET", "/user/alice/key", "OPEN", **job).status == 403
    assert value(ask(None, "GET", "/user", "LISTSTATUS", **job))["FileStatuses"]["FileStatus"] == []
    assert ask(None, "PUT", "/models", "MKDIRS", **job).status == 403
    assert ask(None, "PUT", "/Output/admin/train", "SETOWNER", owner="alice", **job).status == 403
    assert ask(None, "GET", "/", "GETDELEGATIONTOKEN", **job).status == 403
    assert ask(admin, "GET", "/user/alice/key", "GETFILESTATUS").status == 200


def test_a_session_reads_but_writes_only_with_the_header_no_other_site_can_send(alice: User, browse: Any) -> None:
    browser: Client = browse(alice)
    cookie = "; ".join(f"{name}={morsel.value}" for name, morsel in browser.cookies.items())
    reading = Request("GET", "/", {"op": "LISTSTATUS"}, {"cookie": cookie})
    assert respond(reading).status == 200
    assert respond(Request("PUT", "/user/alice/a", {"op": "MKDIRS"}, {"cookie": cookie})).status == 403
    headers = {"cookie": cookie, "x-xsrf-header": "1"}
    assert respond(Request("PUT", "/user/alice/a", {"op": "MKDIRS"}, headers)).status == 200
    browser.logout()
    assert respond(reading).status == 401


@pytest.mark.parametrize(
    ("method", "op", "params", "status"),
    [
        ("GET", "", {}, 400),
        ("GET", "DELETE", {}, 400),
        ("PATCH", "OPEN", {}, 400),
        ("GET", "OPEN", {"offset": "x"}, 400),
        ("GET", "OPEN", {"offset": "99"}, 400),
        ("GET", "OPEN", {"offset": "-1"}, 400),
        ("PUT", "CREATE", {"overwrite": "maybe"}, 400),
        ("PUT", "CREATE", {"permission": "rwx"}, 400),
        ("PUT", "RENAME", {}, 400),
        ("PUT", "RENAME", {"destination": "/a/../../b"}, 400),
        ("POST", "TRUNCATE", {}, 400),
        ("POST", "CONCAT", {}, 400),
        ("GET", "GETFILESTATUS", {}, 200),
    ],
)
def test_what_cannot_be_meant_is_a_400(alice: User, method: str, op: str, params: dict[str, str], status: int) -> None:
    ask(alice, "PUT", "/user/alice/a", "CREATE", iter([b"x"]))
    assert ask(alice, method, "/user/alice/a", op, **params).status == status


def test_a_missing_file_is_told_as_hdfs_does(alice: User) -> None:
    answer = ask(alice, "GET", "/user/alice/gone", "OPEN")
    told = json.loads(content(answer))["RemoteException"]
    assert (answer.status, told["javaClassName"]) == (404, "java.io.FileNotFoundException")


def test_a_store_that_is_down_is_told_as_a_reason_to_try_again(alice: User, settings: Any, tmp_path: Path) -> None:
    settings.STORE_URL = "webhdfs://127.0.0.1:9"
    answer = ask(alice, "GET", "/user/alice", "LISTSTATUS")
    assert refused(answer) == (503, "RetriableException")


def test_addresses_are_decoded_once() -> None:
    assert path_in(b"/webhdfs/v1/a%20b/%25c") == "/a b/%c"
    assert path_in(b"/webhdfs/api/v1") == "/"
    assert params_in(b"OP=open&user.name=a%20b") == {"op": "open", "user.name": "a b"}


@given(st.text(max_size=40))
def test_no_path_leads_out_of_the_store(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    folder = tmp_path_factory.mktemp("root")
    store = LocalStore(folder / "store")
    try:
        store.write(f"/{text}/x", [b"x"])
    except Exception as error:
        assert type(error).__module__.startswith("base."), error
    assert {path.name for path in folder.iterdir()} <= {"store"}
