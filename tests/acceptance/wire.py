"""A way to a server on which what is sent can be held, so that a test breaks something in the middle of it."""

from __future__ import annotations

import socket
import threading
from contextlib import suppress

from tests.helpers import LIMIT


class Wire:
    """Whoever connects to ``address`` speaks with the server. ``passed``: bytes, both ways."""

    def __init__(self, server: tuple[str, int]) -> None:
        self.passed = 0
        self._server = server
        self._most: int | None = None
        self._changed = threading.Condition()
        self._over = self._is_cut = False
        self._sockets: list[socket.socket] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = "{}:{}".format(*self._listener.getsockname())
        threading.Thread(target=self._accept, daemon=True).start()

    def hold(self, after: int) -> None:
        """So many bytes pass from now on; what is more stays on the way."""
        with self._changed:
            self._most = self.passed + after

    def let_go(self) -> None:
        with self._changed:
            self._most = None
            self._changed.notify_all()

    def cut(self) -> None:
        """The server is away: what is open breaks, and nobody gets through until ``mend``."""
        self._is_cut = True
        for one in self._sockets:
            _end(one)

    def mend(self) -> None:
        self._is_cut = False

    def close(self) -> None:
        with self._changed:
            self._over = True
            self._changed.notify_all()
        for one in (self._listener, *self._sockets):
            _end(one)

    def _accept(self) -> None:
        with suppress(OSError):  # it is closed
            while True:
                here, _ = self._listener.accept()
                if self._is_cut:
                    _end(here)
                    continue
                self._sockets.append(here)
                try:
                    there = socket.create_connection(self._server, LIMIT)
                except OSError:
                    _end(here)
                    continue
                there.settimeout(None)
                self._sockets.append(there)
                for source, target in ((here, there), (there, here)):
                    threading.Thread(target=self._pass_on, args=(source, target), daemon=True).start()

    def _pass_on(self, source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError):
            while piece := source.recv(65536):
                with self._changed:
                    self._changed.wait_for(lambda: self._over or self._most is None or self.passed < self._most)
                    self.passed += len(piece)
                target.sendall(piece)
        for one in (source, target):
            _end(one)


def _end(one: socket.socket) -> None:
    with suppress(OSError):
        one.shutdown(socket.SHUT_RDWR)
    one.close()
