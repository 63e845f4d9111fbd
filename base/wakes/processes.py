"""Shows which processes of this portal live, on all hosts: each writes a row every few seconds.

The supervisor does not speak to the database, so what it started writes its row too, for as long as that runs. A
process that ends in an orderly way takes its row with it; the row of one that was killed stays, and grows old. Those
that the portal cannot do without beat besides: one row for each kind, with a report of whoever acts about its parts.
"""

from __future__ import annotations

import os
import shutil
import socket
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Literal

from django.conf import settings
from django.db import DatabaseError
from django.utils import timezone

from base.core.bulk import all_values
from base.core.clock import Remembered
from base.core.threads import KeptThread
from base.hosts import this_host
from base.hosts.session import is_postgresql
from base.models import Heartbeat, Process
from base.wakes.lease import has_ended, name_of, stat_of

Name = Literal["web", "web pages", "scheduler", "workers", "sampler", "supervisor"]
EVERY = 8.0  # seconds between two writes
FORGOTTEN = timedelta(days=7)  # after which the row of a process that was killed goes
SUPERVISOR = "LONGSHORE_SUPERVISOR"  # the variable by which the supervisor tells its number to what it starts
NAMES: tuple[Name, ...] = ("scheduler", "workers", "sampler")  # those that beat
LATE = 20.0  # seconds without a beat after which a process counts as down
FRESH = 2.0  # seconds for which pages show an answer again
_shown: dict[str, tuple[float, list[str]]] = {}  # when it was shown last, and the ids of its rows
_last: dict[str, float] = {}


def record_process(name: Name) -> None:
    """Show that this process lives. May be called often. Raises what the database raises."""
    last, ids = _shown.get(name, (None, []))
    if last is not None and time.monotonic() - last < EVERY:
        return
    at = this_host.database_now()
    if last is None:
        _forget_ended(at)
    pids: dict[Name, int] = {name: os.getpid(), **_supervisor()}
    # What a row says besides is read once: it does not change. Whoever ends in order may have taken one away.
    renewed = Process.objects.filter(id__in=ids[: len(pids)]).update(at=at, report=_report()) if ids else 0
    if renewed < len(pids):
        rows = [_row(who, pid, at) for who, pid in pids.items()]
        Process.objects.bulk_create(rows, update_conflicts=True, unique_fields=["id"], update_fields=["at", "report"])
        ids = [row.id for row in rows]
    this_host.renew()
    _shown[name] = time.monotonic(), ids


def heartbeat_thread(name: Name) -> KeptThread:
    """A thread that records it, from ``ensure_running`` to ``stop``, for a process that does nothing regularly."""
    over = threading.Event()

    def step() -> None:
        with suppress(DatabaseError):  # those who need the database say so
            record_process(name)
        over.wait(EVERY)

    return KeptThread(f"shows {name}", step, longest=12 * EVERY, interrupt=over.set)


def forget_process(name: Name) -> None:
    """This process, or its parts, end in an orderly way. A supervisor that goes on is shown again by its others."""
    with suppress(DatabaseError):
        Process.objects.filter(host=this_host.host_id(), name__in=[name, "supervisor"]).delete()
        if not Process.objects.filter(host=this_host.host_id()).exists():
            this_host.leave()


def free_bytes() -> tuple[int, int]:
    """How much of the disk of LONGSHORE_HOME is free, and how much it has."""
    use = shutil.disk_usage(settings.HOME)
    return use.free, use.total


@dataclass(frozen=True, slots=True)
class Report:
    """A process about its parts: its threads, how old its picture of each node is (seconds), and what its checker of
    invariants (jobs/scheduling/invariants.py) repaired or could not."""

    threads: int = 0
    late_threads: Sequence[str] = ()  # that neither work nor have been replaced, or that fail again and again
    oldest_look: float | None = None
    old_looks: Mapping[str, float] = field(default_factory=dict)  # node -> age of a picture too old to act on
    healed: int = 0  # since the process began
    broken: int = 0  # now


