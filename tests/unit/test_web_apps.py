"""What of a visitor reaches a container and what of a container a visitor; where pages have their addresses."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import Collection, Mapping
from contextlib import ExitStack, suppress
from typing import Any

import aiohttp
import pytest

from jobs.config import web_pages
from jobs.config.spec import PortSpec, RoleSpec
from jobs.web_pages import shown as looks
from jobs.web_pages.addresses import PagePlace, Setup, place_for, place_of
from jobs.web_pages.visits import Target, Visit
from portal.shared.requests import cookies_of
from portal.web_pages.serving import answers, visitors
from portal.web_pages.serving.headers import (
    Headers,
    cookie_for,
    is_foreign,
    location_for,
    path_for,
    to_container,
    to_visitor,
)
from portal.web_pages.serving.proxy import Proxy
from portal.web_pages.serving.upstream import UpstreamClient
from portal.web_pages.serving.visitors import SOCKETS, Visitors
from tests.helpers import LIMIT

KEY = "tensorboard-worker-0-9f2c41aa0b3d"
ALONE = PagePlace(KEY, f"http://{KEY}.localhost:9187", "")
TOGETHER = PagePlace(KEY, "http://gpu-master:9187", f"/~/{KEY}")
RESERVED = frozenset({"longshore", "csrftoken", "zone"})
SETUP = Setup(9187, public_url="http://127.0.0.1:9186")


@pytest.fixture(autouse=True)
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pages are sockets and threads of this process, and may be slow to answer. A connection that hangs does so for
    longer than any test waits."""
    monkeypatch.setattr(looks, "PATIENCE", LIMIT)
    monkeypatch.setattr("portal.web_pages.serving.upstream.ANSWER", 2 * LIMIT)


def sent(*headers: tuple[str, str], place: PagePlace = ALONE) -> dict[bytes, bytes]:
    raw = [(name.encode(), value.encode()) for name, value in headers]
    return dict(to_container(raw, place, RESERVED, lambda token: token == "ours"))


def shown(*headers: tuple[str, str], place: PagePlace = ALONE, keeps: bool = False) -> Headers:
    raw = [(name.encode(), value.encode()) for name, value in headers]
    return to_visitor(raw, place, RESERVED, keeps=keeps)


# --- to the container ------------------------------------------------------------------------------------------------


def test_no_cookie_of_the_portal_reaches_the_container() -> None:
    cookies = "longshore=s; a=1; csrftoken=t; __Host-longshore-page=p; zone=UTC; LONGSHORE-page-x=q; b=2"
    assert sent(("cookie", cookies))[b"cookie"] == b"a=1; b=2"


def test_without_a_cookie_of_its_own_it_gets_no_cookie_header() -> None:
    assert b"cookie" not in sent(("cookie", "longshore=s"), ("cookie", "longshore-page=p"))


def test_a_token_of_the_portal_does_not_reach_the_container_and_its_own_do() -> None:
    assert b"authorization" not in sent(("authorization", "Bearer ours"))
    assert b"authorization" not in sent(("authorization", "bearer  ours"))
    assert sent(("authorization", "token jupyter"))[b"authorization"] == b"token jupyter"
    assert sent(("authorization", "Bearer its-own"))[b"authorization"] == b"Bearer its-own"


def test_the_container_learns_nothing_of_where_the_visitor_comes_from() -> None:
    got = sent(
        ("x-forwarded-for", "10.9.9.9"),
        ("x-real-ip", "10.9.9.9"),
        ("forwarded", "for=10.9.9.9"),
        ("x-forwarded-prefix", "/evil"),
        ("referer", "http://127.0.0.1:9186/jobs/alice/secret-name"),
    )
    assert got == {b"x-forwarded-proto": b"http", b"x-forwarded-host": f"{KEY}.localhost:9187".encode()}


def test_it_learns_its_own_address_and_which_of_its_pages_led_here() -> None:
    got = sent(("host", "gpu-master:9187"), ("referer", "http://gpu-master:9187/a"), place=TOGETHER)
    assert got[b"host"] == b"gpu-master:9187"
    assert got[b"referer"] == b"http://gpu-master:9187/a"
    assert got[b"x-forwarded-prefix"] == f"/~/{KEY}".encode()


