"""Knows the hosts of this portal: each has a row, which its processes renew, and an id in its LONGSHORE_HOME."""

from __future__ import annotations

import hashlib
import socket
import uuid
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any

from django.conf import settings
from django.db import connection
from django.utils import timezone

from base.core import private
from base.hosts.session import is_postgresql
from base.models import Host

ALIVE = timedelta(seconds=30)  # without a word, after which a host counts as gone


def host_id() -> str:
    """The id of this host: of its LONGSHORE_HOME, and of its name where several have that folder."""
    return _id_in(settings.HOME)


def database_now() -> datetime:
    """The time of day on which all hosts agree: that of the database server. With SQLite there is one host."""
    if not is_postgresql():
        return timezone.now()
    with connection.cursor() as cursor:
        cursor.execute("SELECT clock_timestamp()")
        found: datetime = cursor.fetchone()[0]
    return found.astimezone(UTC)


def enter(report: dict[str, Any]) -> None:
    """Write the row of this host. ``report``: what must be the same on all hosts, see base/hosts/joining.py."""
    values = {"name": socket.gethostname(), "url": settings.PUBLIC_URL, "at": database_now(), "report": report}
    Host.objects.update_or_create(id=host_id(), defaults=values)


def renew() -> None:
    """Say that this host lives, as its processes do whenever they show themselves. Its row is made by ``manage.py
    up``."""
    if is_postgresql():
        at = database_now()
        skew = round((timezone.now() - at).total_seconds(), 1)
        Host.objects.filter(id=host_id()).update(at=at, skew=skew)


def others() -> list[Host]:
    """The other hosts that live now."""
    if not is_postgresql():
        return []
    return list(Host.objects.exclude(id=host_id()).filter(at__gt=database_now() - ALIVE).order_by("id"))


def on_other_machines() -> list[Host]:
    """Those of the others that do not share a kernel, and so no socket, with this one."""
    return [host for host in others() if host.report.get("machine") != machine()]


@cache
def machine() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def leave() -> None:
    """This host ends in an orderly way."""
    if is_postgresql():
        Host.objects.filter(id=host_id()).delete()


@cache
def _id_in(home: Path) -> str:
    id = private.made_once(home / "host-id", uuid.uuid4().hex)
    return hashlib.sha256(f"{id} {socket.gethostname()}".encode()).hexdigest()[:32]