def is_due(name: Name) -> bool:
    return time.monotonic() - _last.get(name, -EVERY) >= EVERY


def record_heartbeat(name: Name, report: Report | None = None) -> None:
    """Say that such a process is alive. May be called often: it writes at most once every EVERY seconds."""
    if is_due(name):
        row = Heartbeat(name=name, at=this_host.database_now(), report=asdict(report) if report else {})
        told = ["at", "report"]
        Heartbeat.objects.bulk_create([row], update_conflicts=True, unique_fields=["name"], update_fields=told)
        _last[name] = time.monotonic()


@dataclass(frozen=True, slots=True)
class Beats:
    """What the database knows of all processes."""

    ages: Mapping[str, float | None]  # seconds since each kind was last seen, None when never
    reports: Mapping[str, Mapping[str, Any]]  # of those kinds that gave one
    hosts: Sequence[float]  # of each host the seconds since one of its processes was last seen


# The time is the one on which all hosts agree: as ``this_host.database_now``.
_BEATS = """
    SELECT name, at, report, {now} FROM portal_heartbeat
    UNION ALL SELECT NULL, max(at), NULL, {now} FROM portal_process GROUP BY host
"""


def beats() -> Beats:
    """By one statement."""
    now = "clock_timestamp()" if is_postgresql() else "NULL"
    lines = all_values(Heartbeat, _beat, _BEATS.format(now=now))
    of_kinds = {name: (age, report) for name, age, report in lines if name is not None}
    return Beats(
        {name: of_kinds[name][0] if name in of_kinds else None for name in NAMES},
        {name: report for name, (_, report) in of_kinds.items() if report},
        [age for name, age, _ in lines if name is None],
    )


def _beat(name: str | None, at: datetime, report: Any, now: datetime | None) -> tuple[str | None, float, Any]:
    return name, max(0.0, ((now or timezone.now()) - at).total_seconds()), report


def ages() -> Mapping[str, float | None]:
    """Seconds since each process was last seen, None when never."""
    return beats().ages


seen = Remembered(ages, FRESH)


def live_processes() -> dict[str, bool]:
    """Which processes are up, for pages. At most one query every FRESH seconds; none is while the database is away."""
    try:
        return {name: age is not None and age < LATE for name, age in seen().items()}
    except DatabaseError:
        return dict.fromkeys(NAMES, False)


def _row(name: str, pid: int, at: datetime) -> Process:
    return Process(
        id=name_of(pid),
        host=this_host.host_id(),
        host_name=socket.gethostname(),
        name=name,
        pid=pid,
        release=settings.VERSION,
        since=at - timedelta(seconds=_age(pid)),
        at=at,
        report=_report(),
    )


def _report() -> dict[str, Any]:
    free, total = free_bytes()
    return {"free": free, "total": total, "bind": f"{settings.BIND_HOST}:{settings.BIND_PORT}"}


def _forget_ended(now: datetime) -> None:
    mine = Process.objects.filter(host=this_host.host_id()).values_list("id", flat=True)
    Process.objects.filter(id__in=[id for id in mine if has_ended(id)]).delete()
    Process.objects.filter(at__lt=now - FORGOTTEN).delete()


def _supervisor() -> dict[Name, int]:
    """The number of the supervisor, if this process has one that runs. One that was stopped does not."""
    pid = os.environ.get(SUPERVISOR, "")
    state = stat_of(int(pid))[:1] if pid.isdigit() else []
    return {"supervisor": int(pid)} if state and state[0] not in "TtZX" else {}


def portal_age() -> float:
    """For how many seconds the supervisor has run; where there is none, this process."""
    return _age(next(iter(_supervisor().values()), os.getpid()))


def _age(pid: int) -> float:
    """How many seconds the process has run."""
    started = int((stat_of(pid) or ["0"] * 20)[19]) / os.sysconf("SC_CLK_TCK")
    return max(0.0, float(Path("/proc/uptime").read_text().split()[0]) - started)
