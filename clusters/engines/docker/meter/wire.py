"""HTTP connections to an engine for whoever samples it: ``http.client`` over unix, tcp with TLS, and SSH.

The docker library takes a millisecond of CPU a request and 20 MB; here a question costs a tenth. The rules of
``docker.connect`` hold: nothing is taken from the process's environment, and an address that is not this host needs
keys.
"""

from __future__ import annotations

import http.client
import os
import socket
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from clusters.engines.runtime import FaultReason, RuntimeFault

CONNECT = 5.0  # seconds
MOST_OF_AN_ANSWER = 1 << 20  # bytes
WIDE, WIDE_SSH = 16, 6  # connections at once; a stock sshd allows ten sessions on one connection
LOOPBACK = ("localhost", "127.0.0.1", "::1")
SWITCHED = 101  # the status of an answer that is a raw stream
TROUBLE = (OSError, http.client.HTTPException, EOFError)

Opener = Callable[[], "Wire"]


class Wire(http.client.HTTPConnection):
    """One kept connection. ``open_socket`` gives a connected socket, or what behaves like one."""

    def __init__(self, open_socket: Callable[[], Any], timeout: float = CONNECT) -> None:
        super().__init__("longshore", timeout=timeout)
        self._open_socket = open_socket

    def connect(self) -> None:
        self.sock = self._open_socket()

    def patience(self, seconds: float) -> None:
        """How long the next answer may take."""
        if self.sock is None:
            self.connect()
        self.sock.settimeout(max(0.05, seconds))

    def ask(self, path: str, body: bytes | None = None, *, raw: bool = False) -> None:
        """Send a question; ``answer`` reads what comes back. ``raw``: what follows the answer's head is no HTTP."""
        headers = {"Content-Type": "application/json"} if body is not None else {}
        if raw:
            headers |= {"Connection": "Upgrade", "Upgrade": "tcp"}
        self.request("GET" if body is None else "POST", path, body, headers)

    def answer(self, most: int = MOST_OF_AN_ANSWER) -> tuple[int, bytes]:
        """The status and the body. An answer longer than ``most`` bytes is cut, and the connection ends; so it does
        after a raw one."""
        response = self.getresponse()
        is_raw = response.status == SWITCHED
        read = (response.fp if is_raw else response).read(most + 1)
        if is_raw or len(read) > most or not response.isclosed():
            self.close()
        return response.status, read[:most]


class Wires:
    """How to reach one engine. ``folder``: its TLS or SSH keys, as for ``docker.runtime.connect``."""

    def __init__(self, endpoint: str, folder: Path | None) -> None:
        address = urlsplit(endpoint)
        self.endpoint = endpoint
        self.wide = WIDE_SSH if address.scheme == "ssh" else WIDE
        self._folder = folder
        self._adapter: Any = None
        self._tls: ssl.SSLContext | None = None
        self._host, self._port, self._path = address.hostname or "", address.port or 0, address.path
        self._open = {"unix": self._unix, "tcp": self._tcp, "ssh": self._ssh}[address.scheme]

    def open(self) -> Wire:
        return Wire(self._open)

    def forget(self) -> None:
        """Drop what all connections share, after one has broken."""
        adapter, self._adapter = self._adapter, None
        if adapter is not None:
            adapter.close()

    def _unix(self) -> socket.socket:
        connection = socket.socket(socket.AF_UNIX)
        connection.settimeout(CONNECT)
        try:
            connection.connect(self._path)
        except OSError:
            connection.close()
            raise
        return connection

    def _tcp(self) -> socket.socket:
        if self._folder is None and self._host not in LOOPBACK:
            raise unreachable(self.endpoint, "it needs TLS keys")
        plain = socket.create_connection((self._host, self._port), CONNECT)
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if self._folder is None:
            return plain
        try:
            return self._context().wrap_socket(plain, server_hostname=self._host)
        except BaseException:
            plain.close()
            raise

    def _context(self) -> ssl.SSLContext:
        if self._tls is None:
            assert self._folder is not None
            self._tls = ssl.create_default_context(cafile=str(self._folder / "ca.pem"))
            self._tls.load_cert_chain(self._folder / "cert.pem", self._folder / "key.pem")
        return self._tls

    def _ssh(self) -> Any:
        from clusters.engines.docker import connect  # late: it loads the libraries of Docker and SSH

        if self._adapter is None:
            self._adapter = connect.ssh_adapter(self.endpoint, self._folder, CONNECT)
        channel = self._adapter.session()
        channel.settimeout(CONNECT)
        channel.exec_command(connect.DIAL)
        return channel


def unreachable(endpoint: str, why: object) -> RuntimeFault:
    said = f"{os.strerror(why.errno)}" if isinstance(why, OSError) and why.errno else str(why)
    return RuntimeFault(f"The Docker engine at {endpoint} cannot be measured: {said}", reason=FaultReason.UNREACHABLE)
