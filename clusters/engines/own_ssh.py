"""Keeps the portal's own SSH key pair, and the host keys that an admin has accepted: LONGSHORE_HOME/secrets/ssh.

They are used beside the keys, known_hosts and config of the user that Longshore runs as.
"""

from __future__ import annotations

import os
import tempfile
from dataclasses import dataclass
from pathlib import Path

from django.conf import settings

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


def public_key() -> str:
    """One line for an authorized_keys file. The pair is made when somebody first asks."""
    from cryptography.hazmat.primitives import serialization as ser  # late: few processes need its 8 MB

    path = folder() / KEY
    if not path.exists():
        _make(path)
    key = ser.load_ssh_private_key(path.read_bytes(), None)
    line = key.public_key().public_bytes(ser.Encoding.OpenSSH, ser.PublicFormat.OpenSSH)
    return f"{line.decode()} longshore"


def accept(key: HostKey) -> None:
    """Remember it: from now on that host is known."""
    folder().mkdir(mode=0o700, parents=True, exist_ok=True)
    line = f"{key.name} {key.line}\n".encode()
    file = os.open(folder() / KNOWN_HOSTS, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    with os.fdopen(file, "ab") as hosts:
        hosts.write(line)


def _make(path: Path) -> None:
    from cryptography.hazmat.primitives import serialization as ser
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    text = Ed25519PrivateKey.generate().private_bytes(ser.Encoding.PEM, ser.PrivateFormat.OpenSSH, ser.NoEncryption())
    with tempfile.NamedTemporaryFile(dir=path.parent, prefix="new-") as file:  # 0600
        file.write(text)
        file.flush()
        try:
            os.link(file.name, path)
        except FileExistsError:
            pass  # another process was quicker, and its pair holds
