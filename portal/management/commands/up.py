"""``manage.py up``: check, migrate, make the first user, then supervise the processes of the portal. With
``--prepare`` it ends before that: where each process is started by itself, as in Kubernetes."""

from __future__ import annotations

import fcntl
import os
import secrets
import socket
import sys
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from django.conf import settings
from django.contrib.auth.password_validation import validate_password
from django.core.exceptions import ImproperlyConfigured, ValidationError
from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import DatabaseError, connection
from django.db.migrations.executor import MigrationExecutor

from base.accounts import audit
from base.core import linux, private
from base.core.env import is_loopback, text
from base.files.store import local_root, marker, open_store
from base.files.store.base import StoreUnavailable
from base.hosts import joining, predecessor, this_host
from base.hosts.joining import NotShared
from base.models import User
from clusters.models import Node
from portal.backup.restore import broken_off
from portal.backup.tables import applied, unknown
from portal.shared.look import static_files
from portal.supervisor import ReadinessWatch, Supervisor, children, preload, preload_web, run_child

CONTRACT = "_contract_"  # in the name of a migration that older releases do not survive (CONTRIBUTING.md)
_ADMIN = "admin"


class Command(BaseCommand):
    help = "Start everything: web, scheduler and workers. Ctrl-C ends it; containers go on running."
    requires_system_checks = ("longshore",)  # portal/checks.py

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--prepare", action="store_true", help="do what a start needs, start nothing, and end")

    def handle(self, *args: Any, **options: Any) -> None:
        lock = lock_home()
        if options["prepare"]:
            _prepare(joins=False)
            return
        # Apart, since what it opens must not stay in the process that all others are forked from.
        with ProcessPoolExecutor(1, get_context("fork"), linux.die_with_parent) as apart:
            preparing = apart.submit(_prepare, joins=True)
            preload()
            password_file = preparing.result()
        preload_web()
        tls = (settings.TLS_CERT, settings.TLS_KEY) if settings.TLS_CERT else None
        apps = (settings.APPS_BIND[0], str(settings.APPS_BIND[1])) if settings.APPS_BIND else None
        crew = children(settings.BIND_HOST, str(settings.BIND_PORT), tls, settings.WEB_PROCESSES, apps)
        if (child := Supervisor(crew, _ready(password_file), lock).run()) is not None:
            run_child(child)


def _prepare(*, joins: bool) -> Path | None:
    """Do what a start needs. Returns what ``_ensure_admin`` does. Raises CommandError and ImproperlyConfigured."""
    if sentence := broken_off():
        raise CommandError(sentence)
    _check_port("LONGSHORE_BIND", settings.BIND_HOST, settings.BIND_PORT)
    if settings.APPS_BIND:
        _check_port("LONGSHORE_APPS_BIND", *settings.APPS_BIND)
    static_files.collect()
    if warning := plain_http():
        print(warning, file=sys.stderr, flush=True)  # noqa: T201
    return _prepare_host(lambda sentence: print(sentence, flush=True), joins=joins)  # noqa: T201


def _ready(password_file: Path | None) -> ReadinessWatch:
    public = settings.PUBLIC_URL if text("LONGSHORE_PUBLIC_URL", "") else ""
    secure = bool(settings.TLS_CERT)
    host, port = settings.BIND_HOST, str(settings.BIND_PORT)
    return ReadinessWatch(host, port, settings.VERSION, password_file, secure=secure, public=public)


def _prepare_host(say: Callable[[str], object], *, joins: bool) -> Path | None:
    """Do what one host does at a time. ``joins``: its processes start here. Returns what ``_ensure_admin`` does."""
    try:
        with joining.one_host_at_a_time(say):
            migrate(say)
            _prepare_store()
            joining.check_keys()
            if held := predecessor.sentence():
                say(f"longshore: {held}")
            if joins:
                _refuse_sockets()
                joining.join(settings.STORE_URL or marker.read(local_root()))
            return _ensure_admin()
    except NotShared as error:
        raise CommandError(str(error)) from error
    except DatabaseError as error:
        if joining.is_pooler(error):
            raise CommandError(joining.NO_SESSIONS) from error
        raise CommandError(f"The database does not work: {str(error).strip()}") from error


