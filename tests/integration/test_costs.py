"""What the paths that are walked most cost: not seconds, which depend on the machine, but counts.

The table beside this file has what each cost when somebody last looked: statements, calls of functions in the thread
that does the work, and bytes of the answer. A path that has grown by more than half fails. When that is meant, write
the table anew, and say in the commit what it buys:

    LONGSHORE_COSTS=write .venv/bin/python -m pytest tests/integration/test_costs.py
"""

from __future__ import annotations

import gc
import json
import math
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from django.core.handlers.wsgi import WSGIRequest
from django.db import connection
from django.http import HttpResponse
from django.test.client import ClientHandler, RequestFactory
from django.test.utils import CaptureQueriesContext

from base.accounts import tokens
from base.models import User
from base.wakes import processes
from jobs.forecast import scores
from jobs.history import lengths
from jobs.notices.run import NoticeWorker
from tests.builders import make_job, make_node
from tests.cluster import Cluster, config
from tests.http import repeated_answer

pytestmark = [
    pytest.mark.django_db,
    pytest.mark.skipif(connection.vendor == "postgresql", reason="the table is of SQLite"),
]
TABLE = Path(__file__).with_name("costs.json")
MOST = 1.5  # times what the table has
WRITES = os.environ.get("LONGSHORE_COSTS") == "write"
Costs = dict[str, int]


@pytest.fixture
def costs(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str, Callable[[], Any]], None]]:
    """``costs(path, walk)`` calls ``walk`` three times: to have everything loaded, to count calls, to count
    statements. A walk that does more each time returns what to walk then."""
    # What is looked up now and then, whatever is asked, does not get old between two walks.
    monkeypatch.setattr(processes.seen, "seconds", math.inf)
    monkeypatch.setattr(lengths.known_lengths, "seconds", math.inf)
    monkeypatch.setattr(scores.recent_corrections, "seconds", math.inf)
    table: dict[str, Costs] = json.loads(TABLE.read_text())
    too_much: list[str] = []

    def count(path: str, walk: Callable[[], Any]) -> None:
        walk()
        calls, answer = calls_of(walk)
        with CaptureQueriesContext(connection) as captured:
            walk()
        now = {"statements": len(captured), "calls": calls}
        if isinstance(answer, HttpResponse):
            now["bytes"] = len(answer.content)
        if WRITES:
            table[path] = now
        else:
            too_much.extend(grown(path, table.get(path, {}), now))

    yield count
    if WRITES:
        TABLE.write_text(json.dumps(dict(sorted(table.items())), indent=2) + "\n")
    assert not too_much, "\n".join(too_much)


def grown(path: str, before: Costs, now: Costs) -> list[str]:
    """A sentence for each figure that is more than half as much again as in the table, or not there."""
    return [
        f"{path}: {number} {what}, and {before[what]} in {TABLE.name}"
        if what in before
        else f"{path} is not in {TABLE.name}"
        for what, number in now.items()
        if number > MOST * before.get(what, -1)
    ]


def calls_of(walk: Callable[[], Any]) -> tuple[int, Any]:
    """How many functions are called, Python's and C's, and what it returns. Garbage is left alone meanwhile: when it is
    collected hangs on what ran before, and whoever is told of it counts as called."""
    count = 0

    def note(frame: Any, event: str, argument: Any) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    gc.disable()
    sys.setprofile(note)
    try:
        answer = walk()
    finally:
        sys.setprofile(None)
        gc.enable()
    return count, answer


def test_a_figure_that_grew_by_half_is_told() -> None:
    assert grown("a", {"calls": 100, "statements": 0}, {"calls": 150, "statements": 0}) == []
    assert grown("a", {"calls": 100, "statements": 0}, {"calls": 151, "statements": 1}) == [
        "a: 151 calls, and 100 in costs.json",
        "a: 1 statements, and 0 in costs.json",
    ]
    assert grown("b", {}, {"calls": 0}) == ["b is not in costs.json"]


def test_calls_are_counted() -> None:
    assert calls_of(lambda: [abs(number) for number in range(100)])[0] - calls_of(lambda: None)[0] in (101, 102)


# --- requests --------------------------------------------------------------------------------------------------------


