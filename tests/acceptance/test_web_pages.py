"""Web pages of tasks on real hosts, one for each way to an engine: carried whole in both directions, cut off when the
right to them ends, and, in a real browser, no way for them to act as the person who looks at them."""

from __future__ import annotations

import hashlib
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest
from playwright.sync_api import Browser, BrowserContext, sync_playwright
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection, connect

from tests.acceptance.portal import Portal, config, portal_beside
from tests.acceptance.test_two_nodes import register
from tests.bed.docker_bed import Bed, BedNode
from tests.bed.ssh_image import ensure_python_image
from tests.helpers import LIMIT, chromium, need, quick, until

pytestmark = pytest.mark.docker
PROGRAM = Path(__file__).parents[1] / "web_app.py"
COMMAND = f"""cat >/tmp/page.py <<'END'
{PROGRAM.read_text()}
END
exec python3 /tmp/page.py $PAI_CONTAINER_HOST_web_PORT_LIST"""
PASSWORD = "correct horse"
NAMED = "gpu-master"  # a host name under which portal and pages are on two ports
WAYS = ("unix", "tls", "ssh")


@pytest.fixture(scope="module")
def nodes(docker_nodes: list[BedNode]) -> dict[str, BedNode]:
    return dict(zip(WAYS, docker_nodes, strict=True))


@pytest.fixture(scope="module")
def portal(bed: Bed, nodes: dict[str, BedNode], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Portal]:
    settings = {"HOME": str(bed.folder / "home"), "LONGSHORE_APPS_BIND": "any"}
    with portal_beside(*nodes.values(), home=tmp_path_factory.mktemp("portal"), **settings) as one:
        for node in nodes.values():
            ensure_python_image(node)
        register(one, nodes)
        yield one
        one.wait_clean(*nodes.values())


@pytest.fixture(scope="module")
def alice(portal: Portal) -> Iterator[httpx.Client]:
    """A user who is no admin, with a token."""
    about = {"username": "alice", "password": PASSWORD, "admin": False, "modify": False}
    assert portal.http.put("/user", json=about).status_code == 201
    with httpx.Client(base_url=portal.http.base_url, timeout=LIMIT) as client:
        token = client.post("/token", json={"username": "alice", "password": PASSWORD}).json()["token"]
        client.headers["Authorization"] = f"Bearer {token}"
        yield client


@pytest.fixture(scope="module")
def job(portal: Portal, alice: httpx.Client) -> Iterator[dict[str, int]]:
    """Alice's job ``one`` with a task on each node: its index by the way to the node."""
    labels = [{"label": "web", "beginAt": 0, "portNumber": 1}]
    asked = config("one", COMMAND, image="longshore-test/python:1", taskNumber=3, cpuNumber=3, portList=labels)
    assert alice.post("/jobs", json=asked).status_code == 201
    until(lambda: [page["state"] for page in pages(portal)] == ["answers"] * 3, 60, 0.3, what="all pages answer")
    yield {str(page["node"]): int(str(page["index"])) for page in pages(portal)}
    stop = portal.http.put("/user/alice/jobs/one/executionType", json={"value": "STOP"})
    assert stop.status_code == 202


def pages(portal: Portal) -> list[dict[str, object]]:
    found: list[dict[str, object]] = portal.get("/user/alice/jobs/one/services")["services"]
    return found


@dataclass
class Visitor:
    """Somebody who has a page open, without a browser."""

    host: str
    cookie: str
    http: httpx.Client

    @contextmanager
    def socket(self) -> Iterator[ClientConnection]:
        wire = socket.create_connection(("127.0.0.1", int(self.host.rpartition(":")[2])))
        with connect(
            f"ws://{self.host}/ws",
            sock=wire,
            additional_headers={"Cookie": self.cookie},
            max_size=None,
            open_timeout=LIMIT,
            ping_timeout=LIMIT,
        ) as way:
            yield way


