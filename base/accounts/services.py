"""Writes about one's own account: API tokens and public SSH keys."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from cryptography.hazmat.primitives.serialization import load_ssh_public_key
from django.db import transaction
from django.db.models import Count, Max, QuerySet
from django.utils import timezone

from base.accounts import audit, tokens
from base.accounts.scopes import ALL, stored
from base.core import words
from base.core.errors import BadRequest
from base.models import ApiToken, User, UserKey

LONGEST_TOKEN_NAME = 100
MOST_TOKEN_DAYS = 365
MOST_TOKENS = 100  # with a name that have not ended
MOST_KEYS = 20
_LONGEST_KEY = 10_000  # characters
_LEAST_RSA = 2048  # bits


def live_tokens(user: User) -> QuerySet[ApiToken]:
    """The user's tokens that still open something, newest first."""
    return ApiToken.objects.filter(tokens.not_ended(timezone.now()), user=user).order_by("-created_at", "-pk")


def sign_ins(user: User) -> QuerySet[ApiToken, Any]:
    """Those of clients that signed in by themselves, as scripts do again and again: a row for each client, the latest
    first."""
    groups = live_tokens(user).filter(name="").order_by().values("client")
    counted = groups.annotate(number=Count("pk"), until=Max("expires_at"), used=Max("last_used_at"), last=Max("pk"))
    return counted.order_by("-last")


def create_token(user: User, name: str, days: int, scopes: Collection[str], *, by: User | None = None) -> str:
    """A named bearer token; ``scopes`` with ALL in it are all. Nothing can show it again later. BadRequest for a bad
    name, time or scope, and for one too many. ``by``: the admin who makes one for a service account."""
    name = name.strip()
    if sign := words.unseen(name):
        raise BadRequest(f"The name has {sign}, a sign that nobody sees: write it without.")
    if not name or len(name) > LONGEST_TOKEN_NAME or not name.isprintable():
        raise BadRequest(f"Give the token a name of 1 to {LONGEST_TOKEN_NAME} characters.")
    if not 1 <= days <= MOST_TOKEN_DAYS:
        raise BadRequest(f"A token lives 1 to {MOST_TOKEN_DAYS} days.")
    chosen = "" if ALL in scopes else stored(scopes)
    with transaction.atomic():
        User.objects.select_for_update().get(pk=user.pk)  # lets two calls take turns, so that the limit holds
        if live_tokens(user).exclude(name="").count() >= MOST_TOKENS:
            raise BadRequest(f"Nobody has more than {MOST_TOKENS} tokens with a name. Revoke one first.")
        token = tokens.issue(user, days * 86_400, name, scopes=chosen)
        _record(user, "token made", by=by, data={"name": name, "days": days, "scopes": chosen or ALL})
    return token


def revoke_token(user: User, token_id: int, *, by: User | None = None) -> bool:
    """End one of the user's own tokens at once. False when there is no such token, or it had ended already."""
    with transaction.atomic():
        mine = ApiToken.objects.filter(user=user, pk=token_id, revoked_at=None)
        if not mine.update(revoked_at=timezone.now()):
            return False
        name = ApiToken.objects.values_list("name", flat=True).get(pk=token_id)
        _record(user, "token revoked", {"name": name}, by=by)
    return True


def revoke_sign_ins(user: User, client: str) -> int:
    """End all tokens with which a client signed in, and give how many there were."""
    with transaction.atomic():
        number = live_tokens(user).filter(name="", client=client).order_by().update(revoked_at=timezone.now())
        if number:
            _record(user, "tokens revoked", {"client": client, "number": number})
    return number


def add_key(user: User, text: str) -> UserKey:
    """Add a public key of the user, one line as ssh-keygen writes it. It goes into the containers of jobs that start
    from now on. BadRequest for anything else."""
    key = read_public_key(text)
    with transaction.atomic():
        User.objects.select_for_update().get(pk=user.pk)  # lets two calls take turns, so that the limit holds
        mine = UserKey.objects.filter(user=user)
        if mine.filter(fingerprint=key.fingerprint).exists():
            raise BadRequest("This key is there already.")
        if mine.count() >= MOST_KEYS:
            raise BadRequest(f"Nobody has more than {MOST_KEYS} keys. Remove one first.")
        row = UserKey.objects.create(user=user, name=key.comment, text=key.line, fingerprint=key.fingerprint)
        _record(user, "key added", {"fingerprint": key.fingerprint})
    return row


def remove_key(user: User, key_id: int) -> bool:
    """Remove a key of the user; running containers still have it. False when there is no such key."""
    with transaction.atomic():
        key = UserKey.objects.select_for_update().filter(user=user, pk=key_id).first()
        if key is None:
            return False
        key.delete()
        _record(user, "key removed", {"fingerprint": key.fingerprint})
    return True


def _record(user: User, action: str, data: dict[str, Any], *, by: User | None = None) -> None:
    """What a user does with their own account, or an admin with a service account."""
    audit.record((by or user).username, action, user.username, data=data)


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
    if len(text) > _LONGEST_KEY or len(text.splitlines()) != 1:
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
