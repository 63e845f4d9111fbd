"""The providers of sign-in that LONGSHORE_SIGN_IN names, a table of TOML each. Read once, at the start."""

from __future__ import annotations

import re
import tomllib
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, ClassVar
from urllib.parse import urlsplit

from django.core.exceptions import ImproperlyConfigured
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from base.core.env import is_loopback

MOST = 20
_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,31}")
_INSTALL = ".venv/bin/python -m pip install --require-hashes -r requirements/ldap.txt"
Text = Annotated[str, Field(min_length=1, max_length=255)]


def _from_file(data: dict[str, object], key: str) -> dict[str, object]:
    """The table with the content of the file that ``<key>_file`` names as ``key``."""
    if not (path := data.get(f"{key}_file")):
        return data
    try:
        return {**data, key: Path(str(path)).read_text().strip()}
    except OSError as error:
        raise ValueError(f"{key}_file is {path}, which cannot be read: {error.strerror}") from error


class _Named(BaseModel):
    """``name`` stands in addresses and in rules, ``title`` on the button."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    title: Annotated[str, Field(min_length=1, max_length=60)]
    ca: str = ""  # a file of certificates that are believed in place of the system's

    @field_validator("ca")
    @classmethod
    def _is_there(cls, value: str) -> str:
        if value and not Path(value).is_file():
            raise ValueError(f"there is no file {value}")
        return value


class Provider(_Named):
    """One of OpenID. ``username`` and ``groups`` are names of claims; a dot leads into an object."""

    kind: ClassVar = "OIDC"
    issuer: Text
    client_id: Text
    client_secret: Annotated[str, Field(repr=False)] = ""  # empty: a public client, which PKCE alone protects
    client_secret_file: str = ""
    scopes: tuple[Text, ...] = ("openid", "profile", "email")
    username: Text = "preferred_username"
    groups: str = "groups"
    unverified_email: bool = False  # whether somebody gets in whose address the provider has not verified

    @field_validator("issuer")
    @classmethod
    def _is_safe(cls, value: str) -> str:
        parts = urlsplit(value)
        if parts.scheme != "https" and not (parts.scheme == "http" and is_loopback(parts.hostname or "")):
            raise ValueError("it must be an address that begins with https://")
        return value

    @model_validator(mode="before")
    @classmethod
    def _secret(cls, data: dict[str, object]) -> dict[str, object]:
        return _from_file(data, "client_secret")

    @property
    def place(self) -> str:
        """Where it is, for people."""
        return self.issuer.partition("://")[2].rstrip("/")


class Directory(_Named):
    """One of LDAP. The defaults are those of OpenLDAP; docs/run/sign-in.md has those of Active Directory."""

    kind: ClassVar = "LDAP"
    url: Text
    start_tls: bool = True  # where the address begins with ldap://
    bind_dn: str = ""  # the account that searches; empty: anonymous
    bind_password: Annotated[str, Field(repr=False)] = ""
    bind_password_file: str = ""
    base: Text
    filter: Text = "(&(objectClass=person)(uid={username}))"
    username: Text = "uid"
    email: Text = "mail"
    id: Text = "entryUUID"
    group_base: str = ""  # empty: no groups are looked for
    group_filter: Text = "(|(member={dn})(uniqueMember={dn}))"
    group: Text = "cn"

    @model_validator(mode="before")
    @classmethod
    def _secret(cls, data: dict[str, object]) -> dict[str, object]:
        if find_spec("ldap3") is None:
            raise ValueError(f"LDAP needs a package that is not installed; run {_INSTALL}")
        return _from_file(data, "bind_password")

    @model_validator(mode="after")
    def _is_safe(self) -> Directory:
        parts = urlsplit(self.url)
        if parts.scheme not in ("ldap", "ldaps") or not parts.hostname or parts.path.strip("/"):
            raise ValueError(f"url is {self.url}; it must be such as ldaps://ldap.example.org")
        if parts.scheme == "ldap" and not self.start_tls and not is_loopback(parts.hostname):
            raise ValueError("without start_tls passwords would pass in plain text; take it, or ldaps://")
        if "{username}" not in self.filter:
            raise ValueError("filter must have {username} in it")
        return self

    @property
    def issuer(self) -> str:
        return f"ldap:{self.name}"

    @property
    def place(self) -> str:
        return self.url


def providers(text: str) -> dict[str, Provider | Directory]:
    """By name, in the order of the file. Raises ImproperlyConfigured with one sentence."""
    try:
        tables = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ImproperlyConfigured(f"LONGSHORE_SIGN_IN is no TOML: {error}.") from None
    if len(tables) > MOST:
        raise ImproperlyConfigured(f"LONGSHORE_SIGN_IN names {len(tables)} providers; {MOST} are the most.")
    found = {name: _provider(name, table) for name, table in tables.items()}
    if len({each.issuer for each in found.values()}) < len(found):
        raise ImproperlyConfigured("LONGSHORE_SIGN_IN names one issuer twice; an issuer is one provider.")
    return found


def _provider(name: str, table: object) -> Provider | Directory:
    if not _NAME.fullmatch(name) or not isinstance(table, dict):
        form = "a table such as [lab] for each provider, named with small letters, digits and dashes"
        raise ImproperlyConfigured(f"LONGSHORE_SIGN_IN has {name!r}; it must have {form}.")
    try:
        return (Directory if "url" in table else Provider).model_validate({**table, "name": name})
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        where = ".".join(str(each) for each in first["loc"])
        says = first["msg"].removeprefix("Value error, ")
        raise ImproperlyConfigured(f"LONGSHORE_SIGN_IN, [{name}]{where and f', {where}'}: {says}.") from None
