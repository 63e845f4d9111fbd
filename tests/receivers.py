"""Receivers of webhooks for tests: real servers that take, refuse, hang, lead elsewhere and lie."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

import pytest

from jobs.notices import post
from tests.helpers import LIMIT, until


@dataclass(frozen=True, slots=True)
class Received:
    path: str
    headers: Mapping[str, str]
    body: str


@dataclass
class Receiver:
    """A server on a free port of this machine. ``answers`` are what it says to one request after the other, as bytes;
    the last one stays. Of one whose head has no end, such as an empty one, it says no more, and holds the connection
    until the end."""

    answers: list[bytes]
    got: list[Received] = field(default_factory=list)
    holds: threading.Event = field(default_factory=threading.Event)
    port: int = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/in"

    def wait(self, number: int) -> list[Received]:
        until(lambda: len(self.got) >= number, what=f"{number} requests")
        return self.got


def says(status: str = "200 OK", body: str = "", **headers: str) -> bytes:
    lines = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in headers.items())
    return f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\n{lines}\r\n{body}".encode()


@contextmanager
def receiver(*answers: bytes) -> Iterator[Receiver]:
    """It is a thread of this process, and may be slow, so it is waited for."""
    listening, ended = socket.create_server(("127.0.0.1", 0)), threading.Event()
    made = Receiver(list(answers) or [says()], port=listening.getsockname()[1])

    def serve(connection: socket.socket) -> None:
        with connection, connection.makefile("rb") as reading:
            path = reading.readline().split(b" ")[1].decode()
            headers: dict[str, str] = {}
            while (line := reading.readline().strip()) and b":" in line:
                name, _, value = line.decode().partition(":")
                headers[name.lower()] = value.strip()
            body = reading.read(int(headers.get("content-length", 0))).decode()
            answer = made.answers.pop(0) if len(made.answers) > 1 else made.answers[0]
            made.got.append(Received(path, headers, body))
            connection.sendall(answer)
            if b"\r\n\r\n" not in answer:
                made.holds.set()
                ended.wait()

    def listen() -> None:
        while not ended.is_set():
            try:
                connection, _ = listening.accept()
            except OSError:
                return
            threading.Thread(target=_quietly, args=(serve, connection), daemon=True).start()

    thread = threading.Thread(target=listen, daemon=True)
    thread.start()
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(post, "PATIENCE", LIMIT)
            yield made
    finally:
        ended.set()
        listening.shutdown(socket.SHUT_RDWR)
        listening.close()
        thread.join()


def _quietly(serve: Callable[[socket.socket], None], connection: socket.socket) -> None:
    try:
        serve(connection)
    except (OSError, IndexError):
        pass  # the other side has gone
