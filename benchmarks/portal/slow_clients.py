"""How quickly pages, API and /healthz answer while others are slow: hundreds of clients of each kind who hold what they
are given (tests/acceptance/slow.py), and the memory and threads of the web process meanwhile."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import httpx

from benchmarks.data import long_log
from benchmarks.portal import pages
from benchmarks.report import Report, percentile, spread
from tests.acceptance.portal import ROOT, Portal
from tests.acceptance.slow import Slow, slow_clients

MANY, READERS, UPLOADS, STREAMS = 500, 200, 100, 600
ROUNDS = pages.TIMES
SETTLED = 3.0  # seconds in which answers that were begun are made, up to where their clients stop reading
PATHS = {"page": "/jobs", "API": "/api/v1/jobs?limit=50", "/healthz": "/healthz"}


def measure(report: Report) -> None:
    folder = Path(tempfile.mkdtemp(prefix="ls-bench-"))
    with closing(Portal(folder, "unix:///nowhere.sock", LONGSHORE_ANONYMOUS_READ="all")) as portal:
        try:
            portal.start()
            _fill(portal)
            _tell_all(report, portal)
        finally:
            portal.close()
            shutil.rmtree(folder, ignore_errors=True)


def _fill(portal: Portal) -> None:
    settings = {**os.environ, **portal.settings, "DJANGO_SETTINGS_MODULE": "portal.settings"}
    for module, *sizes in (("fill", "1000", "20"), ("long_log", "30")):
        subprocess.run([sys.executable, "-m", f"benchmarks.data.{module}", *sizes], env=settings, cwd=ROOT, check=True)


def _tell_all(report: Report, portal: Portal) -> None:
    token = f"Authorization: {portal.http.headers['Authorization']}\r\n"
    with closing(pages._signed_in(portal)) as browser:
        cookie = f"Cookie: longshore={browser.cookies['longshore']}\r\n"
        kinds: dict[str, Callable[[Slow], None]] = {
            "nobody": lambda slow: None,
            f"{MANY} half heads": lambda slow: slow.half_heads(MANY),
            f"{MANY} half bodies": lambda slow: slow.half_bodies(MANY),
            f"{MANY} idle connections": lambda slow: slow.idle(MANY),
            f"{MANY} who do not read 30 MB": lambda slow: slow.no_readers(MANY, long_log.PATH),
            f"{READERS} who do not read 30 MB": lambda slow: slow.no_readers(READERS, long_log.PATH),
            f"{UPLOADS} stalled uploads": lambda slow: slow.stalled_uploads(UPLOADS, _file, token),
            f"{STREAMS} live streams": lambda slow: slow.no_readers(STREAMS, "/stream/page?page=home", cookie),
        }
        report.title(
            f"Answers beside slow clients, {ROUNDS} of each, one after the other (target p95 on an idle machine)"
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
        times = pages._times(browser, path)
        late = percentile(times, 95)
        report.add(f"{name}: {what}", spread(times, 95), _process(portal), "p95 < 100 ms", late < 0.1)


def _process(portal: Portal) -> str:
    lines = Path(f"/proc/{portal.running('web')[0]}/status").read_text().splitlines()
    found = {line.split(":")[0]: line.split()[1] for line in lines if ":" in line and len(line.split()) > 1}
    return f"{int(found['VmRSS']) / 1000:.0f} MB, {found['Threads']} threads, load {os.getloadavg()[0]:.1f}"
