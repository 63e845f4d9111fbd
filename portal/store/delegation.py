"""Signed tokens for the ``delegation=`` parameter of WebHDFS: for programs that can do no more than open an address.

A token names its user, until when it holds and, if it is for one thing only, the path and the operations. That of a
job has no date: it holds while the attempt lives whose containers have it, and what it opens is what any user of that
name may open, also when they are an admin: whoever gets hold of a container has not got hold of the cluster. Whose user
is gone, its token is too.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

import jwt
from django.conf import settings

from portal.models import User

_ALGORITHM = "HS256"
_AUDIENCE = "webhdfs"

_is_attempt_alive: Callable[[str], bool] = lambda _: False  # noqa: E731 - replaced by the app of jobs


@dataclass(frozen=True, slots=True)
class Delegation:
    """Who may do what. ``path`` empty: wherever the user may; ``ops`` (upper case) empty: whatever they may."""

    user: User
    path: str = ""
    ops: frozenset[str] = frozenset()
    expires_at: int | None = None  # seconds since 1970
    app_id: str = ""  # of the attempt whose token it is

    @property
    def is_admin(self) -> bool:
        """Whether the user's rights as an admin count."""
        return self.user.is_admin and not self.app_id

    def allows(self, op: str, path: str) -> bool:
        return (not self.path or path == self.path) and (not self.ops or op.upper() in self.ops)


def issue(username: str, *, seconds: int, path: str = "", ops: Iterable[str] = ()) -> str:
    """A token for that many seconds; with ``path`` or ``ops`` for nothing else."""
    return _sign(username, {"exp": int(time.time()) + seconds, "path": path, "ops": sorted(ops)})


def issue_for_attempt(username: str, app_id: str) -> str:
    """The token of an attempt's containers: what its user may do without being an admin, for as long as it lives."""
    return _sign(username, {"app": app_id})


def read(token: str) -> Delegation | None:
    """What the token stands for; None when it is not ours, has expired, or its user or attempt is gone."""
    try:
        claims = jwt.decode(token, settings.TOKEN_KEY, algorithms=[_ALGORITHM], audience=_AUDIENCE)
    except jwt.InvalidTokenError:
        return None
    app_id = claims.get("app", "")
    if (app_id or "exp" not in claims) and not (isinstance(app_id, str) and _is_attempt_alive(app_id)):
        return None
    user = User.objects.filter(username=claims.get("sub"), pk=claims.get("uid", 0), is_active=True).first()
    if user is None:
        return None
    return Delegation(user, claims.get("path", ""), frozenset(claims.get("ops", ())), claims.get("exp"), app_id)


def attempts_alive_with(is_alive: Callable[[str], bool]) -> None:
    """Called once, when the app of jobs is ready: it knows whether the attempt of an app id has not ended."""
    global _is_attempt_alive
    _is_attempt_alive = is_alive


def _sign(username: str, claims: Mapping[str, object]) -> str:
    """A user's number goes with his name: a later user of the same name is another."""
    number = User.objects.values_list("pk", flat=True).filter(username=username).first()
    everything = {"sub": username, "uid": number or 0, "aud": _AUDIENCE, **claims}
    return jwt.encode(everything, settings.TOKEN_KEY, algorithm=_ALGORITHM)
