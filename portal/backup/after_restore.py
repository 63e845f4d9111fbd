"""What changes in rows that were restored, so that this installation goes on with them and no older one does."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from django.conf import settings
from django.db import connection, transaction

from base.accounts import audit
from base.files.store import local_root, marker
from base.hosts import predecessor, shared, this_host
from base.models import AuditEvent, LeaseRow, Shared
from base.wakes import wake
from clusters.models import Cluster, Node
from jobs.models import Replay, Task

# More often than any lease changes hands between a backup and its restore.
_LEAP = 1_000_000
ACTOR = "manage.py restore"  # in the audit


def epochs() -> dict[str, int]:
    """The epochs of the leases in the database that is about to be replaced, by the lease's name."""
    if LeaseRow._meta.db_table not in connection.introspection.table_names():
        return {}
    return dict(LeaseRow.objects.values_list("name", "epoch"))


@dataclass(frozen=True, slots=True)
class Replaced:
    """What is known of the database that is about to be replaced. ``began``: its first audit event, which is never
    deleted and tells the installations' databases apart."""

    began: tuple[Any, ...] | None = None
    is_copy: bool = False  # whether the one that was backed up may still run beside it


def replaced() -> Replaced:
    there = connection.introspection.table_names()
    if not {AuditEvent._meta.db_table, Shared._meta.db_table} <= set(there):
        return Replaced()
    return Replaced(_began(), predecessor.rows().exists())


def _began() -> tuple[Any, ...] | None:
    return AuditEvent.objects.order_by("id").values_list("id", "at", "actor").first()


def beware(about: Mapping[str, Any], before: Replaced, made: str) -> None:
    """Where the installation that was backed up may still run, do nothing at its engines. It does not where its
    database is the replaced one, of which all processes were looked for, or was an SQLite of this LONGSHORE_HOME, whose
    lock we hold. Of another LONGSHORE_HOME nobody knows. A backup of such a copy knows itself that it is one. Call it
    before anything is recorded in the audit."""
    is_its_home = about["database"] == "sqlite" and about.get("host") == this_host.host_id()
    is_its_database = before.began is not None and before.began == _began()
    if before.is_copy or not (is_its_home or is_its_database):
        predecessor.remember(made)


def confirm_gone() -> bool:
    """An admin says that the other installation is gone. Return whether anybody waited for that."""
    with transaction.atomic():
        if not predecessor.rows().delete()[0]:
            return False
        audit.record(ACTOR, "old installation gone")
        wake.notify("scheduler", "pages")
    return True


def settle(about: Mapping[str, Any], before: Mapping[str, int], made: str, store: str) -> None:
    """``about``: of the installation that made the backup; ``before``: ``epochs`` of the replaced database; ``made``:
    when; ``store``: the marker of the store that comes with it, if one does."""
    _fence(before)
    # Whoever held a claim is gone: its work is ordered again as soon as the scheduler sees that it is not done.
    Task.objects.exclude(claim="").update(claim="", claimed_until=None, progress="")
    Replay.objects.filter(result__isnull=True, error="").update(error="The portal was restored before it was through.")
    _follow_home(Path(about["home"]))
    _follow_store(store)
    audit.record(ACTOR, "restored", made, data={"release": about["release"], "from": about["home"]})


def _fence(before: Mapping[str, int]) -> None:
    """A process that held a lease of the old database, or of the one that was backed up, writes nothing any more."""
    for row in LeaseRow.objects.all():
        epoch = max(row.epoch, before.get(row.name, 0)) + _LEAP
        LeaseRow.objects.filter(name=row.name).update(epoch=epoch, beats=0, holder="")
    for name in before.keys() - set(LeaseRow.objects.values_list("name", flat=True)):
        LeaseRow.objects.create(name=name, epoch=before[name] + _LEAP)


def _follow_home(old: Path) -> None:
    """Keys of nodes and clusters are known by their folder, which may be another one now."""
    new = Path(settings.HOME)
    for rows in (Node.objects.exclude(tls_dir=""), Cluster.objects.exclude(tls_dir="")):
        for pk, folder in rows.values_list("pk", "tls_dir"):
            if Path(folder).is_relative_to(old) and old != new:
                rows.filter(pk=pk).update(tls_dir=str(new / Path(folder).relative_to(old)))


def _follow_store(restored: str) -> None:
    """The folder that is the store now, if there is one. Where there is none, the next start makes it; where it is
    there without its marker, its disk may not be mounted, and the next start asks. An HDFS or a bucket that is not the
    one of the backup is noticed by the next start."""
    root = local_root()
    if id := restored or (not settings.STORE_URL and marker.read(root)):
        marker.know(id, str(root))
    elif not settings.STORE_URL and not root.exists():
        marker.begin_anew()


def missing_keys() -> Iterator[str]:
    """A sentence for each node or cluster whose keys were not in the backup, as they were neither in LONGSHORE_HOME nor
    in the database, where several hosts have them."""
    for owners in (Node.objects, Cluster.objects):
        for name, folder in owners.exclude(tls_dir="").values_list("name", "tls_dir"):
            if not Path(folder).is_dir() and not shared.has(shared.tls_name(Path(folder))):
                yield f"The keys of {name} are not in {folder}; copy them there, or give it new ones on its page."