@contextmanager
def visit(portal: Portal, index: int, client: httpx.Client | None = None) -> Iterator[Visitor]:
    asked = (client or portal.http).post(f"/user/alice/jobs/one/services/main/{index}/web/ticket")
    assert asked.status_code == 201, asked.text
    url = urlsplit(asked.json()["url"])
    with httpx.Client(base_url=f"http://127.0.0.1:{url.port}", headers={"Host": url.netloc}, timeout=LIMIT) as http:
        entered = http.get(f"{url.path}?{url.query}")
        assert (entered.status_code, entered.headers["location"]) == (303, "/")
        cookie = entered.headers["set-cookie"].partition(";")[0]
        http.cookies.clear()
        http.headers["Cookie"] = f"{cookie}; longshore=secret; mine=1"
        yield Visitor(url.netloc, cookie, http)


@pytest.mark.parametrize("way", WAYS)
def test_everything_is_carried_both_ways(portal: Portal, job: dict[str, int], way: str) -> None:
    with visit(portal, job[way]) as visitor:
        got = dict(visitor.http.get("/headers?a=%2F&b=//").json())
        assert (got["path"], got["cookie"], got["host"]) == ("/headers?a=%2F&b=//", "mine=1", visitor.host)
        whole = bytes(range(256)) * (8 << 12)
        part = visitor.http.get("/big?mb=8", headers={"Range": "bytes=1000003-1000010"})
        assert (part.status_code, part.content) == (206, whole[1000003:1000011])
        assert visitor.http.get("/big?mb=8").content == whole
        sent = os.urandom(20 << 20)
        for body in (sent, iter([sent[: 1 << 20], sent[1 << 20 :]])):  # with a length, and in chunks
            assert visitor.http.put("/upload", content=body).json()["sha256"] == hashlib.sha256(sent).hexdigest()
        with visitor.socket() as wire:
            for message in ("grüße", b"\0\xff", "x" * 3_000_000):
                wire.send(message)
                assert wire.recv(LIMIT) == message


def test_an_answer_comes_as_it_is_written(portal: Portal, job: dict[str, int]) -> None:
    with visit(portal, job["ssh"]) as visitor:
        with visitor.http.stream("GET", "/stream?lines=4&pause=0.1") as answer:
            assert list(answer.iter_lines()) == [f"line {number}" for number in range(4)]
        with visitor.http.stream("GET", f"/stream?lines=2&pause={10 * LIMIT}") as answer:  # the next comes too late
            assert next(answer.iter_lines()) == "line 0"


@pytest.fixture(scope="module")
def bob(portal: Portal) -> Iterator[httpx.Client]:
    about = {"username": "bob", "password": PASSWORD, "admin": False, "modify": False}
    assert portal.http.put("/user", json=about).status_code == 201
    with httpx.Client(base_url=portal.http.base_url, timeout=LIMIT) as client:
        token = client.post("/token", json={"username": "bob", "password": PASSWORD}).json()["token"]
        client.headers["Authorization"] = f"Bearer {token}"
        yield client


def test_what_is_open_ends_within_seconds_of_the_right_to_it(
    portal: Portal, job: dict[str, int], alice: httpx.Client, bob: httpx.Client
) -> None:
    page = f"/user/alice/jobs/one/services/main/{job['unix']}/web"
    assert bob.post(f"{page}/ticket").status_code == 403
    assert alice.put(f"{page}/shares/user/bob").status_code == 201
    with visit(portal, job["unix"], bob) as visitor, visitor.socket() as wire:
        with visitor.http.stream("GET", "/stream?lines=9000&pause=0.1") as answer:
            lines = answer.iter_lines()
            assert next(lines) == "line 0"
            assert alice.delete(f"{page}/shares/user/bob").status_code == 200
            with quick(5, "the end of a stream"), pytest.raises(httpx.RemoteProtocolError):
                list(lines)
        with quick(5, "the end of a connection"), pytest.raises(ConnectionClosed):
            wire.recv(LIMIT)
        assert visitor.http.get("/").status_code == 401


# --- in a real browser -----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    need("browser")
    with sync_playwright() as playwright:
        arguments = ["--no-sandbox", "--disable-gpu", f"--host-resolver-rules=MAP {NAMED} 127.0.0.1"]
        started = playwright.chromium.launch(executable_path=chromium(), args=arguments)
        yield started
        started.close()


@contextmanager
def signed_in(browser: Browser, portal: str, username: str, password: str) -> Iterator[BrowserContext]:
    context = browser.new_context()
    context.set_default_timeout(LIMIT * 1000)
    page = context.new_page()
    page.goto(f"{portal}/login")
    page.fill("[name=username]", username)
    page.fill("[name=password]", password)
    page.click("button[type=submit]")
    page.wait_for_url(f"{portal}/")
    yield context
    context.close()


