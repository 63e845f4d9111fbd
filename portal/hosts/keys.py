"""Refuses a host whose secret keys are not those with which the database was made: it could read nothing that is
sealed."""

from __future__ import annotations

import hashlib

from django.conf import settings
from django.core.management.base import CommandError
from django.db import DatabaseError, connection

from portal.hosts.session import is_postgresql
from portal.models import Shared

_NAME = "keys"


class NotShared(Exception):
    """This host cannot join the others. The text says what to set."""


def check() -> None:
    """NotShared when they differ. The first host that asks has the right ones."""
    if not is_postgresql():
        return
    row, _ = Shared.objects.get_or_create(name=_NAME, defaults={"value": _fingerprint()})
    if row.value != _fingerprint():
        raise NotShared(
            "The keys of this host are not those of the portal that has this database. All its hosts need the same: "
            "set LONGSHORE_SECRET_KEY_FILE and LONGSHORE_TOKEN_KEY_FILE to copies of secrets/django.key and "
            "secrets/token.key in the LONGSHORE_HOME of a host that runs. If these are lost for good, "
            "`manage.py newkeys` takes those of this host from now on."
        )


def refuse_other_keys() -> None:
    """For the start of a process: CommandError when the keys differ. A database that does not answer is no error here:
    the process itself waits for it."""
    try:
        check()
    except NotShared as error:
        raise CommandError(str(error)) from error
    except DatabaseError:
        pass
    finally:
        connection.close()  # processes fork, and threads have their own


def take() -> None:
    """From now on the keys of this host are those of the portal."""
    Shared.objects.update_or_create(name=_NAME, defaults={"value": _fingerprint()})


def _fingerprint() -> str:
    words = f"longshore keys {settings.SECRET_KEY} {settings.TOKEN_KEY}"
    return hashlib.pbkdf2_hmac("sha256", words.encode(), b"longshore", 100_000).hex()
