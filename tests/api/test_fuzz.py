"""Every route that the resolver knows, under every method, with what no honest client sends: never a 500, and always an
answer that can be read."""

from __future__ import annotations

import itertools
import json
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.urls import URLPattern, URLResolver, get_resolver

from base.accounts import tokens
from base.models import User
from clusters.engines import schemes
from clusters.engines.runtime import FaultReason, RuntimeFault
from portal.shared.requests import PageRequest
from tests.builders import make_job, make_node
from tests.http import Browser, Client

WRITES = ("POST", "PUT", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
NAMES = {
    "username": "alice", "user": "alice", "job": "hello", "name": "hello", "vc": "default", "role": "worker",
    "index": "0", "attempt": "1", "stream": "stdout", "number": "1", "path": "user/alice", "token_id": "1",
    "key_id": "1", "group": "default", "groupname": "default", "tab": "events", "cluster": "x", "rest": "x",
}  # fmt: skip
ODD_NAMES = ("%00", "%ED%A0%80", "..", "~", "a" * 300, "99999999999999999999", "%F0%9F%98%80", "alice~hello", "%2F")
QUERIES = (
    "",
    "page=1&page=2&limit=1&limit=x",
    "limit=99999999999999999999&offset=-1&tail=1e9&from=²&count=９&cursor=" + "9" * 40,
    "page=1&v=x&top=99999999999999999999&shown=NaN&sel=%00&before=9999999999999999.9&after=" + "1" * 16 + ".1",
    "username=%00&user=%00&q=%00&keyword=%00&name=%00&vc=%00&state=%00&sort=%00&task=%00&stream=%00&do=%00",
    "username=%ED%A0%80&user=%FF&q=%FF&keyword=%F0&task=%FF&next=%FF//x&do=upload&now",
    "attempt=99999999999999999999&offset=99999999999999999999&tail=²&job=%25&tab=x&filter=%5B",
    "&".join(f"f{at}=1" for at in range(1500)),
    "page=jobs&user=" + "a" * 5000,
    "%00=%00&=&&a[b][c]=d&__proto__[x]=1&page=-1",
)
JSON, FORM, PARTS = "application/json", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"
DEEP = "[" * 49_000
BODIES: tuple[tuple[str, bytes], ...] = (
    (JSON, b""),
    (JSON, DEEP.encode()),
    (JSON, b'{"a":' * 9000),
    (JSON, b'{"value": NaN, "index": Infinity, "number": -Infinity, "vcCapacity": 1e999, "expiration": 1e400}'),
    (JSON, b'{"value": ' + b"9" * 5000 + b"}"),
    (JSON, rb'{"username": "\ud800", "password": "\u0000", "value": "\udfff", "jobName": "\ud800", "name": "\u0000"}'),
    (JSON, b'{"username": {"a": []}, "password": [null], "value": {}, "labels": 1, "gpus": "x", "name": [], "vcs": 5}'),
    (JSON, b'[null, true, "x", {"a": 1}]'),
    (JSON, b'"text"'),
    (JSON, b"\xff\xfe{\x00}\x00"),
    ("text/yaml", b"a: &a [*a, *a]\n\x00"),
    ("", b"{"),
    ("application/x-python\x01; charset=nothing", b"x"),
    (f"{JSON}; charset=no-such-charset", b"{}"),
    (FORM, b"username=%00&password=%ED%A0%80&name=%FF&a[b][c][d]=1&config=%00&do=x&key=%00&days=" + b"9" * 500),
    (FORM, b"&".join(b"f%d=1" % at for at in range(6000))),
    (FORM, b"a" + b"[b]" * 5000 + b"=1"),
    (f"{FORM}; charset=utf-7", b"username=+AD4-"),
    (PARTS, b'--x\r\nContent-Disposition: form-data; name="file"; filename="\x00"\r\n\r\n\xff\x00\r\n--x--\r\n'),
    (PARTS, b"--x\r\nContent-Disposition: form-data; name="),
    ("multipart/form-data", b"no boundary"),
    ("multipart/form-data; boundary=" + "b" * 300, b"x"),
)


def routes() -> dict[str, list[str]]:
    """Addresses by the first two parts of their path; each parameter stands as {name}."""
    found: dict[str, list[str]] = defaultdict(list)
    for route in sorted(set(_walk(get_resolver().url_patterns, ""))):
        found["/".join(route.split("/")[:2]) if route.startswith(("api", "rest")) else "pages"].append(f"/{route}")
    return dict(found)


def twins() -> set[str]:
    """Addresses whose view has another address before them, such as those of v2: what their view does is tried there in
    full."""
    views: set[object] = set()
    found = set()
    for route, view in sorted(_views(get_resolver().url_patterns, ""), key=lambda pair: pair[0]):
        if view in views:
            found.add(f"/{route}")
        views.add(view)
    return found


def _views(patterns: Any, before: str) -> Iterator[tuple[str, object]]:
    """Each address with its class of views; a function is a view of its own."""
    for each in patterns:
        if isinstance(each, URLResolver):
            yield from _views(each.url_patterns, before + str(each.pattern))
        elif isinstance(each, URLPattern) and (view := getattr(each.callback, "cls", None)) is not None:
            yield before + str(each.pattern), (view, repr(each.callback.initkwargs), repr(each.default_args))


def _walk(patterns: Any, before: str) -> Iterator[str]:
    for each in patterns:
        text = str(each.pattern)
        if isinstance(each, URLResolver):
            yield from _walk(each.url_patterns, before + text)
        elif isinstance(each, URLPattern):
            yield (before + _plain(text)) if text.startswith("^") else before + text


def _plain(regex: str) -> str:
    """A regular expression's example, near enough: what matters is that the view sees odd ones."""
    return regex.strip("^$").partition("(")[0].partition("[")[0] + "x"


def addresses(route: str, odd: str) -> Iterator[str]:
    """With known names, and each parameter once with an odd one."""
    parameters = [part.partition(">")[0] for part in route.split("<")[1:]]
    for wrong in (None, *parameters):
        path = route
        for each in parameters:
            path = path.replace(f"<{each}>", odd if each == wrong else NAMES.get(each.rpartition(":")[2], "x"))
        yield path


class Nowhere:
    """No engine can be reached."""

    def __getattr__(self, name: str) -> Any:
        raise RuntimeFault("Nobody is there.", reason=FaultReason.UNREACHABLE, permanent=False)


@pytest.fixture
def people(
    admin: User, alice: User, settings: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[list[Client]]:
    settings.HOME = tmp_path
    monkeypatch.setattr("django.test.client.WSGIRequest", PageRequest)  # as portal.asgi has it
    schemes.set_engine_factory(lambda endpoint, tls_dir: Nowhere())
    make_job("alice", "hello", state="RUNNING", node=make_node("hello"))
    guest, as_alice, as_admin = (Browser(raise_request_exception=False) for _ in range(3))
    with_token = Client(raise_request_exception=False, HTTP_AUTHORIZATION=f"Bearer {tokens.issue(admin, 3600)}")
    for client, user in ((as_alice, alice), (as_admin, admin)):
        client.force_login(user, backend="django.contrib.auth.backends.ModelBackend")
    yield [as_admin, with_token, as_alice, guest]
    schemes.set_engine_factory(None)


@pytest.mark.django_db
@pytest.mark.parametrize("group", [name for name in routes() if not name.startswith("rest-server")])
def test_no_request_ends_in_a_500(group: str, people: list[Client]) -> None:
    """Who asks goes round, and so does what is asked where; nobody is allowed more than an admin. A fifth of the cases
    goes to odd names and to twins."""
    askers, odd = itertools.cycle(people[:3] + people), itertools.cycle(ODD_NAMES)
    failed, doubles = [], twins()
    for number, route in enumerate(routes()[group]):
        for at, path in enumerate(addresses(route, next(odd))):
            cases = list(_cases(number))
            in_full = at == 0 and route not in doubles
            for method, query, (kind, body) in cases if in_full else cases[(number + at) % 5 :: 5]:
                answer = next(askers).generic(method, f"{path}?{query}", body, content_type=kind)
                if problem := _problem(method, path, answer):
                    failed.append((method, f"{path}?{query}"[:200], kind, body[:60], answer.status_code, problem))
    assert not failed, failed[:20]


def _cases(number: int) -> Iterator[tuple[str, str, tuple[str, bytes]]]:
    """Reads with each query, writes with every second body; which, and under what method, goes round."""
    for at, query in enumerate(QUERIES):
        yield ("GET" if (at + number) % 5 else "HEAD"), query, (JSON, b"")
    for at, body in enumerate(BODIES[number % 2 :: 2]):
        yield WRITES[(at + number) % len(WRITES)], QUERIES[(at + number) % len(QUERIES)], body


def _problem(method: str, path: str, answer: Any) -> str:
    if getattr(answer, "is_async", False):
        return ""  # a live stream has begun, and has no end
    text = b"".join(answer.streaming_content) if answer.streaming else answer.content
    told = json.loads(text) if text and answer.headers["Content-Type"].startswith(JSON) else None
    if answer.status_code >= 500 and answer.status_code != 503 and not _is_early(path, told):
        return "the portal failed"
    if answer.status_code >= 400 and method != "HEAD" and path.startswith("/api/v") and not (told or {}).get("message"):
        return "nobody can read why"
    return ""


def _is_early(path: str, told: Any) -> bool:
    """The first clients expect 500 for much that is their own mistake; it comes in words."""
    return path.startswith(("/api/job", "/api/auth")) and bool(told and told["error"])
