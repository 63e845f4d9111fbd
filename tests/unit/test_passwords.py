"""Passwords are hashed as the portal's own settings say; the other tests use a hash that costs nothing."""

from __future__ import annotations

from django.contrib.auth.hashers import Argon2PasswordHasher

from base.accounts.passwords import PasswordHasher


def test_a_hash_of_django_s_own_strength_is_read_and_made_anew() -> None:
    hasher, before = PasswordHasher(), Argon2PasswordHasher()
    salt = hasher.salt()
    encoded = before.encode("a long secret", salt)
    assert hasher.verify("a long secret", encoded) and not hasher.verify("another", encoded)
    assert hasher.must_update(encoded)
    made = hasher.encode("a long secret", salt)
    assert made.startswith("argon2$argon2id$v=19$m=19456,t=2,p=1$") and not hasher.must_update(made)
