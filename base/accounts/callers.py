"""Somebody with a connection that stays open, and whether they still may be who they are; and tickets.

A ticket opens one address once, within TICKET_SECONDS, for who cannot show a session or a token there. It stands for
the one with which it was asked for, and ends with that. Its row has only its hash; taking it deletes the row, so of two
who show it one gets in.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from datetime import timedelta
from importlib import import_module
from typing import Any

from django.conf import settings
from django.utils import timezone

from base.accounts import tokens
from base.accounts.viewer import viewer_in
from base.models import ApiToken, Ticket, User

TICKET_SECONDS = 30


@dataclass(frozen=True, slots=True)
class Caller:
    """``credential`` is what they showed: ``session:<key>`` or ``token:<hash>``. It is a secret."""

    user: User
    credential: str

    def now(self) -> User | None:
        """The user as they are now. None when they have logged out, the token has ended, or the account is disabled or
        gone."""
        return user_by(self.credential)


def user_by(credential: str) -> User | None:
    """Reads the database."""
    kind, _, value = credential.partition(":")
    if kind == "token":
        return tokens.user_by_hash(value)
    if kind != "session" or not value:
        return None
    store: Any = import_module(settings.SESSION_ENGINE).SessionStore
    user = viewer_in(store(value))
    return user if isinstance(user, User) else None


def issue_ticket(credential: str, path: str) -> str:
    """``credential``: as a Caller has it. ``path``: of the address that the ticket opens."""
    ticket, now = secrets.token_urlsafe(24), timezone.now()
    Ticket.objects.filter(expires_at__lt=now).delete()
    expires = now + timedelta(seconds=TICKET_SECONDS)
    Ticket.objects.create(id_hash=ApiToken.hash_id(ticket), path=path[:1000], credential=credential, expires_at=expires)
    return ticket


def take_ticket(ticket: str, path: str) -> str:
    """The credential; empty for a ticket that does not open this address, was used, or is too old."""
    rows = Ticket.objects.filter(id_hash=ApiToken.hash_id(ticket), path=path[:1000], expires_at__gt=timezone.now())
    row = rows.first()
    return row.credential if row is not None and rows.delete()[0] else ""
