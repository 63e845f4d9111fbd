"""A real server on a free port and a real Chromium."""

from __future__ import annotations

import math
import socket
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import pytest
import uvicorn
from axe_playwright_python.sync_playwright import Axe
from django.db import connection, connections
from django.utils import timezone
from playwright.sync_api import Browser, Error, Page, expect, sync_playwright

from base.models import Heartbeat, User
from base.wakes import processes
from clusters.nodes import probe
from jobs.history import lengths
from tests import http
from tests.conftest import PASSWORD
from tests.helpers import LIMIT, chromium, until

_CHROMIUM = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
]
PATIENCE = 120_000  # milliseconds; a page that other processes leave no room is not broken
PHONE, SCREEN = 390, 1280  # how wide they are
_RULES = {"type": "tag", "values": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "best-practice"]}
_MORE = {"label-content-name-mismatch": {"enabled": True}}  # what is said aloud begins with what is seen


@pytest.fixture(autouse=True)
def _answers_in_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """An engine in memory is asked by a thread, to which a busy machine may give no core for long."""
    monkeypatch.setattr(probe, "DEADLINE", LIMIT)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Who opens a tab needs Chromium, whether it says so or not."""
    for item in items:
        if "browser" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.browser)


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    expect.set_options(timeout=PATIENCE)
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=chromium(), args=_CHROMIUM)
        yield started
        started.close()


@pytest.fixture
def site(transactional_db: None) -> Iterator[str]:
    """The address of the portal, served by uvicorn in a thread as in production: pages, API and streams."""
    from base.serving.connection import Connection
    from base.serving.sockets import SocketProtocol
    from portal.asgi import application
    from portal.shared.look import static_files

    static_files.join()

    listening = socket.socket()
    listening.bind(("127.0.0.1", 0))
    config = uvicorn.Config(
        application,
        http=Connection,
        ws=SocketProtocol,
        log_level="error",
        lifespan="off",
        ws_ping_timeout=LIMIT,
        timeout_graceful_shutdown=1,
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=lambda: server.run(sockets=[listening]), daemon=True)
    thread.start()
    until(lambda: server.started, what="the server to start")
    for name in processes.NAMES:
        Heartbeat.objects.create(name=name, at=timezone.now() + timedelta(hours=1))
    yield f"http://127.0.0.1:{listening.getsockname()[1]}"
    server.should_exit = True
    thread.join(LIMIT)
    listening.close()
    assert not thread.is_alive()
    connections.close_all()


_CUT = """() => [...document.querySelectorAll(".btn")]
    .filter((button) => button.clientWidth && button.scrollWidth > button.clientWidth + 1)
    .map((button) => button.textContent.trim())"""


@dataclass(eq=False)
class Tab:
    """One page of the browser that writes down what must not happen."""

    page: Page
    site: str
    faults: list[str] = field(default_factory=list)

    def open(self, path: str) -> Page:
        self.page.goto(f"{self.site}{path}")
        return self.page

    def check_everywhere(self, path: str, *, dark: int = PHONE) -> None:
        """``check`` of a page on a phone and on a screen, on one of them in the dark."""
        self.page.set_viewport_size({"width": PHONE, "height": 800})
        self.open(path)
        self.check_here(path, dark=dark)

    def check_here(self, what: str, *, dark: int = PHONE) -> None:
        """The same of what is open. It is loaded once: that and axe take longer than what axe does."""
        for width in (PHONE, SCREEN):
            self.page.set_viewport_size({"width": width, "height": 800})
            self.page.emulate_media(color_scheme="dark" if width == dark else "light")
            self.check(f"{what}, {width} wide, dark at {dark}")
        self.page.emulate_media(color_scheme="light")

    def check(self, what: str) -> None:
        """No sideways scroll, nothing in the console (a breach of the CSP shows there), nothing axe objects to."""
        wide, width = self.page.evaluate("[document.documentElement.scrollWidth, innerWidth]")
        assert wide <= width, f"{what} scrolls sideways: {wide} of {width}"
        assert not (cut := self.page.evaluate(_CUT)), f"{what}: words that do not fit into their buttons: {cut}"
        options = {"runOnly": _RULES, "resultTypes": ["violations"], "rules": _MORE}
        if not self.page.evaluate("'axe' in window"):
            self.page.evaluate(Axe().axe_script)
        found = self.page.evaluate("async (options) => (await axe.run(document, options)).violations", options)
        said = [f"{one['id']}: {node['html'][:160]}" for one in found for node in one["nodes"][:3]]
        assert not said, f"{what}: " + "\n".join(said)
        assert not self.faults, f"{what}: {self.faults}"


@pytest.fixture(scope="session")
def windows() -> dict[str, Tab]:
    """Those that tests share, one of each kind of context: a new one costs more than most tests do with it. What a page
    stores belongs to the port of its server, which is another for each test; cookies alone do not."""
    return {}


@pytest.fixture
def tab(browser: Browser, windows: dict[str, Tab], site: str) -> Iterator[Callable[..., Tab]]:
    """``tab(alice, width=390, dark=True)``: signed in without the form; ``tab()`` is a guest. One of a kind a test."""
    taken = []

    def opened(user: User | None = None, *, width: int = 1280, dark: bool = False, **more: Any) -> Tab:
        shown = windows.get(kind := repr(more)) or windows.setdefault(kind, _window(browser, **more))
        assert shown not in taken, "the first tab would get the cookies of the second"
        taken.append(shown)
        shown.site = site
        if user is not None:
            shown.page.context.add_cookies([{"name": "longshore", "value": session_of(user), "url": site}])
        shown.page.set_viewport_size({"width": width, "height": 800})
        # Without motion, for a colour on its way to another has no contrast.
        shown.page.emulate_media(color_scheme="dark" if dark else "light", reduced_motion="reduce")
        return shown

    yield opened
    for shown in taken:
        if not _emptied(shown):
            windows.pop(next(kind for kind, window in windows.items() if window is shown)).page.context.close()


def _window(browser: Browser, **more: Any) -> Tab:
    shown = Tab(browser.new_context(**more).new_page(), "")
    shown.page.set_default_timeout(PATIENCE)
    shown.page.on("pageerror", lambda error: shown.faults.append(str(error)))
    shown.page.on("console", lambda said: said.type == "error" and shown.faults.append(said.text))
    return shown


def _emptied(shown: Tab) -> bool:
    """Whether the next test may have this window: nothing of the last one is in it."""
    page, context = shown.page, shown.page.context
    try:
        context.clear_cookies()
        page.unroute_all(behavior="ignoreErrors")
        page.goto("about:blank")
        page.mouse.move(0, 0)
    except Error:  # such as a question of the page that nobody answers
        return False
    for other in context.pages:
        if other is not page:
            other.close()
    shown.faults.clear()
    return True


@pytest.fixture
def client() -> http.Client:
    """A guest's browser."""
    return http.Browser()


def session_of(user: User) -> str:
    client = http.Client()
    client.force_login(user, backend="django.contrib.auth.backends.ModelBackend")
    return client.cookies["longshore"].value


def sign_in(page: Page, user: User) -> None:
    page.fill("[name=username]", user.username)
    page.fill("[name=password]", PASSWORD)
    page.click("button[type=submit]")


@pytest.fixture
def count_queries(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], object]], int]:
    """Counts without what is asked now and then, whatever a page shows: nothing of that gets old during the test."""
    from django.test.utils import CaptureQueriesContext

    monkeypatch.setattr(processes.seen, "seconds", math.inf)
    monkeypatch.setattr(lengths.known_lengths, "seconds", math.inf)

    def counted(act: Callable[[], object]) -> int:
        processes.live_processes()
        lengths.known_lengths()
        with CaptureQueriesContext(connection) as captured:
            act()
        return len(captured)

    return counted
