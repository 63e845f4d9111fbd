"""Requests per second of the API's busiest routes with a few clients at once, and the CPU that one takes in the web
process, beside a bare Django view (benchmarks/portal/bare_django.py) and what anybody would write with REST framework
(benchmarks/portal/plain_rest.py) on servers of the same kind, measured in turns."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPConnection
from itertools import count

from benchmarks.portal import CONSTANT, TOKEN, pages
from benchmarks.processes import cpu_of
from benchmarks.report import Report, percentile, spread, wait_for
from benchmarks.sizes import size
from portal.supervisor import children
from tests.acceptance.portal import ROOT, Portal, config, free_port
from tests.bed.docker_bed import BedNode

CLIENTS = size(4, 1)
WARM_UP, SECONDS = size((0.5, 5.0), (0.0, 0.2))  # of each route
# Milliseconds of CPU that a request may take in the web process.
MOST = {"job list, first 50": 0.6, "job detail": 0.6, "changed job detail": 1.5, "submit": 4.0, "healthz": 0.5}
AT_FIRST = 0.28  # milliseconds of CPU for the bare view on the machine for which the targets of CPU were set
JSON = {"Content-Type": "application/json"}


@dataclass(frozen=True)
class Asked:
    """One request: a method, a path, a body made anew for each, and the status that is right."""

    method: str
    path: str | Callable[[], str]
    body: Callable[[], str] = str
    status: int = 200


@dataclass(frozen=True)
class Served:
    """``cpu``: seconds of the server for one request."""

    per_second: float
    times: list[float]
    cpu: float


def machine(report: Report) -> None:
    """How much CPU this machine takes for the same: figures of CPU on two machines are compared by it."""
    with _server("bare_django") as bare:
        served = _serve(*bare, {}, Asked("GET", CONSTANT))
    took = 1000 * served.cpu
    report.title("This machine")
    beside = f"{took / AT_FIRST:.1f} x that of the machine for which targets of CPU were set"
    report.add("a bare Django view that returns a constant", f"{took:.2f} ms of CPU", beside)


def measure(report: Report, portal: Portal, _: BedNode) -> None:
    pages.fill(portal)
    # What is submitted shall wait: its running is not measured here.
    portal.http.put("/nodes/local/status", json={"nodeStatus": "cordoned"}).raise_for_status()
    port = int(portal.url.rpartition(":")[2])
    token = {"Authorization": portal.http.headers["Authorization"]}
    web = portal.running("web")[0]
    with _server("bare_django") as bare, _server("plain_rest") as plain:
        constant = Asked("GET", CONSTANT)
        served = [_serve(*bare, {}, constant)]
        row = _serve(*plain, {"Authorization": f"Token {TOKEN}"}, Asked("GET", f"{CONSTANT}/row"))
        found = {name: _serve(port, web, token, asked) for name, asked in _routes(portal).items()}
        served.append(_serve(*bare, {}, constant))
    floor = Served(
        sum(one.per_second for one in served) / 2,
        [time for one in served for time in one.times],
        sum(one.cpu for one in served) / 2,
    )
    report.title(f"Requests with {CLIENTS} clients at once and {pages.JOBS:,} jobs, one web process")
    turns = ", ".join(f"{one.per_second:.0f}" for one in served)
    report.add("a bare Django view that returns a constant", _told(floor), f"before and after: {turns} /s")
    report.add("REST framework, a token and a row", _told(row), _beside(row, floor))
    for name, one in found.items():
        most = MOST.get(name)
        target = ("", None) if most is None else (f"<= {most} ms of CPU", 1000 * one.cpu <= most)
        report.add(name, _told(one), _beside(one, floor), *target)


def _routes(portal: Portal) -> dict[str, Asked]:
    numbers, jobs = count(), count()
    password = (portal.home / "secrets" / "admin-password").read_text().strip()
    account = json.dumps({"username": "admin", "password": password})
    return {
        "job list, first 50": Asked("GET", "/api/v1/jobs?limit=50"),
        "job detail": Asked("GET", "/api/v1/user/user5/jobs/old-5"),
        # More jobs than the web process keeps answers for, one after the other.
        "changed job detail": Asked(
            "GET", lambda: f"/api/v1/user/user5/jobs/old-{10 * (next(jobs) % min(400, pages.JOBS // 10)) + 5}"
        ),
        "healthz": Asked("GET", "/healthz"),
        "submit": Asked("POST", "/api/v1/jobs", lambda: json.dumps(config(f"asked-{next(numbers)}")), 201),
        "token": Asked("POST", "/api/v1/token", lambda: account),
    }


def _told(served: Served) -> str:
    return f"{1000 * served.cpu:.2f} ms of CPU, {served.per_second:.0f} /s, {spread(served.times, 95)}"


def _beside(served: Served, floor: Served) -> str:
    late = percentile(served.times, 95) / percentile(floor.times, 95)
    return f"{served.per_second / floor.per_second:.3f} x the rate, {late:.1f} x the p95"


def _serve(port: int, process: int, headers: dict[str, str], asked: Asked) -> Served:
    """Each client asks again as soon as it is answered."""
    _ask_for(WARM_UP, port, headers, asked)  # connections of its threads, caches
    began, cpu = time.perf_counter(), cpu_of(process)
    times = _ask_for(SECONDS, port, headers, asked)
    return Served(len(times) / (time.perf_counter() - began), times, (cpu_of(process) - cpu) / len(times))


def _ask_for(seconds: float, port: int, headers: dict[str, str], asked: Asked) -> list[float]:
    times: list[float] = []
    errors: list[BaseException] = []

    def work() -> None:
        connection = HTTPConnection("127.0.0.1", port, timeout=30)
        try:
            deadline = time.perf_counter() + seconds
            while (began := time.perf_counter()) < deadline:
                path = asked.path if isinstance(asked.path, str) else asked.path()
                connection.request(asked.method, path, asked.body() or None, {**JSON, **headers})
                answer = connection.getresponse()
                body = answer.read()
                assert answer.status == asked.status, (path, answer.status, body[:200])
                times.append(time.perf_counter() - began)
        except BaseException as error:
            errors.append(error)
        finally:
            connection.close()

    crew = [threading.Thread(target=work) for _ in range(CLIENTS)]
    for thread in crew:
        thread.start()
    for thread in crew:
        thread.join()
    if errors:
        raise errors[0]
    return times


@contextmanager
def _server(module: str) -> Iterator[tuple[int, int]]:
    """Its port and its process id. With the options that ``manage.py up`` gives the portal's own."""
    port = free_port()
    web = children("127.0.0.1", str(port))[0].argv
    mine = f"benchmarks.portal.{module}:application"
    command = [sys.executable, *(mine if part == "portal.asgi:application" else part for part in web[1:])]
    with tempfile.TemporaryDirectory(prefix="ls-bench-") as folder:
        process = subprocess.Popen(
            command,
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            env={**os.environ, "PLAIN_REST": folder},
        )
        try:
            wait_for(lambda: _answers(port), 20, 0.05, "the server answers")
            yield port, process.pid
        finally:
            process.terminate()
            process.wait(10)


def _answers(port: int) -> bool:
    try:
        connection = HTTPConnection("127.0.0.1", port, timeout=2)
        connection.request("GET", CONSTANT)
        return connection.getresponse().status in (200, 404)
    except OSError:
        return False
    finally:
        connection.close()
