"""Requests per second of the API's busiest routes with a few clients at once, beside a bare Django view on a server of
the same kind (benchmarks/portal/bare_django.py), measured in turns."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPConnection
from itertools import count

from benchmarks.portal import bare_django, pages
from benchmarks.report import Report, percentile, spread, wait_for
from portal.supervisor import children
from tests.acceptance.portal import ROOT, Portal, config, free_port
from tests.bed.docker_bed import BedNode

CLIENTS = 4
SECONDS = 5.0  # of each route
LEAST = 0.3  # of the bare view's requests per second
JSON = {"Content-Type": "application/json"}


@dataclass(frozen=True)
class Asked:
    """One request: a method, a path, a body made anew for each, and the status that is right."""

    method: str
    path: str
    body: Callable[[], str] = str
    status: int = 200


@dataclass(frozen=True)
class Served:
    per_second: float
    times: list[float]


def measure(report: Report, portal: Portal, _: BedNode) -> None:
    pages.fill(portal)
    # What is submitted shall wait: its running is not measured here.
    portal.http.put("/nodes/local/status", json={"nodeStatus": "cordoned"}).raise_for_status()
    port = int(portal.url.rpartition(":")[2])
    token = {"Authorization": portal.http.headers["Authorization"]}
    with _bare_server() as bare_port:
        constant = Asked("GET", bare_django.PATH)
        served = [_serve(bare_port, {}, constant)]
        found = {name: _serve(port, token, asked) for name, asked in _routes(portal).items()}
        served.append(_serve(bare_port, {}, constant))
    floor = Served(sum(one.per_second for one in served) / 2, [time for one in served for time in one.times])
    report.title(f"Requests with {CLIENTS} clients at once and {pages.JOBS:,} jobs, one web process")
    turns = ", ".join(f"{one.per_second:.0f}" for one in served)
    report.add("a bare Django view that returns a constant", _told(floor), f"before and after: {turns} /s")
    for name, one in found.items():
        ratio = one.per_second / floor.per_second
        target = ("", None) if name == "token" else (f">= {LEAST} x", ratio >= LEAST)
        report.add(name, _told(one), _beside(one, floor), *target)


def _routes(portal: Portal) -> dict[str, Asked]:
    numbers = count()
    password = (portal.home / "secrets" / "admin-password").read_text().strip()
    account = json.dumps({"username": "admin", "password": password})
    return {
        "job list, first 50": Asked("GET", "/api/v1/jobs?limit=50"),
        "job detail": Asked("GET", "/api/v1/user/user5/jobs/old-5"),
        "submit": Asked("POST", "/api/v1/jobs", lambda: json.dumps(config(f"asked-{next(numbers)}")), 201),
        "token": Asked("POST", "/api/v1/token", lambda: account),
    }


def _told(served: Served) -> str:
    return f"{served.per_second:.0f} /s, {spread(served.times, 95)}"


def _beside(served: Served, floor: Served) -> str:
    late = percentile(served.times, 95) / percentile(floor.times, 95)
    return f"{served.per_second / floor.per_second:.3f} x the rate, {late:.1f} x the p95"


def _serve(port: int, headers: dict[str, str], asked: Asked) -> Served:
    """Each client asks again as soon as it is answered."""
    _ask_for(0.5, port, headers, asked)  # connections of its threads, caches
    began = time.perf_counter()
    times = _ask_for(SECONDS, port, headers, asked)
    return Served(len(times) / (time.perf_counter() - began), times)


def _ask_for(seconds: float, port: int, headers: dict[str, str], asked: Asked) -> list[float]:
    times: list[float] = []
    errors: list[BaseException] = []

    def work() -> None:
        connection = HTTPConnection("127.0.0.1", port, timeout=30)
        try:
            deadline = time.perf_counter() + seconds
            while (began := time.perf_counter()) < deadline:
                connection.request(asked.method, asked.path, asked.body() or None, {**JSON, **headers})
                answer = connection.getresponse()
                body = answer.read()
                assert answer.status == asked.status, (asked.path, answer.status, body[:200])
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
def _bare_server() -> Iterator[int]:
    """With the options that ``manage.py up`` gives the portal's own."""
    port = free_port()
    web = children("127.0.0.1", str(port))[0].argv
    command = [
        sys.executable,
        *(
            "benchmarks.portal.bare_django:application" if part == "portal.asgi:application" else part
            for part in web[1:]
        ),
    ]
    process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.DEVNULL)
    try:
        wait_for(lambda: _answers(port), 20, 0.05, "the bare server answers")
        yield port
    finally:
        process.terminate()
        process.wait(10)


def _answers(port: int) -> bool:
    try:
        connection = HTTPConnection("127.0.0.1", port, timeout=2)
        connection.request("GET", bare_django.PATH)
        return connection.getresponse().status == 200
    except OSError:
        return False
    finally:
        connection.close()
