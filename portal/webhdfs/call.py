"""One operation of the gateway: what is asked, who asks, what they may, and the store."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from django.conf import settings

from base.accounts.callers import user_by
from base.core.errors import Forbidden, LongshoreError, Unauthorized
from base.files.store import delegation, rules
from base.files.store.base import BadPath, Entry, PathNotFound
from base.files.store.delegation import Delegation
from base.files.store_actor import StoreActor
from base.models import User
from portal.shared.api import auth
from portal.shared.requests import cookies_of
from portal.webhdfs import shapes
from portal.webhdfs.messages import Request

NEVER = datetime.fromtimestamp(0, UTC)  # when a folder changed that nobody has made yet
# Pages of other sites cannot send it (it needs a preflight, which is not answered); Hadoop's own name for it.
XSRF = "x-xsrf-header"


@dataclass(frozen=True, slots=True, kw_only=True)
class Call(StoreActor):
    """One operation. ``require_*`` raise Forbidden, in HDFS's words."""

    request: Request
    rights: Delegation

    @property
    def path(self) -> str:
        return self.request.path

    def hidden(self, path: str) -> LongshoreError:
        return Forbidden(f"Permission denied: user={self.name}, path={path}")

    def refused(self, says: str, path: str) -> LongshoreError:
        return self.hidden(path)

    def stat(self, path: str) -> Entry:
        """The entry, also of a personal folder that nobody has made yet: clients that copy into it must find a
        folder."""
        try:
            return self.store.stat(path)
        except PathNotFound:
            if not rules.is_place(path, self.name):
                raise
            return Entry(path, is_dir=True, size=0, modified_at=NEVER)

    def find(self, path: str) -> Entry | None:
        try:
            return self.stat(path)
        except (PathNotFound, BadPath):
            return None

    def shown(self, entry: Entry, suffix: str = "") -> dict[str, Any]:
        return shapes.file_status(rules.shown(entry, self.accounts), suffix)


def caller(request: Request) -> Delegation:
    """Finds out who asks: by a delegation token, a bearer token, the session of the pages, or, from trusted addresses,
    a mere name. Raises Unauthorized."""
    if token := request.params.get("delegation"):
        if rights := delegation.read(token):
            return rights
        raise Unauthorized("The delegation token has expired or is not valid.")
    user = (
        auth.user_by(request.headers.get("authorization", ""), request.address or None)
        or _by_session(request)
        or trusted_user(request.address, request.params.get("user.name", ""))
    )
    if user is None:
        raise Unauthorized("Sign in: with a delegation= parameter or an Authorization: Bearer header.")
    return Delegation(user)


def is_signed_in(authorization: str, cookies: str) -> bool:
    """Whether a bearer token or a session of the pages opens anything."""
    return auth.user_by(authorization, None) is not None or _session_user(cookies) is not None


def _by_session(request: Request) -> User | None:
    user = _session_user(request.headers.get("cookie", ""))
    if user and request.method not in ("GET", "HEAD") and XSRF not in request.headers:
        raise Forbidden("A write that relies on a cookie must carry the header X-XSRF-HEADER.")
    return user


def _session_user(cookies: str) -> User | None:
    key = cookies_of(cookies).get(settings.SESSION_COOKIE_NAME)
    return user_by(f"session:{key}") if key else None


def trusted_user(address: str, name: str) -> User | None:
    """The user that a client with this address may say it is, by ``user.name`` and without any proof, as HDFS does it:
    for nodes of a network that nobody else can reach. None when it may not."""
    if not name or not _is_trusted(address):
        return None
    user = User.objects.filter(username=name, is_active=True).first()
    return user if user and (not user.is_admin or settings.WEBHDFS_TRUST_ADMINS) else None


def _is_trusted(address: str) -> bool:
    try:
        caller = ipaddress.ip_address(address)
    except ValueError:
        return False
    return any(caller in network for network in settings.WEBHDFS_TRUST)
