"""Writes about one's own account. The login page and the API's token route use the same checks."""

from __future__ import annotations

from typing import Any

from axes.handlers.proxy import AxesProxyHandler
from django.contrib.auth import authenticate
from django.contrib.auth.hashers import make_password
from django.db import transaction
from django.http import HttpRequest
from django.utils import timezone

from portal.accounts import audit, guessing, passwords, tokens
from portal.accounts.keys import read_public_key
from portal.core.errors import BadRequest, IncorrectPassword, LockedOut, NoUser
from portal.models import USERNAME, ApiToken, User, UserKey

LONGEST_TOKEN_NAME = 100
MOST_TOKEN_DAYS = 365
MOST_KEYS = 20


def check_password(request: HttpRequest, username: str, password: str) -> User:
    """Give the active user with this password. Raises LockedOut (before any hash is computed), NoUser or
    IncorrectPassword."""
    if not USERNAME.regex.match(username):  # type: ignore[union-attr]  # no database should be asked for such a name
        raise NoUser("There is no user of this name.")
    credentials = {"username": username, "password": password}
    address = audit.ip_of(request)
    if not AxesProxyHandler.is_allowed(request, credentials):
        raise LockedOut
    if guessing.is_too_much(username, address, timezone.now()):
        raise LockedOut
    user = authenticate(request, **credentials)
    if isinstance(user, User):
        return user
    audit.record(username, guessing.FAILED, ip=address)
    if not AxesProxyHandler.is_allowed(request, credentials):
        raise LockedOut
    if not User.objects.filter(username=username, is_active=True).exists():
        raise NoUser(f"User {username} is not found.")
    raise IncorrectPassword


def make_token(request: HttpRequest, username: str, password: str, seconds: int) -> tuple[User, str]:
    user = check_password(request, username, password)
    token = tokens.issue(user, seconds)
    audit.record(user.username, "token made", ip=audit.ip_of(request), data={"seconds": seconds})
    return user, token


def change_password(request: HttpRequest, user: User, old: str, new: str) -> None:
    """Change one's own password. Every token of the user ends and, since sessions carry a hash of the password, every
    other session."""
    check_password(request, user.username, old)
    passwords.check(new, user)
    hashed = make_password(new)
    with transaction.atomic():
        passwords.replace(user, hashed, by=user.username, ip=audit.ip_of(request))


def list_tokens(user: User) -> list[ApiToken]:
    """The user's tokens that still open something, newest first."""
    live = ApiToken.objects.filter(user=user, revoked_at=None, expires_at__gt=timezone.now())
    return list(live.order_by("-created_at", "-pk"))


def create_token(user: User, name: str, days: int, request: HttpRequest | None = None) -> str:
    """A named bearer token. Nothing can show it again later. BadRequest for a bad name or time."""
    name = name.strip()
    if not name or len(name) > LONGEST_TOKEN_NAME or not name.isprintable():
        raise BadRequest(f"Give the token a name of 1 to {LONGEST_TOKEN_NAME} characters.")
    if not 1 <= days <= MOST_TOKEN_DAYS:
        raise BadRequest(f"A token lives 1 to {MOST_TOKEN_DAYS} days.")
    with transaction.atomic():
        token = tokens.issue(user, days * 86_400, name)
        _record(request, user, "token made", {"name": name, "days": days})
    return token


def revoke_token(user: User, token_id: int, request: HttpRequest | None = None) -> bool:
    """End one of the user's own tokens at once. False when there is no such token, or it had ended already."""
    with transaction.atomic():
        mine = ApiToken.objects.filter(user=user, pk=token_id, revoked_at=None)
        if not mine.update(revoked_at=timezone.now()):
            return False
        name = ApiToken.objects.values_list("name", flat=True).get(pk=token_id)
        _record(request, user, "token revoked", {"name": name})
    return True


def add_key(user: User, text: str, request: HttpRequest | None = None) -> UserKey:
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
        made = UserKey.objects.create(user=user, name=key.comment, text=key.line, fingerprint=key.fingerprint)
        _record(request, user, "key added", {"fingerprint": key.fingerprint})
    return made


def remove_key(user: User, key_id: int, request: HttpRequest | None = None) -> bool:
    """Remove a key of the user; running containers still have it. False when there is no such key."""
    with transaction.atomic():
        key = UserKey.objects.select_for_update().filter(user=user, pk=key_id).first()
        if key is None:
            return False
        key.delete()
        _record(request, user, "key removed", {"fingerprint": key.fingerprint})
    return True


def _record(request: HttpRequest | None, user: User, action: str, data: dict[str, Any]) -> None:
    """What a user does with their own account."""
    audit.record(user.username, action, user.username, audit.ip_of(request), data)
