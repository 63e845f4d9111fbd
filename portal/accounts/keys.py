"""Reads public SSH keys as people paste them."""

from __future__ import annotations

import base64
import hashlib
from dataclasses import dataclass

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from cryptography.hazmat.primitives.serialization import load_ssh_public_key

from portal.core.errors import BadRequest

_LONGEST = 10_000
_LEAST_RSA = 2048  # bits


@dataclass(frozen=True, slots=True)
class PublicKey:
    """``line`` is for authorized_keys: kind, key and comment, without options."""

    line: str
    comment: str
    fingerprint: str


def read_public_key(text: str) -> PublicKey:
    """One line such as ``ssh-ed25519 AAAA... mira@laptop``. Raises BadRequest."""
    text = text.strip()
    if "PRIVATE KEY" in text:
        raise BadRequest("This is a private key. Keep it to yourself, and paste the file that ends in .pub.")
    if len(text) > _LONGEST or len(text.splitlines()) != 1:
        raise BadRequest("Paste one public key: one line, as in a file that ends in .pub.")
    kind, _, rest = text.partition(" ")
    blob, _, comment = rest.strip().partition(" ")
    try:
        key = load_ssh_public_key(f"{kind} {blob}".encode())
        raw = base64.b64decode(blob, validate=True)
    except (ValueError, UnsupportedAlgorithm):
        raise BadRequest("This is no public SSH key. It begins with ssh-ed25519, ecdsa-sha2-... or ssh-rsa.") from None
    if isinstance(key, RSAPublicKey) and key.key_size < _LEAST_RSA:
        raise BadRequest(f"An RSA key needs {_LEAST_RSA} bits or more.")
    comment = "".join(letter for letter in comment.strip() if letter.isprintable())[:100]
    digest = base64.b64encode(hashlib.sha256(raw).digest()).decode().rstrip("=")
    return PublicKey(f"{kind} {blob} {comment}".strip(), comment, f"SHA256:{digest}")
