"""Opens connections to engines: ``unix://``, ``tcp://`` with mutual TLS, ``ssh://``. Each gives clients of the docker
library.

A client has one timeout and one pool, so an engine gets several: one for quick questions, one for slow work (pull,
create, stop, streams), and over SSH one connection for each piece of slow work, because an HTTP connection is an SSH
session there and a stock sshd allows ten of them on one connection.
"""

from __future__ import annotations

import os
import re
import socket
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import paramiko
import requests.adapters
from docker import APIClient
from docker.errors import APIError, create_api_error_from_http_exception
from docker.tls import TLSConfig
from docker.transport import SSHHTTPAdapter
from docker.transport.sshconn import SSHConnection, SSHConnectionPool

from clusters.engines.docker.errors import FOREIGN
from clusters.engines.faults import short
from clusters.engines.runtime import FaultReason, RuntimeFault

API_VERSION = "1.41"  # Docker 20.10, the oldest engine supported; asking for a fixed one costs no request
CONNECT = 5.0  # seconds
QUICK = 15.0
SLOW = 120.0  # create and start take seconds on a busy host
POOL = 64
MOST_OF_AN_ANSWER = 256 << 20  # bytes; a list of 10,000 containers has a tenth of that
SSH_SESSIONS = 6  # below the 10 of a stock sshd
DIAL = "docker system dial-stdio"
_LOGINS = threading.BoundedSemaphore(4)
_LOGIN_PAUSES = (0.3, 1.0, 2.0)  # seconds
_DROPPED = re.compile(r"EOFError|ConnectionReset|protocol banner|Connection reset")
KEEP_ALIVE = [
    (socket.IPPROTO_TCP, socket.TCP_NODELAY, 1),
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 30),
    (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 10),
    (socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 3),
]
LOOPBACK = ("localhost", "127.0.0.1", "::1")


class Ways:
    """The clients of one engine, opened at first use. ``folder`` has ca.pem, cert.pem, key.pem for tcp. For ssh it may
    have a private key (id_*) and known_hosts, which are used beside those in the user's own ~/.ssh."""

    def __init__(self, endpoint: str, folder: Path | None = None, *, timeout: float = QUICK) -> None:
        self._endpoint = endpoint
        self._folder = folder
        self._timeout = timeout
        self._ssh = endpoint.startswith("ssh://")
        self._begin()

    def _begin(self) -> None:
        self._process = os.getpid()
        self._lock = threading.Lock()
        self._kept: dict[str, APIClient] = {}
        self._users: Counter[APIClient] = Counter()
        self._retired: set[APIClient] = set()  # closed by the last who uses it
        self._version = ""

    @contextmanager
    def quick(self) -> Iterator[APIClient]:
        client = self._keep("quick", self._timeout)
        with self._lock:
            self._users[client] += 1
        try:
            yield client
        except FOREIGN as error:
            if self._ssh and not isinstance(error, APIError):
                self._retire("quick", client)  # only a new connection gets through after one broke
            raise
        finally:
            self._leave(client)

    def tunnel(self, address: str, port: int) -> paramiko.Channel | None:
        """A channel to a port of the host, over SSH; None where the engine is reached in another way."""
        return _ssh_adapter(self._keep("tunnels", self._timeout)).tunnel(address, port) if self._ssh else None

    @contextmanager
    def slow(self) -> Iterator[APIClient]:
        """For calls that may take long; over SSH leaving the block ends the connection."""
        if not self._ssh:
            yield self._keep("slow", SLOW)
            return
        client = self._client(SLOW)
        try:
            yield client
        finally:
            client.close()

    def _keep(self, purpose: str, timeout: float) -> APIClient:
        if self._process != os.getpid():
            self._begin()  # forked: the parent's connections are the parent's
        with self._lock:
            if purpose in self._kept:
                return self._kept[purpose]
        made = self._client(timeout)
        with self._lock:
            kept = self._kept.setdefault(purpose, made)
        if kept is not made:
            made.close()
        return kept

    def _retire(self, purpose: str, client: APIClient) -> None:
        """No new caller gets this client. Calls that use it just now go on: one slow answer is no reason for others to
        fail."""
        with self._lock:
            if self._kept.get(purpose) is client:
                del self._kept[purpose]
            self._retired.add(client)

    def _leave(self, client: APIClient) -> None:
        with self._lock:
            self._users[client] -= 1
            over = self._users[client] <= 0
            if over:
                del self._users[client]
            closes = over and client in self._retired
            if closes:
                self._retired.discard(client)
        if closes:
            client.close()

    def _client(self, timeout: float) -> APIClient:
        client = open_client(self._endpoint, self._folder, self._version or API_VERSION, timeout)
        if self._version:
            return client
        try:
            self._version = wanted_version(client)
        except FOREIGN as error:
            said = said_over_ssh(client) if self._ssh and not isinstance(error, APIError) else ""
            client.close()
            if said:
                raise _unreachable(self._endpoint, said) from error
            raise
        except BaseException:
            client.close()
            raise
        if self._version == API_VERSION:
            return client
        client.close()
        return open_client(self._endpoint, self._folder, self._version, timeout)


