"""Reads a log from the connection to an engine, and ends it well: when it is closed, and when the engine goes away."""

from __future__ import annotations

import select
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import Any

from clusters.engines.runtime import LogChunk, RuntimeFault


class LogStream(Iterator[LogChunk], ABC):
    """A log that is being read. ``close`` may come from any thread: then the reader ends.

    ``foreign``: what the engine's libraries raise when the connection breaks."""

    def __init__(self, *, follow: bool, foreign: tuple[type[Exception], ...]) -> None:
        self._follow, self._foreign = follow, foreign
        self._closing = threading.Lock()
        self._closed = False
        self._chunks = self._read()

    def __next__(self) -> LogChunk:
        try:
            return next(self._chunks)
        except StopIteration:
            self.close()
            raise
        except Exception as error:
            # Closed by another thread, or the engine went away under a follower: both are an end. But half of a log
            # must not pass for the whole of it.
            is_end = self._closed or (self._follow and isinstance(error, self._foreign))
            self.close()
            if is_end:
                raise StopIteration from None
            if isinstance(error, RuntimeFault):
                raise
            raise self._fault(error) from error

    def close(self) -> None:
        with self._closing:
            if self._closed:
                return
            self._closed = True
        self._hang_up()

    @abstractmethod
    def _read(self) -> Iterator[LogChunk]:
        """The chunks. Any error of it but RuntimeFault is translated by ``_fault``."""

    @abstractmethod
    def _hang_up(self) -> None:
        """Close the connection; a reader that waits in another thread is woken."""

    @abstractmethod
    def _fault(self, error: Exception) -> RuntimeFault: ...


def more_waiting(connection: Any) -> Callable[[], bool]:
    """Whether more has arrived already. ``connection`` is a socket, plain or of TLS, or a channel of SSH; None when
    nobody knows it. A wrong no only makes a chunk smaller."""
    if connection is None:
        return lambda: False
    if hasattr(connection, "recv_ready"):  # SSH
        return lambda: bool(connection.recv_ready())
    poll = select.poll()
    poll.register(connection, select.POLLIN)
    decrypted = getattr(connection, "pending", int)  # bytes that TLS has taken from the socket
    return lambda: bool(decrypted()) or bool(poll.poll(0))
