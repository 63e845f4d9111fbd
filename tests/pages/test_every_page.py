"""Every page asked and every form sent by every role: nobody sees or changes what is not theirs."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from html import unescape
from http.cookies import SimpleCookie
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from asgiref.sync import async_to_sync, sync_to_async
from django.db import transaction
from django.urls import resolve
from django.urls.resolvers import RoutePattern

from base.accounts import tokens
from base.models import User
from portal.page_urls import LIVE, urlpatterns
from portal.shared.live import stream
from portal.terminal import sockets, tunnel
from tests.conftest import PASSWORD
from tests.every_page import EVERYBODY, INSIDERS, NOBODY, PAGES, SEEN, Form, Page, Who, a_portal, address
from tests.hosts import Hosts
from tests.http import Browser, written

pytestmark = pytest.mark.django_db
_SIGN = re.compile(rb"hush-[a-z]+")
_FORM = re.compile(r'method="post"[^>]*action="([^"]+)"|formaction="([^"]+)"')
# What is written by looking: of oneself, and the own SSH key of a portal of several hosts.
_TRACES = re.compile(r"auditevent|django_session|axes_|portal_shared|SET \"last_used_at\"|pagevisit|\"used\" =")


@dataclass
class Portal:
    names: dict[str, str]
    clients: dict[str, Any]
    home: Path

    def address(self, route: str, page: Page, form: Form | None = None) -> str:
        return address(route, self.names, {**page.of, **(form.of if form else {})})

    def asking(self, may: Who) -> Iterator[tuple[str, Any]]:
        """All; but that the manager is somebody else as well, who besides may more: is it refused to them, it is to
        every other one."""
        is_alike = ("manager" in may) == ("other" in may)
        yield from (each for each in self.clients.items() if not (is_alike and each[0] == "other"))

    def files(self) -> dict[Path, bytes | None]:
        """What is in the store; None is a folder."""
        walked = os.walk(
            self.home / "store"
        )  # which passes over a folder that goes meanwhile, as of a trial of the store
        found = [Path(at, name) for at, folders, names in walked for name in (*folders, *names)]
        found = [each for each in found if ".longshore" not in each.as_posix()]
        return {each: each.read_bytes() if each.is_file() else None for each in found}

    def put_back(self, files: dict[Path, bytes | None]) -> None:
        for each in sorted({*self.files()} - {*files}, reverse=True):
            each.rmdir() if each.is_dir() else each.unlink()
        for each, data in sorted(files.items()):
            each.mkdir(exist_ok=True) if data is None else each.write_bytes(data)


@pytest.fixture
def portal(
    browse: Callable[[User | None], Browser],
    alice: User,
    admin: User,
    hosts: Hosts,
    settings: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Portal:
    settings.HOME, settings.JOB_PRIVACY, settings.APPS_DOMAIN = tmp_path, "owner", "pages.example.org"
    settings.METRICS_FROM = ()
    # Threads of their own would see nothing of the test's transaction.
    monkeypatch.setattr(stream, "in_thread", lambda do, *args, pool: sync_to_async(do)(*args))
    mona = User.objects.create_user("mona", PASSWORD)
    audrey = User.objects.create_user("audrey", PASSWORD)
    User.objects.filter(pk=audrey.pk).update(is_auditor=True)
    names = a_portal(alice, mona, audrey, admin, hosts)
    users = {"owner": alice, "other": User.objects.get(username="bob"), "manager": mona, "auditor": audrey}
    clients: dict[str, Any] = {name: browse(user) for name, user in {**users, "admin": admin}.items()}
    bearer = f"Bearer {tokens.issue(User.objects.get(username='ci'), 3600)}"
    clients |= {"guest": browse(None), "service": Browser(HTTP_AUTHORIZATION=bearer)}
    return Portal(names, clients, tmp_path)


def foreign(writes: list[str]) -> list[str]:
    return [each for each in writes if not _TRACES.search(each)]


def is_shown(answer: Any) -> bool:
    """Whether they were let in: a redirect leads not to the sign-in."""
    if answer.status_code in (301, 302):
        return not str(answer.headers["Location"]).startswith("/login")
    return answer.status_code in (200, 204)


def content(answer: Any) -> bytes:
    """What was sent; of a stream of parts the first."""
    if not answer.streaming:
        return bytes(answer.content) + str(answer.headers.get("Location", "")).encode()
    return b"".join(answer.streaming_content) if not answer.is_async else async_to_sync(_first)(answer)


async def _first(answer: Any) -> bytes:
    said = b""
    async for piece in answer.streaming_content:
        said += piece
        if b"retry" not in piece:
            break
    await answer.streaming_content.aclose()
    return said


def routes() -> list[str]:
    return [str(each.pattern) for each in urlpatterns if isinstance(each.pattern, RoutePattern)]


def test_every_page_is_in_the_table() -> None:
    assert sorted(PAGES) == sorted(routes())
    assert {re.split("[=&]", query)[1] for query in PAGES["stream/page"].asked} == set(LIVE)


def test_nobody_is_shown_what_is_not_theirs(portal: Portal) -> None:
    """Whether they get the page, and the signs on it. Each form on a page leads to one that the table sends."""
    wrong, seen, forms = [], set(), set()
    for route, page in PAGES.items():
        for query, shown in {"": page.shown, **page.asked}.items():
            url = portal.address(route, page) + query.format(**portal.names)
            for name, client in portal.asking(shown):
                with transaction.atomic(), written(rows=True) as writes:
                    answer = client.get(url)
                    transaction.set_rollback(True)
                text = b"" if route.startswith("stream/logs") else content(answer)
                signs = {each.decode() for each in _SIGN.findall(text)}
                seen |= signs
                forms |= {one or two for one, two in _FORM.findall(text.decode(errors="replace"))}
                more = {sign for sign in signs if name not in SEEN[sign]}
                if is_shown(answer) != (name in shown) or more or foreign(writes) or answer.status_code >= 500:
                    wrong.append((name, url, answer.status_code, more, foreign(writes)[:1]))
    assert wrong == []
    assert seen == {sign for sign, who in SEEN.items() if who}
    sent = {resolve(urlsplit(unescape(action)).path).route for action in forms}
    assert [route for route in sent if not PAGES[route].forms] == []


def test_nobody_changes_by_a_form_what_is_not_theirs(portal: Portal) -> None:
    wrong = []
    for route, page in PAGES.items():
        for form in page.forms or (Form(NOBODY),):
            url = portal.address(route, page, form) + form.do
            fields = {key: portal.names.get(str(value).strip("{}"), value) for key, value in form.fields.items()}
            for name, client in portal.asking(form.by):
                cookies, files = {key: each.value for key, each in client.cookies.items()}, portal.files()
                with transaction.atomic(), written(rows=True) as writes:
                    answer = client.post(url, fields)
                    transaction.set_rollback(True)
                client.cookies = SimpleCookie(cookies)  # of a session that is as before
                if is_changed := files != portal.files():
                    portal.put_back(files)
                did = is_changed or bool(foreign(writes))
                takes_none = not page.forms and is_shown(answer)
                if did != (name in form.by) or takes_none or answer.status_code >= 500:
                    wrong.append((name, url, answer.status_code, is_changed, foreign(writes)[:1]))
    assert wrong == []


def test_nobody_opens_a_socket_to_what_is_not_theirs(portal: Portal, monkeypatch: pytest.MonkeyPatch) -> None:
    from portal.asgi import _sockets

    for module in (sockets, tunnel):
        monkeypatch.setattr(module, "in_thread", lambda do, *args, pool: sync_to_async(do)(*args))
    paths = ("/terminal/alice/runs/worker/0", "/tunnel/alice/runs/worker/0/web")
    assert all(any(pattern.fullmatch(path) for path in paths) for pattern, _ in _sockets._routes)
    answers: dict[str, set[int]] = {}
    for name, client in portal.clients.items():
        cookie = "; ".join(f"{key}={each.value}" for key, each in client.cookies.items())
        headers = [(b"host", b"testserver"), (b"cookie", cookie.encode())]
        headers += [(b"authorization", str(value).encode()) for value in client.defaults.values()]
        for path in paths if name not in INSIDERS else ():
            scope = {"type": "websocket", "path": path, "query_string": b"", "headers": headers}
            with written() as writes:
                answers.setdefault(name, set()).add(async_to_sync(_opened)(_sockets, scope))
            assert foreign(writes) == [], name
    assert answers == {name: {401 if name == "guest" else 403} for name in EVERYBODY - INSIDERS}


async def _opened(application: Any, scope: dict[str, Any]) -> int:
    """The status of the answer; 101 where it was accepted."""
    sent: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        return {"type": "websocket.connect" if not sent else "websocket.disconnect"}

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    await application(scope, receive, send)
    return int(sent[0].get("status", 101))