def wanted_version(client: APIClient) -> str:
    """The version of Docker's API to speak: ours, or the engine's oldest when that is newer."""
    answer = checked(client.get(f"{client.base_url}/version", timeout=(CONNECT, client.timeout))).json()
    if "ApiVersion" not in answer:
        raise RuntimeFault("What answers there is no Docker engine.", reason=FaultReason.UNREACHABLE, permanent=True)
    oldest, newest = str(answer.get("MinAPIVersion") or "1.12"), str(answer["ApiVersion"])
    if _number(newest) < _number(API_VERSION):
        raise RuntimeFault(
            f"The engine is Docker {answer.get('Version', '?')}; Longshore needs 20.10 or newer.",
            reason=FaultReason.REFUSED,
            permanent=True,
        )
    return oldest if _number(oldest) > _number(API_VERSION) else API_VERSION


def said_over_ssh(client: APIClient) -> str:
    """What the command that connects to Docker over SSH wrote to its errors, once the login has worked. Empty when it
    wrote nothing."""
    try:
        with _ssh_adapter(client).session() as channel:
            channel.settimeout(CONNECT)
            channel.exec_command(f"{DIAL} </dev/null")
            words = short(channel.makefile_stderr("rb").read(2000).decode(errors="replace"))
    except FOREIGN:
        return ""
    return f"the login works, but there {DIAL!r} says: {words}" if words else ""


def url(api: APIClient, path: str) -> str:
    return f"{api.base_url}/v{api.api_version}{path}"


def ask(
    api: APIClient, path: str, params: dict[str, Any] | None = None, *, timeout: float | None = None
) -> requests.Response:
    """A GET with the client's own timeout, which the library's session does not apply by itself."""
    return checked(api.get(url(api, path), params=params, timeout=(CONNECT, timeout or api.timeout)))


def checked(response: requests.Response) -> requests.Response:
    """Raises docker's APIError for an answer that reports an error."""
    try:
        response.raise_for_status()
    except requests.HTTPError as error:
        create_api_error_from_http_exception(error)
    return response


def open_client(endpoint: str, folder: Path | None, version: str, timeout: float) -> APIClient:
    """A client that takes nothing from the process's environment: REQUESTS_CA_BUNDLE would override the node's own
    CA."""
    try:
        address = urlsplit(endpoint)
        scheme, _ = address.scheme, address.port
    except ValueError:
        raise _bad_endpoint(f"{endpoint} is not an address.") from None
    if scheme in ("tcp", "ssh") and not address.hostname:
        raise _bad_endpoint(f"{endpoint} names no host.")
    if scheme == "ssh":
        client = _ssh_client(endpoint, folder, version, timeout)
    elif scheme == "tcp":
        client = _tcp_client(endpoint, folder, version, timeout)
    elif scheme == "unix":
        client = APIClient(endpoint, version=version, timeout=timeout, max_pool_size=POOL)
    else:
        raise _bad_endpoint(f"An engine's endpoint begins with unix://, tcp:// or ssh://, not as in {endpoint}.")
    client.trust_env = False
    client.hooks["response"].append(_bounded)
    return client


