"""Clients who hold what they are given: half a head, half a body, an answer they do not read. Each hundred of them has
an address of its own in 127/8, so that it is not the limit for one address that keeps them out."""

from __future__ import annotations

import select
import socket
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager

from tests.helpers import LIMIT

EACH = 100  # connections from one address
BODY = b"Content-Type: application/x-www-form-urlencoded\r\nContent-Length: 5000\r\n\r\nusername=a"


class Slow:
    """``sent`` is the beginning of a request to ``host``:``port``; what more there is, never comes."""

    def __init__(self, url: str) -> None:
        host, _, port = url.removeprefix("http://").partition(":")
        self._server = (host, int(port))
        self._sockets: list[socket.socket] = []
        self._number = 0

    def half_heads(self, number: int) -> None:
        self.add(number, b"GET /jobs HTTP/1.1\r\nHost: portal\r\nX-Half: ")

    def half_bodies(self, number: int) -> None:
        self.add(number, b"POST /login HTTP/1.1\r\nHost: portal\r\n" + BODY)

    def idle(self, number: int) -> None:
        self.add(number, b"HEAD /healthz HTTP/1.1\r\nHost: portal\r\n\r\n")

    def no_readers(self, number: int, path: str, head: str = "") -> None:
        self.add(number, f"GET {path} HTTP/1.1\r\nHost: portal\r\n{head}\r\n".encode(), window=4096)

    def stalled_uploads(self, number: int, path: Callable[[int], str], head: str) -> None:
        for at in range(number):
            size = "Content-Type: application/octet-stream\r\nContent-Length: 5000\r\n"
            self.add(1, f"PUT {path(at)} HTTP/1.1\r\nHost: portal\r\n{head}{size}\r\n0123456789".encode())

    def add(self, number: int, sent: bytes, window: int = 0) -> None:
        for _ in range(number):
            one = socket.socket()
            self._sockets.append(one)
            if window:
                one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, window)
            block = self._number // EACH
            one.bind((f"127.1.{block // 200}.{block % 200 + 1}", 0))
            one.settimeout(LIMIT)
            one.connect(self._server)
            one.sendall(sent)
            self._number += 1

    def begun(self) -> int:
        """How many have something to read."""
        poll = select.poll()
        for one in self._sockets:
            poll.register(one, select.POLLIN)
        return len(poll.poll(0))

    def closed(self) -> int:
        """How many the portal has closed; what it answered before is read."""
        return sum(map(_is_closed, self._sockets))

    def close(self) -> None:
        for one in self._sockets:
            one.close()
        self._sockets.clear()


@contextmanager
def slow_clients(url: str) -> Iterator[Slow]:
    with closing(Slow(url)) as slow:
        yield slow


def _is_closed(one: socket.socket) -> bool:
    one.setblocking(False)
    try:
        while one.recv(65536):
            pass
    except BlockingIOError:
        return False
    except OSError:
        return True
    return True
