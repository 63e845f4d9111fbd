"""Lets a host join the others on one PostgreSQL, or says in a sentence what it does not share with them."""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import CommandError
from django.db import DatabaseError, connection
from django.utils import timezone

from base.hosts import this_host
from base.hosts.session import is_postgresql, open_session
from base.models import Host, Shared

MOST_SKEW = 60  # seconds by which the clock of a host may differ from that of the database
MOST_IDLE = 60_000  # milliseconds for which the database may wait for a host in the middle of a transaction
_LISTENING = 5.0  # seconds in which a notification must have arrived
_KEYS = "keys"  # the name of a row of Shared
_STARTING = 7_401_986_332  # the advisory lock of starts

NO_SESSIONS = (
    "The database is behind a pooler that keeps no sessions, such as PgBouncer in transaction mode: LISTEN and "
    "advisory locks do not work there. Set LONGSHORE_DATABASE_DIRECT to the address of the PostgreSQL server itself; "
    "DATABASE_URL may stay as it is."
)


class NotShared(Exception):
    """This host cannot join the others. The text says what to set."""


@contextmanager
def one_host_at_a_time(say: Callable[[str], object]) -> Iterator[None]:
    """For what one host does at a time at its start: migrations, the first user, joining."""
    if not is_postgresql():
        yield
        return
    _refuse_pooler()
    session = open_session()
    try:
        if not session.execute("SELECT pg_try_advisory_lock(%s)", [_STARTING]).fetchone()[0]:
            say("longshore: another host brings the database up to its release; waiting for it")
            session.execute("SELECT pg_advisory_lock(%s)", [_STARTING])
        yield
    finally:
        session.close()


def join(store: str) -> None:
    """Compare this host with those that run, and write its row. ``store``: what tells its file store from another.
    NotShared when something keeps it out. Call inside ``alone``, once the tables are there."""
    if not is_postgresql():
        return
    check_keys()
    _check_patience()
    _check_clock()
    # A shared folder of metrics is needed only where the store is a folder: else the sampler shares its files by the
    # store (jobs/metrics/sharing).
    mine = {"store": store, "metrics": "" if settings.STORE_URL else _marker(settings.METRICS_DIR)}
    _compare(mine, this_host.others())
    this_host.enter({**mine, "machine": this_host.machine()})


def check_keys() -> None:
    """NotShared when the secret keys of this host are not those with which the database was made: it could read
    nothing that is sealed. The first host that asks has the right ones."""
    if not is_postgresql():
        return
    row, _ = Shared.objects.get_or_create(name=_KEYS, defaults={"value": _fingerprint()})
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
        check_keys()
    except NotShared as error:
        raise CommandError(str(error)) from error
    except DatabaseError:
        pass
    finally:
        connection.close()  # processes fork, and threads have their own


def take_keys() -> None:
    """From now on the keys of this host are those of the portal."""
    Shared.objects.update_or_create(name=_KEYS, defaults={"value": _fingerprint()})


def _fingerprint() -> str:
    words = f"longshore keys {settings.SECRET_KEY} {settings.TOKEN_KEY}"
    return hashlib.pbkdf2_hmac("sha256", words.encode(), b"longshore", 100_000).hex()


def _check_patience() -> None:
    """A host that hangs in the middle of a transaction would stop all others for ever."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT setting::int FROM pg_settings WHERE name = 'idle_in_transaction_session_timeout'")
        (milliseconds,) = cursor.fetchone()
    if not 0 < milliseconds <= MOST_IDLE:
        raise NotShared(
            "The database would wait for ever for a host that hangs in the middle of a transaction. Run there, as its "
            f"administrator: ALTER ROLE {connection.settings_dict['USER'] or 'longshore'} "
            "SET idle_in_transaction_session_timeout = '7s'; and start again (a pooler must open new sessions)."
        )


def _check_clock() -> None:
    skew = (timezone.now() - this_host.database_now()).total_seconds()
    if abs(skew) > MOST_SKEW:
        way = "ahead of" if skew > 0 else "behind"
        raise NotShared(
            f"The clock of this host is {abs(skew):.0f} s {way} that of the database server. Set both right, by NTP "
            "for instance, and start again."
        )


def _compare(mine: dict[str, Any], others: list[Host]) -> None:
    for other in others:
        if other.report.get("store") != mine["store"]:
            raise NotShared(
                f"Host {other.name} runs on this database and has its files elsewhere. All hosts of a portal need one "
                "file store: set LONGSHORE_STORE_URL to the same on all, or mount one folder as LONGSHORE_HOME/store "
                f"on all (here: {settings.STORE_URL or settings.HOME / 'store'})."
            )
        if other.report.get("metrics") != mine["metrics"]:
            raise NotShared(
                f"Host {other.name} runs on this database and has its metrics elsewhere. One host samples and all show "
                "them: set LONGSHORE_METRICS to a folder that all hosts have mounted, or use HDFS or S3 as the store."
            )


def _marker(folder: Path) -> str:
    """The id of a folder, by which two hosts know that it is the same. It is made if it is missing."""
    path = folder / ".longshore-folder"
    if not path.exists():
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        path.write_text(uuid.uuid4().hex)
    return path.read_text().strip()


def is_pooler(error: DatabaseError) -> bool:
    """Whether this is what a pooler says to a client that sets something for its session."""
    return "unsupported startup parameter" in str(error)


def _refuse_pooler() -> None:
    """NotShared where wake-ups do not arrive, as over PgBouncer in transaction mode."""
    channel = f"longshore_trial_{uuid.uuid4().hex[:8]}"
    listener, speaker = open_session(), open_session()
    try:
        listener.execute(f'LISTEN "{channel}"')
        speaker.execute("SELECT pg_notify(%s, '')", [channel])
        if any(True for _ in listener.notifies(timeout=_LISTENING, stop_after=1)):
            return
        listener.execute("UNLISTEN *")
    finally:
        listener.close()
        speaker.close()
    raise NotShared(NO_SESSIONS)
