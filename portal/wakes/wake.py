"""Wake-ups between processes: ``notify`` after a commit, ``Listener.wait`` with a time-out.

On SQLite (one host) each listener binds a datagram socket in LONGSHORE_HOME/run; on PostgreSQL it is LISTEN/NOTIFY. A
wake-up may be lost, doubled or late: every waiter also looks by itself after the time-out, so a lost one costs seconds
and never a job.
"""

from __future__ import annotations

import contextlib
import os
import select
import socket
import tempfile
import uuid
from pathlib import Path
from typing import Any, Literal

from django.conf import settings
from django.db import DatabaseError, connection, transaction

from portal.core import private
from portal.hosts.session import open_session

Topic = Literal["scheduler", "workers", "pages"]
_FOLDER = "wake"  # it has nothing else in it, so a socket without a listener is deleted


def notify(topic: Topic) -> None:
    """Wake every listener of the topic once the current transaction has committed."""
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_notify(%s, '')", [_channel(topic)])
        return
    transaction.on_commit(lambda: _send(topic), robust=True)  # what is committed stays committed if nobody can be woken


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
        return self._wait_postgres(timeout) if self._socket is None else self._wait_socket(timeout)

    def fileno(self) -> int:
        """For event loops on one host: readable when woken."""
        assert self._socket is not None
        return self._socket.fileno()

    def drain(self) -> None:
        assert self._socket is not None
        with contextlib.suppress(BlockingIOError):
            while self._socket.recv(16):
                pass

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

    def _wait_socket(self, timeout: float) -> bool:
        readable, _, _ = select.select([self.fileno()], [], [], max(0.0, timeout))
        if readable:
            self.drain()
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
    """A folder for sockets of one kind. Its path is short, since that of a socket may have 107 bytes at most."""
    folder = settings.HOME / "run" / name
    if len(str(folder)) > 60:
        folder = (
            Path(tempfile.gettempdir())
            / f"longshore-{os.getuid()}-{uuid.uuid5(uuid.NAMESPACE_URL, str(folder)).hex[:12]}"
        )
    return private.folder("LONGSHORE_HOME", folder)  # in a folder that all users write another user could have made it


def _send(topic: Topic) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
        sender.setblocking(False)
        for path in sockets_folder(_FOLDER).glob(f"{topic}.*"):
            try:
                sender.sendto(b".", str(path))
            except BlockingIOError:
                pass  # its buffer is full of wake-ups already
            except (ConnectionRefusedError, FileNotFoundError):
                path.unlink(missing_ok=True)  # its process died without closing
            except OSError:
                pass  # it looks by itself after its time-out
