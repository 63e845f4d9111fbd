"""Opens connections to engines: ``unix://``, ``tcp://`` with mutual TLS, ``ssh://``. Each gives clients of the docker
library.

A client has one timeout and one pool, so an engine gets several: one for quick questions, one for slow work (pull,
create, stop, streams), and over SSH one connection for each piece of slow work, because an HTTP connection is an SSH
session there and a stock sshd allows ten of them on one connection.
"""

from __future__ import annotations

import os
import socket
import threading
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from datetime import datetime
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

import paramiko
import requests.adapters
from docker import APIClient
from docker.errors import APIError, create_api_error_from_http_exception
from docker.tls import TLSConfig
from docker.utils import version_lt

from base.core.errors import encodable_json
from clusters.engines.docker.client import EngineClient
from clusters.engines.docker.errors import FOREIGN, translated
from clusters.engines.docker.ssh import EngineSsh
from clusters.engines.docker.ways import CONNECT, KEEP_ALIVE, LOOPBACK, NEEDS_KEYS, QUICK
from clusters.engines.runtime import FaultReason, RuntimeFault

_KNOCK = 2.0  # seconds
API_VERSION = "1.41"  # Docker 20.10, the oldest engine supported; asking for a fixed one costs no request
SLOW = 120.0  # create and start take seconds on a busy host
POOL = 64
MOST_OF_AN_ANSWER = 256 << 20  # bytes; a list of 10,000 containers has a tenth of that


class EngineClients:
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
        self._users: Counter[APIClient] = Counter()  # of quick clients
        self._version = ""  # of its API, once it is known

    @contextmanager
    def quick(self) -> Iterator[APIClient]:
        """Yield a client that several share. Over SSH only a new connection gets through after one broke, so nobody
        else gets this one then. Calls that use it just now go on, and the last of them closes it: one slow answer is no
        reason for others to fail."""
        client = self._keep("quick", self._timeout)
        with self._lock:
            self._users[client] += 1
        try:
            yield client
        except FOREIGN as error:
            with self._lock:
                if self._ssh and not isinstance(error, APIError) and self._kept.get("quick") is client:
                    del self._kept["quick"]
            raise
        finally:
            with self._lock:
                self._users[client] -= 1
                if is_unused := not self._users[client]:
                    del self._users[client]
                is_over = is_unused and self._kept.get("quick") is not client
            if is_over:
                client.close()

    def tunnel(self, address: str, port: int) -> paramiko.Channel:
        """A channel to a port of the host, of an engine that is reached over SSH."""
        return _ssh(self._keep("tunnels", self._timeout)).tunnel(address, port)

    @contextmanager
    def slow(self) -> Iterator[APIClient]:
        """Give a client for calls that may take long; over SSH leaving the block ends the connection."""
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
        client = self._client(timeout)
        with self._lock:
            kept = self._kept.setdefault(purpose, client)
        if kept is not client:
            client.close()
        return kept

    def _client(self, timeout: float) -> APIClient:
        client = open_client(self._endpoint, self._folder, self._version or API_VERSION, timeout)
        try:
            if not self._version:
                self._version = client._version = wanted_version(client)
        except FOREIGN as error:
            said = _ssh(client).said() if self._ssh and not isinstance(error, APIError) else ""
            client.close()
            if said:
                says = f"The Docker engine at {self._endpoint} cannot be reached: {said}"
                raise RuntimeFault(says, reason=FaultReason.UNREACHABLE) from error
            raise
        except BaseException:
            client.close()
            raise
        return client


class DockerClients:
    """Clients of one engine for those who ask it: what goes wrong is a RuntimeFault."""

    def __init__(self, endpoint: str, folder: Path | None, timeout: float) -> None:
        self.endpoint = endpoint
        self._ways = EngineClients(endpoint, folder, timeout=timeout)

    @contextmanager
    def _quick(self) -> Iterator[APIClient]:
        try:
            with translated(self.endpoint), self._ways.quick() as api:
                yield api
        except RuntimeFault as fault:
            fault.late = fault.late and takes_connections(self.endpoint)
            raise

    @contextmanager
    def _slow(self) -> Iterator[APIClient]:
        """Only getting the client is translated: callbacks of others run in the block."""
        with ExitStack() as stack:
            with translated(self.endpoint):
                api = stack.enter_context(self._ways.slow())
            yield api