class Asks:
    """Requests of one user, through all middleware, without the test client's own work."""

    def __init__(self, user: User) -> None:
        self.handler = ClientHandler(enforce_csrf_checks=True)
        self.handler.load_middleware()
        self.make = RequestFactory(headers={"Authorization": f"Bearer {tokens.issue(user, 3600)}"})

    def get(self, path: str, **headers: str) -> Callable[[], HttpResponse]:
        def walk() -> HttpResponse:
            answer = self._served(self.make.get(path, headers=headers))
            assert answer.status_code == (304 if headers else 200), answer.content
            return answer

        return walk

    def _served(self, request: WSGIRequest) -> HttpResponse:
        answer = repeated_answer(request.environ) or self.handler.get_response(request)
        assert isinstance(answer, HttpResponse)
        return answer

    def unchanged(self, path: str) -> Callable[[], HttpResponse]:
        return self.get(path, **{"If-None-Match": self.get(path)().headers["ETag"]})

    def submit(self) -> Callable[[], HttpResponse]:
        names = iter(range(100))

        def walk() -> HttpResponse:
            body = config(f"new-{next(names)}")
            answer = self._served(self.make.post("/api/v1/jobs", body, "application/json"))
            assert answer.status_code == 201, answer.content
            return answer

        return walk


@pytest.fixture
def asks(alice: User) -> Asks:
    node = make_node()
    for number in range(60):
        make_job("alice", f"job-{number}", state="RUNNING", node=node)
    return Asks(alice)


def test_requests(costs: Callable[..., None], asks: Asks) -> None:
    costs("GET /healthz", asks.get("/healthz"))
    costs("GET /api/v1/jobs, 50 of 60", asks.get("/api/v1/jobs?limit=50"))
    costs("GET /api/v1/jobs, unchanged", asks.unchanged("/api/v1/jobs?limit=50"))
    others = iter(range(60))
    costs("GET a job", lambda: asks.get(f"/api/v1/user/alice/jobs/job-{next(others)}")())
    costs("GET a job, unchanged", asks.unchanged("/api/v1/user/alice/jobs/job-7"))
    costs("POST a job", asks.submit())


def test_requests_about_a_queue(costs: Callable[..., None], alice: User) -> None:
    make_job("alice", "holds", state="RUNNING", gpus=1, node=make_node(gpus=1))
    for number in range(60):
        make_job("alice", f"job-{number}", gpus=1)
    asks = Asks(alice)
    costs("GET a waiting job", asks.get("/api/v1/user/alice/jobs/job-50"))
    costs("GET why a job waits", asks.get("/api/v1/user/alice/jobs/job-50/why"))
    asks.make = RequestFactory()  # a guest's
    costs("page with the list of waiting jobs", asks.get("/jobs"))


def test_pages(costs: Callable[..., None], asks: Asks) -> None:
    asks.make = RequestFactory()  # a guest's
    costs("page of a job", asks.get("/jobs/alice/job-7"))
    costs("page with the list of jobs", asks.get("/jobs"))


# --- what goes on by itself ------------------------------------------------------------------------------------------


def test_passes(costs: Callable[..., None], cluster: Cluster) -> None:
    for number in range(4):
        cluster.add_node(f"n{number}", cpus=64)
    cluster.submit(config("large", roles=[{"taskNumber": 200}]))
    cluster.settle()
    costs("pass, nothing changed, 200 tasks run", lambda: cluster.tick(look=False))
    names = iter(range(100))

    def place() -> None:
        cluster.submit(config(f"small-{next(names)}", roles=[{"taskNumber": 10}]))
        cluster.tick(look=False)

    costs("a job of 10 tasks submitted and placed", place)


def test_a_task(costs: Callable[..., None], cluster: Cluster) -> None:
    cluster.add_node(cpus=64)
    names = iter(range(100))

    def live() -> None:
        job = cluster.submit(config(f"job-{next(names)}"))
        cluster.settle()
        cluster.finish(job)
        cluster.settle()
        assert cluster.job(job).state == "SUCCEEDED"

    costs("a task from submission to collected", live)


def test_a_worker_that_has_no_notices(costs: Callable[..., None], cluster: Cluster) -> None:
    cluster.add_node()
    cluster.submit(config("one"))
    cluster.settle()
    worker = NoticeWorker()
    worker.step()
    costs("a look for notices, of which there are none", worker.step)


def test_a_process_that_shows_itself(costs: Callable[..., None], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "EVERY", 0.0)
    processes._shown.clear()
    costs("a process that shows itself", lambda: processes.record_process("web"))
    processes._shown.clear()
