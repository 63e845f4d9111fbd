"""Makes the first user when there is none."""

from __future__ import annotations

import secrets
from pathlib import Path

from django.conf import settings
from django.contrib.auth.password_validation import validate_password
from django.core.exceptions import ImproperlyConfigured, ValidationError

from portal.accounts import audit
from portal.core.env import text
from portal.models import User

ADMIN = "admin"


def ensure_admin() -> Path | None:
    """Make the user ``admin`` if there is no user at all. Returns the 0600 file with the password if one was made
    up."""
    if User.objects.exists():
        return None
    given = text("LONGSHORE_ADMIN_PASSWORD", "")
    if given:
        _check(given)
    password = given or secrets.token_urlsafe(9)
    kept = None if given else _keep(password)
    User.objects.create_superuser(ADMIN, password)
    audit.record("first start", "user made", ADMIN)
    return kept


def _check(password: str) -> None:
    try:
        validate_password(password)
    except ValidationError as error:
        raise ImproperlyConfigured(f"LONGSHORE_ADMIN_PASSWORD: {' '.join(error.messages)}") from error


def _keep(password: str) -> Path:
    path: Path = settings.HOME / "secrets" / "admin-password"
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    path.touch(mode=0o600)
    path.write_text(password + "\n")
    return path
