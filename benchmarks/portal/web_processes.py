"""How many requests a second one host answers with 1, 2 and 4 web processes on one PostgreSQL, by clients side by side
that each keep one connection."""

from __future__ import annotations

import os
import shutil
import tempfile
import threading
import time
from collections import Counter
from contextlib import closing, suppress
from pathlib import Path

import httpx

from benchmarks.report import Report
from benchmarks.sizes import size
from tests.acceptance.portal import Portal
from tests.bed.postgres_bed import postgres

PROCESSES = size((1, 2, 4), (2,))
CLIENTS, SECONDS = size((16, 5.0), (2, 0.5))
PATHS = {"list of jobs (API)": "/api/v1/jobs?limit=50", "page of jobs": "/jobs"}


def measure(report: Report) -> None:
    report.title(f"Requests a second of {CLIENTS} clients on PostgreSQL, by web processes ({os.cpu_count()} cores)")
    first: dict[str, float] = {}
    for number in PROCESSES:
        for what, found in _with(number).items():
            beside = f"{found / first.setdefault(what, found):.2f} x one process"
            report.add(f"{what}, {number} web processes", f"{found:.0f} requests/s", beside)


def _with(number: int) -> dict[str, float]:
    folder = Path(tempfile.mkdtemp(prefix="ls-bench-"))
    settings = {"LONGSHORE_WEB_PROCESSES": str(number), "LONGSHORE_ANONYMOUS_READ": "all"}
    with postgres() as url, closing(Portal(folder, "none", DATABASE_URL=url, **settings)) as portal:
        try:
            portal.start()
            return {what: _rate(f"{portal.url}{path}") for what, path in PATHS.items()}
        finally:
            portal.close()
            shutil.rmtree(folder, ignore_errors=True)


def _rate(address: str) -> float:
    """Answers a second, at least one to each client however slow the machine is."""
    answered: Counter[int] = Counter()
    httpx.get(address, timeout=60).raise_for_status()  # the first one loads what it needs
    end = time.monotonic() + SECONDS

    def ask(client: int) -> None:
        with httpx.Client(timeout=30) as http:
            while time.monotonic() < end or not answered[client]:
                with suppress(httpx.RemoteProtocolError):  # an idle connection was closed: it is opened again
                    http.get(address).raise_for_status()
                    answered[client] += 1

    began = time.monotonic()
    threads = [threading.Thread(target=ask, args=(client,)) for client in range(CLIENTS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return answered.total() / (time.monotonic() - began)
