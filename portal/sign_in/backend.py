"""Lets Django ask the directories for a password, after its own users; django-axes counts what they refuse."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.contrib.auth.backends import ModelBackend
from django.http import HttpRequest

from base.accounts.providers import ldap
from base.accounts.providers.config import Directory
from base.models import Identity, User
from clusters.users import entry


class DirectoryBackend(ModelBackend):
    def authenticate(  # type: ignore[override]
        self, request: HttpRequest | None, username: str = "", password: str = "", source: str = "", **_: Any
    ) -> User | None:
        """``source``: the directory that somebody has chosen; ``local`` is none of them. Clients of the API choose
        nothing: all are asked, but not for the password of somebody who has one here. Raises NotLetIn,
        ProviderUnavailable."""
        if source or _is_elsewhere(username):
            for directory in settings.SIGN_IN.values():
                if not isinstance(directory, Directory) or source not in ("", directory.name):
                    continue
                if (said := ldap.check(directory, username, password)) is not None:
                    return entry.enter(said)
        return None


def _is_elsewhere(username: str) -> bool:
    user = User.objects.filter(username=username).first()
    return (
        user is None
        or not user.has_usable_password()
        or Identity.objects.filter(user=user, issuer__startswith="ldap:").exists()
    )
