"""One scheduler acts, however many run: a row names the holder, and every write of a state compares the row's epoch.

A process that takes the lease raises the epoch. A holder that slept, lost its connection or was replaced sees another
epoch in the transaction of its next write, and writes nothing. Three things end a lease: its holder returns it, its
holder has ended, or nobody renews it for PATIENCE seconds. That a process has ended is seen by its number on its own
host, and from others by its session (base/hosts/session.py). The last is measured by the clock of the process that
waits, as the time in which the row did not change, so clocks of two hosts are never compared.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from functools import cache
from pathlib import Path

from django.db import connection, transaction
from django.db.models import F

from base.core import clock
from base.hosts import this_host
from base.hosts.session import Sign
from base.models import LeaseRow

PATIENCE = timedelta(seconds=6)
RENEW = timedelta(seconds=1.5)  # a holder renews so often at least, and a pass takes less than three seconds

_BEAT = "UPDATE portal_leaserow SET beats = beats + 1 WHERE name = %s AND epoch = %s"


class Fenced(Exception):
    """Another process has taken the lease. Nothing was written."""


class Lease:
    """Call ``try_take`` until it is true; then every write goes inside ``writing``."""

    def __init__(self, name: str, *, holder: str = "", patience: timedelta = PATIENCE) -> None:
        self.name = name
        self.holder = holder or name_of(os.getpid())
        self.epoch: int | None = None  # None: not held
        self._patience = patience
        self._pid = os.getpid()
        self._unchanged: tuple[tuple[int, int], datetime] | None = None  # the row, and since when it is so
        self._renewed = clock.monotonic_now()
        self._sign = Sign(name)

    def try_take(self) -> bool:
        """Try to take the lease: true when this process holds it from now on. Raises what the database raises."""
        row, _ = LeaseRow.objects.get_or_create(name=self.name)
        if not self._is_free(row):
            return False
        self._sign.show(row.epoch + 1)
        same = LeaseRow.objects.filter(name=self.name, epoch=row.epoch, beats=row.beats)
        if not same.update(epoch=row.epoch + 1, beats=0, holder=self.holder):
            self._sign.hide()
            return False
        self.epoch, self._pid, self._unchanged = row.epoch + 1, os.getpid(), None
        return True

    def renew(self) -> None:
        """Renew the lease when that is due. May be called often. Raises Fenced, and what the database raises."""
        if self._is_due():
            with self.writing():
                pass

    @contextmanager
    def writing(self) -> Iterator[None]:
        """A transaction of the holder, which renews the lease as well. Raises Fenced, having written nothing, when the
        lease is another's. Its row stays locked until the commit: nobody can take the lease in between."""
        epoch = self._own_epoch()
        if self._is_due():
            self._sign.ensure_running()
        with transaction.atomic():
            if not self._beat(epoch):
                self.epoch = None
                self._sign.hide()
                raise Fenced(f"Another process has taken the lease {self.name}.")
            yield
        self._renewed = clock.monotonic_now()

    def _beat(self, epoch: int) -> bool:
        """Renew the row, and say whether it is still of this epoch. Each pass does it: its SQL is written out."""
        with connection.cursor() as cursor:
            cursor.execute(_BEAT, [self.name, epoch])
            return bool(cursor.rowcount)

    def give_back(self) -> None:
        """Give the lease back, so that the next process need not wait. Does nothing when another one has it."""
        if self.epoch is not None:
            LeaseRow.objects.filter(name=self.name, epoch=self.epoch).update(holder="", beats=F("beats") + 1)
            self.epoch = None
            self._sign.hide()

    def _is_free(self, row: LeaseRow) -> bool:
        if row.holder in ("", self.holder) or has_ended(row.holder) or self._sign.is_missing(row.epoch):
            return True
        said = row.epoch, row.beats
        if self._unchanged is None or self._unchanged[0] != said:
            self._unchanged = said, clock.monotonic_now()
        return clock.monotonic_now() - self._unchanged[1] >= self._patience

    def _is_due(self) -> bool:
        return clock.monotonic_now() - self._renewed >= RENEW

    def _own_epoch(self) -> int:
        """The epoch of this process. A process that was forked off the holder is not the holder."""
        if self.epoch is None or self._pid != os.getpid():
            raise Fenced(f"This process does not hold the lease {self.name}.")
        return self.epoch


def name_of(pid: int) -> str:
    """A name for a process of this host among those of all hosts: machine, namespace, number, and when it started."""
    return f"{_host()} {pid} {_started(pid)}"


def has_ended(holder: str) -> bool:
    """Whether it is a process of this host that has ended. A stopped process has not ended."""
    host, _, rest = holder.partition(" ")
    pid, _, started = rest.partition(" ")
    return host == _host() and pid.isdigit() and _started(int(pid)) != started


@cache
def _host() -> str:
    return f"{this_host.machine()}/{os.readlink('/proc/self/ns/pid')}"


def _started(pid: int) -> str:
    """When a process started, in ticks since the machine did. Empty when there is no such process, or it is dead and
    not yet waited for."""
    fields = stat_of(pid)
    return fields[19] if fields and fields[0] not in "ZX" else ""


def stat_of(pid: int) -> list[str]:
    """The fields of /proc/<pid>/stat from the state on; none without such a process."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []
