"""Encrypts text that is stored elsewhere, where nobody shall read or change it: in a browser between two forms, in a
database."""

from __future__ import annotations

import base64
import hashlib

from cryptography.fernet import Fernet, InvalidToken
from django.conf import settings

from base.core.errors import BadRequest


def seal(text: str, purpose: str) -> str:
    """Encrypt. ``purpose`` names the form and its user: the text opens for no other purpose."""
    return _box(purpose).encrypt(text.encode()).decode()


def unseal(sealed: str, purpose: str, seconds: int) -> str:
    """Decrypt. BadRequest when it is older than ``seconds``, or was not sealed here for this purpose."""
    try:
        return _box(purpose).decrypt(sealed.encode(), ttl=seconds).decode()
    except InvalidToken:
        raise BadRequest("This form has expired. Begin again with the file.") from None


def opened(sealed: str, purpose: str) -> str:
    """Decrypt, however old it is. ValueError when it was not sealed here for this purpose."""
    try:
        return _box(purpose).decrypt(sealed.encode()).decode()
    except InvalidToken:
        raise ValueError("It was sealed with another LONGSHORE_SECRET_KEY.") from None


def _box(purpose: str) -> Fernet:
    key = hashlib.sha256(f"longshore.sealed:{purpose}:{settings.SECRET_KEY}".encode()).digest()
    return Fernet(base64.urlsafe_b64encode(key))
