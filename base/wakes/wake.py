"""Wake-ups between processes: ``notify`` after a commit, ``Listener.wait`` with a time-out.

On SQLite (one host) each listener binds a datagram socket in LONGSHORE_HOME/run; on PostgreSQL it is LISTEN/NOTIFY. A
wake-up may be lost, doubled or late: every waiter also looks by itself after the time-out, so a lost one costs seconds
and never a job. The live streams of a process share one listener, the ``hub``.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import select
import socket
import tempfile
import threading
import uuid
from collections.abc import Collection
from pathlib import Path
from typing import Any, Literal

from django.conf import settings
from django.db import DatabaseError, connection, transaction

from base.core import private
from base.core.threads import KeptThread
from base.hosts.session import open_session

Topic = Literal["scheduler", "workers", "pages"]
_FOLDER = "wake"  # it has nothing else in it, so a socket without a listener is deleted
POLL = 5.0  # seconds after which live streams look without a wake-up


def notify(*topics: Topic) -> None:
    """Wake every listener of these topics once the current transaction has committed."""
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            notices = ", ".join(["pg_notify(%s, '')"] * len(topics))
            cursor.execute(f"SELECT {notices}", [_channel(topic) for topic in topics])
        return
    # What is committed stays committed if nobody can be woken.
    transaction.on_commit(lambda: _send(topics), robust=True)


class Listener:
    """Waits for wake-ups of one topic. Several wake-ups between two waits count as one."""

    def __init__(self, topic: Topic) -> None:
        self.topic = topic
        self._postgres: Any = None
        self._socket: socket.socket | None = None
        self._path: Path | None = None
        if connection.vendor != "postgresql":
            self._bind()

    def wait(self, timeout: float) -> bool:
        """True when woken, False when the time is over. The wait itself never raises."""
        return self._wait_socket(self._socket, timeout) if self._socket else self._wait_postgres(timeout)

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()
        if self._path is not None:
            self._path.unlink(missing_ok=True)
        if self._postgres is not None:
            self._postgres.close()

    def _bind(self) -> None:
        self._path = sockets_folder(_FOLDER) / f"{self.topic}.{os.getpid()}.{uuid.uuid4().hex[:8]}"
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.setblocking(False)
        self._socket.bind(str(self._path))

    def _wait_socket(self, listening: socket.socket, timeout: float) -> bool:
        readable, _, _ = select.select([listening], [], [], max(0.0, timeout))
        with contextlib.suppress(BlockingIOError):
            while listening.recv(16):
                pass
        return bool(readable)

    def _wait_postgres(self, timeout: float) -> bool:
        import psycopg  # only where PostgreSQL is in use

        try:
            if self._postgres is None:
                self._postgres = open_session()
                self._postgres.execute(f'LISTEN "{_channel(self.topic)}"')
                return True  # what was sent before we listened
            return any(True for _ in self._postgres.notifies(timeout=timeout, stop_after=1))
        except (psycopg.Error, DatabaseError):
            self._postgres = None
            select.select([], [], [], min(timeout, 1.0))
            return True


def _channel(topic: Topic) -> str:
    return f"longshore_{topic}"


def sockets_folder(name: str) -> Path:
    """A folder for sockets of one kind."""
    return private.folder("LONGSHORE_HOME", _place(name))  # in /tmp another user could have made it


def _place(name: str) -> Path:
    """Its path is short, since that of a socket may have 107 bytes at most."""
    folder: Path = settings.HOME / "run" / name
    if len(str(folder)) > 60:
        short = f"longshore-{os.getuid()}-{uuid.uuid5(uuid.NAMESPACE_URL, str(folder)).hex[:12]}"
        folder = Path(tempfile.gettempdir(), short)
    return folder


def _send(topics: Collection[Topic]) -> None:
    if not _place(_FOLDER).exists():  # nobody has listened yet
        return
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
        sender.setblocking(False)
        folder = str(sockets_folder(_FOLDER))
        for name in os.listdir(folder):
            if name.partition(".")[0] not in topics:
                continue
            try:
                sender.sendto(b".", f"{folder}/{name}")
            except BlockingIOError:
                pass  # its buffer is full of wake-ups already
            except (ConnectionRefusedError, FileNotFoundError):
                Path(folder, name).unlink(missing_ok=True)  # its process died without closing
            except OSError:
                pass  # it looks by itself after its time-out


class Hub:
    """One listener for all live streams of a process: it wakes them when another process reports that pages have
    changed. Its thread runs only while there are streams."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: dict[asyncio.Event, asyncio.AbstractEventLoop] = {}
        self._thread: KeptThread | None = None
        self._listener: Listener | None = None

    def join(self, loop: asyncio.AbstractEventLoop, woken: asyncio.Event) -> None:
        with self._lock:
            self._waiting[woken] = loop
            if self._thread is None:
                self._thread = KeptThread("pages", self._step, longest=6 * POLL)
            self._thread.ensure_running()

    def leave(self, woken: asyncio.Event) -> None:
        with self._lock:
            self._waiting.pop(woken, None)

    def _step(self) -> None:
        if self._wake_all():
            if self._listener is None:
                self._listener = Listener("pages")
            self._listener.wait(POLL)

    def _wake_all(self) -> bool:
        """Wake all streams. False when there are none any more; then the thread ends."""
        with self._lock:
            for woken, loop in list(self._waiting.items()):
                try:
                    loop.call_soon_threadsafe(woken.set)
                except RuntimeError:  # that loop is closed
                    del self._waiting[woken]
            if not self._waiting and self._thread is not None:
                self._thread.stop()
                self._thread = None
                if self._listener is not None:
                    self._listener.close()
                    self._listener = None
            return bool(self._waiting)


hub = Hub()
