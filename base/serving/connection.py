"""uvicorn's connection with limits, so that a client who is slow, idle or many takes nothing from the others.

Time: the head of a request may take PATIENCE seconds, also when it trickles in. Of an answer something must be taken in
SENDING times as many; an application may grant more to a client it knows (``be_patient``). Size: of a head. Number: of
one address, and of all; when all places are taken, the connection that has waited longest for its client makes room.
"""

from __future__ import annotations

import asyncio
import ipaddress
import re
import resource
import socket
import struct
import time
from collections import Counter
from email.utils import formatdate
from functools import cache, lru_cache
from typing import Any

from django.conf import settings
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

HEAD_BYTES = 64 * 1024  # of a request's head; of what surrounds the pieces of a body
MANY = "There are too many connections from your address. Close some, or wait."
_OTHER_PROTOCOL = "A request with a body cannot ask for another protocol. Send it without Upgrade, as HTTP/1.1."
SENDING = 3
LEAST_TAKEN = 4096  # bytes
_UNSENT = 128 * 1024  # bytes of an answer that wait for the client in the kernel; it would take megabytes
_AT_ONCE = struct.pack("ii", 1, 0)  # SO_LINGER: what the client has not taken is dropped
_REFUSAL = b"HTTP/1.1 %b\r\nContent-Type: text/plain\r\nContent-Length: %d\r\nConnection: close\r\n\r\n"
_PATIENCE = "longshore.patience"
_LAST_LOOK = 0.05  # seconds in which what came before an idle connection is closed is read
_BEYOND_ASCII = re.compile(rb"[\x80-\xff]")
_FILES_EACH = 2  # open files a connection may need: itself, and what it reads or writes


class Connection(HttpToolsProtocol):
    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._timer: asyncio.TimerHandle | None = None
        self._left = 0  # bytes of the answer not yet taken when the timer was set
        self._surplus = 0  # bytes that came and were no body
        self._between = True  # what comes next is the first line of a request

    # --- what asyncio tells ------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        _socket(transport).setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, _UNSENT)
        if refusal := crowd.join(self, group(self.client[0] if self.client else "")):
            self._refuse(b"503 Service Unavailable", refusal)
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        self._leave()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        self._surplus += len(data)
        self.server_state.default_headers = _dated(int(time.time()))  # also of what is refused before it is read
        super().data_received(_quoted(data) if self._between else data)
        if self._surplus > HEAD_BYTES and not self.transport.is_closing():
            self._refuse(b"431 Request Header Fields Too Large", "The head of the request is too long.")

    def pause_writing(self) -> None:
        super().pause_writing()
        self._watch()

    def resume_writing(self) -> None:
        super().resume_writing()
        self._watch()

    # --- what the parser and the answer tell -------------------------------------------------------------------------

    def on_message_begin(self) -> None:
        self._between = False
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        if self.parser.should_upgrade() and not self._should_upgrade() and self._has_body():
            # The parser takes what follows for another protocol, and then for the next request. A proxy in front takes
            # it for the body: it would give the answer to somebody else, or send their request as the rest of it.
            self._refuse(b"400 Bad Request", _OTHER_PROTOCOL)
            return
        super().on_headers_complete()
        self._watch()

    def on_body(self, body: bytes) -> None:
        self._surplus = max(0, self._surplus - 8 * len(body))  # a chunk of one byte comes with five around it
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._surplus, self._between = 0, True
        if self.cycle is not None:  # else it was refused
            super().on_message_complete()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._watch()

    def timeout_keep_alive_handler(self) -> None:
        """A loop that stood still, on a machine without room for it, finds the time over and the next request in the
        socket: what has come is read first, and calls the timer off."""
        self.timeout_keep_alive_task = self.loop.call_later(_LAST_LOOK, super().timeout_keep_alive_handler)

    def handle_websocket_upgrade(self) -> None:
        self._leave()  # what follows has another protocol, and a user
        super().handle_websocket_upgrade()

    # --- waiting for the client --------------------------------------------------------------------------------------

    def _watch(self) -> None:
        """Call when it may have changed whether we wait for the client."""
        is_idle = self._is_idle()
        crowd.note(self, is_idle=is_idle)
        if not is_idle and not self.flow.write_paused:
            self._unset()
        elif self._timer is None:
            self._set()

    def _set(self) -> None:
        self._left = self.transport.get_write_buffer_size()
        seconds = settings.PATIENCE
        if self._left and self.scope:
            seconds = self.scope["state"].get(_PATIENCE, SENDING * seconds)
        self._timer = self.loop.call_later(seconds, self._look)

    def _unset(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _look(self) -> None:
        left = self.transport.get_write_buffer_size()
        if 0 < left <= self._left - LEAST_TAKEN:
            self._set()
        else:
            self._abort()

    def _abort(self) -> None:
        """close() would wait for the client to take the rest, and so would the kernel."""
        _socket(self.transport).setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _AT_ONCE)
        self.transport.abort()

    def _leave(self) -> None:
        self._unset()
        crowd.leave(self)

    def _refuse(self, status: bytes, words: str) -> None:
        if not self._is_idle():
            self._abort()  # its answer may have begun
            return
        body = words.encode()
        self.transport.write(_REFUSAL % (status, len(body)) + body)
        self.transport.close()

    def _has_body(self) -> bool:
        return any(
            name == b"transfer-encoding" or (name == b"content-length" and value != b"0")
            for name, value in self.headers
        )

    def _is_idle(self) -> bool:
        return self.cycle is None or self.cycle.response_complete


