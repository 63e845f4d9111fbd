"""Deletes rows that nobody needs any more: tokens and sessions that ended long ago, and notes of failed orders."""

from __future__ import annotations

from datetime import datetime, timedelta

import structlog
from django.contrib.sessions.models import Session
from django.db.models import Q
from django_q.models import Failure

from base.models import ApiToken

KEPT = timedelta(days=30)  # so that an admin can still see what a token was, and which order failed
EVERY = 86_400.0  # seconds

log = structlog.get_logger()


def clean_up(now: datetime) -> int:
    """Delete them, and give how many there were. May run in several places at once."""
    before = now - KEPT
    gone = {
        "tokens": ApiToken.objects.filter(Q(expires_at__lt=before) | Q(revoked_at__lt=before)),
        "sessions": Session.objects.filter(expire_date__lt=now),
        "failed orders": Failure.objects.filter(stopped__lt=before),
    }
    numbers = {what: rows.delete()[0] for what, rows in gone.items()}
    if any(numbers.values()):
        log.info("old rows removed", **numbers)
    return sum(numbers.values())
