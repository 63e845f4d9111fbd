"""Lets people in by their password. The login page and the API's token route use the same checks."""

from __future__ import annotations

from axes.handlers.proxy import AxesProxyHandler
from django.conf import settings
from django.contrib.auth import authenticate
from django.contrib.auth.hashers import make_password
from django.db import transaction
from django.http import HttpRequest
from django.utils import timezone

from base.accounts import audit, passwords, tokens
from base.accounts.providers.config import Directory
from base.core.errors import IncorrectPassword, LockedOut, NotFound, NoUser
from base.models import USERNAME, User
from clusters.users import entry
from portal.shared.viewer import ip_of

LOCAL = "local"  # a source: the passwords of this portal alone


def check_password(request: HttpRequest, username: str, password: str, source: str = "") -> User:
    """Give the active user with this password. ``source`` is as portal.sign_in.backend takes it. Raises LockedOut
    (before any hash is computed), NoUser, IncorrectPassword, and of a directory NotLetIn and ProviderUnavailable."""
    if not USERNAME.regex.match(username):  # type: ignore[union-attr]  # no database should be asked for such a name
        raise NoUser("There is no user of this name.")
    credentials = {"username": username, "password": password}
    is_allowed = AxesProxyHandler.is_allowed(request, credentials)
    if not is_allowed or passwords.is_guessed(username, ip_of(request), timezone.now()):
        raise LockedOut
    user = authenticate(request, **credentials, source=source)
    if isinstance(user, User):
        return user
    audit.record(username, passwords.LOGIN_FAILED)
    if not AxesProxyHandler.is_allowed(request, credentials):
        raise LockedOut
    if not User.objects.filter(username=username, is_active=True).exists():
        raise NoUser(f"User {username} is not found.")
    raise IncorrectPassword


def link_directory(request: HttpRequest, user: User, name: str, username: str, password: str) -> str:
    """Let the user also sign in by a directory, whose password for them proves that it knows them; its title. Raises
    NotFound, LockedOut, IncorrectPassword, NotLetIn, ProviderUnavailable."""
    directory = settings.SIGN_IN.get(name)
    if not isinstance(directory, Directory):
        raise NotFound("There is no such way to sign in.")
    if passwords.is_guessed(username, ip_of(request), timezone.now()):
        raise LockedOut
    from base.accounts.providers import ldap  # needs ldap3, which is there where a directory is named

    said = ldap.check(directory, username, password) if USERNAME.regex.match(username) else None  # type: ignore[union-attr]
    if said is None:
        audit.record(username[:64], passwords.LOGIN_FAILED)
        raise IncorrectPassword("User name or password is wrong.")
    entry.link(user, said)
    return directory.title


def make_token(request: HttpRequest, username: str, password: str, seconds: int) -> tuple[User, str]:
    user = check_password(request, username, password)
    return user, issue_token(request, user, seconds)


def issue_token(request: HttpRequest, user: User, seconds: int) -> str:
    """One without a name, for the client that sent the request."""
    client = client_of(request)
    token = tokens.issue(user, seconds, client=client)
    audit.record(user.username, "token made", data={"seconds": seconds, "client": client})
    return token


def client_of(request: HttpRequest) -> str:
    """What is known of a client that signs in: the first word of its name, as it gives it, and its address."""
    name = "".join(sign for sign in request.headers.get("User-Agent", "") if sign.isprintable()).split()[:1]
    return f"{name[0][:80] if name else 'a client'} from {ip_of(request) or 'an unknown address'}"


def change_password(request: HttpRequest, user: User, old: str, new: str) -> None:
    """Change one's own password. Every token of the user ends and, since sessions carry a hash of the password, every
    other session."""
    check_password(request, user.username, old, LOCAL)
    passwords.check(new, user)
    hashed = make_password(new)
    with transaction.atomic():
        passwords.replace(user, hashed, by=user.username)