def _bounded(response: requests.Response, *_: Any, stream: bool = False, **__: Any) -> None:
    """Read an answer that is no stream. One host that sends without end must not fill the portal's memory."""
    read, size = [], 0
    for part in () if stream else response.iter_content(1 << 16):
        read.append(part)
        size += len(part)
        if size > MOST_OF_AN_ANSWER:
            response.close()
            says = f"The engine's answer has more than {MOST_OF_AN_ANSWER >> 20} MB."
            raise RuntimeFault(says, reason=FaultReason.UNREACHABLE)
    if not stream:
        response._content = b"".join(read)


def _tcp_client(endpoint: str, folder: Path | None, version: str, timeout: float) -> APIClient:
    if folder is None:
        if urlsplit(endpoint).hostname not in LOOPBACK:
            raise _bad_endpoint(f"{endpoint} needs TLS keys: an engine without TLS gives root to the whole network.")
        return APIClient(endpoint, version=version, timeout=timeout)
    tls = TLSConfig(
        client_cert=(str(folder / "cert.pem"), str(folder / "key.pem")), ca_cert=str(folder / "ca.pem"), verify=True
    )
    client = APIClient(endpoint.replace("tcp://", "https://", 1), version=version, timeout=timeout, tls=tls)
    client.mount("https://", _TcpAdapter(pool_maxsize=POOL))
    return client


def _ssh_client(endpoint: str, folder: Path | None, version: str, timeout: float) -> APIClient:
    adapter = _SSHAdapter(endpoint, folder, timeout)
    client = APIClient("unix:///nowhere", version=version, timeout=timeout)  # opened at first use only: never
    client.mount("http+docker://ssh", adapter)
    client.base_url = "http+docker://ssh"
    return client


def ssh_adapter(endpoint: str, folder: Path | None, timeout: float) -> _SSHAdapter:
    """An SSH connection to the host of an engine; ``session`` opens a channel on it."""
    return _SSHAdapter(endpoint, folder, timeout)


class _TcpAdapter(requests.adapters.HTTPAdapter):
    """With TCP's keep-alive: a follower of a log may wait for hours, and must notice a node without power."""

    def init_poolmanager(self, *args: Any, **kwargs: Any) -> None:
        super().init_poolmanager(*args, **kwargs, socket_options=KEEP_ALIVE)


class _SSHConnection(SSHConnection):
    def __init__(self, adapter: _SSHAdapter, timeout: float) -> None:
        super().__init__(timeout=timeout, host="localhost")
        self._adapter = adapter

    def connect(self) -> None:
        self.sock = self._adapter.session()
        self.sock.settimeout(self.timeout)
        self.sock.exec_command(DIAL)


class _SSHPool(SSHConnectionPool):
    def __init__(self, adapter: _SSHAdapter, timeout: float, size: int) -> None:
        super().__init__(timeout=timeout, maxsize=size)
        self._adapter = adapter

    def _new_conn(self) -> _SSHConnection:
        return _SSHConnection(self._adapter, self.timeout)


class _SSHAdapter(SSHHTTPAdapter):
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

    def session(self) -> paramiko.Channel:
        """A session of its own. sshd allows few on one connection, and counts those of requests that timed out until
        their command has ended; then a new connection is opened. On a session that did not open nothing was sent."""
        transport = self.ssh_client.get_transport()
        try:
            return transport.open_session(timeout=CONNECT)
        except (paramiko.SSHException, EOFError):
            self._connect_anew(transport)
            return self.ssh_client.get_transport().open_session(timeout=CONNECT)

    def tunnel(self, address: str, port: int) -> paramiko.Channel:
        """A channel to a TCP port of the host. sshd counts it as no session. Raises paramiko.ChannelException when
        nothing listens there, or when this sshd lets nobody through."""
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
                self._pool = _SSHPool(self, self.timeout, SSH_SESSIONS)
                self._pool.block = True
            return self._pool


def _number(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))


def _ssh_adapter(client: APIClient) -> _SSHAdapter:
    adapter: _SSHAdapter = client.get_adapter(client.base_url)
    return adapter


def _unreachable(endpoint: str, why: str) -> RuntimeFault:
    return RuntimeFault(f"The Docker engine at {endpoint} cannot be reached: {why}", reason=FaultReason.UNREACHABLE)


def _bad_endpoint(sentence: str) -> RuntimeFault:
    return RuntimeFault(sentence, reason=FaultReason.REFUSED, permanent=True)