def test_headers_between_two_neighbours_are_not_passed_on() -> None:
    got = sent(("connection", "x-mine, keep-alive"), ("x-mine", "1"), ("te", "trailers"), ("expect", "100-continue"))
    assert set(got) == {b"x-forwarded-proto", b"x-forwarded-host"}


# --- to the visitor --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["longshore", "csrftoken", "longshore-page", "__Host-longshore", "Longshore-page-1"])
def test_a_container_sets_no_cookie_of_the_portal(name: str) -> None:
    assert cookie_for(f"{name}=x; Path=/; HttpOnly", ALONE, RESERVED, keeps=False) == ""


def test_a_cookie_without_a_name_is_dropped_as_it_could_be_read_as_any() -> None:
    assert cookie_for("=longshore=x", ALONE, RESERVED, keeps=False) == ""
    assert cookie_for("longshore", ALONE, RESERVED, keeps=False) == ""


def test_its_own_cookies_are_for_its_host_alone() -> None:
    given = "a=1; Domain=example.org; Path=/deep; HttpOnly; SameSite=Lax"
    assert cookie_for(given, ALONE, RESERVED, keeps=False) == "a=1; HttpOnly; SameSite=Lax; Path=/deep"


@pytest.mark.parametrize(
    "given, keeps, path",
    [
        ("a=1", False, f"/~/{KEY}/"),
        ("a=1; Path=/x", False, f"/~/{KEY}/x"),
        (f"a=1; path=/~/{KEY}/x", False, f"/~/{KEY}/~/{KEY}/x"),
        ("a=1; Path=/", True, f"/~/{KEY}/"),
        ("a=1; Path=/~/another-page", True, f"/~/{KEY}/"),
        (f"a=1; path=/~/{KEY}/x", True, f"/~/{KEY}/x"),
        (f"a=1; path=/~/{KEY}-2", True, f"/~/{KEY}/"),
    ],
)
def test_where_pages_share_a_host_its_cookies_stay_below_its_path(given: str, keeps: bool, path: str) -> None:
    assert cookie_for(given, TOGETHER, RESERVED, keeps=keeps) == f"a=1; Path={path}"


def test_no_header_has_an_effect_beyond_the_page() -> None:
    far = ("Strict-Transport-Security", "Clear-Site-Data", "Alt-Svc", "Connection", "Server")
    assert {name for name, _ in shown(*((name, "x") for name in far))} == {
        *(b"content-security-policy", b"cross-origin-resource-policy", b"referrer-policy")
    }


def test_only_the_page_itself_may_frame_it_and_its_own_policy_stays() -> None:
    policies = [value for name, value in shown(("Content-Security-Policy", "default-src *")) if b"policy" in name]
    assert b"default-src *" in policies and b"frame-ancestors 'self'" in policies


def test_a_service_worker_reaches_no_further_than_its_path_where_pages_share_a_host() -> None:
    header = ("Service-Worker-Allowed", "/")
    assert b"service-worker-allowed" in dict(shown(header))
    assert b"service-worker-allowed" not in dict(shown(header, place=TOGETHER))


@pytest.mark.parametrize(
    "given, leads",
    [
        ("/lab", f"/~/{KEY}/lab"),
        ("lab", "lab"),
        ("http://gpu-master:9187/lab", f"/~/{KEY}/lab"),
        ("https://example.org/", "https://example.org/"),
        ("//example.org/", "//example.org/"),
        (f"/~/{KEY}/lab", f"/~/{KEY}/lab"),
    ],
)
def test_redirects_stay_below_the_prefix(given: str, leads: str) -> None:
    assert location_for(given, TOGETHER, keeps=False) == leads
    assert location_for(given, ALONE, keeps=False) == given


def test_the_prefix_is_taken_off_unless_the_program_knows_it() -> None:
    assert path_for(f"/~/{KEY}/a%2Fb?c=/../", TOGETHER, keeps=False) == "/a%2Fb?c=/../"
    assert path_for(f"/~/{KEY}", TOGETHER, keeps=False) == "/"
    assert path_for(f"/~/{KEY}/a", TOGETHER, keeps=True) == f"/~/{KEY}/a"
    assert path_for("/a", ALONE, keeps=False) == "/a"


