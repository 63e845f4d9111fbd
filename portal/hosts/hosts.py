"""The hosts of this portal and their page: what runs on each, and whose scheduler and sampler act."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import groupby
from typing import Any

from django.db.models import OuterRef, Subquery
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from base.core import words
from base.hosts import joining, this_host
from base.models import Host, LeaseRow, Process
from base.wakes import processes
from portal.shared.guard import fresh_page
from portal.shared.viewer import all_reader_of

LATE = timedelta(seconds=processes.LATE)
LOW, FULL = 2**30, 100 * 2**20  # bytes free on the disk of LONGSHORE_HOME that are few, and too few
LEASED = ("scheduler", "sampler")  # of which one acts, of all that run
_ORDER = ("supervisor", "web", "web pages", "scheduler", "workers", "sampler")


@dataclass(frozen=True, slots=True)
class ProcessLine:
    """``epoch``: that of the lease by which it acts; None for one that does not, or where that means nothing."""

    name: str
    pid: int
    release: str
    since: datetime
    at: datetime
    lives: bool
    epoch: int | None

    @property
    def waits(self) -> bool:
        """Whether it is ready to act in another one's place."""
        return self.lives and self.name in LEASED and self.epoch is None


@dataclass(frozen=True, slots=True)
class HostLine:
    """``bind``: its LONGSHORE_BIND. ``skew``: seconds by which its clock is ahead of the database's. ``free`` and
    ``total``: bytes of the disk of its LONGSHORE_HOME."""

    id: str
    name: str
    bind: str
    skew: float | None
    free: int | None
    total: int | None
    processes: tuple[ProcessLine, ...]

    @property
    def lives(self) -> bool:
        return any(process.lives for process in self.processes)

    @property
    def at(self) -> datetime:
        return max(process.at for process in self.processes)

    @property
    def free_mb(self) -> int:
        return (self.free or 0) // 2**20

    @property
    def total_mb(self) -> int:
        return (self.total or 0) // 2**20

    @property
    def releases(self) -> list[str]:
        return sorted({process.release for process in self.processes if process.lives})


@fresh_page
def hosts_page(request: HttpRequest) -> HttpResponse:
    """The page of the hosts, for admins and auditors."""
    all_reader_of(request)
    lines = hosts()
    page = {"nav": "nodes", "hosts": lines, "warnings": warnings(lines), "low": LOW}
    return render(request, "hosts/hosts.html", page)


def hosts() -> list[HostLine]:
    """All hosts by name, those that live first; one query, and one for the time where there may be several. Those that
    have the same name are told apart by a part of their id."""
    now = this_host.database_now()
    rows = Process.objects.order_by("host", "name", "at").annotate(
        epoch=Subquery(LeaseRow.objects.filter(holder=OuterRef("pk")).values("epoch")[:1]),
        skew=Subquery(Host.objects.filter(pk=OuterRef("host")).values("skew")[:1]),
    )
    lines = [_host(list(of_host), now) for _, of_host in groupby(rows, key=lambda row: row.host)]
    times = Counter(host.name for host in lines)
    named = [replace(host, name=f"{host.name} {host.id[:6]}") if times[host.name] > 1 else host for host in lines]
    return sorted(named, key=lambda host: (not host.lives, host.name))


def warnings(lines: Sequence[HostLine]) -> list[str]:
    """Return what somebody should look at, the most urgent first."""
    return [*_of_leases(lines), *_of_silence(lines), *_of_disks(lines), *_of_clocks(lines), *_of_releases(lines)]


def _host(rows: list[Any], now: datetime) -> HostLine:
    """``rows``: its processes, by name and then by when they were last seen."""
    last = max(rows, key=lambda row: row.at)
    lines: list[ProcessLine] = []
    for _, of_name in groupby(rows, key=lambda row: row.name):
        all_lines = [_line(row, now) for row in of_name]
        lines += [line for line in all_lines if line.lives] or all_lines[-1:]
    return HostLine(
        id=last.host,
        name=last.host_name,
        bind=last.report.get("bind", ""),
        skew=last.skew,
        free=last.report.get("free"),
        total=last.report.get("total"),
        processes=tuple(sorted(lines, key=lambda line: (_ORDER.index(line.name), line.pid))),
    )


def _line(row: Any, now: datetime) -> ProcessLine:
    lives = now - row.at < LATE
    return ProcessLine(row.name, row.pid, row.release, row.since, row.at, lives, row.epoch if lives else None)


def _of_leases(lines: Sequence[HostLine]) -> Iterable[str]:
    acting = {process.name for host in lines for process in host.processes if process.epoch is not None}
    up = processes.live_processes()
    for name, effect in (("scheduler", "jobs neither start nor end"), ("sampler", "nothing is measured")):
        if name not in acting and up[name]:
            yield f"The {name} that acts is on a host that is not listed, since its release is older."
        elif name not in acting:
            yield f"No {name} acts: {effect}."


def _of_silence(lines: Sequence[HostLine]) -> Iterable[str]:
    for host in lines:
        silent = [process.name for process in host.processes if not process.lives]
        if not host.lives:
            yield f"Host {host.name} is silent: it ended without saying so, or does not reach the database."
        elif silent:
            verb = "does" if len(silent) == 1 else "do"
            yield f"On host {host.name} {words.listing(silent)} {verb} not run."


def _of_disks(lines: Sequence[HostLine]) -> Iterable[str]:
    for host in lines:
        if host.lives and host.free is not None and host.free < LOW:
            what = "is full" if host.free < FULL else f"has {words.memory(host.free_mb)} left"
            effect = "what it cannot keep there waits or is refused"
            yield f"The disk of LONGSHORE_HOME on host {host.name} {what}: {effect}."


def _of_clocks(lines: Sequence[HostLine]) -> Iterable[str]:
    for host in lines:
        if host.lives and host.skew is not None and abs(host.skew) > joining.MOST_SKEW:
            way = "ahead of" if host.skew > 0 else "behind"
            yield f"The clock of host {host.name} is {abs(host.skew):.0f} s {way} that of the database."


def _of_releases(lines: Sequence[HostLine]) -> Iterable[str]:
    releases = sorted({release for host in lines for release in host.releases})
    if len(releases) > 1:
        yield f"The hosts run several releases: {words.listing(releases)}."
