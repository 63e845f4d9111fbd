"""Passwords: how they are hashed, which are taken, what a new one ends, and when somebody guesses them."""

from __future__ import annotations

from datetime import datetime, timedelta

from django.contrib.auth.hashers import Argon2PasswordHasher
from django.contrib.auth.password_validation import validate_password
from django.core.exceptions import ValidationError
from django.db.models import Count, Q

from base.accounts import audit, tokens
from base.core.errors import BadRequest
from base.models import AuditEvent, User

LONGEST = 1024  # characters
WINDOW = timedelta(minutes=5)
BY_ADDRESS = 50  # wrong passwords of one address, whatever the names: a whole office may be behind one
BY_USER = 30  # wrong passwords for one name, wherever they come from
KNOWN = timedelta(days=90)  # an address of a user, since they last signed in from it
LOGIN_FAILED = "login failed"
_SIGNED_IN = ("login", "token made")


class PasswordHasher(Argon2PasswordHasher):
    """argon2id with the least that OWASP's password storage cheat sheet asks for: 19 MiB, two passes, one lane.
    Django's own numbers take 100 MiB and ten times the processor for each sign-in, and clients of v1 sign in often.
    Older hashes are still accepted, and computed anew at the user's next sign-in."""

    time_cost = 2
    memory_cost = 19 * 1024
    parallelism = 1


def check(password: str, user: User | None = None) -> None:
    """BadRequest with the reason when nobody (or not this user) may have this password."""
    if len(password) > LONGEST:
        raise BadRequest(f"The password is longer than {LONGEST} characters.")
    try:
        validate_password(password, user)
    except ValidationError as error:
        raise BadRequest(" ".join(error.messages)) from error


def replace(user: User, hashed: str, *, by: str) -> None:
    """Inside a transaction. Ends every token of the user and, since sessions carry a hash of the password, every
    session. ``hashed`` comes from ``make_password``, which is slow on purpose: call it before the transaction."""
    user.password = hashed
    user.save(update_fields=["password"])
    revoked = tokens.revoke_all(user)
    audit.record(by, "password changed", user.username, {"tokensRevoked": revoked})


def is_guessed(username: str, address: str | None, now: datetime) -> bool:
    """Whether to refuse a login before the password is checked, since somebody guesses. It is noticed beyond what
    django-axes counts (one address at one name): one address at many names, and many addresses at one name. The second
    may be somebody who wants to lock the user out. So it refuses only addresses from which the user has not signed in
    lately, and ends by itself: nobody is locked out where they usually work."""
    here = Q(ip=address) if address else Q(ip=None)
    failed = AuditEvent.objects.filter(at__gt=now - WINDOW, action=LOGIN_FAILED)
    wrong = failed.aggregate(here=Count("pk", filter=here), user=Count("pk", filter=Q(actor=username)))
    if wrong["here"] >= BY_ADDRESS:
        return True
    return wrong["user"] >= BY_USER and not _is_known(username, here, now)


def _is_known(username: str, here: Q, now: datetime) -> bool:
    signed_in = AuditEvent.objects.filter(here, actor=username, action__in=_SIGNED_IN, at__gt=now - KNOWN)
    return signed_in.exists()
