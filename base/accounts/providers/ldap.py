"""Signs somebody in by a directory: finds them as the account that searches, then binds as they do, then reads their
groups and the groups that those are in. The only module that imports ldap3, which is there where LDAP is in use."""

from __future__ import annotations

import ssl
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

from django.core.exceptions import ImproperlyConfigured

from base.accounts.providers.config import Directory
from base.accounts.providers.said import LONGEST, MOST_GROUPS, Said, is_email, names, username_of
from base.accounts.providers.state import broken, turn, works
from base.core.errors import NotLetIn

try:
    import ldap3
    from ldap3.core import exceptions
    from ldap3.utils.conv import escape_filter_chars
except ImportError as error:  # pragma: no cover - the settings say so before
    raise ImproperlyConfigured("LDAP needs the package ldap3.") from error

TIMEOUT = 5  # seconds to connect, and for each answer
DEPTH = 10  # groups in groups
_AT_ONCE = 50  # groups of one question
_IN_CHAIN = "1.2.840.113556.1.4.1941"  # in a filter, Active Directory itself looks into groups of groups


def check(directory: Directory, username: str, password: str) -> Said | None:
    """Who they are; None for a wrong name or password. Raises ProviderUnavailable, and NotLetIn for an entry that
    cannot be taken."""
    if not password or not username:  # a bind without a password succeeds for everybody (RFC 4513, 5.1.2)
        return None
    with _service(directory) as service:
        filter_ = directory.filter.replace("{username}", escape_filter_chars(username))
        entries = _search(service, directory.base, filter_, [directory.username, directory.email, directory.id])
        if len(entries) != 1 or not _binds(directory, entries[0][0], password):
            return None
        return _said(directory, service, *entries[0])


def measure(directory: Directory) -> int:
    """Bind as the account that searches; the milliseconds that took. Raises ProviderUnavailable."""
    began = time.monotonic()
    with _service(directory) as service:
        _search(service, directory.base, directory.filter.replace("{username}", "-"), [directory.id])
    return round((time.monotonic() - began) * 1000)


@contextmanager
def _service(directory: Directory) -> Iterator[Any]:
    with turn(directory):
        try:
            connection = _bound(directory, directory.bind_dn, directory.bind_password)
            try:
                yield connection
                works(directory)
            finally:
                connection.unbind()
        except (exceptions.LDAPInvalidCredentialsResult, exceptions.LDAPInappropriateAuthenticationResult):
            raise broken(directory, "it refuses the account of this portal (bind_dn)") from None
        except exceptions.LDAPNoSuchObjectResult:
            raise broken(directory, "it has no such base as the settings name") from None
        except exceptions.LDAPException as error:
            raise broken(directory, _why(error)) from None


def _bound(directory: Directory, dn: str, password: str) -> Any:
    parts = urlsplit(directory.url)
    secure = parts.scheme == "ldaps"
    port = parts.port or (636 if secure else 389)
    tls = _Tls(ca_certs_file=directory.ca or None)
    server = ldap3.Server(parts.hostname, port, secure, tls=tls, get_info=ldap3.NONE, connect_timeout=TIMEOUT)
    simple = {"user": dn, "password": password, "authentication": ldap3.SIMPLE} if dn else {}
    connection = ldap3.Connection(
        server, **simple, receive_timeout=TIMEOUT, raise_exceptions=True, auto_referrals=False, check_names=False
    )
    try:
        connection.open()
        if not secure and directory.start_tls:
            connection.start_tls()
        connection.bind()
    except BaseException:
        connection.strategy.close()
        raise
    return connection


class _Tls(ldap3.Tls):
    """Python checks the certificate and its names: ldap3 has code of its own for that, which knows no addresses."""

    def wrap_socket(self, connection: Any, do_handshake: bool = False) -> None:
        context = ssl.create_default_context(cafile=self.ca_certs_file)
        connection.socket = context.wrap_socket(connection.socket, server_hostname=connection.server.host)


def _binds(directory: Directory, dn: str, password: str) -> bool:
    try:
        _bound(directory, dn, password).unbind()
    except exceptions.LDAPOperationResult:  # wrong, expired, locked, disabled: the directory decides
        return False
    return True


def _search(service: Any, base: str, filter_: str, attributes: list[str]) -> list[tuple[str, dict[str, list[bytes]]]]:
    service.search(base, filter_, ldap3.SUBTREE, attributes=attributes)
    rows = [row for row in service.response if row["type"] == "searchResEntry"]
    return [(row["dn"], {name.lower(): values for name, values in row["raw_attributes"].items()}) for row in rows]


def _said(directory: Directory, service: Any, dn: str, attributes: dict[str, list[bytes]]) -> Said:
    def first(name: str) -> bytes:
        return next(iter(attributes.get(name.lower(), [])), b"")

    subject = first(directory.id)
    if not subject or len(subject) > LONGEST:
        raise NotLetIn(f"{directory.title} does not say who you are: your entry has no {directory.id}. Tell the admin.")
    text = subject.decode() if subject.isascii() and subject.decode().isprintable() else subject.hex()
    username, email = (
        first(directory.username).decode(errors="replace"),
        first(directory.email).decode(errors="replace"),
    )
    groups = names(_groups(directory, service, dn, username))
    email = email if is_email(email) else ""
    return Said(directory.name, directory.title, directory.issuer, text[:LONGEST], username_of(username), email, groups)


def _groups(directory: Directory, service: Any, dn: str, username: str) -> list[str]:
    found: dict[str, str] = {}
    todo = [dn] if directory.group_base else []
    mine = directory.group_filter.replace("{username}", escape_filter_chars(username))
    for _ in range(DEPTH):
        new = []
        for at in range(0, len(todo), _AT_ONCE):
            each = "".join(mine.replace("{dn}", escape_filter_chars(one)) for one in todo[at : at + _AT_ONCE])
            for group, attributes in _search(service, directory.group_base, f"(|{each})", [directory.group]):
                if group not in found:
                    found[group] = next(iter(attributes.get(directory.group.lower(), [])), b"").decode(errors="replace")
                    new.append(group)
        todo = new if _IN_CHAIN not in mine else []
        if not todo or len(found) >= MOST_GROUPS:
            break
    return list(found.values())


def _why(error: Exception) -> str:
    says = str(error).lower()
    if "certificate" in says or "hostname" in says:
        return "its certificate is not believed"
    if isinstance(error, exceptions.LDAPStartTLSError):
        return "it does not do StartTLS"
    if isinstance(error, (exceptions.LDAPSocketOpenError, exceptions.LDAPSocketReceiveError)) or "timed out" in says:
        return "it does not answer"
    return f"it says {type(error).__name__.removeprefix('LDAP').removesuffix('Result')}"
