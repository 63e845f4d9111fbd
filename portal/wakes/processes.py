"""Shows which processes of this portal live, on all hosts: each writes a row every few seconds.

The supervisor does not know the database, so what it started writes its row too, for as long as that runs. A process
that ends in an orderly way takes its row with it; the row of one that was killed stays, and grows old.
"""

from __future__ import annotations

import os
import shutil
import socket
import threading
import time
from contextlib import suppress
from datetime import datetime, timedelta
from pathlib import Path
from typing import Literal

from django.conf import settings
from django.db import DatabaseError

from portal.core.threads import Kept
from portal.hosts import here
from portal.models import Process
from portal.wakes.lease import has_ended, name_of

Name = Literal["web", "web pages", "scheduler", "workers", "sampler", "supervisor"]
EVERY = 5.0  # seconds between two writes
FORGOTTEN = timedelta(days=7)  # after which the row of a process that was killed goes
SUPERVISOR = "LONGSHORE_SUPERVISOR"  # the variable by which the supervisor tells its number to what it starts
_shown: dict[str, float] = {}


def show(name: Name) -> None:
    """Show that this process lives. May be called often. Raises what the database raises."""
    last = _shown.get(name)
    if last is not None and time.monotonic() - last < EVERY:
        return
    at = here.now()
    if last is None:
        _forget_ended(at)
    rows = [_row(name, os.getpid(), at)]
    if (supervisor := _supervisor()) is not None:
        rows.append(_row("supervisor", supervisor, at))
    Process.objects.bulk_create(rows, update_conflicts=True, unique_fields=["id"], update_fields=["at", "report"])
    here.renew()
    _shown[name] = time.monotonic()


def shown(name: Name) -> Kept:
    """A thread that shows it, from ``keep`` to ``stop``, for a process that does nothing regularly."""
    over = threading.Event()

    def step() -> None:
        with suppress(DatabaseError):  # those who need the database say so
            show(name)
        over.wait(EVERY)

    return Kept(f"shows {name}", step, longest=12 * EVERY, interrupt=over.set)


def leave(name: Name) -> None:
    """This process, or its parts, end in an orderly way. A supervisor that goes on is shown again by its others."""
    with suppress(DatabaseError):
        Process.objects.filter(host=here.host_id(), name__in=[name, "supervisor"]).delete()
        if not Process.objects.filter(host=here.host_id()).exists():
            here.leave()


def free_bytes() -> tuple[int, int]:
    """Of the disk of LONGSHORE_HOME: what is free, and all of it."""
    use = shutil.disk_usage(settings.HOME)
    return use.free, use.total


def forget() -> None:
    """For tests: as in a process that has just started."""
    _shown.clear()


def _row(name: str, pid: int, at: datetime) -> Process:
    free, total = free_bytes()
    return Process(
        id=name_of(pid),
        host=here.host_id(),
        host_name=socket.gethostname(),
        name=name,
        pid=pid,
        release=settings.VERSION,
        since=at - timedelta(seconds=_age(pid)),
        at=at,
        report={"free": free, "total": total, "bind": f"{settings.BIND_HOST}:{settings.BIND_PORT}"},
    )


def _forget_ended(now: datetime) -> None:
    mine = Process.objects.filter(host=here.host_id()).values_list("id", flat=True)
    Process.objects.filter(id__in=[id for id in mine if has_ended(id)]).delete()
    Process.objects.filter(at__lt=now - FORGOTTEN).delete()


def _supervisor() -> int | None:
    """The number of the supervisor, if this process has one that runs. One that was stopped does not."""
    pid = os.environ.get(SUPERVISOR, "")
    state = _stat(int(pid))[:1] if pid.isdigit() else []
    return int(pid) if state and state[0] not in "TtZX" else None


def _age(pid: int) -> float:
    """For how many seconds the process has run."""
    started = int((_stat(pid) or ["0"] * 20)[19]) / os.sysconf("SC_CLK_TCK")
    return max(0.0, float(Path("/proc/uptime").read_text().split()[0]) - started)


def _stat(pid: int) -> list[str]:
    """The fields of /proc/<pid>/stat from the state on; none without such a process."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []
