"""Every route of the API with every method, by a client that hides nothing: no redirect, no page, no expired form."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from django.urls import URLResolver, get_resolver, resolve
from django.urls.resolvers import RoutePattern

from base.models import User
from portal.shared.api.paths import routes
from tests.helpers import in_gate
from tests.http import ApiClient
from tests.submitting import submitted

Api = Callable[[User | None], ApiClient]
METHODS = ("get", "head", "post", "put", "delete", "patch")
NAMES = {"username": "alice", "job": "one", "vc": "default", "index": "0", "attempt": "1", "stream": "stdout"}
PAGES = ("/api/docs",)
EARLY = [route for route in routes() if "/api/job" in route or "/api/auth" in route]  # whose errors were 500
pytestmark = pytest.mark.django_db


def address(route: str) -> str:
    parts = [part.strip("<>").rpartition(":")[2] if "<" in part else "" for part in route.split("/")]
    pairs = zip(parts, route.split("/"), strict=True)
    return "/".join(NAMES.get(name, "x") if name else part for name, part in pairs)


def all_routes(resolver: URLResolver, before: str = "") -> Iterator[str]:
    for each in resolver.url_patterns:
        if isinstance(each, URLResolver):
            yield from all_routes(each, before + str(each.pattern))
        elif isinstance(each.pattern, RoutePattern):  # the few others are regular expressions
            yield before + str(each.pattern)


def like(route: str, node: str) -> str:
    examples = {"int": "1", "node": node}
    return "/" + re.sub(r"<(?:(\w+):)?\w+>", lambda part: examples.get(part[1], "x"), route)


def test_it_knows_all_routes() -> None:
    assert {"/api/v1", "/rest-server/api/v2/jobs", "/api/job/<str:job>", "/api/schema"} <= set(routes())
    assert len(routes()) > 150


def test_no_route_is_hidden_by_another() -> None:
    """Pages are among them, and nodes are those of a cluster too. Whoever gives a node's address one more word names it
    in ``RESERVED`` of clusters/engines/inventory.py: else it is the name of a host."""
    routes = list(all_routes(get_resolver()))
    pairs = [(route, like(route, node)) for route in routes for node in ("gpu-01", "lab/gpu-01")]
    assert [(path, by) for route, path in pairs if (by := resolve(path).route) != route] == []
    assert sorted(set(routes)) == sorted(routes)


def test_it_answers_in_its_own_words(api: Api, alice: User) -> None:
    """The form check, which no API has, is alike for all methods that write, so guests try one that reads and one. What
    they get by each method that a route has, test_schemathesis.py asks. The gate tries one of the others by turns."""
    submitted(alice, "one")
    wrong = []
    turns = itertools.cycle(("head", "put", "delete", "patch"))
    for client, methods in ((api(None), ("get", "post")), (api(alice), METHODS)):
        for route in (*routes(), "/healthz", "/api/nothing", "/api/v1/nothing/at/all", "/rest-server/api/v2/no"):
            tried = ("get", "post", next(turns)) if in_gate() and methods is METHODS else methods
            for method in ("post",) if route.startswith("/rest-server") else tried:
                answer = getattr(client, method)(address(route))
                text = answer.content[:200] if not answer.streaming else b""
                status, is_page = answer.status_code, b"<html" in text and route not in PAGES
                is_refusal = 400 <= status < 500 or route in EARLY
                if not (status < 300 or is_refusal) or b"form has expired" in text or is_page:
                    wrong.append((method, route, status, text))
    assert wrong == []


def test_it_answers_an_unknown_route_alike_for_every_method(api: Api) -> None:
    paths = ("/api/v1/nothing", "/rest-server/api/v1/jobs/a/b/c/d", "/api/no", "/api/v2/jobs/a/b")
    client, other = api(None), []
    for path, method in itertools.product(paths, ("post", "put", "delete", "patch")):
        answer = getattr(client, method)(path, {"a": 1}, format="json")
        wanted = {"code": "NoApiError", "message": f"API {path} is not found."}
        if answer.status_code != 404 or answer.json() != wanted:
            other.append((method, path, answer.status_code, answer.content))
    assert other == []


def test_it_minds_neither_doubled_slashes_nor_the_case_of_its_own_words(api: Api, alice: User) -> None:
    submitted(alice, "One")
    client = api(alice)
    for path in (
        "//api//v1/user/alice//jobs/One",
        "/api/v1//jobs/alice~One/",
        "/API/V1/User/alice/Jobs/One",
        "/Rest-Server/Api/v1/JOBS/alice~One",
        "//rest-server//api/v2/user/alice/jobs/One",
        "/api/v1/user/alice/jobs/One/CONFIG",
        "/api/V1/user/alice/jobs/One/attempts/1",
    ):
        answer = client.get("/", PATH_INFO=path)  # a path of its own: the client takes //api for a host
        assert (answer.status_code, answer["Access-Control-Allow-Origin"]) == (200, "*"), (path, answer.content)
        assert client.get("/", PATH_INFO=path.replace("One", "one")).json()["code"] == "NoJobError", path
        assert client.get("/", PATH_INFO=path.replace("alice", "Alice")).status_code == 404, path


def test_it_takes_a_job_at_an_address_of_another_spelling(api: Api, alice: User) -> None:
    config = {"jobName": "two", "image": "i", "taskRoles": [{"name": "w", "command": "true"}]}
    assert api(alice).post("/", config, format="json", PATH_INFO="//API//v1/Jobs").status_code == 201
    assert api(alice).put("/api/v1/jobs/alice~two/ExecutionType", {"value": "STOP"}, format="json").status_code == 202


def test_every_test_of_the_api_uses_these_clients() -> None:
    django = "from django.test import " + "Client"
    assert [path.name for path in Path(__file__).parent.glob("*.py") if django in path.read_text()] == []
