"""What pages, answers, streams and passes cost in one of the worlds.

Run as a process with a LONGSHORE_HOME of its own (``python -m benchmarks.limits.ask "jobs waiting"``); prints one
JSON object: {what: {"cpu": seconds, "first": seconds, "kb": of the answer}}. ``first`` is what the first one took.
"""

from __future__ import annotations

import json
import resource
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import django

from benchmarks.sizes import size

TIMES = size(5, 1)
# What everybody looks at, and what Bob looks at: nothing of it is about Alice's jobs alone.
OTHERS = (
    "/",
    "/jobs",
    "/jobs?username=bob",
    "/jobs/bob/small",
    "/jobs/bob/small/events",
    "/jobs/bob/behind",
    "/jobs/bob/behind/why",
    "/submit",
    "/nodes",
    "/wall",
    "/vcs",
    "/vcs/default",
    "/timeline?from=1d",
    "/usage",
    "/api/v1/jobs?limit=50",
    "/api/v1/nodes",
    "/api/v1/virtual-clusters",
    "/api/v1/user/bob/jobs/small",
    "/api/v1/user/bob/jobs/behind",
)
ALICE = (
    "/nodes/sim-0000",
    "/jobs/alice/{job}",
    "/jobs/alice/{job}?from=5001",
    "/jobs/alice/{job}/events",
    "/jobs/alice/{job}/attempts",
    "/jobs/alice/{job}/config",
    "/jobs/alice/{job}/ssh",
    "/jobs/alice/{job}/why",
    "/api/v1/user/alice/jobs/{job}",
    "/api/v1/user/alice/jobs?limit=50",
)
STREAMS = ("page=home", "page=jobs&top=999999999&shown=2", "page=wall", "page=nodes")


def main() -> None:
    django.setup()
    from django.core.management import call_command

    from benchmarks.limits.worlds import fill

    call_command("migrate", verbosity=0)  # a database of its own, which may be a new one
    fill(sys.argv[1])
    print(json.dumps(measured()))


def measured() -> dict[str, dict[str, float]]:
    """Every question, in the database as it is now."""
    from django.test import RequestFactory
    from django.urls import resolve

    from base.models import User
    from benchmarks.scheduler.passes import Simulation
    from jobs.models import Job
    from portal.page_urls import LIVE
    from portal.shared.live.page import open_page
    from tests.http import Browser

    found = {}
    client = Browser()
    found["sign-in"] = _cost(lambda: _signed_in(Browser()))
    client.force_login(User.objects.get(username="bob"))
    for address in OTHERS:
        found[address] = _cost(partial(_get, client, address))
    for query in STREAMS:
        request = RequestFactory().get(f"/stream/page?{query}")
        request.user = User.objects.get(username="bob")
        request.resolver_match = resolve("/")
        request.META["wsgi.url_scheme"] = "http"
        page = open_page(request, LIVE)
        found[f"stream {query.partition('&')[0]}"] = _cost(partial(_drawn, page))
    simulation = Simulation()
    simulation.one_pass()
    found["pass"] = _cost(simulation.one_pass)
    found["pass, turns anew"] = _cost(lambda: simulation.one_pass(anew=True))
    found["largest piece of a log search"] = _cost(_search())
    if job := Job.objects.filter(username="alice").order_by("id").first():
        client.force_login(User.objects.get(username="alice"))
        for address in ALICE:
            found[address] = _cost(partial(_get, client, address.format(job=job.name)))
    found["memory"] = {"cpu": 0, "first": 0, "kb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss}
    return found


def _get(client: Any, address: str) -> bytes:
    answer = client.get(address)
    content = b"".join(answer.streaming_content) if answer.streaming else answer.content
    assert answer.status_code == 200, (address, answer.status_code, content[:300])
    return content


def _drawn(page: Any) -> bytes:
    page.version()
    return "".join(page.parts().values()).encode()


def _search() -> Callable[[], object]:
    """Of a log of short lines, each of which matches: what one piece of a search takes. Others come between two."""
    from jobs.logs.lines import LineIndex, view_of
    from jobs.logs.together.expression import Expression
    from jobs.logs.together.search import matching_lines, pieces

    data, index, expression = b"step 1\n" * 600_000, LineIndex(), Expression(".")
    index.extend(data)
    log = view_of(index, lambda offset, limit: data[offset : offset + limit])
    begin, end = max(pieces(log, 0, log.size), key=lambda piece: piece[1] - piece[0])
    return lambda: sum(1 for _ in matching_lines(log, expression, begin, end))


def _signed_in(client: Any) -> bytes:
    from base.models import User

    client.force_login(User.objects.get(username="bob"))
    return _get(client, "/")


def _cost(ask: Callable[[], object]) -> dict[str, float]:
    """The CPU of the first time, the median of the next ones, and the size of the answer."""
    taken, size = [], 0
    for _ in range(TIMES + 1):
        used = _cpu()
        answer = ask()
        taken.append(_cpu() - used)
        size = len(answer) if isinstance(answer, bytes) else 0
    return {"cpu": sorted(taken[1:])[TIMES // 2], "first": taken[0], "kb": size / 1000}


def _cpu() -> float:
    """Seconds of this process, and of the process by which PostgreSQL serves it."""
    from django.db import connection

    used = time.process_time()
    if connection.vendor == "postgresql":
        connection.ensure_connection()
        served_by = connection.connection.info.backend_pid
        used += int(Path(f"/proc/{served_by}/schedstat").read_text().split()[0]) / 1e9
    return used


if __name__ == "__main__":
    main()