# --- who asks --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "method, headers, foreign",
    [
        ("GET", {}, False),
        ("GET", {"sec-fetch-site": "same-origin"}, False),
        ("GET", {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate", "sec-fetch-dest": "document"}, False),
        ("POST", {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate", "sec-fetch-dest": "document"}, True),
        ("GET", {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate", "sec-fetch-dest": "iframe"}, True),
        ("GET", {"sec-fetch-site": "same-site", "sec-fetch-mode": "no-cors", "sec-fetch-dest": "script"}, True),
        ("POST", {"origin": ALONE.origin}, False),
        ("POST", {"origin": "http://127.0.0.1:9186"}, True),
        ("POST", {"origin": "null"}, True),
        ("", {"origin": f"http://other-{KEY}.localhost:9187"}, True),
        ("", {"origin": ALONE.origin}, False),
    ],
)
def test_another_origin_may_only_lead_to_a_page(method: str, headers: dict[str, str], foreign: bool) -> None:
    raw = {name.encode(): value.encode() for name, value in headers.items()}
    assert is_foreign(method.encode(), raw, ALONE) is foreign


# --- addresses -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("host", ["127.0.0.1:9186", "localhost:9186", "[::1]:9186", "127.3.4.5"])
def test_on_the_machine_itself_each_page_has_a_host_name_of_its_own(host: str) -> None:
    assert place_for(SETUP, KEY, host, "http") == ALONE


@pytest.mark.parametrize("host", ["gpu-master:9186", "gpu-master"])
def test_elsewhere_pages_share_the_host_name_of_the_portal(host: str) -> None:
    setup = Setup(9187, public_url="http://0.0.0.0:9186")
    assert place_for(setup, KEY, host, "http") == TOGETHER


def test_with_a_domain_each_page_has_its_own_host_name_everywhere() -> None:
    place = place_for(Setup(9187, domain="https://apps.lab:8443"), KEY, "gpu-master", "http")
    assert (place.url, place.is_alone) == (f"https://{KEY}.apps.lab:8443/", True)


def test_an_address_leads_back_to_the_page() -> None:
    for setup, place in (
        (SETUP, ALONE),
        (Setup(9187), TOGETHER),
        (Setup(1, domain="https://apps.lab"), PagePlace(KEY, f"https://{KEY}.apps.lab", "")),
        (Setup(1, url="https://gpu:99"), PagePlace(KEY, "https://gpu:99", f"/~/{KEY}")),
    ):
        host = place.origin.partition("://")[2]
        assert place_of(setup, host, f"{place.prefix}/a", "http") == place


@pytest.mark.parametrize(
    "host", ["", "gpu-master", ".apps.lab", "a.b.apps.lab", "-x.apps.lab", "apps.lab", "[::1", "x.apps.lab.evil.org"]
)
def test_other_hosts_and_paths_name_no_page(host: str) -> None:
    assert place_of(Setup(1, domain="https://apps.lab"), host, f"/~/{KEY}/", "http") is None


def test_a_key_is_a_host_name_and_no_two_pages_share_one() -> None:
    keys = [
        web_pages.key("i", job, role, index, label)
        for job in (1, 12)
        for role in ("worker", "Ünïcode~role.of_very.much_length_indeed")
        for index in (0, 1)
        for label in ("http", "h.ttp", "_", "x" * 200)
    ]
    assert len(set(keys)) == len(keys)
    assert all(web_pages.is_key(key) for key in keys)


def test_a_container_knows_where_its_pages_are() -> None:
    labels = tuple(PortSpec(label=label) for label in ("jupyter", "ps", "ssh"))
    role = RoleSpec(name="lab", command="true", port_list=labels)
    paths = {page.label: page.path("i", 7) for page in web_pages.declared(role, 1)}
    assert paths == {label: f"/~/{web_pages.key('i', 7, 'lab', 1, label)}" for label in ("jupyter", "ps")}


@pytest.mark.parametrize(
    "label, kind",
    [
        ("http", "http"),
        ("Jupyter_2", "jupyter"),
        ("https.api", "https"),
        ("code", "code"),
        ("coder", "coder"),
        ("ps", "ps"),
    ],
)
def test_a_label_says_what_kind_of_page_it_is(label: str, kind: str) -> None:
    assert web_pages.kind(label) == kind
    assert web_pages.is_sure(label) is (kind in web_pages.SURE)


# --- the portal's own session ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "header, session",
    [
        ("longshore=a; b=1", "a"),
        ("longshore=a; longshore=a", "a"),
        ("longshore=a; longshore=b", None),
        ("longshore=b; x=1;longshore = a", None),
        ("mylongshore=b; longshore=a", "a"),
        ("b=1", None),
    ],
)
def test_of_two_sessions_neither_is_believed(header: str, session: str | None) -> None:
    assert cookies_of(header).get("longshore") == session


# --- whether it answers, and the way to it ---------------------------------------------------------------------------


@pytest.mark.parametrize("said", [b"HTTP/1.1 302 Found\r\n\r\n", b"HTTP/1.0 404\n"])
def test_a_page_that_answers_is_known_by_its_first_line(said: bytes) -> None:
    ours, theirs = socket.socketpair()
    theirs.sendall(said)
    state = looks.heard(ours, "gpu-1:80", is_tls=False, began=time.monotonic())
    assert (state.is_, state.status) == ("answers", int(said[9:12]))
    assert theirs.recv(4096).startswith(b"GET / HTTP/1.1\r\nHost: gpu-1:80\r\n")


@pytest.mark.parametrize("said", [b"", b"SSH-2.0-OpenSSH\r\n", b"\n", b"x" * 10_000])
def test_what_is_no_page_is_called_so(said: bytes) -> None:
    ours, theirs = socket.socketpair()
    theirs.sendall(said)
    theirs.shutdown(socket.SHUT_WR)
    assert looks.heard(ours, "gpu-1:80", is_tls=False, began=time.monotonic()).is_ == "other"


def test_a_page_that_sends_a_byte_now_and_then_keeps_no_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(looks, "PATIENCE", 0.3)
    ours, theirs = socket.socketpair()
    ended = threading.Event()

    def drip() -> None:
        with suppress(OSError):  # nobody listens any more
            while not ended.wait(0.05):
                theirs.send(b"x")

    dripping = threading.Thread(target=drip)
    dripping.start()
    try:
        assert looks.heard(ours, "gpu-1:80", is_tls=False, began=time.monotonic()).is_ == "silent"
    finally:
        ended.set()
        dripping.join()


def test_a_port_that_accepts_nothing_keeps_nobody_from_another(monkeypatch: pytest.MonkeyPatch) -> None:
    ended = threading.Event()

    def dial(target: Target) -> socket.socket:
        if target.task_id == 1:
            ended.wait()
        return socket.socketpair()[0]

    async def asked() -> None:
        hop = UpstreamClient()
        slow = [asyncio.create_task(hop.ask(_target(1), "GET", "/", [], None)) for _ in range(200)]
        await asyncio.sleep(0)
        for one in slow[::2]:
            one.cancel()  # a visitor that has gone leaves its thread behind
        await asyncio.gather(*slow[::2], return_exceptions=True)
        try:
            with pytest.raises(aiohttp.ClientConnectionError):  # it is dialled, and the other end is gone
                await asyncio.wait_for(hop.ask(_target(2), "GET", "/", [], None), LIMIT)
        finally:
            ended.set()
        await asyncio.gather(*slow, return_exceptions=True)
        await hop.close()

    monkeypatch.setattr(Target, "dial", dial)
    asyncio.run(asked())


def _target(task: int) -> Target:
    return Target(task, "tcp://gpu-1:2376", "", "gpu-1", 80, False)


async def _check(cookies: Collection[str]) -> Mapping[str, Visit]:
    target = Target(7, "unix:///n1", "", "127.0.0.1", 80, is_tls=False)
    return {cookie: Visit(1, KEY, cookie, "alice", "job", "title", target) for cookie in cookies}


async def _knock(door: Visitors, hop: Any, who: str, kind: str = "websocket") -> list[dict[str, Any]]:
    """What the proxy sends to a visitor."""
    sent: list[dict[str, Any]] = []

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    host = ALONE.origin.partition("//")[2].encode()
    head = [(b"host", host), (b"cookie", f"{answers.cookie_name(ALONE)}={who}".encode())]
    scheme = {"websocket": "ws"}.get(kind, kind)
    scope = {"type": kind, "scheme": scheme, "method": "GET", "path": "/a", "query_string": b"", "headers": head}
    proxy = Proxy(SETUP, RESERVED, door, hop, None, lambda token: False)  # type: ignore[arg-type]
    await proxy(scope, asyncio.Event().wait, send)
    return sent


def test_the_rights_of_visitors_are_looked_at_while_they_have_something_open_and_not_while_nobody_has(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(visitors, "GOOD_FOR", 0.0)
    looks: list[Collection[str]] = []
    looked = asyncio.Event()

    async def check(cookies: Collection[str]) -> Mapping[str, Visit]:
        looks.append(cookies)
        looked.set()
        return await _check(cookies)

    async def play() -> None:
        door = Visitors(check)
        watching = asyncio.create_task(door.watch())
        for who in ("bob", "carol"):
            assert await _sleeps(watching)
            looked.clear()
            with door.opened(who, 7):
                await asyncio.wait_for(looked.wait(), LIMIT)
        assert await _sleeps(watching)
        watching.cancel()

    asyncio.run(play())
    assert {who for cookies in looks for who in cookies} == {"bob", "carol"}


async def _sleeps(task: asyncio.Task[None]) -> bool:
    """Whether it goes on for a few rounds of the loop and then waits for something that nobody has set yet."""
    for _ in range(20):
        await asyncio.sleep(0)
    waits = task._fut_waiter  # type: ignore[attr-defined]
    await asyncio.sleep(0)
    return waits is not None and task._fut_waiter is waits  # type: ignore[attr-defined]


def test_a_visitor_has_so_many_sockets_and_another_has_their_own() -> None:
    async def play() -> None:
        door, hop = Visitors(_check), NobodyThere()
        with ExitStack() as stack:
            for _ in range(SOCKETS):
                assert door.has_room("bob")
                stack.enter_context(door.opened("bob", 7, "bob"))
            assert (await _knock(door, hop, "bob"))[0]["status"] == 429
            assert (await _knock(door, hop, "carol"))[0]["status"] == 503
        assert (await _knock(door, hop, "bob"))[0]["status"] == 503

    asyncio.run(play())


@pytest.mark.parametrize(
    ("query", "cookies", "leads_to"),
    [
        ("", 1, f"/~/{KEY}/"),
        ("&token=" + "a" * 48, 1, f"/~/{KEY}/?token={'a' * 48}"),
        ("&session=" + "b" * 64, 2, f"/~/{KEY}/"),
        ("&session=b%3B%20Path=/", 1, f"/~/{KEY}/"),  # what could end a cookie is none
    ],
)
def test_who_enters_has_the_key_of_the_tool_below_the_page_alone(query: str, cookies: int, leads_to: str) -> None:
    sent: list[dict[str, Any]] = []

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    async def redeem(*_: Any) -> str:
        return "cookie"

    host = TOGETHER.origin.partition("//")[2].encode()
    scope = {"type": "http", "scheme": "http", "method": "GET", "path": f"/~/{KEY}/_longshore/enter"}
    scope |= {"query_string": f"ticket=t{query}".encode(), "headers": [(b"host", host)]}
    setup = Setup(9187, url=TOGETHER.origin)
    proxy = Proxy(setup, RESERVED, Visitors(_check), NobodyThere(), redeem, lambda token: False)  # type: ignore[arg-type]
    asyncio.run(proxy(scope, asyncio.Event().wait, send))
    headers = sent[0]["headers"]
    given = [value.decode() for name, value in headers if name == b"set-cookie"]
    assert (len(given), dict(headers)[b"location"].decode()) == (cookies, leads_to)
    assert all(each.endswith(f"; Path=/~/{KEY}/; HttpOnly; SameSite=Lax") for each in given)
    assert [each.partition(";")[0] for each in given[1:]] == ["code-server-session=" + "b" * 64] * (cookies - 1)


class NobodyThere:
    async def join(self, *_: Any) -> Any:
        raise OSError("nobody")


@pytest.mark.parametrize("line", ["000 Nothing", "999 Much", "600 More", "101 Switching Protocols"])
def test_a_status_that_is_no_answer_is_said(monkeypatch: pytest.MonkeyPatch, line: str) -> None:
    ours, theirs = socket.socketpair()
    theirs.sendall(f"HTTP/1.1 {line}\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n".encode())
    monkeypatch.setattr(Target, "dial", lambda _: ours)

    async def play() -> list[dict[str, Any]]:
        hop = UpstreamClient()
        try:
            return await asyncio.wait_for(_knock(Visitors(_check), hop, "bob", "http"), LIMIT)
        finally:
            await hop.close()

    begins, text = asyncio.run(play())
    theirs.close()
    assert begins["status"] == 502
    assert f"status {int(line[:3])}," in text["body"].decode()
