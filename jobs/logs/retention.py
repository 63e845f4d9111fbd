"""Deletes archived logs that are older, or more, than their virtual cluster keeps.

Each job is told days before, by an Event; its log page has the day too. Where a log was, the store keeps a note that
says when and why it went. A limit that is raised meanwhile keeps what was to go.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

import structlog
from django.db.models import Q

from base.files.store import open_store
from base.files.store.base import StoreUnavailable
from clusters.models import VirtualCluster
from jobs.logs.places import STREAMS, folder_of, write_index
from jobs.models import Attempt, Event, Task

NOTICE = timedelta(days=3)
_GIGABYTE = 10**9
log = structlog.get_logger("jobs.logs")


def clean_up(now: datetime) -> None:
    """Tell of what will go, and delete what is due. Stops when the store is down: the next time goes on."""
    concerned = Q(log_days__isnull=False) | Q(log_gigabytes__isnull=False)
    told = Attempt.objects.filter(log_gone_at=None, log_goes_at__isnull=False).values("job__vc")
    for vc in VirtualCluster.objects.filter(concerned | Q(name__in=told)).order_by("name"):
        try:
            for row, due, why in _kept(vc, now):
                _apply(row, due, why, now)
        except StoreUnavailable as error:
            log.info("old logs are deleted later", vc=vc.name, reason=error.message)
            return


def rule_of(vc: VirtualCluster | None) -> str:
    """``keeps logs for 30 days, and 100 GB of them``; empty where all stay."""
    if vc is None or (vc.log_days is None and vc.log_gigabytes is None):
        return ""
    days = f"logs for {vc.log_days} day{'s' if vc.log_days != 1 else ''}" if vc.log_days else ""
    size = f"{vc.log_gigabytes} GB of {'them' if days else 'logs'}" if vc.log_gigabytes else ""
    return f"keeps {', and '.join(filter(None, (days, size)))}"


def _kept(vc: VirtualCluster, now: datetime) -> Iterator[tuple[Attempt, datetime | None, str]]:
    """The logs that are kept, the newest first, each with when it is to go by the rule; None if it stays for now."""
    rows = Attempt.objects.filter(job__vc=vc.name, log_gone_at=None, completed_at__isnull=False)
    total, why = 0, f"virtual cluster {vc.name} {rule_of(vc)}"
    for row in rows.select_related("job").order_by("-completed_at", "-id"):
        total += row.log_bytes
        ended, due = row.completed_at, None
        if vc.log_days is not None and ended is not None and ended + timedelta(days=vc.log_days) - NOTICE <= now:
            due = max(ended + timedelta(days=vc.log_days), now + NOTICE)
        if vc.log_gigabytes is not None and total > vc.log_gigabytes * _GIGABYTE:
            due = now + NOTICE
        yield row, due, why


def _apply(row: Attempt, due: datetime | None, why: str, now: datetime) -> None:
    if due is None and row.log_goes_at is not None:
        Attempt.objects.filter(pk=row.pk).update(log_goes_at=None)
        _tell(row, now, "log.stays", f"The logs of attempt {row.number} stay after all.")
    elif due is not None and row.log_goes_at is None:
        Attempt.objects.filter(pk=row.pk).update(log_goes_at=due)
        when = f"{due.day} {due:%b %Y}"
        reason = f"The logs of attempt {row.number} will be deleted on {when}: {why}. Download what is needed."
        _tell(row, now, "log.expires", reason)
    elif row.log_goes_at is not None and row.log_goes_at <= now:
        reason = f"This log was deleted on {now.day} {now:%b %Y}: {why}."
        _delete(row, reason)
        Attempt.objects.filter(pk=row.pk).update(log_gone_at=now, log_bytes=0)
        _tell(row, now, "log.deleted", f"The logs of attempt {row.number} were deleted: {why}.")


def _delete(row: Attempt, reason: str) -> None:
    """Put the note in the place of the index first: nobody reads a log that is half there."""
    empty: dict[str, Any] = {"bytes": 0, "newlines": 0, "blocks": []}
    store = open_store()
    for task in Task.objects.filter(attempt=row).select_related("attempt", "job").order_by("id"):
        folder = folder_of(task)
        write_index(store, folder, dict.fromkeys(STREAMS, empty), complete=False, reason=reason)
        for stream in STREAMS:
            store.delete(f"{folder}/{stream}")
            store.delete(f"{folder}/{stream}.times")


def _tell(row: Attempt, now: datetime, kind: str, reason: str) -> None:
    Event.objects.create(job=row.job, at=now, kind=kind, attempt=row.number, reason=reason)
