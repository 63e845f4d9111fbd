"""The audit is read: by admins all of it, by others what they did; as a page, JSON, JSON lines and CSV."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from typing import Any

import pytest

from base.accounts import audit, tokens
from base.models import ApiToken, AuditEvent, User
from portal.audit import queries
from tests.http import ApiClient, Client
from tests.submitting import config_text

pytestmark = pytest.mark.django_db

Api = Callable[[User | None], ApiClient]
Browse = Callable[[User | None], Client]
URL = "/api/v1/audit"


def events(client: Any, query: str = "") -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = client.get(f"{URL}{query}").json()["events"]
    return found


def pieces_of(client: Any, kind: str) -> list[bytes]:
    return list(client.get(f"{URL}?format={kind}").streaming_content)


def test_it_says_who_did_what_on_what_from_where(api: Api, alice: User, admin: User) -> None:
    mine = ApiClient()
    mine.credentials(HTTP_AUTHORIZATION=f"Bearer {tokens.issue(alice, 3600, 'ci')}")
    assert mine.post("/api/v1/jobs", config_text("one"), content_type="text/plain").status_code == 201
    assert mine.put("/api/v1/jobs/alice~one/executionType", {"value": "STOP"}, format="json").status_code == 202
    stopped, submitted = events(api(admin))
    assert (submitted["who"], submitted["what"], submitted["object"]) == ("alice", "Job submitted", "alice/one")
    assert (submitted["from"], submitted["by"], submitted["result"]) == ("127.0.0.1", "API, token ci", "done")
    assert "virtualCluster: default" in submitted["details"] and stopped["what"] == "Job stopped"


def test_a_user_sees_their_own_and_a_guest_nothing(
    api: Api, browse: Browse, alice: User, bob: User, admin: User
) -> None:
    for name in ("alice", "bob"):
        audit.record(name, "key added", f"of-{name}")
    assert (
        [row["object"] for row in events(api(bob))]
        == ["of-bob"]
        == [row["object"] for row in events(api(bob), "?who=")]
    )
    assert events(api(bob), "?who=alice") == []
    assert {row["object"] for row in events(api(admin))} == {"of-alice", "of-bob"}
    assert api(None).get(URL).status_code == 401 and browse(None).get("/admin/audit").status_code == 302
    for kind in ("csv", "jsonl"):
        answer = b"".join(pieces_of(api(bob), kind))
        assert b"of-bob" in answer and b"of-alice" not in answer
    assert "of-alice" not in browse(bob).get("/admin/audit").content.decode()
    assert "of-alice" in browse(admin).get("/admin/audit").content.decode()


def test_a_name_that_turns_the_direction_of_reading_is_spelled_out_on_the_page(browse: Browse, admin: User) -> None:
    audit.record("adm\u202enim", "login failed")
    page = browse(admin).get("/admin/audit").content.decode()
    assert "<td>adm\\u202enim</td>" in page and "<td>adm\u202enim" not in page


def test_filters_and_cursors(api: Api, admin: User, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queries, "SIZE", 2)
    for number in range(5):
        audit.record(
            "carol", "node changed" if number % 2 else "login", f"n{number}", {"reason": f"r{number}"}, ip="10.9.8.7"
        )
    first = api(admin).get(URL).json()
    assert [row["object"] for row in first["events"]] == ["n4", "n3"]
    second = api(admin).get(f"{URL}?before={first['older']}").json()
    assert [row["object"] for row in second["events"]] == ["n2", "n1"]
    assert [row["object"] for row in events(api(admin), f"?after={second['events'][0]['id']}")] == ["n4", "n3"]
    assert [row["object"] for row in events(api(admin), "?k=nodes")] == ["n3", "n1"]
    assert [row["object"] for row in events(api(admin), "?q=r2")] == ["n2"]
    assert [row["object"] for row in events(api(admin), "?on=n1&what=node%20changed")] == ["n1"]
    for wrong in ("since=1h", "k=x", "before=x", "format=xml"):
        assert api(admin).get(f"{URL}?{wrong}").status_code == 400, wrong


def test_an_export_is_whole_in_pieces_and_no_cell_is_a_formula(
    api: Api, admin: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queries, "PIECE", 2)
    for number in range(5):
        audit.record("=1+1", "key added", f"@{number}")
    pieces = pieces_of(api(admin), "csv")
    assert len(pieces) == 4
    lines = list(csv.reader(io.StringIO(b"".join(pieces).decode())))
    assert tuple(lines[0]) == queries.FIELDS and lines[1][2] == "'=1+1" and lines[1][5] == "'@4" and len(lines) == 6
    rows = b"".join(pieces_of(api(admin), "jsonl")).decode().splitlines()
    assert [json.loads(row)["object"] for row in rows] == ["@4", "@3", "@2", "@1", "@0"]


def test_a_refusal_is_recorded_once_an_hour(api: Api, alice: User, admin: User) -> None:
    for _ in range(3):
        assert api(alice).get("/api/v1/hosts").status_code == 403
    (row,) = AuditEvent.objects.filter(action=audit.REFUSED)
    assert (row.actor, row.object, row.ip) == ("alice", "/api/v1/hosts", "127.0.0.1")
    for number in range(40):
        audit.refused("alice", f"/{number}", "GET")
    assert AuditEvent.objects.filter(action=audit.REFUSED).count() == audit.MOST_REFUSED


def test_a_client_that_signs_in_gives_its_token_a_name(api: Api, alice: User) -> None:
    body = {"username": "alice", "password": "correct horse"}
    answer = api(None).post("/api/v1/token", body, format="json", HTTP_USER_AGENT="curl/8.1 (x)")
    assert answer.status_code == 200
    assert ApiToken.objects.get().client == "curl/8.1 from 127.0.0.1"
