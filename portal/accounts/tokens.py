"""API tokens: a signed JWT outside, a row here. The row decides, so revoking works at once."""

from __future__ import annotations

import secrets
from datetime import timedelta

import jwt
from django.conf import settings
from django.utils import timezone

from portal.models import ApiToken, User

_ALGORITHM = "HS256"
_TOUCH_EVERY = timedelta(minutes=1)


def issue(user: User, seconds: int, name: str = "") -> str:
    """The JWT, with v1's claims ``username``, ``admin``, ``iat``, ``exp`` (seconds) and our ``jti``."""
    now = timezone.now().replace(microsecond=0)
    expires = now + timedelta(seconds=seconds)
    token_id = secrets.token_urlsafe(24)
    ApiToken.objects.create(user=user, id_hash=ApiToken.hash_id(token_id), name=name, expires_at=expires)
    claims = {"username": user.username, "admin": user.is_admin, "iat": now, "exp": expires, "jti": token_id}
    return jwt.encode(claims, settings.TOKEN_KEY, algorithm=_ALGORITHM)


def live(token_id: str) -> ApiToken | None:
    """The row of a valid token, with its user: not expired, not revoked, the user not disabled."""
    rows = ApiToken.objects.select_related("user").filter(id_hash=ApiToken.hash_id(token_id), revoked_at=None)
    return rows.filter(expires_at__gt=timezone.now(), user__is_active=True).first()


def user_of(token: str) -> User | None:
    """The user of a token; None when it is bad, expired or revoked, or its user is disabled or gone."""
    try:
        claims = jwt.decode(
            token, settings.TOKEN_KEY, algorithms=[_ALGORITHM], options={"require": ["exp", "jti"], "verify_iat": False}
        )
    except (jwt.InvalidTokenError, ValueError):
        return None
    row = live(str(claims["jti"]))
    if row is None:
        return None
    _touch(row)
    return row.user


def revoke_all(user: User) -> int:
    return ApiToken.objects.filter(user=user, revoked_at=None).update(revoked_at=timezone.now())


def _touch(row: ApiToken) -> None:
    now = timezone.now()
    if row.last_used_at is None or now - row.last_used_at > _TOUCH_EVERY:
        ApiToken.objects.filter(pk=row.pk).update(last_used_at=now)
