"""Tokens with scopes: what each route needs, and that a token without it changes nothing anywhere."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.urls import resolve
from django.utils import timezone

from base.accounts import services, tokens
from base.accounts.scopes import SAYS, Scope
from base.core import errors
from base.files.store import delegation
from base.models import ApiToken, User
from portal.shared.api.paths import routes
from portal.shared.api.scopes import scope_of
from portal.terminal import sockets
from portal.webhdfs.messages import Request
from portal.webhdfs.operations import respond
from tests.api.test_every_route import EARLY, address
from tests.document import document
from tests.http import ApiClient, written
from tests.submitting import submitted

pytestmark = pytest.mark.django_db
METHODS = ("get", "post", "put", "delete")
NEEDED = {
    ("get", "jobs"): "jobs:read",
    ("get", "jobs/<str:job>/config"): "jobs:read",
    ("get", "user/<str:username>/jobs"): "jobs:read",
    ("get", "jobs/<str:job>/taskRoles/<str:role>/<int:index>/logs/<str:stream>"): "jobs:read",
    ("get", "virtual-clusters"): "jobs:read",
    ("get", "nodes"): "jobs:read",
    ("get", "usage"): "jobs:read",
    ("post", "user/<str:username>/jobs"): "jobs:submit",
    ("put", "jobs/<str:job>"): "jobs:submit",
    ("get", "jobs/<str:job>/ssh"): "jobs:submit",
    ("get", "user/<str:username>/jobs/<str:job>/ssh"): "jobs:submit",
    ("post", "jobs/<str:job>/taskRoles/<str:role>/<int:index>/terminal"): "jobs:submit",
    ("put", "jobs/<str:job>/priority"): "jobs:submit",
    ("post", "jobs/validate"): "jobs:submit",
    ("post", "sweeps"): "jobs:submit",
    ("delete", "user/<str:username>/jobs/<str:job>"): "jobs:stop",
    ("put", "jobs/<str:job>/executionType"): "jobs:stop",
    ("put", "sweeps/<str:sweep>/executionType"): "jobs:stop",
    ("post", "user/<str:username>/jobs/stop"): "jobs:stop",
    ("get", "user/<str:username>"): "account:*",
    ("put", "user/<str:username>/password"): "account:*",
    ("get", "audit"): "account:*",
    ("put", "user/<str:username>/admin"): "admin:*",
    ("delete", "user/<str:username>"): "admin:*",
    ("put", "virtual-clusters/<str:vc>"): "admin:*",
    ("post", "nodes"): "admin:*",
    ("get", "hosts"): "admin:*",
    ("get", "sign-in/rules"): "admin:*",
    ("get", "service-accounts"): "admin:*",
    ("post", "service-accounts/<str:username>/tokens"): "admin:*",
    ("post", "appointments"): "admin:*",
    ("get", "cluster/replay/<int:id>"): "admin:*",
}


def by(user: User, *scopes: str) -> ApiClient:
    client = ApiClient()
    client.credentials(HTTP_AUTHORIZATION=f"Bearer {tokens.issue(user, 3600, 'ci', scopes=' '.join(scopes))}")
    return client


def asked() -> Iterator[tuple[str, str]]:
    """Every route and method of the API once, and of those below /rest-server none: they are the same views."""
    for route in (*routes(), "/metrics"):
        view = getattr(resolve(address(route)).func, "view_class", None)
        is_twin = route.startswith("/rest-server") or route == "/api/schema"
        if view is not None and view.authentication_classes and not is_twin:
            yield from ((method, route) for method in METHODS if hasattr(view, method))


@pytest.mark.parametrize(("method", "route"), NEEDED)
def test_a_route_needs_the_scope_that_one_expects(method: str, route: str) -> None:
    for before in ("api/v1/", "rest-server/api/v1/", "api/v2/"):
        assert scope_of(before + route, method.upper()) == NEEDED[method, route]


def test_without_its_scope_no_token_reads_or_changes_anything(alice: User, admin: User) -> None:
    submitted(alice, "one")
    clients = {scope: by(admin, *(each for each in Scope if each != scope)) for scope in Scope}
    pairs, wrong = list(asked()), []
    assert len(pairs) > 130
    with written() as writes:
        for method, route in pairs:
            scope = scope_of(route, method.upper())
            answer = getattr(clients[scope], method)(address(route), {}, format="json")
            if (answer.status_code != 403 and route not in EARLY) or f"lacks the scope {scope}." not in answer.json()[
                "message"
            ]:
                wrong.append((method, route, answer.status_code, answer.content[:200]))
    assert wrong == []
    assert {each for each in writes if "auditevent" not in each and "portal_apitoken" not in each} == set()


def test_with_its_scope_a_token_of_a_user_is_answered_as_one_with_all(alice: User) -> None:
    submitted(alice, "one")
    clients, free = {scope: by(alice, scope) for scope in Scope}, by(alice)
    for method, route in asked():
        if method == "get":
            answers = [each.get(address(route)) for each in (clients[scope_of(route, "GET")], free)]
            assert answers[0].status_code == answers[1].status_code, (route, answers[0].content[:200])


def test_each_operation_of_the_document_has_the_scope_by_which_it_is_checked() -> None:
    told = {
        (method, path): each.get("security", [])
        for path, methods in document()["paths"].items()
        for method, each in methods.items()
    }
    guarded = {key: security[0]["bearer"] for key, security in told.items() if security}
    assert len(guarded) > 100 and all(len(scopes) == 1 for scopes in guarded.values())
    assert {key: [scope_of(key[1], key[0].upper())] for key in guarded} == guarded
    assert [path for (_, path), security in told.items() if not security and path.startswith("/api/v1/user")] == []


def test_a_token_of_an_admin_without_admin_is_a_users(admin: User, alice: User) -> None:
    submitted(alice, "one")
    stop = {"value": "STOP"}
    path = "/api/v1/user/alice/jobs/one/executionType"
    assert by(admin, "jobs:stop").put(path, stop, format="json").status_code == 403
    assert by(admin, "account:*").put("/api/v1/user/alice/email", {"email": ""}, format="json").status_code == 403
    assert by(admin, "jobs:stop", "admin:*").put(path, stop, format="json").status_code == 202
    assert User.objects.get(pk=admin.pk).is_admin


def test_a_scope_gives_nothing_that_the_owner_has_not(alice: User) -> None:
    client = by(alice, *Scope)
    assert client.get("/api/v1/hosts").status_code == 403
    assert client.post("/api/v1/nodes", {"name": "n"}, format="json").status_code == 403


def test_an_answer_that_is_kept_is_not_given_to_a_token_without_the_scope(alice: User) -> None:
    submitted(alice, "one")
    reads, stops = by(alice, "jobs:read"), by(alice, "jobs:stop")
    assert [reads.get("/api/v1/jobs").status_code for _ in range(3)] == [200] * 3
    assert stops.get("/api/v1/jobs").status_code == 403


def test_what_it_lacks_stands_in_the_audit_with_the_token(alice: User, api: Callable[[User | None], ApiClient]) -> None:
    by(alice, "jobs:read").delete("/api/v1/jobs/one")
    [row] = api(alice).get("/api/v1/audit?k=refused").json()["events"]
    assert (row["object"], row["by"]) == ("/api/v1/jobs/one", "API, token ci")


def test_files_need_scopes_too_and_a_delegation_has_those_of_its_token(alice: User) -> None:
    def told(token: str, method: str, op: str, **more: str) -> tuple[int, bytes]:
        signed = {} if more else {"authorization": f"Bearer {token}"}
        params = {"op": op, "renewer": "x", **more}
        answer = respond(Request(method, "/users/alice", params, signed, address="10.0.0.9"))
        return answer.status, answer.body  # type: ignore[return-value]

    reads, jobs = (tokens.issue(alice, 3600, scopes=scopes) for scopes in ("files:read", "jobs:read"))
    assert told(reads, "GET", "LISTSTATUS")[0] == 200
    assert told(reads, "PUT", "MKDIRS")[0] == 403
    assert b"lacks the scope files:read." in told(jobs, "GET", "LISTSTATUS")[1]
    granted = delegation.grant(tokens.user_of(reads) or alice)
    assert told("", "GET", "LISTSTATUS", delegation=granted)[0] == 200
    status, body = told("", "PUT", "MKDIRS", delegation=granted)
    assert status == 403 and b"lacks the scope files:write." in body
    assert ApiToken.objects.get(scopes="files:read", client="").used_from == "10.0.0.9"


def test_a_socket_needs_the_scope_that_its_ticket_needs(alice: User, rf: Any) -> None:
    path = {"username": "alice", "name": "one", "role": "main", "index": "0"}
    token = tokens.issue(alice, 3600, scopes="jobs:read")
    opening = rf.get("/terminal/alice/one/main/0", headers={"Authorization": f"Bearer {token}"})
    with pytest.raises(errors.Forbidden, match="jobs:submit"):
        sockets._admitted(opening, path)


def test_the_number_of_named_tokens_has_a_limit(alice: User, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(services, "MOST_TOKENS", 2)
    for name in "ab":
        services.create_token(alice, name, 1, ["jobs:read"])
    with pytest.raises(errors.BadRequest, match="more than 2 tokens"):
        services.create_token(alice, "c", 1, ["jobs:read"])
    ApiToken.objects.filter(name="a").update(expires_at=timezone.now() - timedelta(seconds=1))
    services.create_token(alice, "c", 1, ["jobs:read"])


def test_the_guide_has_the_scopes_that_there_are() -> None:
    guide = (Path(settings.BASE_DIR) / "docs" / "use" / "tokens.md").read_text()
    assert re.findall(r"^\| `([\w:*]+)` \| (.+) \|$", guide, re.MULTILINE) == list(SAYS.items())