def _refuse_sockets() -> None:
    """A socket is another engine on each host: its containers would be lost on one and strangers on another."""
    elsewhere = this_host.on_other_machines()
    node = Node.objects.filter(endpoint__startswith="unix://").first() if elsewhere else None
    if node is not None:
        raise NotShared(
            f"Node {node.name} is at {node.endpoint}, which each host takes for its own engine, and host "
            f"{elsewhere[0].name} runs on this database too. On several hosts a node needs an endpoint that all of "
            "them reach, tcp:// with keys or ssh://: give it one on its page, and start again."
        )


def plain_http() -> str:
    """A warning when passwords pass over a network unencrypted, else empty."""
    if settings.IS_HTTPS or is_loopback(settings.BIND_HOST):
        return ""
    bind = f"{settings.BIND_HOST}:{settings.BIND_PORT}"
    return (
        f"longshore: passwords and tokens reach LONGSHORE_BIND ({bind}) in plain text, and whoever listens on that "
        "network reads them; docs/run/https.md tells how to put HTTPS before it"
    )


def lock_home() -> int:
    """Take the lock of LONGSHORE_HOME. It lasts as long as the supervisor lives. Returns the open file."""
    path: Path = settings.HOME / "up.lock"
    lock = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise CommandError(
            f"Longshore already runs from {settings.HOME} (process {os.read(lock, 20).decode().strip() or 'unknown'}). "
            "Stop it first, or give this one a LONGSHORE_HOME of its own."
        ) from error
    os.ftruncate(lock, 0)
    os.write(lock, f"{os.getpid()}\n".encode())
    return lock


def _check_port(setting: str, host: str, port: int) -> None:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            said = (
                f"{setting} is {host}:{port}, which cannot be used: {error.strerror}. Set {setting} to another address."
            )
            raise CommandError(said) from error


def migrate(say: Callable[[str], object]) -> None:
    """Bring the database up to this release. CommandError when a newer release has taken away what this one needs."""
    executor = MigrationExecutor(connection)
    if newer := unknown(executor.loader, applied(executor.loader)):
        _require_usable(newer)
        say(f"longshore: the database is of a newer release ({', '.join(newer)}); this one can work with it")
    if executor.migration_plan(executor.loader.graph.leaf_nodes()):
        say("longshore: the database is brought up to this release, which may take a minute")
        call_command("migrate", interactive=False, verbosity=0)


def _require_usable(newer: Iterable[str]) -> None:
    """Migrations only add, so that older releases go on working. One that takes away says so in its name."""
    if gone := [name for name in newer if CONTRACT in name]:
        raise CommandError(
            f"The database is of a newer release of Longshore, which has taken away what this one needs: "
            f"{', '.join(gone)}. Start that release, or restore a backup of this one."
        )


def _ensure_admin() -> Path | None:
    """Make the user ``admin`` if there is no user at all. Returns the 0600 file with the password if one was made
    up."""
    if User.objects.exists():
        return None
    chosen = text("LONGSHORE_ADMIN_PASSWORD", "")
    if chosen:
        _check_password(chosen)
    password = chosen or secrets.token_urlsafe(9)
    path = None if chosen else _keep(password)
    User.objects.create_superuser(_ADMIN, password)
    audit.record("first start", "user made", _ADMIN)
    return path


def _check_password(password: str) -> None:
    try:
        validate_password(password)
    except ValidationError as error:
        raise ImproperlyConfigured(f"LONGSHORE_ADMIN_PASSWORD: {' '.join(error.messages)}") from error


def _keep(password: str) -> Path:
    path: Path = settings.HOME / "secrets" / "admin-password"
    path.unlink(missing_ok=True)
    private.made_once(path, password + "\n")
    return path


def _prepare_store() -> None:
    """CommandError when the store is not the one that has the portal's files. One that is no folder may be down, and
    nobody waits for that: /healthz tells it, and firststart tries it."""
    try:
        if settings.STORE_URL:
            marker.recognize(open_store(), settings.STORE_URL)
        else:
            marker.prepare(local_root())
    except (StoreUnavailable, OSError) as error:
        if isinstance(error, marker.NotTheStore) or not settings.STORE_URL:
            raise CommandError(str(error)) from error
