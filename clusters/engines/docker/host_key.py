"""Asks an SSH server for its host key, before anybody logs in there. It needs the keys of the portal, and so its
database, which nothing else of this room does."""

from __future__ import annotations

import base64
import hashlib
import socket
from pathlib import Path
from urllib.parse import urlsplit

import paramiko

from clusters.engines import own_ssh
from clusters.engines.docker.errors import translated
from clusters.engines.docker.ways import CONNECT
from clusters.engines.own_ssh import HostKey


def host_key(endpoint: str) -> HostKey:
    """Return the host key of the server at ``ssh://user@host:port``. Raises RuntimeFault when it does not answer."""
    address = urlsplit(endpoint)
    host, port = str(address.hostname), address.port or 22
    with translated(endpoint), socket.create_connection((host, port), CONNECT) as connection:
        connection.settimeout(CONNECT)
        transport = paramiko.Transport(connection)
        try:
            transport.banner_timeout = CONNECT
            transport.start_client(timeout=CONNECT)
            key = transport.get_remote_server_key()
        finally:
            transport.close()
    name = host if port == 22 else f"[{host}]:{port}"
    digest = base64.b64encode(hashlib.sha256(key.asbytes()).digest()).decode().rstrip("=")
    return HostKey(name, f"{key.get_name()} {key.get_base64()}", f"SHA256:{digest}", _known(name, key))


def _known(name: str, key: paramiko.PKey) -> bool | None:
    others = False
    for path in (Path.home() / ".ssh" / "known_hosts", own_ssh.folder() / own_ssh.KNOWN_HOSTS):
        if not path.exists():
            continue
        hosts = paramiko.HostKeys(str(path))
        if hosts.check(name, key):
            return True
        found = hosts.lookup(name)
        others = others or (found is not None and key.get_name() in found)
    return None if others else False
