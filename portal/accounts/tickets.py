"""Tickets: for one opening of one address within SECONDS, for who cannot show a session or a token there.

A ticket stands for the session or token with which it was asked for, and ends with that. The row has only its hash;
taking it deletes the row, so of two who show it one gets in.
"""

from __future__ import annotations

import secrets
from datetime import timedelta

from django.utils import timezone

from portal.models import ApiToken, Ticket

SECONDS = 30


def issue(credential: str, path: str) -> str:
    """``credential``: as in portal.accounts.callers. ``path``: of the address that the ticket opens."""
    ticket, now = secrets.token_urlsafe(24), timezone.now()
    Ticket.objects.filter(expires_at__lt=now).delete()
    expires = now + timedelta(seconds=SECONDS)
    Ticket.objects.create(id_hash=ApiToken.hash_id(ticket), path=path[:1000], credential=credential, expires_at=expires)
    return ticket


def take(ticket: str, path: str) -> str:
    """The credential; empty for a ticket that does not open this address, was used, or is too old."""
    rows = Ticket.objects.filter(id_hash=ApiToken.hash_id(ticket), path=path[:1000], expires_at__gt=timezone.now())
    row = rows.first()
    return row.credential if row is not None and rows.delete()[0] else ""