def attacked(context: BrowserContext, portal: str, index: int) -> dict[str, str]:
    """What a page of the task has found out and done, looked at by who is signed in."""
    page = context.new_page()
    page.goto(f"{portal}/jobs/alice/one/web/main/{index}/web")
    assert page.inner_text("h1") == "Here I am"
    base = page.url.rstrip("/")
    sent = page.goto(f"{base}/headers")
    assert sent is not None
    assert "longshore" not in str(dict(sent.json()).get("cookie", "")) and "csrftoken" not in sent.text()
    page.goto(f"{base}/cookies")
    page.goto(f"{base}/evil?portal={portal}")
    page.wait_for_function("window.found")
    found: dict[str, str] = page.evaluate("window.found")
    return found


def session(context: BrowserContext, portal: str) -> list[str]:
    return [str(cookie.get("value")) for cookie in context.cookies(portal) if cookie.get("name") == "longshore"]


@pytest.mark.browser
@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", NAMED])
def test_a_page_cannot_act_as_who_looks_at_it(portal: Portal, job: dict[str, int], browser: Browser, host: str) -> None:
    """On the machine itself an admin looks at Alice's page; where all share a host name she looks at her own."""
    at = portal.url.replace("127.0.0.1", host)
    who, secret = ("alice", PASSWORD) if host == NAMED else ("admin", password(portal))
    with signed_in(browser, at, who, secret) as context:
        before = session(context, at)
        found = attacked(context, at, job["ssh"])
        assert "longshore" not in found["cookies"] and "csrftoken" not in found["cookies"]
        for name in ("read", "api", "changed", "framed"):
            assert found[name].startswith("!"), found
        assert found["opener"] in ("null", ""), found
        assert session(context, at) == before
        page = context.new_page()
        page.goto(f"{at}/account")
        assert who in page.inner_text("main")
    status = portal.get("/user/alice/jobs/one")["jobStatus"]
    assert (status["state"], status["executionType"]) == ("RUNNING", "START")


@pytest.mark.browser
def test_where_pages_share_a_host_nobody_is_led_to_the_page_of_another(
    portal: Portal, job: dict[str, int], browser: Browser, alice: httpx.Client
) -> None:
    """Not by the portal, and not by a ticket that Alice has sent them."""
    at = portal.url.replace("127.0.0.1", NAMED)
    named = {"Host": at.partition("//")[2]}
    url = alice.post(f"/user/alice/jobs/one/services/main/{job['unix']}/web/ticket", headers=named).json()["url"]
    assert urlsplit(url).hostname == NAMED
    with signed_in(browser, at, "admin", password(portal)) as context:
        page = context.new_page()
        refused = page.goto(f"{at}/jobs/alice/one/web/main/{job['unix']}/web")
        assert refused and refused.status == 403
        led = page.goto(url)
        assert led and (led.status, "Here I am" in page.content()) == (403, False)


@pytest.mark.browser
def test_a_link_opens_one_page_to_who_has_no_account_until_it_is_taken_back(
    portal: Portal, job: dict[str, int], browser: Browser, alice: httpx.Client
) -> None:
    service = f"/user/alice/jobs/one/services/main/{job['tls']}/web"
    made = alice.post(f"{service}/links", json={"seconds": 600}).json()
    context = browser.new_context()
    context.set_default_timeout(LIMIT * 1000)
    page = context.new_page()
    page.goto(made["url"])
    assert page.inner_text("h1") == "Here I am"
    opened = page.url
    other = alice.post(f"/user/alice/jobs/one/services/main/{job['ssh']}/web/ticket").json()["url"]
    refused = page.goto(other.partition("/_longshore/")[0])
    assert refused and refused.status == 401
    page.goto(f"{portal.url}/account")
    assert urlsplit(page.url).path == "/login"
    assert alice.delete(f"{service}/shares/link/{made['name']}").status_code == 200
    until(lambda: page.goto(opened).status == 401, 20, 0.3, what="the page closes")  # type: ignore[union-attr]
    led = page.goto(made["url"])
    assert led and led.status == 404
    context.close()


def password(portal: Portal) -> str:
    return (portal.home / "secrets" / "admin-password").read_text().strip()
