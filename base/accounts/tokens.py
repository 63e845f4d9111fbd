"""API tokens: a signed JWT outside, a row here. The row decides, so revoking works at once."""

from __future__ import annotations

import secrets
from datetime import datetime, timedelta
from functools import lru_cache

import jwt
from django.conf import settings
from django.db.models import Q
from django.utils import timezone

from base.accounts.scopes import Scope, bound
from base.core.bulk import RawRows, found, made_of
from base.models import ApiToken, User

_ALGORITHM = "HS256"
_TOUCH_EVERY = timedelta(minutes=1)
# As ``live``, in one quick query: nearly every request asks it. What changes though nothing has happened is the last.
_USER = """
    SELECT u.*, t.id AS token, t.name AS token_name, t.client AS token_client, t.scopes AS token_scopes, {more}
        t.last_used_at IS NULL OR t.last_used_at < %s AS token_is_due
    FROM portal_apitoken t JOIN portal_user u ON u.id = t.user_id
    WHERE t.id_hash = %s AND t.revoked_at IS NULL AND t.expires_at > %s AND u.is_active
"""


def issue(user: User, seconds: int, name: str = "", client: str = "", scopes: str = "") -> str:
    """The JWT, with v1's claims ``username``, ``admin``, ``iat``, ``exp`` (seconds) and our ``jti``. ``client``: which
    one signed in for it. ``scopes``: as base.accounts.scopes stores them."""
    now = timezone.now().replace(microsecond=0)
    expires = now + timedelta(seconds=seconds)
    token_id = secrets.token_urlsafe(24)
    row = {"id_hash": ApiToken.hash_id(token_id), "name": name, "client": client, "expires_at": expires}
    ApiToken.objects.create(user=user, scopes=scopes, **row)
    is_admin = user.is_admin and (not scopes or Scope.ADMIN in scopes.split())
    claims = {"username": user.username, "admin": is_admin, "iat": now, "exp": expires, "jti": token_id}
    return jwt.encode(claims, settings.TOKEN_KEY, algorithm=_ALGORITHM)


def not_ended(now: datetime) -> Q:
    """The rows of tokens that still open something."""
    return Q(revoked_at=None, expires_at__gt=now, parent__revoked_at=None)  # also where there is no parent


def live(token_id: str) -> ApiToken | None:
    """The row of a valid token, with its user: not expired, not revoked, the user not disabled."""
    rows = ApiToken.objects.select_related("user").filter(not_ended(timezone.now()), user__is_active=True)
    row = rows.filter(id_hash=ApiToken.hash_id(token_id)).first()
    if row is not None:
        bound(row.user, row.scopes)
    return row


def user_of(token: str, address: str | None = None) -> User | None:
    """The user of a token, bound to its scopes; None when it is bad, expired or revoked, or its user is disabled or
    gone. ``address``: from where it came."""
    return _made(row_of(token, address))


def hash_of(token: str) -> str:
    """The hash by which its row is found; empty for what is no token of ours."""
    try:
        return _id_hash(token, settings.TOKEN_KEY)
    except (jwt.InvalidTokenError, ValueError):
        return ""


def user_by_hash(id_hash: str) -> User | None:
    """Return the same user, by the hash of the token."""
    return _made(_row(id_hash, None))


def row_of(token: str, address: str | None, more: str = "", *values: str) -> RawRows | None:
    """The row of which ``made_by`` makes the user of a token, the same of the same row; None for nobody. ``more``:
    further columns, with a comma behind each, and their ``values``: they are attributes of the user."""
    return _row(hash_of(token), address, more, *values)


def made_by(row: RawRows) -> User:
    """The user of a row, bound to the scopes of their token."""
    (user,) = made_of(User, row)
    return bound(user, getattr(user, "token_scopes"))  # noqa: B009 - a column of the query alone


def _made(row: RawRows | None) -> User | None:
    return None if row is None else made_by(row)


def _row(id_hash: str, address: str | None, more: str = "", *values: str) -> RawRows | None:
    if not id_hash:
        return None
    now = timezone.now()
    names, rows = found(_USER.format(more=more), *values, now - _TOUCH_EVERY, id_hash, now)
    if not rows:
        return None
    (*row, is_due) = rows[0]
    if is_due:
        used = {"last_used_at": now, **({"used_from": address} if address else {})}
        ApiToken.objects.filter(pk=row[names.index("token")]).update(**used)
    return RawRows(names[:-1], [tuple(row)])


def way_of(user: User) -> str:
    """Says for the audit by which token this user of ``user_of`` came."""
    name = getattr(user, "token_name", "") or getattr(user, "token_client", "")
    return f"API, token {name}" if name else "API, token"


def is_ours(token: str) -> bool:
    """Whether this is a token of the portal, of whomever and however old."""
    try:
        jwt.decode(token, settings.TOKEN_KEY, algorithms=[_ALGORITHM], options={"verify_exp": False})
    except (jwt.InvalidTokenError, ValueError):
        return False
    return True


@lru_cache(maxsize=1024)
def _id_hash(token: str, key: str) -> str:
    """What the row of a token is found by. A signature that was right stays right, so it is checked once; the row says
    when the token expires. Raises InvalidTokenError, ValueError."""
    claims = jwt.decode(token, key, algorithms=[_ALGORITHM], options={"require": ["exp", "jti"], "verify_iat": False})
    return ApiToken.hash_id(str(claims["jti"]))


def revoke_all(user: User) -> int:
    return ApiToken.objects.filter(user=user, revoked_at=None).update(revoked_at=timezone.now())
