"""The providers of sign-in that LONGSHORE_SIGN_IN names, a table of TOML each. Read once, at the start."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Annotated
from urllib.parse import urlsplit

from django.core.exceptions import ImproperlyConfigured
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from base.core.env import is_loopback

MOST = 20
_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,31}")
Text = Annotated[str, Field(min_length=1, max_length=255)]


class Provider(BaseModel):
    """``name`` stands in addresses and in rules, ``title`` on the button. ``username`` and ``groups`` are names of
    claims; a dot leads into an object."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    title: Annotated[str, Field(min_length=1, max_length=60)]
    issuer: Text
    client_id: Text
    client_secret: Annotated[str, Field(repr=False)] = ""  # empty: a public client, which PKCE alone protects
    client_secret_file: Annotated[str, Field(exclude=True)] = ""
    scopes: tuple[Text, ...] = ("openid", "profile", "email")
    username: Text = "preferred_username"
    groups: str = "groups"
    unverified_email: bool = False  # whether somebody gets in whose address the provider has not verified
    ca: str = ""  # a file of certificates that are believed in place of the system's

    @field_validator("issuer")
    @classmethod
    def _is_safe(cls, value: str) -> str:
        parts = urlsplit(value)
        if parts.scheme != "https" and not (parts.scheme == "http" and is_loopback(parts.hostname or "")):
            raise ValueError("it must be an address that begins with https://")
        return value

    @field_validator("ca")
    @classmethod
    def _is_there(cls, value: str) -> str:
        if value and not Path(value).is_file():
            raise ValueError(f"there is no file {value}")
        return value

    @model_validator(mode="before")
    @classmethod
    def _secret(cls, data: dict[str, object]) -> dict[str, object]:
        if not (path := data.get("client_secret_file")):
            return data
        try:
            return {**data, "client_secret": Path(str(path)).read_text().strip()}
        except OSError as error:
            raise ValueError(f"client_secret_file is {path}, which cannot be read: {error.strerror}") from error

    @property
    def place(self) -> str:
        """Where it is, for people."""
        return self.issuer.partition("://")[2].rstrip("/")


def providers(text: str) -> dict[str, Provider]:
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


def _provider(name: str, table: object) -> Provider:
    if not _NAME.fullmatch(name) or not isinstance(table, dict):
        form = "a table such as [lab] for each provider, named with small letters, digits and dashes"
        raise ImproperlyConfigured(f"LONGSHORE_SIGN_IN has {name!r}; it must have {form}.")
    try:
        return Provider.model_validate({**table, "name": name})
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        where = ".".join(str(each) for each in first["loc"])
        says = first["msg"].removeprefix("Value error, ")
        raise ImproperlyConfigured(f"LONGSHORE_SIGN_IN, [{name}]{where and f', {where}'}: {says}.") from None
