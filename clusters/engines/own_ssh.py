"""Keeps the portal's own SSH key pair, and the host keys that an admin has accepted: LONGSHORE_HOME/secrets/ssh.

Hosts on one PostgreSQL have the same, from the database. They are used beside the keys, known_hosts and config of the
user that Longshore runs as.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from dataclasses import dataclass
from pathlib import Path

from django.conf import settings

from base.core import private
from base.hosts import shared

KEY = "id_ed25519"
KNOWN_HOSTS = "known_hosts"


@dataclass(frozen=True, slots=True)
class HostKey:
    """``known``: it is in a known_hosts file; None when another key of that host is there."""

    name: str  # as known_hosts files write the host
    line: str  # its type and base64
    fingerprint: str  # SHA256:...
    known: bool | None


def folder() -> Path:
    return Path(settings.HOME) / "secrets" / "ssh"


def fetch() -> None:
    """Fetch the ssh key and the known hosts that other hosts have and this one lacks, and give them those that are
    here. For the start of each process that connects, and from time to time."""
    path, hosts = folder() / KEY, folder() / KNOWN_HOSTS
    theirs = shared.get("ssh")
    if path.exists() and KEY not in theirs:
        theirs[KEY] = shared.put_first(f"ssh/{KEY}", path.read_bytes())
    if KEY in theirs and (not path.exists() or path.read_bytes() != theirs[KEY]):
        _temporary(path, theirs[KEY]).replace(path)
    mine = hosts.read_bytes().splitlines(keepends=True) if hosts.exists() else []
    known = [line for name, line in theirs.items() if name.startswith(KNOWN_HOSTS)]
    for line in mine:
        if line not in known:
            _share(line)
    if new := [line for line in known if line not in mine]:
        _append(b"".join(new))


def public_key() -> str:
    """One line for an authorized_keys file. The pair is made when somebody first asks."""
    # Late: few processes need its 8 MB.
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_ssh_private_key

    path = folder() / KEY
    if not path.exists():
        _make(path)
    key = load_ssh_private_key(path.read_bytes(), None)
    line = key.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH)
    return f"{line.decode()} longshore"


def accept(key: HostKey) -> None:
    """Remember it: from now on that host is known."""
    line = f"{key.name} {key.line}\n".encode()
    _append(line)
    _share(line)


def _share(line: bytes) -> None:
    shared.put(f"ssh/{KNOWN_HOSTS}-{hashlib.sha256(line).hexdigest()[:16]}", line)


def _append(lines: bytes) -> None:
    folder().mkdir(mode=0o700, parents=True, exist_ok=True)
    file = os.open(folder() / KNOWN_HOSTS, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    with os.fdopen(file, "ab") as hosts:
        hosts.write(lines)


def _make(path: Path) -> None:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    text = Ed25519PrivateKey.generate().private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption())
    private.made_once(path, shared.put_first(f"ssh/{KEY}", text).decode())


def _temporary(path: Path, content: bytes) -> Path:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=path.parent, prefix="new-", delete=False) as file:  # 0600
        file.write(content)
    return Path(file.name)
