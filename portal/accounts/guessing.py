"""Notices who guesses passwords, beyond what django-axes counts (one address at one name): one address at many names,
and many addresses at one name.

The second may be somebody who wants to lock the user out. So it refuses only addresses from which the user has not
signed in lately, and ends by itself: nobody is locked out where they usually work.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from django.db.models import Count, Q

from portal.models import AuditEvent

WINDOW = timedelta(minutes=5)
BY_ADDRESS = 50  # wrong passwords of one address, whatever the names: a whole office may be behind one
BY_USER = 30  # wrong passwords for one name, wherever they come from
KNOWN = timedelta(days=90)  # an address of a user, since they last signed in from it
FAILED = "login failed"
_SIGNED_IN = ("login", "token made")


def is_too_much(username: str, address: str | None, now: datetime) -> bool:
    """Whether to refuse a login before the password is checked."""
    here = Q(ip=address) if address else Q(ip=None)
    failed = AuditEvent.objects.filter(at__gt=now - WINDOW, action=FAILED)
    wrong = failed.aggregate(here=Count("pk", filter=here), user=Count("pk", filter=Q(actor=username)))
    if wrong["here"] >= BY_ADDRESS:
        return True
    return wrong["user"] >= BY_USER and not _is_known(username, here, now)


def _is_known(username: str, here: Q, now: datetime) -> bool:
    signed_in = AuditEvent.objects.filter(here, actor=username, action__in=_SIGNED_IN, at__gt=now - KNOWN)
    return signed_in.exists()
