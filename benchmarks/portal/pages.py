"""Pages and API answers with 1,000,000 jobs in the database and with a job of 1,000 tasks, beside a view that returns a
constant on the same server."""

from __future__ import annotations

import re
import time
from contextlib import closing

import httpx

from benchmarks.processes import beside
from benchmarks.report import Report, percentile, spread
from benchmarks.sizes import size
from tests.acceptance.portal import Portal
from tests.bed.docker_bed import BedNode

JOBS, TASKS = size((1_000_000, 1_000), (100, 10))
OF_ONE = JOBS // 10  # jobs of each user
MOST = 15  # times the constant view's p95 that the job list may take
TIMES = size(40, 1)

PAGES = {
    "page: job list": "/jobs",
    "page: job list, one user and state": "/jobs?user=user3&state=FAILED",
    "page: home": "/",
    "page: job detail, one task": "/jobs/user5/old-5",
    f"page: job detail, {TASKS} tasks": "/jobs/user0/wide",
    "API: job list, first 50": "/api/v1/jobs?limit=50",
    "API: job detail, one task": "/api/v1/user/user5/jobs/old-5",
    f"API: job detail, {TASKS} tasks": "/api/v1/user/user0/jobs/wide",
}


def measure(report: Report, portal: Portal, _: BedNode) -> None:
    fill(portal)
    with closing(signed_in(portal)) as browser:
        constant = times_of(browser, "/api/v1/")
        report.title(f"Pages with {JOBS:,} jobs, {TIMES} requests one after the other")
        report.add("a view that returns a constant", spread(constant, 95))
        floor = percentile(constant, 95)
        for name, path in PAGES.items():
            times = times_of(browser, path)
            ratio = percentile(times, 95) / floor
            target = (f"<= {MOST} x", ratio <= MOST) if path == "/jobs" else ("", None)
            report.add(name, spread(times, 95), f"p95 {ratio:.1f} x the constant", *target)
        began = time.perf_counter()
        size = len(browser.get("/api/v1/jobs?username=user3").raise_for_status().content)
        took = time.perf_counter() - began
        report.add(f"API: v1 list of a user's {OF_ONE:,}, once", f"{took:.1f} s", f"{size / 1e6:.0f} MB")


def fill(portal: Portal) -> None:
    """In a process with the portal's settings; the portal goes on running. Done once."""
    if not portal.rows("SELECT 1 FROM jobs_job WHERE name = 'wide'"):
        beside(portal, "benchmarks.data.fill", str(JOBS), str(TASKS))


def signed_in(portal: Portal) -> httpx.Client:
    browser = httpx.Client(base_url=portal.url, timeout=60, follow_redirects=True)
    form = browser.get("/login").text
    token = re.search(r'name="csrfmiddlewaretoken" value="([^"]+)"', form)
    assert token, "the login page has no form"
    password = (portal.home / "secrets" / "admin-password").read_text().strip()
    fields = {"username": "admin", "password": password, "csrfmiddlewaretoken": token[1]}
    browser.post("/login", data=fields, headers={"Referer": portal.url}).raise_for_status()
    return browser


def times_of(browser: httpx.Client, path: str) -> list[float]:
    times = []
    for _ in range(TIMES + 2):
        began = time.perf_counter()
        browser.get(path).raise_for_status()
        times.append(time.perf_counter() - began)
    return times[2:]