def takes_connections(endpoint: str) -> bool:
    """Whether something at the endpoint takes a connection: the socket of the engine, its port or the SSH server."""
    address = urlsplit(endpoint)
    try:
        if address.scheme == "unix":
            with socket.socket(socket.AF_UNIX) as way:
                way.settimeout(_KNOCK)
                way.connect(address.path)
        else:
            socket.create_connection((address.hostname or "", address.port or 22), _KNOCK).close()
    except OSError:
        return False
    return True


def wanted_version(client: APIClient) -> str:
    """The version of Docker's API to speak: ours, or the engine's oldest when that is newer."""
    answer = checked(client.get(f"{client.base_url}/version", timeout=(CONNECT, client.timeout))).json()
    if "ApiVersion" not in answer:
        raise RuntimeFault("What answers there is no Docker engine.", reason=FaultReason.UNREACHABLE, permanent=True)
    oldest, newest = str(answer.get("MinAPIVersion") or "1.12"), str(answer["ApiVersion"])
    if version_lt(newest, API_VERSION):
        raise RuntimeFault(
            f"The engine is Docker {answer.get('Version', '?')}; Longshore needs 20.10 or newer.",
            reason=FaultReason.REFUSED,
            permanent=True,
        )
    return oldest if version_lt(API_VERSION, oldest) else API_VERSION


def url(api: APIClient, path: str) -> str:
    return f"{api.base_url}/v{api.api_version}{path}"


def ask(
    api: APIClient,
    path: str,
    params: Mapping[str, Any] | None = None,
    *,
    method: Literal["get", "post"] = "get",
    timeout: float | None = None,
    **more: Any,
) -> requests.Response:
    """One question, with the client's own timeout or this one, which the library's session does not apply by itself.
    Raises docker's APIError for an answer that reports an error."""
    call = getattr(api, method)
    return checked(call(url(api, path), params=params, timeout=(CONNECT, timeout or api.timeout), **more))


def said_at(response: requests.Response) -> datetime | None:
    """The engine's clock when it answered, to the second."""
    date = response.headers.get("Date")
    return parsedate_to_datetime(date) if date else None


def checked(response: requests.Response) -> requests.Response:
    """Raises docker's APIError for an answer that reports an error."""
    try:
        response.raise_for_status()
    except requests.HTTPError as error:
        create_api_error_from_http_exception(error)
    return response


def open_client(endpoint: str, folder: Path | None, version: str, timeout: float) -> APIClient:
    """A client of the engine. Nothing is sent yet."""
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
        client = EngineClient(endpoint, version=version, timeout=timeout, max_pool_size=POOL)
    else:
        raise _bad_endpoint(f"An engine's endpoint begins with unix://, tcp:// or ssh://, not as in {endpoint}.")
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
        response._content = encodable_json(b"".join(read))


def _tcp_client(endpoint: str, folder: Path | None, version: str, timeout: float) -> APIClient:
    if folder is None:
        if urlsplit(endpoint).hostname not in LOOPBACK:
            raise _bad_endpoint(f"{endpoint} {NEEDS_KEYS}")
        return EngineClient(endpoint, version=version, timeout=timeout)
    tls = TLSConfig(
        client_cert=(str(folder / "cert.pem"), str(folder / "key.pem")), ca_cert=str(folder / "ca.pem"), verify=True
    )
    client = EngineClient(endpoint.replace("tcp://", "https://", 1), version=version, timeout=timeout, tls=tls)
    client.mount("https://", _TcpAdapter(pool_maxsize=POOL))
    return client


def _ssh_client(endpoint: str, folder: Path | None, version: str, timeout: float) -> APIClient:
    client = EngineClient("unix:///nowhere", version=version, timeout=timeout)  # opened at first use only: never
    client.mount("http+docker://ssh", EngineSsh(endpoint, folder, timeout))
    client.base_url = "http+docker://ssh"
    return client


class _TcpAdapter(requests.adapters.HTTPAdapter):
    """An HTTP adapter with TCP's keep-alive: a follower of a log may wait for hours, and must notice a node without
    power."""

    def init_poolmanager(self, *args: Any, **kwargs: Any) -> None:
        super().init_poolmanager(*args, **kwargs, socket_options=KEEP_ALIVE)


def _ssh(client: APIClient) -> EngineSsh:
    adapter: EngineSsh = client.get_adapter(client.base_url)
    return adapter


def _bad_endpoint(sentence: str) -> RuntimeFault:
    return RuntimeFault(sentence, reason=FaultReason.REFUSED, permanent=True)
