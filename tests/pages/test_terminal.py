"""The terminal: its WebSocket as any client sees it, and its page in a browser, on an engine in memory."""

from __future__ import annotations

import asyncio
import json
import logging
import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from types import SimpleNamespace
from typing import Any
from urllib.parse import parse_qsl, urlencode

import httpx
import pytest
from asgiref.sync import sync_to_async
from django.contrib.sessions.models import Session
from django.utils import timezone
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import ClientConnection, connect
from websockets.typing import Origin

from base.accounts import tokens
from base.accounts.callers import Caller
from base.models import ApiToken, AuditEvent, Terminal, User
from clusters.engines import schemes
from clusters.engines.attach import MARK, PIECE
from clusters.models import VcGrant, VirtualCluster
from jobs.models import Event, Job, Task
from jobs.terminal import place, records, shell, shells
from tests.cluster import Clock, Cluster
from tests.fakes import terminal as fakes
from tests.fakes.runtime import FakeRuntime
from tests.fakes.terminal import FakeTerminal
from tests.helpers import LIMIT, on_a_loop, until
from tests.pages.conftest import Tab, session_of

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def cluster(alice: User, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    """alice/train runs on n1."""
    monkeypatch.setattr(shells, "EVERY", 0.05)
    cluster = Cluster(alice, Clock())
    cluster.add_node()
    cluster.submit(name="train")
    cluster.settle()
    yield cluster
    schemes.set_engine_factory(None)


@pytest.fixture
def engine(cluster: Cluster) -> FakeRuntime:
    return cluster.engines["n1"]


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The seconds by which shells are idle or without a window: they stand still unless the test sets them."""
    seconds = [1000.0]
    for module in (shell, shells):
        monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: seconds[0]))
    return seconds


def the_shell() -> shell.Shell:
    """The only one that the portal has."""
    assert shells._mine is not None
    [one] = shells._mine._shells.values()
    return one


class Person:
    """Somebody with a WebSocket."""

    def __init__(self, socket: ClientConnection) -> None:
        self.socket = socket
        self.first: dict[str, Any] = json.loads(self.socket.recv(LIMIT))
        self.seen = b""
        self.said: list[dict[str, Any]] = []

    def types(self, text: str | bytes) -> None:
        self.socket.send(text.encode() if isinstance(text, str) else text)

    def reads(self, pattern: str) -> re.Match[bytes]:
        while not (found := re.search(pattern.encode(), self.seen)):
            self.takes()
        self.seen = self.seen[found.end() :]
        return found

    def takes(self) -> None:
        """One message. Raises TimeoutError."""
        data = self.socket.recv(LIMIT)
        if isinstance(data, str):
            self.said.append(json.loads(data))
        else:
            self.seen += data

    def is_closed(self) -> tuple[int, str]:
        """The code and the reason, once it is."""
        with pytest.raises(ConnectionClosed):
            while True:
                self.takes()
        return self.socket.protocol.close_code or 0, self.socket.protocol.close_reason or ""


ADDRESS = "/terminal/alice/train/worker/0"
Opens = Callable[..., ClientConnection]


@pytest.fixture
def opens(site: str) -> Iterator[Opens]:
    """``opens(session, **query)``: a WebSocket to the task of alice/train, as a page of the portal opens it."""
    with ExitStack() as stack:

        def opened(session: str = "", *, address: str = ADDRESS, origin: str = site, **query: Any) -> ClientConnection:
            headers = {"Cookie": f"longshore={session}"} if session else {}
            headers |= query.pop("headers", {})
            asked = f"{site.replace('http', 'ws')}{address}?{urlencode(query)}"
            plain: dict[str, Any] = {"proxy": None, "compression": None, "open_timeout": LIMIT, "ping_interval": None}
            way: Any = connect(asked, additional_headers=headers, origin=Origin(origin), **plain)
            socket: ClientConnection = stack.enter_context(way)
            return socket

        yield opened


def test_its_owner_types_into_a_task(opens: Opens, cluster: Cluster, alice: User) -> None:
    person = Person(opens(session_of(alice), cols=100, rows=40))
    assert person.first | {"shell": "", "left": 0} == {"shell": "", "from": 0, "idle": 900, "left": 0}
    person.types("stty size\r")
    person.reads("\n40 100\r\n")
    person.socket.send('{"resize": [70, 20]}')
    person.types("stty size\r")
    person.reads("\n20 70\r\n")
    person.types("exit 3\r")
    assert person.is_closed() == (4000, "The shell ended with 3.")


def test_who_opened_which_when_is_recorded(opens: Opens, cluster: Cluster, alice: User) -> None:
    person = Person(opens(session_of(alice)))
    until(lambda: AuditEvent.objects.filter(action="terminal opened").exists())
    person.types("exit 0\r")
    until(lambda: AuditEvent.objects.filter(action="terminal closed").exists())
    first, last = AuditEvent.objects.filter(action__startswith="terminal").order_by("id")
    assert (first.actor, first.object, first.ip) == ("alice", "alice/train worker-0", "127.0.0.1")
    assert last.data["why"] == "The shell ended with 0."
    assert Event.objects.get(kind="task.terminal").reason == "alice opened a terminal in worker-0."


def test_a_reload_finds_the_same_shell(opens: Opens, cluster: Cluster, alice: User) -> None:
    session = session_of(alice)
    before = Person(opens(session))
    before.types("echo before\r")
    before.socket.close()
    again = Person(opens(session, shell=before.first["shell"]))
    assert again.first["shell"] == before.first["shell"]
    again.reads("\nbefore\r\n")
    assert Terminal.objects.count() == 1


def test_a_connection_that_broke_goes_on_where_it_was(opens: Opens, cluster: Cluster, alice: User) -> None:
    session = session_of(alice)
    before = Person(opens(session))
    before.types("echo before\r")
    before.reads("\nbefore\r\n")
    before.socket.close()
    have = len(b"$ echo before\r\nbefore\r\n")
    again = Person(opens(session, shell=before.first["shell"], after=have))
    assert again.first["from"] == have
    again.types("echo after\r")
    assert again.reads("\nafter\r\n").start() == len(b"$ echo after\r")


def test_another_window_takes_it_over(opens: Opens, cluster: Cluster, alice: User) -> None:
    session = session_of(alice)
    first = Person(opens(session))
    second = Person(opens(session, shell=first.first["shell"]))
    assert first.is_closed()[0] == 4001
    second.types("echo here\r")
    second.reads("\nhere\r\n")


def test_nobody_gets_the_shell_of_another_session(opens: Opens, cluster: Cluster, alice: User, admin: User) -> None:
    mine = Person(opens(session_of(alice)))
    for session in (session_of(admin), session_of(alice)):
        other = Person(opens(session, shell=mine.first["shell"]))
        assert other.first["shell"] != mine.first["shell"]


def test_a_window_that_shows_slowly_holds_the_program_back(
    opens: Opens, cluster: Cluster, engine: FakeRuntime, alice: User
) -> None:
    person = Person(opens(session_of(alice), flow=1))
    person.types("yes\r")
    [terminal] = engine._containers[Task.objects.get().container_name].terminals
    until(lambda: len(terminal._written) > fakes._ROOM, what="the program waits to be read")
    held = the_shell()._replay.total
    assert shell.AHEAD <= held < shell.AHEAD + 2 * PIECE
    while len(person.seen) < held:
        person.takes()
    assert len(person.seen) == the_shell()._replay.total == held, "nothing more is read until this is shown"
    person.socket.send(json.dumps({"shown": len(person.seen)}))
    while len(person.seen) == held:
        person.takes()


def test_it_ends_when_the_user_logs_out(opens: Opens, site: str, cluster: Cluster, alice: User) -> None:
    session = session_of(alice)
    person = Person(opens(session))
    Session.objects.get(session_key=session).delete()
    assert person.is_closed() == (4003, "You are not signed in any more.")
    until(lambda: not Terminal.objects.exists())


@pytest.mark.parametrize("how", ["disabled", "grant taken", "token revoked", "token expired"])
def test_it_ends_when_access_is_withdrawn(opens: Opens, cluster: Cluster, alice: User, how: str) -> None:
    vc = VirtualCluster.objects.create(name="nlp", capacity=10, max_capacity=100)
    grant = VcGrant.objects.create(vc=vc, username="alice")
    Job.objects.update(vc="nlp")
    if how.startswith("token"):
        person = Person(opens(headers={"Authorization": f"Bearer {tokens.issue(alice, 600)}"}, origin=""))
        if how == "token revoked":
            tokens.revoke_all(alice)
        else:
            ApiToken.objects.update(expires_at=timezone.now())
    else:
        person = Person(opens(session_of(alice)))
        grant.delete() if how == "grant taken" else User.objects.update(is_active=False)
    assert person.is_closed()[0] == 4003


@pytest.fixture
def server_log(site: str, caplog: pytest.LogCaptureFixture) -> Iterator[pytest.LogCaptureFixture]:
    """What the server that ``site`` has started writes into the admin's log: errors alone, and to no other logger."""
    errors = logging.getLogger("uvicorn.error")
    errors.addHandler(caplog.handler)
    yield caplog
    errors.removeHandler(caplog.handler)


def test_who_may_not_is_refused_before_anything_is_opened(
    opens: Opens, cluster: Cluster, alice: User, bob: User, server_log: pytest.LogCaptureFixture
) -> None:
    refused: dict[int, list[dict[str, Any]]] = {
        401: [{}, {"ticket": "none"}, {"session": "none"}],
        403: [{"session": session_of(bob)}, *({"session": session_of(alice), "origin": at} for at in FOREIGN)],
        404: [{"session": session_of(alice), "address": at} for at in NOWHERE],
        409: [{"session": session_of(alice), "address": "/terminal/alice/waits/worker/0"}],
    }
    cluster.submit(name="waits", roles=[{"cpuNumber": 8}])
    cluster.settle()
    for status, asked in refused.items():
        for one in asked:
            with pytest.raises(InvalidStatus) as caught:
                opens(one.pop("session", ""), **one)
            assert (caught.value.response.status_code, one) == (status, one)
    assert server_log.messages == []  # a refusal is no error of the portal
    assert cluster.engines["n1"].calls["attach"] == 0


FOREIGN = ("https://evil.example", "null", "", "http://127.0.0.1")
NOWHERE = (
    "/terminal/alice/none/worker/0",
    "/terminal/alice/train/worker/1",
    "/terminal/alice/train",
    "/elsewhere",
    "/terminal/alice/train/worker/999999",
    "/terminal/al%00ice/train/worker/0",
    "/terminal/alice/train/a%00b/0",
)


def test_a_ticket_opens_it_once(opens: Opens, cluster: Cluster, alice: User, bob: User, site: str) -> None:
    def asked(user: User) -> httpx.Response:
        head = {"Authorization": f"Bearer {tokens.issue(user, 600)}"}
        address = f"{site}/api/v1/user/alice/jobs/train/taskRoles/worker/0/terminal"
        return httpx.post(address, headers=head, timeout=LIMIT)

    assert asked(bob).status_code == 403
    answer = asked(alice)
    assert (answer.status_code, answer.json()["expiresIn"]) == (201, 30)
    path, _, query = answer.json()["address"].partition("?")
    Person(opens(address=path, origin="https://elsewhere.example", **dict(parse_qsl(query))))
    for wrong in (path, "/terminal/alice/train/worker/1"):
        with pytest.raises(InvalidStatus):
            opens(address=wrong, **dict(parse_qsl(query)))


def test_a_user_has_so_many_and_no_more(opens: Opens, cluster: Cluster, alice: User, settings: Any) -> None:
    settings.TERMINALS = 2
    session = session_of(alice)
    Person(opens(session)), Person(opens(session))
    third = opens(session)
    with pytest.raises(ConnectionClosed):
        third.recv(LIMIT)
    assert third.protocol.close_code == 4005 and "2 terminals" in str(third.protocol.close_reason)


def test_an_idle_one_is_warned_of_and_ends(
    opens: Opens, cluster: Cluster, alice: User, settings: Any, clock: list[float]
) -> None:
    settings.TERMINAL_IDLE = 600
    person = Person(opens(session_of(alice)))
    clock[0] += settings.TERMINAL_IDLE - shell.WARNED
    while not person.said:
        person.takes()
    assert person.said[0]["left"] == round(shell.WARNED)
    clock[0] += shell.WARNED
    assert person.is_closed() == (4002, "It was idle.")


def test_one_without_a_window_ends(opens: Opens, cluster: Cluster, alice: User, clock: list[float]) -> None:
    person = Person(opens(session_of(alice)))
    person.socket.close()
    until(lambda: the_shell()._view is None, what="the window is gone")
    clock[0] += shell.WAITS + 1
    until(lambda: not Terminal.objects.exists())
    assert AuditEvent.objects.get(action="terminal closed").data["why"] == "Its window was closed."


def test_it_says_so_when_its_task_ends_or_its_engine_is_lost(
    opens: Opens, cluster: Cluster, engine: FakeRuntime, alice: User
) -> None:
    first = Person(opens(session_of(alice)))
    engine.cut()
    assert first.is_closed() == (4004, "The engine does not answer.")
    engine.heal()
    second = Person(opens(session_of(alice)))
    engine.finish(Task.objects.get().container_name)
    assert second.is_closed() == (4004, "The task has ended.")


def test_one_whose_process_died_is_ended_by_another(cluster: Cluster, engine: FakeRuntime, alice: User) -> None:
    async def lost() -> FakeTerminal:
        caller = Caller(alice, "session:x")
        found = place.find(alice, "alice", "train", "worker", 0)
        row = await sync_to_async(records.reserve)(caller, found, "dead")
        made = await engine.attach(found.container_name, ("sh",), env={MARK: row.token}, columns=80, rows=24)
        await sync_to_async(records.opened)(row, found, made.pid, None)
        await sync_to_async(Terminal.objects.update)(seen_at=timezone.now() - 2 * records.LOST)
        await shells.Shells().clean_up()
        async with asyncio.timeout(LIMIT):
            while await made.read():
                pass
        return made

    on_a_loop(lost())
    assert not Terminal.objects.exists()


def test_one_whose_engine_did_not_answer_at_its_end_is_ended_when_it_does(
    opens: Opens, cluster: Cluster, engine: FakeRuntime, alice: User
) -> None:
    person = Person(opens(session_of(alice)))
    engine.cut()
    assert person.is_closed() == (4004, "The engine does not answer.")
    row = until(Terminal.objects.filter(owner="").first, what="the shell to be left")
    assert not records.open_terminals("alice") and records.find(row.token, Caller(alice, ""), row.task) is None
    assert AuditEvent.objects.filter(action="terminal closed").count() == 1
    engine.heal()
    until(lambda: not Terminal.objects.exists(), what="it to be ended")
    assert engine.calls["hang_up"] and AuditEvent.objects.filter(action="terminal closed").count() == 1


def test_one_that_can_never_be_ended_is_forgotten(cluster: Cluster, engine: FakeRuntime, alice: User) -> None:
    found = place.find(alice, "alice", "train", "worker", 0)
    row = records.reserve(Caller(alice, "session:x"), found, "mine")
    records.opened(row, found, 7, None)
    records.closed(row, "You closed it.", has_ended=False)
    assert [one.pk for one in records.left()] == [row.pk]
    Terminal.objects.update(seen_at=timezone.now() - 2 * records.GIVEN_UP)
    assert records.left() == []


def test_a_get_of_the_address_says_why_it_would_be_refused(
    cluster: Cluster, browse: Any, alice: User, bob: User
) -> None:
    assert browse(alice).get(ADDRESS).status_code == 204
    refused = browse(bob).get(ADDRESS)
    assert refused.status_code == 403 and "for alice and for admins" in refused.json()["message"]
    assert browse(alice).get("/terminal/alice/none/worker/0").status_code == 404


def test_a_terminal_of_an_attempt_that_has_ended_leads_to_the_next(cluster: Cluster, browse: Any, alice: User) -> None:
    job = cluster.submit(name="again", retryCount=1)
    cluster.settle()
    cluster.finish(job, code=1)
    cluster.settle()
    said = browse(alice).get("/terminal/alice/again/worker/0?attempt=1").json()["message"]
    assert said.endswith("nobody can enter it. The job goes on with attempt 2: load the page again to enter that.")


@pytest.mark.parametrize("attempt", ["2", "999999999999999", "99999999999999999999", "first"])
def test_an_attempt_that_there_is_not_is_refused(
    opens: Opens, cluster: Cluster, browse: Any, alice: User, attempt: str
) -> None:
    assert browse(alice).get(f"{ADDRESS}?attempt={attempt}").status_code == 404
    with pytest.raises(InvalidStatus) as caught:
        opens(session_of(alice), attempt=attempt)
    assert caught.value.response.status_code == 404


@pytest.mark.browser
def test_its_page_is_loaded_again_with_the_same_shell(
    site: str, cluster: Cluster, alice: User, tab: Callable[..., Tab]
) -> None:
    shown = tab(alice)
    page = shown.open("/jobs/alice/train/terminal")
    page.get_by_role("status").filter(has_text="Connected").wait_for()
    page.keyboard.type("echo hello\n")
    page.locator(".xterm-rows").get_by_text("hello", exact=True).wait_for()
    shown.check("the page of a terminal")
    page.reload()
    page.locator(".xterm-rows").get_by_text("hello", exact=True).wait_for()
    assert Terminal.objects.count() == 1


@pytest.mark.browser
def test_a_megabyte_is_pasted_in_a_browser(site: str, cluster: Cluster, alice: User, tab: Callable[..., Tab]) -> None:
    page = tab(alice).open("/jobs/alice/train/terminal")
    page.get_by_role("status").filter(has_text="Connected").wait_for()
    page.keyboard.type("wc -c\n")
    page.evaluate(_PASTE, "x" * 127 + "\n")
    page.keyboard.press("Control+d")
    page.locator(".xterm-rows").get_by_text(str(1 << 20), exact=True).wait_for()
    page.keyboard.type("exit 3\n")
    page.get_by_role("status").filter(has_text="The shell ended with 3.").wait_for()
    page.keyboard.press("Enter")
    page.get_by_role("status").filter(has_text="Connected").wait_for()


_PASTE = """line => {
    const data = new DataTransfer();
    data.setData("text/plain", line.repeat((1 << 20) / line.length));
    const event = new ClipboardEvent("paste", { clipboardData: data, bubbles: true, cancelable: true });
    document.querySelector(".xterm-helper-textarea").dispatchEvent(event);
}"""
