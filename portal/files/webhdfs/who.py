"""Finds out who asks: by a delegation token, a bearer token, the session of the pages, or, from trusted addresses, a
mere name."""

from __future__ import annotations

import ipaddress

from django.conf import settings
from django.contrib.auth import BACKEND_SESSION_KEY, HASH_SESSION_KEY, SESSION_KEY
from django.contrib.sessions.backends.db import SessionStore
from django.utils.crypto import constant_time_compare

from portal.accounts import tokens
from portal.core.errors import Forbidden, Unauthorized
from portal.files.store import delegation
from portal.files.store.delegation import Delegation
from portal.files.webhdfs.messages import Request
from portal.models import User
from portal.web.cookies import cookies_of

# Pages of other sites cannot send it (it needs a preflight, which is not answered); Hadoop's own name for it.
XSRF = "x-xsrf-header"


def caller(request: Request) -> Delegation:
    """Raises Unauthorized."""
    found = _by_delegation(request) or _by_bearer(request) or _by_session(request) or _by_name(request)
    if found is None:
        raise Unauthorized("Sign in: with a delegation= parameter or an Authorization: Bearer header.")
    return found


def is_signed_in(authorization: str, cookies: str) -> bool:
    """Whether a bearer token or a session of the pages opens anything."""
    return _bearer(authorization) is not None or _session_user(cookies) is not None


def _by_delegation(request: Request) -> Delegation | None:
    token = request.params.get("delegation")
    if not token:
        return None
    found = delegation.read(token)
    if found is None:
        raise Unauthorized("The delegation token has expired or is not valid.")
    return found


def _by_bearer(request: Request) -> Delegation | None:
    user = _bearer(request.headers.get("authorization", ""))
    return Delegation(user) if user else None


def _bearer(authorization: str) -> User | None:
    scheme, _, token = authorization.strip().partition(" ")
    return tokens.user_of(token.strip()) if scheme.lower() == "bearer" else None


def _by_session(request: Request) -> Delegation | None:
    user = _session_user(request.headers.get("cookie", ""))
    if user is None:
        return None
    if request.method not in ("GET", "HEAD") and XSRF not in request.headers:
        raise Forbidden("A write that relies on a cookie must carry the header X-XSRF-HEADER.")
    return Delegation(user)


def _session_user(cookies: str) -> User | None:
    key = cookies_of(cookies).get(settings.SESSION_COOKIE_NAME)
    if not key:
        return None
    session = SessionStore(key)
    if BACKEND_SESSION_KEY not in session:
        return None
    user = User.objects.filter(pk=session[SESSION_KEY], is_active=True).first()
    known = user is not None and constant_time_compare(session.get(HASH_SESSION_KEY, ""), user.get_session_auth_hash())
    return user if known else None


def _by_name(request: Request) -> Delegation | None:
    """By ``user.name``, as HDFS does it: for nodes of a network that nobody else can reach."""
    user = believed(request.address, request.params.get("user.name", ""))
    return Delegation(user) if user else None


def believed(address: str, name: str) -> User | None:
    """The user that a client with this address may say it is, without any proof; None when it may not."""
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
