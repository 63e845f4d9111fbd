"""Reads a log from the connection to an engine, and ends it well: when it is closed, and when the engine goes away."""

from __future__ import annotations

import select
import threading
from collections.abc import Callable, Iterator
from typing import Any

from clusters.engines.runtime import LogChunk, RuntimeFault


class LogStream(Iterator[LogChunk]):
    """A log that is being read. ``close`` may come from any thread: then the reader ends.

    ``chunks`` reads it, and ``fault`` translates any error of that but RuntimeFault. ``hang_up`` closes the connection;
    a reader that waits in another thread is woken. ``foreign``: what the engine's libraries raise when the connection
    breaks."""

    def __init__(
        self,
        chunks: Iterator[LogChunk],
        hang_up: Callable[[], None],
        fault: Callable[[Exception], RuntimeFault],
        *,
        follow: bool,
        foreign: tuple[type[Exception], ...],
    ) -> None:
        self._chunks, self._hang_up, self._fault = chunks, hang_up, fault
        self._follow, self._foreign = follow, foreign
        self._closing = threading.Lock()
        self._closed = False

    def __next__(self) -> LogChunk:
        try:
            chunk = next(self._chunks)
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
        if self._closed:  # what a broken connection left is no whole chunk
            raise StopIteration
        return chunk

    def close(self) -> None:
        with self._closing:
            if self._closed:
                return
            self._closed = True
        self._hang_up()


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
