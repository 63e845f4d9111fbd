"""What a client may keep waiting, how much it may send, how many may come: a real server around a small application."""

from __future__ import annotations

import asyncio
import io
import ipaddress
import socket
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from types import SimpleNamespace
from typing import Any

import pytest
import uvicorn

from base.core.errors import TooLarge, TooManyAtOnce, TooSlow
from base.serving import bodies, connection
from base.serving.bridge import PIECE, REFUSAL, Bridge
from base.serving.connection import Connection
from portal import asgi
from tests.helpers import LIMIT, until

GET = b"GET / HTTP/1.1\r\nHost: portal\r\n\r\n"
LAST = GET[:-2] + b"Connection: close\r\n\r\n"
BRIEF = 1  # seconds for a client that is to be cut off


def wsgi(environ: dict[str, Any], start: Any) -> Any:
    """Answers with the size of the body; on /much with 400 pieces, each noted in ``taken``."""
    error = environ.get(REFUSAL)
    length = [("Content-Length", str(LARGE))] if environ["PATH_INFO"] == "/large" else []
    start(f"{error.status} No" if error else "200 OK", [("Content-Type", "text/plain"), *length])
    if environ["PATH_INFO"] == "/much":
        return (taken.append(at) or b"x" * PIECE for at in range(400))
    if environ["PATH_INFO"] == "/large":
        taken.append(0)
        return [bytes(range(256)) * (LARGE // 256)]
    return [f"{len(environ['wsgi.input'].read())} of {environ['CONTENT_LENGTH']}".encode()]


taken: list[int] = []
LARGE = 12 << 20  # bytes, made at once


@pytest.mark.parametrize("name", ["größe", "数据"])
def test_a_name_in_an_address_may_come_as_it_is_written(server: tuple[str, int], name: str) -> None:
    """npm's webhdfs sends names in UTF-8 and unquoted. What follows the first line is left as it is."""
    head = f"POST /{name} HTTP/1.1\r\nHost: portal\r\nContent-Length: {len(name.encode())}\r\n\r\n".encode()
    last = f"GET /{name} HTTP/1.1\r\nHost: portal\r\nConnection: close\r\n\r\n".encode()
    with send(server, head) as one:
        one.sendall(name.encode())
        assert one.recv(1).startswith(b"H")
        one.sendall(last)
        answers = read(one)
    assert answers.count(b"200 OK") == 2 and f"{len(name.encode())} of {len(name.encode())}".encode() in answers


@pytest.mark.parametrize("second", [LAST, b"NO REQUEST\r\n\r\n"])
def test_each_answer_tells_its_own_time(
    server: tuple[str, int], monkeypatch: pytest.MonkeyPatch, second: bytes
) -> None:
    moments = iter([0.9, 86_400.0])
    monkeypatch.setattr(connection, "time", SimpleNamespace(time=lambda: next(moments)))
    with send(server, GET) as one:
        assert one.recv(1).startswith(b"H")
        one.sendall(second)
        answers = read(one)
    dates = [line for line in answers.lower().split(b"\r\n") if line.startswith(b"date:")]
    assert dates == [b"date: thu, 01 jan 1970 00:00:00 gmt", b"date: fri, 02 jan 1970 00:00:00 gmt"]


@pytest.fixture
def bridge() -> Bridge:
    return Bridge(wsgi, lambda environ: 0)


@pytest.fixture
def server(settings: Any, bridge: Bridge) -> Iterator[tuple[str, int]]:
    """Nobody is cut off unless the test makes PATIENCE brief."""
    settings.PATIENCE, settings.CONNECTIONS_PER_ADDRESS = LIMIT, 8
    connection._places.cache_clear()
    taken.clear()
    server = uvicorn.Server(_config(bridge))
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        until(lambda: server.started, what="the server listens")
        yield server.servers[0].sockets[0].getsockname()[:2]
    finally:
        server.should_exit = True
        thread.join(LIMIT)
        connection._places.cache_clear()


def _config(application: Any) -> uvicorn.Config:
    kept = int(LIMIT)
    return uvicorn.Config(
        application, port=0, http=Connection, lifespan="off", log_level="error", timeout_keep_alive=kept
    )


@pytest.fixture
def brief_after_head(settings: Any, bridge: Bridge, monkeypatch: pytest.MonkeyPatch) -> None:
    """PATIENCE is brief once a whole request has come: so what comes until then is not cut off."""

    def answered(environ: dict[str, Any], start: Any) -> Any:
        settings.PATIENCE = BRIEF
        return wsgi(environ, start)

    monkeypatch.setattr(bridge, "_wsgi", answered)


def send(address: tuple[str, int], data: bytes, source: str = "127.0.0.1") -> socket.socket:
    one = socket.socket()
    one.settimeout(LIMIT)
    one.bind((source, 0))
    one.connect(address)
    one.sendall(data)
    return one


def send_what_is_taken(address: tuple[str, int], data: bytes) -> socket.socket:
    """The server may have cut it off before all is sent."""
    one = send(address, b"")
    with suppress(ConnectionError):
        one.sendall(data)
    return one


def unread(address: tuple[str, int], data: bytes) -> socket.socket:
    """Has asked, and takes nothing."""
    one = socket.socket()
    one.settimeout(LIMIT)
    one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    one.connect(address)
    one.sendall(data)
    return one


def read(one: socket.socket) -> bytes:
    """All until the server closes it."""
    found = b""
    try:
        while data := one.recv(65536):
            found += data
    except ConnectionResetError:
        pass
    one.close()
    return found


@pytest.mark.parametrize("half", [b"", b"GET / HT", GET[:-2], b"\r\n", GET + b"GET / HTTP/1.1\r\nX"])
def test_a_head_that_does_not_come_is_not_waited_for(
    server: tuple[str, int], brief_after_head: None, settings: Any, half: bytes
) -> None:
    whole = half.count(b"\r\n\r\n")
    if not whole:
        settings.PATIENCE = BRIEF
    answers = read(send_what_is_taken(server, half))  # returns: the connection is closed
    assert answers.count(b"200 OK") == whole, "only what was asked for whole is answered"


def test_a_head_that_trickles_in_gains_no_time(server: tuple[str, int], settings: Any) -> None:
    settings.PATIENCE = BRIEF
    one = send_what_is_taken(server, b"GET / HTTP/1.1\r\n")
    one.settimeout(0.1)

    def is_closed() -> bool:
        try:
            one.sendall(b"a")
            return one.recv(1) == b""
        except TimeoutError:
            return False
        except OSError:
            return True

    until(is_closed, what="the end of a head that trickles")
    one.close()


def test_a_head_without_an_end_is_refused(server: tuple[str, int]) -> None:
    one = send_what_is_taken(server, b"GET / HTTP/1.1\r\n" + b"a: b\r\n" * 20_000)
    assert read(one).startswith(b"HTTP/1.1 431")


def test_a_body_that_does_not_come_is_answered(server: tuple[str, int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bodies, "settings", SimpleNamespace(PATIENCE=BRIEF))  # the head may take longer
    one = send(server, b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5000\r\n\r\n0123456789")
    assert one.recv(12) == b"HTTP/1.1 408"
    one.close()


def test_a_body_in_chunks_arrives_whole(server: tuple[str, int]) -> None:
    head = b"POST / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n"
    assert b"6 of 6" in read(send(server, head + b"3\r\nabc\r\n3\r\ndef\r\n0\r\n\r\n"))


@pytest.mark.parametrize("length", [f"Content-Length: {len(LAST)}", "Transfer-Encoding: chunked"])
@pytest.mark.parametrize("before", [b"", GET])
def test_a_body_is_not_taken_for_the_next_request(server: tuple[str, int], length: str, before: bytes) -> None:
    head = f"POST / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n{length}\r\n\r\n".encode()
    with send(server, before) as one:
        answers = one.recv(65536) if before else b""
        one.sendall(head)
        answers += one.recv(65536)
        with suppress(ConnectionError):
            one.sendall(LAST)
        answers += read(one)
    assert answers.count(b"HTTP/1.1 200") == bool(before) and answers.count(b"HTTP/1.1 400") == 1
    assert answers.endswith(b"without Upgrade, as HTTP/1.1.")


def test_who_asks_for_another_protocol_and_sends_no_body_is_answered(server: tuple[str, int]) -> None:
    more = b"Connection: Upgrade\r\nUpgrade: h2c\r\nContent-Length: 0\r\n\r\n"
    with send(server, GET[:-2] + more) as one:
        assert one.recv(65536).startswith(b"HTTP/1.1 200")
        one.sendall(LAST)
        assert read(one).startswith(b"HTTP/1.1 200")


def test_large_answers_that_nobody_takes_are_few_and_what_is_taken_is_whole(
    server: tuple[str, int], bridge: Bridge
) -> None:
    get = GET.replace(b"/ ", b"/large ", 1).replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n")
    slow = []
    for number in (1, 2):  # what waits after the first one is not yet too much
        slow.append(unread(server, get))
        made = number * LARGE
        until(lambda: bridge._turns._untaken.total() == made, what="it is made and known to wait")  # noqa: B023
    slow += [unread(server, get) for _ in range(4)]
    _, _, whole = read(send(server, get, "127.0.0.2")).partition(b"\r\n\r\n")
    assert whole == bytes(range(256)) * (LARGE // 256)
    assert len(taken) == 3  # those two, and that of another address
    _, _, whole = read(slow[0]).partition(b"\r\n\r\n")
    assert whole == bytes(range(256)) * (LARGE // 256)
    until(lambda: len(taken) > 3, what="another is made when one is taken")
    for one in slow:
        one.close()


def test_an_answer_that_nobody_takes_is_not_made_and_not_waited_for(
    server: tuple[str, int], brief_after_head: None
) -> None:
    other = send(server, GET.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n"))  # its time is not brief
    until(lambda: connection.crowd._address_of, what="the other one is in")
    one = unread(server, GET.replace(b"/ ", b"/much ", 1))
    until(lambda: taken, what="the answer has begun")
    other.sendall(b"\r\n")
    assert b"0 of 0" in read(other)
    until(lambda: _has_reset(one), what="the end of who does not read")
    assert len(taken) < 300  # not all 50 MB were made
    one.close()


def _has_reset(one: socket.socket) -> bool:
    return bool(one.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR))


def test_who_reads_slowly_gets_it_all(server: tuple[str, int]) -> None:
    one = send(server, GET.replace(b"/ ", b"/much ", 1).replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"))
    size = 0
    while data := one.recv(1 << 20):
        size += len(data)
        time.sleep(0.002)
    assert size > 400 * PIECE
    one.close()


def test_one_address_has_so_many_connections_and_others_have_theirs(server: tuple[str, int]) -> None:
    mine = [send(server, b"") for _ in range(8)]
    assert read(send(server, GET)).startswith(b"HTTP/1.1 503")
    other = send(server, GET, "127.0.0.2")
    assert other.recv(12) == b"HTTP/1.1 200"
    for one in (*mine, other):
        one.close()


def test_a_trusted_proxy_may_have_more_for_it_has_many_behind_it(server: tuple[str, int], settings: Any) -> None:
    settings.TRUSTED_PROXIES = (ipaddress.ip_network("127.0.0.0/30"),)
    idle = [send(server, b"") for _ in range(8)]
    assert send(server, GET).recv(12) == b"HTTP/1.1 200"
    for one in idle:
        one.close()


def test_behind_a_proxy_an_address_has_so_many_requests_at_once(settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    settings.CONNECTIONS_PER_ADDRESS = 1
    told: list[int] = []

    async def send_note(message: Any) -> None:
        told.append(message.get("status", 0))

    async def dispatch(scope: Any, receive: Any, send: Any) -> None:
        if not told:
            for address in ("10.0.0.1", "10.0.0.2"):
                await asgi._counted({"client": (address, 1)}, None, send)
        await send({"status": 200})

    monkeypatch.setattr(asgi, "_dispatch", dispatch)
    asyncio.run(asgi._counted({"client": ("10.0.0.1", 1)}, None, send_note))
    assert told == [503, 0, 200, 200] and not asgi._under_way


def test_when_all_places_are_taken_who_has_waited_longest_makes_room(server: tuple[str, int], settings: Any) -> None:
    settings.CONNECTIONS = 4
    connection._places.cache_clear()
    idle = [send(server, b"G", f"127.0.0.{at + 2}") for at in range(4)]
    until(lambda: len(connection.crowd._address_of) == 4, what="all are in")
    assert send(server, GET).recv(12) == b"HTTP/1.1 200"
    assert read(idle[0]) == b""
    for one in idle[1:]:
        one.setblocking(False)
        with pytest.raises(BlockingIOError):
            one.recv(1)
        one.close()


def test_a_request_that_came_just_before_an_idle_connection_is_closed_is_answered(settings: Any) -> None:
    """As on a machine without room, where much time passes between the loop's last look and the timer it runs then."""
    settings.PATIENCE = LIMIT
    standing, sent = threading.Event(), threading.Event()

    def stand_still() -> None:
        standing.set()
        sent.wait(LIMIT)
        for one in list(server.server_state.connections):
            one.timeout_keep_alive_handler()

    async def application(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
        await send({"type": "http.response.body", "body": b"ok"})
        asyncio.get_running_loop().call_soon(stand_still)

    def answer(one: socket.socket) -> bytes:
        found = b""
        while not found.endswith(b"ok") and (data := one.recv(1000)):
            found += data
        return found

    server = uvicorn.Server(_config(application))
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        until(lambda: server.started, what="the server listens")
        with socket.create_connection(server.servers[0].sockets[0].getsockname()[:2], timeout=LIMIT) as one:
            one.sendall(GET)
            assert answer(one).startswith(b"HTTP/1.1 200 OK")
            assert standing.wait(LIMIT)
            one.sendall(GET)
            sent.set()
            assert answer(one).startswith(b"HTTP/1.1 200 OK")
    finally:
        sent.set()
        server.should_exit = True
        thread.join(LIMIT)


# --- bodies ----------------------------------------------------------------------------------------------------------


def receiving(*pieces: bytes, stops: bool = False) -> Callable[[], Awaitable[Any]]:
    left = list(pieces)

    async def receive() -> Any:
        if not left and stops:
            await asyncio.sleep(3600)
        return {"type": "http.request", "body": left.pop(0), "more_body": bool(left) or stops}

    return receive


def scope(length: int | None) -> dict[str, Any]:
    told = (b"transfer-encoding", b"chunked") if length is None else (b"content-length", str(length).encode())
    return {"headers": [told]}


async def allowing(limit: int) -> int:
    return limit


def taken_in(pieces: list[bytes], *, declared: bool, limit: int, stops: bool = False) -> tuple[bytes, int]:
    length = sum(map(len, pieces)) if declared else None

    async def run() -> tuple[Any, int]:
        return await bodies.read(scope(length), receiving(*pieces, stops=stops), lambda: allowing(limit))

    file, size = asyncio.run(run())
    with file:
        return file.read(), size


@pytest.mark.parametrize("declared", [True, False])
def test_without_a_login_a_body_is_small(declared: bool) -> None:
    piece = b"x" * (bodies.ANONYMOUS // 2)
    assert taken_in([piece, piece], declared=declared, limit=bodies.ANONYMOUS) == (piece * 2, 2 * len(piece))
    with pytest.raises(TooLarge):
        taken_in([piece, piece, b"x"], declared=declared, limit=bodies.ANONYMOUS)


def test_a_large_body_goes_to_longshore_home_and_is_gone_when_it_is_read(tmp_path: Any, settings: Any) -> None:
    settings.FILE_UPLOAD_TEMP_DIR = str(tmp_path)
    pieces = [bytes([at]) * (1 << 20) for at in range(5)]
    made: list[Any] = []
    original = bodies._new_file

    def seen() -> Any:
        made.append(original())
        return made[-1]

    bodies._new_file = seen
    try:
        assert taken_in(pieces, declared=False, limit=bodies.UPLOAD) == (b"".join(pieces), 5 << 20)
    finally:
        bodies._new_file = original
    assert len(made) == 1 and made[0].closed


def test_so_many_bodies_are_on_the_disk_and_one_more_is_told(
    tmp_path: Any, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.FILE_UPLOAD_TEMP_DIR = str(tmp_path)
    monkeypatch.setattr(bodies, "ON_DISK", 1)
    first = bodies._new_file()
    with pytest.raises(TooManyAtOnce):
        taken_in([b"x" * (3 << 20)], declared=True, limit=bodies.UPLOAD)
    first.close()
    assert taken_in([b"x" * (3 << 20)], declared=True, limit=bodies.UPLOAD)[1] == 3 << 20


def test_a_body_that_stops_is_too_slow(settings: Any) -> None:
    settings.PATIENCE = 0
    with pytest.raises(TooSlow):
        taken_in([b"x"], declared=False, limit=0, stops=True)


def test_when_bodies_take_too_much_memory_the_first_breaks_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bodies, "IN_MEMORY", 5)

    async def both() -> tuple[Any, Any]:
        first = asyncio.ensure_future(bodies.read(scope(None), receiving(b"123", stops=True), lambda: allowing(0)))
        await asyncio.sleep(0)
        second = await bodies.read(scope(None), receiving(b"123"), lambda: allowing(0))
        return second, (await asyncio.gather(first, return_exceptions=True))[0]

    (file, size), broken = asyncio.run(both())
    assert (file.read(), size) == (b"123", 3) and isinstance(broken, TooSlow)
    assert isinstance(file, io.BytesIO)
