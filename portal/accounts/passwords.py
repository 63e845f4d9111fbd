"""How passwords are hashed."""

from __future__ import annotations

from django.contrib.auth.hashers import Argon2PasswordHasher


class PasswordHasher(Argon2PasswordHasher):
    """argon2id with the least OWASP's password storage cheat sheet asks for: 19 MiB, two passes, one lane. Django's own
    numbers take 100 MiB and ten times the processor for each sign-in, and clients of v1 sign in often. Older hashes
    are read, and made anew at the next sign-in."""

    time_cost = 2
    memory_cost = 19 * 1024
    parallelism = 1
