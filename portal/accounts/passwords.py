"""Passwords: how they are hashed, which are taken, and what a new one ends."""

from __future__ import annotations

from django.contrib.auth.hashers import Argon2PasswordHasher
from django.contrib.auth.password_validation import validate_password
from django.core.exceptions import ValidationError

from portal.accounts import audit, tokens
from portal.core.errors import BadRequest
from portal.models import User

LONGEST = 1024  # characters


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


def replace(user: User, hashed: str, *, by: str, ip: str | None = None) -> None:
    """Inside a transaction. Ends every token of the user and, since sessions carry a hash of the password, every
    session. ``hashed`` comes from ``make_password``, which is slow on purpose: call it before the transaction."""
    user.password = hashed
    user.save(update_fields=["password"])
    revoked = tokens.revoke_all(user)
    audit.record(by, "password changed", user.username, ip, {"tokensRevoked": revoked})
