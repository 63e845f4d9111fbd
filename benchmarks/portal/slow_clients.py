"""How quickly pages, API and /healthz answer while others are slow: hundreds of clients of each kind who hold what they
are given (tests/acceptance/slow.py), and the memory and threads of the web process meanwhile."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import closing

import httpx

from benchmarks.data import long_log
from benchmarks.portal import pages
from benchmarks.processes import beside, told_of
from benchmarks.report import Report, percentile, spread
from benchmarks.sizes import size
from tests.acceptance.portal import Portal
from tests.acceptance.slow import Slow, slow_clients
from tests.bed.docker_bed import BedNode

MANY, READERS, UPLOADS, STREAMS = size((500, 200, 100, 600), (4, 2, 2, 4))
MEGABYTES = size(30, 2)  # of the log that nobody reads
SETTLED = size(3.0, 0.1)  # seconds in which answers that were begun are made, up to where their clients stop reading
PATHS = {"page": "/jobs", "API": "/api/v1/jobs?limit=50", "/healthz": "/healthz"}


def measure(report: Report, portal: Portal, _: BedNode) -> None:
    beside(portal, "benchmarks.data.long_log", str(MEGABYTES))
    token = f"Authorization: {portal.http.headers['Authorization']}\r\n"
    with closing(pages.signed_in(portal)) as browser:
        cookie = f"Cookie: longshore={browser.cookies['longshore']}\r\n"
        kinds: dict[str, Callable[[Slow], None]] = {
            "nobody": lambda slow: None,
            f"{MANY} half heads": lambda slow: slow.half_heads(MANY),
            f"{MANY} half bodies": lambda slow: slow.half_bodies(MANY),
            f"{MANY} idle connections": lambda slow: slow.idle(MANY),
            f"{MANY} who do not read {MEGABYTES} MB": lambda slow: slow.no_readers(MANY, long_log.PATH, cookie),
            f"{READERS} who do not read {MEGABYTES} MB": lambda slow: slow.no_readers(READERS, long_log.PATH, cookie),
            f"{UPLOADS} stalled uploads": lambda slow: slow.stalled_uploads(UPLOADS, _file, token),
            f"{STREAMS} live streams": lambda slow: slow.no_readers(STREAMS, "/stream/page?page=home", cookie),
        }
        report.title(
            f"Answers beside slow clients, {pages.TIMES} of each, one after the other (target p95 on an idle machine)"
        )
        for name, begin in kinds.items():
            with slow_clients(portal.url) as slow:
                begin(slow)
                time.sleep(SETTLED)
                _tell(report, portal, browser, name)
        with slow_clients(portal.url) as slow:
            for begin in list(kinds.values())[1:]:
                begin(slow)
            time.sleep(SETTLED)
            _tell(report, portal, browser, "all of these at once")


def _file(at: int) -> str:
    return f"/webhdfs/v1/users/admin/f{at}?op=CREATE&data=true"


def _tell(report: Report, portal: Portal, browser: httpx.Client, name: str) -> None:
    for what, path in PATHS.items():
        times = pages.times_of(browser, path)
        late = percentile(times, 95)
        report.add(f"{name}: {what}", spread(times, 95), _process(portal), "p95 < 100 ms", late < 0.1)


def _process(portal: Portal) -> str:
    web = portal.running("web")[0]
    memory, threads = told_of(web, "VmRSS") / 1000, told_of(web, "Threads")
    return f"{memory:.0f} MB, {threads} threads, load {os.getloadavg()[0]:.1f}"