class ConnectedClients:
    """Everybody who is connected to this process."""

    def __init__(self) -> None:
        self._address_of: dict[Connection, str] = {}
        self._number_of: Counter[str] = Counter()
        self._idle: dict[Connection, None] = {}  # who waits for a request, the longest first

    def join(self, connection: Connection, address: str) -> str:
        """Return why it cannot, or nothing."""
        if self._number_of[address] >= settings.CONNECTIONS_PER_ADDRESS and not _is_proxy(address):
            return MANY
        if len(self._address_of) >= _places():
            longest = next(iter(self._idle), None)
            if longest is None:
                return "There are too many connections. Try again later."
            self.leave(longest)
            longest._abort()
        self._address_of[connection] = address
        self._number_of[address] += 1
        return ""

    def note(self, connection: Connection, *, is_idle: bool) -> None:
        if not is_idle:
            self._idle.pop(connection, None)
        elif connection in self._address_of:
            self._idle.setdefault(connection)

    def leave(self, connection: Connection) -> None:
        self._idle.pop(connection, None)
        address = self._address_of.pop(connection, None)
        if address is not None:
            self._number_of[address] -= 1
            if not self._number_of[address]:
                del self._number_of[address]


crowd = ConnectedClients()


def be_patient(scope: Any, seconds: float) -> None:
    """Wait so long for who takes the answer to this request."""
    scope["state"][_PATIENCE] = seconds


def _quoted(data: bytes) -> bytes:
    """The head of a request with only ASCII in its first line: some clients write names there as they are, in UTF-8,
    and the parser takes them quoted only."""
    if data.isascii():
        return data
    line, end, rest = data.partition(b"\n")
    return _BEYOND_ASCII.sub(lambda found: b"%%%02X" % ord(found[0]), line) + end + rest


@lru_cache(maxsize=1)
def _dated(second: int) -> list[tuple[bytes, bytes]]:
    """The headers of each answer begun then."""
    return [(b"date", formatdate(second, usegmt=True).encode())]


def _socket(transport: asyncio.Transport) -> Any:
    return transport.get_extra_info("socket")


@cache
def _places() -> int:
    """No more than the files that the process may open leave room for."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return min(settings.CONNECTIONS, hard // _FILES_EACH)


def group(address: str) -> str:
    """An IPv6 client has a whole network of addresses: it counts as one."""
    if ":" not in address or address.startswith("::ffff:"):
        return address
    return str(ipaddress.ip_network((address.partition("%")[0], 64), strict=False))


def _is_proxy(address: str) -> bool:
    """One that has many behind it: portal.asgi counts their requests."""
    if not settings.TRUSTED_PROXIES:
        return False
    network = ipaddress.ip_network(address)
    return any(network.version == each.version and network.overlaps(each) for each in settings.TRUSTED_PROXIES)


def trusting_proxies(application: Any) -> Any:
    """The ASGI application behind the proxies that LONGSHORE_TRUSTED_PROXIES names: every part of it sees the address
    and the scheme that a client came with. Headers of anybody else say nothing."""

    async def behind(scope: Any, receive: Any, send: Any) -> None:
        client = scope.get("client")
        if client and not _is_address(client[0]):
            scope["client"] = None  # a proxy may say "unknown"
        await application(scope, receive, send)

    return ProxyHeadersMiddleware(behind, [str(network) for network in settings.TRUSTED_PROXIES])


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True
