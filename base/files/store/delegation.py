"""Signed tokens for the ``delegation=`` parameter of WebHDFS, for programs that can only open an address.

A token for all that its user may do has a row, as API tokens have: it holds for a day, can be renewed for up to seven
days, as with HDFS, and ends when it is cancelled, when the user gets a new password, or with its parent, the API token
with which it was asked for. A token for one thing is only signed; it holds for its time, unless the user gets a new
password.

A token names its user, when it expires and, if it is for one thing, the path and the operations. The token of a job has
no date: it holds while the attempt lives whose containers have it, and it never has an admin's rights. So somebody who
gets into a container of an admin does not get the cluster. A token ends with its user.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

import jwt
from django.conf import settings
from django.db import transaction
from django.utils import timezone
from django.utils.crypto import constant_time_compare

from base.accounts import tokens
from base.core.bulk import one_row
from base.core.errors import Conflict
from base.core.signals import about_jobs
from base.models import ApiToken, User

RENEWED, LONGEST = timedelta(days=1), timedelta(days=7)  # as HDFS has them
NAME = "WebHDFS"  # of the client among the API tokens, where its user can revoke it
MOST = 1000  # of one user that have not ended

_TOO_MANY = (
    f"Nobody has more than {MOST:,} delegation tokens at once. Cancel some with CANCELDELEGATIONTOKEN, or revoke all "
    f"of {NAME} on the page API tokens, and keep one for several calls: it holds for a day."
)
_ALGORITHM = "HS256"
_AUDIENCE = "webhdfs"


@dataclass(frozen=True, slots=True)
class Delegation:
    """What a token allows. Without ``path`` it is all paths that the user may use, without ``ops`` (upper case) all
    operations."""

    user: User
    path: str = ""
    ops: frozenset[str] = frozenset()
    expires_at: int | None = None  # seconds since 1970
    app_id: str = ""  # of the attempt whose token it is
    token_id: str = ""  # if it has a row

    @property
    def is_admin(self) -> bool:
        """Whether the user's rights as an admin count."""
        return self.user.is_admin and not self.app_id

    def allows(self, op: str, path: str) -> bool:
        return (not self.path or path == self.path) and (not self.ops or op.upper() in self.ops)


def issue(username: str, *, seconds: int, path: str = "", ops: Iterable[str] = ()) -> str:
    """A token for that many seconds, with ``path`` or ``ops`` for nothing else."""
    user = User.objects.filter(username=username).first()
    known = _session(user) if user else ""
    return _sign(username, {"exp": int(time.time()) + seconds, "path": path, "ops": sorted(ops), "session": known})


def grant(user: User) -> str:
    """A token for all that the user may do. It holds for the time RENEWED, and no longer than the token by which they
    came (base.accounts.tokens.user_of). Conflict for one too many."""
    now = timezone.now()
    token_id = secrets.token_urlsafe(24)
    scopes = " ".join(sorted(user.scopes or ()))  # those of its parent
    row = ApiToken(user=user, id_hash=ApiToken.hash_id(token_id), client=NAME, scopes=scopes, created_at=now)
    row.parent_id = getattr(user, "token", None)
    row.expires_at = _end(row)
    with transaction.atomic():
        User.objects.select_for_update().get(pk=user.pk)  # lets two calls take turns, so that the limit holds
        mine = ApiToken.objects.filter(user=user, client=NAME)
        live = mine.filter(tokens.not_ended(now))
        mine.exclude(pk__in=live.values("pk")).delete()  # else who cancels and asks again and again has ever more rows
        if live.count() >= MOST:
            raise Conflict(_TOO_MANY)
        row.save()
    return _sign(user.username, {"exp": int((now + LONGEST).timestamp()), "jti": token_id})


def renew(token: str, user: User) -> datetime | None:
    """Renew a token; until when it holds. None when it is not a valid one of the user's."""
    row = _row(token, user)
    if row is None:
        return None
    row.expires_at = _end(row)
    row.save(update_fields=["expires_at"])
    return row.expires_at


def cancel(token: str, user: User) -> bool:
    """Cancel a token. False when it is not a valid one of the user's."""
    row = _row(token, user)
    return bool(row and ApiToken.objects.filter(pk=row.pk).update(revoked_at=timezone.now()))


def issue_for_attempt(username: str, app_id: str) -> str:
    """The token of an attempt's containers: it allows what its user may do without being an admin, while the attempt
    lives."""
    return _sign(username, {"app": app_id})


def read(token: str) -> Delegation | None:
    """What the token allows; None when it is not ours, has expired, or its user or attempt is gone."""
    try:
        claims = jwt.decode(token, settings.TOKEN_KEY, algorithms=[_ALGORITHM], audience=_AUDIENCE)
    except jwt.InvalidTokenError:
        return None
    if token_id := str(claims.get("jti", "")):
        row = tokens.live(token_id)
        return Delegation(row.user, expires_at=int(row.expires_at.timestamp()), token_id=token_id) if row else None
    app_id = claims.get("app", "")
    if (app_id or "exp" not in claims) and not (isinstance(app_id, str) and about_jobs().is_attempt_live(app_id)):
        return None
    user = User.objects.filter(username=claims.get("sub"), pk=claims.get("uid", 0), is_active=True).first()
    if user is None or not (app_id or constant_time_compare(claims.get("session", ""), _session(user))):
        return None
    return Delegation(user, claims.get("path", ""), frozenset(claims.get("ops", ())), claims.get("exp"), app_id)


def _row(token: str, user: User) -> ApiToken | None:
    delegation = read(token)
    row = tokens.live(delegation.token_id) if delegation and delegation.token_id else None
    return row if row and row.user_id == user.pk else None


def _end(row: ApiToken) -> datetime:
    """Until when it holds that is granted or renewed now."""
    ends = (timezone.now() + RENEWED, row.created_at + LONGEST)
    return min(*ends, row.parent.expires_at) if row.parent else min(ends)


def _session(user: User) -> str:
    """Changes with each password; a part of the hash is enough to tell passwords apart."""
    return user.get_session_auth_hash()[:32]


def _sign(username: str, claims: Mapping[str, object]) -> str:
    """Sign a token. The id of the user guards against a later user of the same name."""
    found = one_row("SELECT id FROM portal_user WHERE username = %s", username)
    everything = {"sub": username, "uid": found[0] if found else 0, "aud": _AUDIENCE, **claims}
    return jwt.encode(everything, settings.TOKEN_KEY, algorithm=_ALGORITHM)
