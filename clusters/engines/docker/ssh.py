"""Speaks SSH with the host of an engine: one login carries sessions in which Docker is reached, and tunnels to its
ports.
"""

from __future__ import annotations

import re
import threading
import time
from pathlib import Path

import paramiko
from docker.transport import SSHHTTPAdapter
from docker.transport.sshconn import SSHConnectionPool

from clusters.engines.docker.errors import FOREIGN
from clusters.engines.docker.ways import CONNECT, DIAL, SSH_SESSIONS
from clusters.engines.faults import short

_LOGINS = threading.BoundedSemaphore(4)
_LOGIN_PAUSES = (0.3, 1.0, 2.0)  # seconds
_DROPPED = re.compile(r"EOFError|ConnectionReset|protocol banner|Connection reset")


class EngineSsh(SSHHTTPAdapter):
    """The library's adapter with deadlines, keep-alive, keys of the node's own and one pool (the library opens one for
    each URL, and every idle connection in it is a session of sshd)."""

    def __init__(self, endpoint: str, folder: Path | None, timeout: float) -> None:
        self._folder = folder
        self._endpoint = endpoint
        self._old: list[paramiko.SSHClient] = []
        self._renewing = threading.Lock()
        super().__init__(endpoint, timeout=timeout, max_pool_size=SSH_SESSIONS)
        self._pool: SSHConnectionPool | None = None

    def _create_paramiko_client(self, base_url: str) -> None:
        super()._create_paramiko_client(base_url)
        if self._folder is not None:
            if (known_hosts := self._folder / "known_hosts").exists():
                self.ssh_client.load_host_keys(str(known_hosts))
            keys = [str(key) for key in self._folder.glob("id_*") if key.suffix != ".pub"]
            self.ssh_params["key_filename"] = [*self.ssh_params.get("key_filename", ()), *keys]
        self.ssh_client.set_missing_host_key_policy(paramiko.RejectPolicy())
        self.ssh_params["port"] = int(self.ssh_params["port"] or 22)
        self.ssh_params.update(timeout=CONNECT, banner_timeout=CONNECT, auth_timeout=CONNECT, channel_timeout=CONNECT)

    def _connect(self) -> None:
        """Opens the connection. A stock sshd drops some logins when more than ten begin at once: only a few are begun
        at a time, and a dropped one is tried again."""
        with _LOGINS:
            for pause in (*_LOGIN_PAUSES, None):
                try:
                    super()._connect()
                    break
                except (EOFError, ConnectionResetError, paramiko.SSHException) as error:
                    if pause is None or not _DROPPED.search(f"{type(error).__name__}: {error}"):
                        raise
                    time.sleep(pause)
        self.ssh_client.get_transport().set_keepalive(10)

    def open_session(self) -> paramiko.Channel:
        """A session of its own. sshd allows few on one connection, and counts those of requests that timed out until
        their command has ended; then a new connection is opened. On a session that did not open nothing was sent."""
        transport = self.ssh_client.get_transport()
        try:
            return transport.open_session(timeout=CONNECT)
        except (paramiko.SSHException, EOFError):
            self._connect_anew(transport)
            return self.ssh_client.get_transport().open_session(timeout=CONNECT)

    def said(self) -> str:
        """What the command that connects to Docker wrote to its errors, once the login has worked. Empty when it wrote
        nothing."""
        try:
            with self.open_session() as channel:
                channel.settimeout(CONNECT)
                channel.exec_command(f"{DIAL} </dev/null")
                words = short(channel.makefile_stderr("rb").read(2000).decode(errors="replace"))
        except FOREIGN:
            return ""
        return f"the login works, but there {DIAL!r} says: {words}" if words else ""

    def tunnel(self, address: str, port: int) -> paramiko.Channel:
        """Return a channel to a TCP port of the host. sshd counts it as no session. Raises paramiko.ChannelException
        when nothing listens there, or when this sshd lets nobody through."""
        transport = self.ssh_client.get_transport()
        if transport is None or not transport.is_active():
            self._connect_anew(transport)
            transport = self.ssh_client.get_transport()
        return transport.open_channel("direct-tcpip", (address, port), ("127.0.0.1", 0), timeout=CONNECT)

    def is_alive(self) -> bool:
        transport = self.ssh_client.get_transport()
        return transport is not None and transport.is_active()

    def _connect_anew(self, failed: paramiko.Transport | None) -> None:
        with self._renewing:
            if self.ssh_client.get_transport() is not failed:
                return  # somebody was quicker
            self._old.append(self.ssh_client)  # others still read from it
            self._create_paramiko_client(self._endpoint)
            self._connect()

    def close(self) -> None:
        super().close()
        for client in self._old:
            client.close()

    def get_connection(self, url: str, proxies: object = None) -> SSHConnectionPool:
        with self.pools.lock:
            if self._pool is None:
                self._pool = SSHConnectionPool(timeout=self.timeout, maxsize=SSH_SESSIONS)
                self._pool.ssh_transport = self  # whose ``open_session`` is what its connections ask for
                self._pool.block = True
            return self._pool
