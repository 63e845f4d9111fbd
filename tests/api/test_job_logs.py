"""GET .../jobs/:job/logs: the lines of all tasks and attempts by time; and the streams of the page of all tasks."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from rest_framework.test import APIClient

from base.models import User
from jobs.logs.follow import hub
from jobs.logs.lines import LogView
from jobs.logs.together import hunt
from jobs.logs.together import live as log_live
from jobs.logs.together import search as log_search
from jobs.logs.together.expression import Expression
from jobs.models import Job
from portal.logs.choice import choose_all
from tests.cluster import Cluster
from tests.helpers import LIMIT, until
from tests.logs import cluster_with_logs

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("patient_logs")]
Api = Callable[[User | None], APIClient]
LOGS = "/api/v1/user/alice/jobs/two/logs"


@pytest.fixture
def cluster(alice: User, settings: Any, tmp_path: Path) -> Iterator[Cluster]:
    with cluster_with_logs(alice, settings, tmp_path) as cluster:
        yield cluster


@pytest.fixture
def job(cluster: Cluster) -> Job:
    """Two tasks that have written ten lines in turn; every fifth is an error."""
    cluster.add_node()
    job = cluster.submit(name="two", roles=[{"taskNumber": 2}])
    cluster.settle()
    write(cluster, job, range(10))
    return job


def write(cluster: Cluster, job: Job, numbers: range) -> None:
    names = [task.container_name for task in job.tasks.order_by("index")]
    for number in numbers:
        cluster.engines["n1"].print(names[number % 2], written(number))


def written(number: int) -> bytes:
    return f"{'error' if number % 5 == 0 else 'step'} {number}\n".encode()


def texts(client: APIClient, asked: str) -> list[str]:
    """Of all pages."""
    got, after = list[str](), 0
    while after is not None:
        answer = client.get(f"{LOGS}?{asked}&after={after}").json()
        got += [line["text"] for line in answer["lines"]]
        after = answer["next"]
    return got


def test_lines_of_all_tasks_come_by_time_and_page_by_page(api: Api, alice: User, cluster: Cluster, job: Job) -> None:
    first = api(alice).get(f"{LOGS}?limit=3").json()
    assert first["next"] == 3
    assert [(line["task"], line["number"], line["text"]) for line in first["lines"]] == [
        ("worker-0", 1, "error 0"),
        ("worker-1", 1, "step 1"),
        ("worker-0", 2, "step 2"),
    ]
    assert {(line["attempt"], line["stream"]) for line in first["lines"]} == {(1, "stdout")}
    whole = texts(api(alice), "limit=3")
    assert [text.split()[1] for text in whole] == [str(number) for number in range(10)]
    times = [line["time"] for line in api(alice).get(LOGS).json()["lines"]]
    assert texts(api(alice), f"from={times[-1] + 1}") == [] and texts(api(alice), f"to={times[0]}") == []
    assert len(texts(api(alice), f"from={times[0]}&to={times[-1] + 1}")) == 10
    cluster.finish(job)
    cluster.settle()
    assert texts(api(alice), "limit=4") == whole, "the archive has the same order"


def test_grep_gives_matching_lines_in_order_however_it_is_cut(
    api: Api, alice: User, job: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert texts(api(alice), "grep=^error") == ["error 0", "error 5"]
    assert texts(api(alice), "grep=ERROR") == [] and texts(api(alice), "grep=p%20[1-9]&role=worker&limit=2&attempt=1")
    monkeypatch.setattr(log_search, "PIECE", 5)
    monkeypatch.setattr("portal.logs.api._SECONDS", -1.0)
    assert texts(api(alice), "grep=e") == texts(api(alice), "limit=3")
    assert texts(api(alice), "grep=e&limit=1") == texts(api(alice), "limit=3")


@pytest.mark.parametrize(
    "asked", ["grep=(", "stream=x", "role=nobody", "attempt=7", "from=x", "limit=9999", "after=-1"]
)
def test_wrong_questions_are_refused(api: Api, alice: User, job: Job, asked: str) -> None:
    answer = api(alice).get(f"{LOGS}?{asked}")
    assert answer.status_code in (400, 404) and answer.json()["message"]


def test_a_search_goes_on_while_the_logs_grow_and_ends_with_them(alice: User, cluster: Cluster, job: Job) -> None:
    sources = choose_all(job).sources
    got: list[dict[str, Any]] = []
    size = sum(len(written(number)) for number in range(20))

    def copied() -> int:
        return sum(follower.spool.view().size for follower in list(hub._followers.values()))

    async def search() -> None:
        async for event in hunt.hunt_events(sources, Expression("error")):
            if not event.startswith("event: found"):
                continue
            got.append(json.loads(event.partition("data: ")[2]))
            if sum(got[-1]["counts"].values()) == 2 and got[-1]["done"]:
                write(cluster, job, range(10, 20))
                # The logs are copied one beside the other: a hit has its final rank when all lines before it are there.
                await asyncio.to_thread(until, lambda: copied() == size)
            elif sum(got[-1]["counts"].values()) == 4 and got[-1]["done"]:
                return

    asyncio.run(asyncio.wait_for(search(), LIMIT))
    assert got[-1]["counts"] == {"0": 2, "2": 2}
    hits = sorted((rank, source, line) for event in got for source, line, rank in event["hits"])
    assert hits == [(0, 0, 1), (5, 2, 3), (10, 0, 6), (15, 2, 8)]


def test_who_searches_much_lets_others_have_their_turn(
    alice: User, cluster: Cluster, job: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    sources = choose_all(job).sources
    slow, gate = Expression("error"), threading.Semaphore(0)
    turns: list[str] = []

    def looked_at(view: LogView, expression: Expression, begin: int, end: int) -> Iterator[int]:
        turns.append("slow" if expression is slow else "quick")
        if expression is slow:
            gate.acquire()
        return log_search.matching_lines(view, expression, begin, end)

    async def search(expression: Expression, user: int) -> None:
        async for event in hunt.hunt_events(sources, expression, user):
            if '"done":true' in event:
                return

    async def both() -> None:
        many = [asyncio.ensure_future(search(slow, 1)) for _ in range(10)]
        waiting = hunt._AHEAD - hunt._THREADS  # as many pieces of one user as may, beside those that have a thread
        try:
            await asyncio.to_thread(until, lambda: (len(turns), hunt._pool._work_queue.qsize()) == (2, waiting))
            other = asyncio.ensure_future(search(Expression("quick"), 2))
            await asyncio.to_thread(until, lambda: hunt._pool._work_queue.qsize() > waiting)
        finally:
            gate.release(1000)
        await asyncio.gather(other, *many)

    monkeypatch.setattr(hunt, "matching_lines", looked_at)
    asyncio.run(asyncio.wait_for(both(), LIMIT))
    assert turns.index("quick") <= 6


def test_new_lines_of_several_logs_come_once_each_and_after_a_reconnect_only_the_rest(
    alice: User, cluster: Cluster, job: Job
) -> None:
    sources = choose_all(job, stream="stdout").sources
    got: list[tuple[int, int]] = []
    places: dict[int, int] = {}

    async def watch(until: int) -> None:
        watched = [
            log_live.WatchedLog(one.number, one.task.pk, one.stream, offset=places.get(one.number)) for one in sources
        ]
        events = log_live.live_events(watched)
        async for event in events:
            place, _, rest = event.partition("\n")
            if rest.startswith("event: lines"):
                places.update({int(a): int(b) for a, b in (one.split(":") for one in place[4:].split("-"))})
                got.extend((row["s"], row["number"]) for row in json.loads(rest.partition("data: ")[2]))
            if len(got) >= until:
                break
        await events.aclose()

    asyncio.run(asyncio.wait_for(watch(10), LIMIT))
    write(cluster, job, range(10, 14))
    asyncio.run(asyncio.wait_for(watch(14), LIMIT))
    assert sorted(got) == [(source, line) for source in (0, 1) for line in range(1, 8)]
