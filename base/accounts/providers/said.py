"""What a provider says of somebody, as far as it is taken."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from django.core.exceptions import ValidationError
from django.core.validators import EmailValidator

from base.accounts.providers.config import Provider
from base.core.errors import NotLetIn

MOST_GROUPS = 1000
LONGEST = 255  # characters of an issuer, a subject, a group
_NO_NAME = re.compile(r"[^A-Za-z0-9_.-]")


@dataclass(frozen=True, slots=True)
class Said:
    """Of somebody whom a provider has let in. ``email`` is empty unless it is verified; ``username`` is what they would
    be called here; ``sign_out`` is the address at which they sign out of the provider, which says who they are."""

    provider: str
    title: str
    issuer: str
    subject: str
    username: str
    email: str = ""
    groups: tuple[str, ...] = ()
    sign_out: str = field(default="", repr=False)


def said_by(provider: Provider, claims: Mapping[str, Any]) -> Said:
    """Raises NotLetIn for what cannot be taken."""
    subject, email = str(claims.get("sub") or ""), str(claims.get("email") or "")
    if not subject or len(subject) > LONGEST or "\x00" in subject:
        raise NotLetIn(f"{provider.title} does not say who you are: its answer has no sub. Tell the admin.")
    if provider.groups in (claims.get("_claim_names") or {}):
        raise NotLetIn(
            f"You are in so many groups that {provider.title} names none of them. "
            "Its admin can have it send only those that are assigned to this application."
        )
    verified = claims.get("email_verified") in (True, "true")
    if email and claims.get("email_verified") in (False, "false") and not provider.unverified_email:
        raise NotLetIn(f"{provider.title} has not verified your address {email[:LONGEST]}. Verify it there first.")
    name = str(claim(claims, provider.username) or email)
    groups = names(claim(claims, provider.groups) if provider.groups else ())
    address = email if verified and is_email(email) else ""
    return Said(provider.name, provider.title, provider.issuer, subject, username_of(name), address, groups)


def is_email(text: str) -> bool:
    try:
        EmailValidator()(text)
    except ValidationError:
        return False
    return len(text) <= 254


def claim(claims: Mapping[str, Any], path: str) -> Any:
    """``realm_access.roles`` is that of the object ``realm_access``, unless a claim has the whole name."""
    if path in claims:
        return claims[path]
    found: Any = claims
    for name in path.split("."):
        found = found.get(name) if isinstance(found, Mapping) else None
    return found


def names(value: Any) -> tuple[str, ...]:
    """Groups, whether they come as a list or as one text."""
    values: Iterable[Any] = [value] if isinstance(value, str) else value if isinstance(value, (list, tuple)) else ()
    texts = dict.fromkeys(each for each in values if isinstance(each, str) and 0 < len(each) <= LONGEST)
    return tuple(each for each in texts if "\x00" not in each)[:MOST_GROUPS]


def username_of(name: str) -> str:
    """The name of a user here: of an address the part before its @, with a dash for each sign that no name has."""
    return _NO_NAME.sub("-", name.partition("@")[0].strip())[:64]
