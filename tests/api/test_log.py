"""GET .../jobs/:job/taskRoles/:role/:index/logs/:stream, the log page, and its stream."""

from __future__ import annotations

import asyncio
import io
import time
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from django.core.asgi import get_asgi_application
from rest_framework.test import APIClient

from base.models import User
from jobs.logs.follow import hub
from jobs.models import Job
from tests.cluster import Cluster
from tests.helpers import LIMIT
from tests.http import Client
from tests.logs import Viewer, cluster_with_logs, write

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("patient_logs")]

Api = Callable[[User | None], APIClient]
Browse = Callable[[User | None], Client]
LOG = "/api/v1/user/alice/jobs/hello/taskRoles/worker/0/logs/"


@pytest.fixture
def cluster(alice: User, settings: Any, tmp_path: Path) -> Iterator[Cluster]:
    with cluster_with_logs(alice, settings, tmp_path) as cluster:
        yield cluster


@pytest.fixture
def job(cluster: Cluster) -> Job:
    """Runs on node n1 and has written ten lines."""
    cluster.add_node()
    job = cluster.submit(name="hello")
    cluster.settle()
    write(cluster, job, b"".join(b"line %d\n" % n for n in range(1, 11)))
    return job


def end(cluster: Cluster, job: Job) -> None:
    cluster.finish(job)
    cluster.settle()


def text(answer: Any) -> str:
    assert answer.status_code == 200, answer.content
    body = b"".join(answer.streaming_content).decode()
    assert int(answer["Content-Length"]) == len(body.encode())
    return body


def test_it_answers_plain_text_while_the_task_runs_and_after(api: Api, alice: User, cluster: Cluster, job: Job) -> None:
    live = api(alice).get(f"{LOG}stdout")
    assert live["Content-Type"] == "text/plain; charset=utf-8"
    assert live["X-Content-Type-Options"] == "nosniff"
    assert (live["X-Log-Complete"], live["X-Log-Size"]) == ("false", "71")
    whole = text(live)
    assert whole.startswith("line 1\n") and whole.endswith("line 10\n")
    end(cluster, job)
    kept = api(alice).get(f"{LOG}stdout", headers={"Accept": "text/plain"})
    assert kept["X-Log-Complete"] == "true"
    assert text(kept) == whole


@pytest.mark.parametrize(
    ("asked", "answer"),
    [
        ("tail=2", "line 9\nline 10\n"),
        ("tail=0", ""),
        ("tail=9999999999", "".join(f"line {n}\n" for n in range(1, 11))),
        ("offset=63", "line 10\n"),
        ("offset=71", ""),
        ("offset=5000", ""),
        ("attempt=1&tail=1", "line 10\n"),
    ],
)
def test_it_answers_the_part_that_was_asked_for(api: Api, alice: User, job: Job, asked: str, answer: str) -> None:
    assert text(api(alice).get(f"{LOG}stdout?{asked}")) == answer


@pytest.mark.parametrize(
    "asked", ["tail=-1", "tail=many", "tail=", "offset=-5", "offset=1e3", "attempt=x", "tail=1&offset=1", "tail=1.5"]
)
def test_it_refuses_what_is_no_number(api: Api, alice: User, job: Job, asked: str) -> None:
    answer = api(alice).get(f"{LOG}stdout?{asked}")
    assert answer.status_code == 400
    assert answer.json()["code"] == "InvalidParametersError"


def test_the_streams_are_apart_and_have_their_v1_names(api: Api, alice: User, cluster: Cluster, job: Job) -> None:
    cluster.engines["n1"].print(cluster.task(job).container_name, b"oops\n", "stderr")
    assert text(api(alice).get(f"{LOG}stderr")) == "oops\n"
    assert text(api(alice).get(f"{LOG}user.pai.stderr")) == "oops\n"


def test_a_download_has_a_name(api: Api, alice: User, job: Job) -> None:
    answer = api(alice).get(f"{LOG}stdout?download=1")
    assert answer["Content-Disposition"] == 'attachment; filename="hello-1-worker-0.stdout.txt"'


@pytest.mark.parametrize(
    "path",
    [
        "user/alice/jobs/hello/taskRoles/worker/0/logs/debug",
        "user/alice/jobs/hello/taskRoles/worker/1/logs/stdout",
        "user/alice/jobs/hello/taskRoles/nobody/0/logs/stdout",
        "user/alice/jobs/hello/taskRoles/worker/0/logs/stdout?attempt=2",
    ],
)
def test_what_is_not_there_is_no_log(api: Api, alice: User, job: Job, path: str) -> None:
    answer = api(alice).get(f"/api/v1/{path}")
    assert (answer.status_code, answer.json()["code"]) == (404, "NoLogError")


def test_it_is_found_by_the_legacy_names_too(api: Api, alice: User, job: Job) -> None:
    for path in ("/api/v1/jobs/alice~hello", "/api/v1/jobs/hello", "/rest-server/api/v1/user/alice/jobs/hello"):
        assert text(api(alice).get(f"{path}/taskRoles/worker/0/logs/stdout?tail=1")) == "line 10\n"


def test_a_guest_reads_logs_only_where_that_is_allowed(api: Api, browse: Browse, settings: Any, job: Job) -> None:
    assert api(None).get(f"{LOG}stdout").status_code == 401
    assert browse(None).get("/jobs/alice/hello/logs").status_code == 302
    assert browse(None).get("/jobs/alice/hello/logs/rows").status_code == 401
    settings.ANONYMOUS_READ = "all"
    assert api(None).get(f"{LOG}stdout").status_code == 200
    assert browse(None).get("/jobs/alice/hello/logs").status_code == 200


def test_a_silent_node_is_said_at_once(api: Api, alice: User, cluster: Cluster, job: Job) -> None:
    cluster.engines["n1"].cut()
    answer = api(alice).get(f"{LOG}stdout")
    assert (answer.status_code, answer.json()["code"]) == (503, "NodeUnreachableError")
    assert "The Docker engine n1 does not answer." in answer.json()["message"]


# --- the page ------------------------------------------------------------------------------------------------------


def test_the_page_shows_the_last_lines_without_a_script(
    browse: Browse, alice: User, cluster: Cluster, job: Job
) -> None:
    write(cluster, job, b"".join(b"more %d <b>&\n" % n for n in range(11, 1211)))
    page = browse(alice).get("/jobs/alice/hello/logs").content.decode()
    assert 'id="L1210"' in page and 'id="L1011"' in page and 'id="L1010"' not in page
    assert "more 1210 &lt;b&gt;&amp;" in page
    assert "from=811" in page
    older = browse(alice).get("/jobs/alice/hello/logs?from=811").content.decode()
    assert 'id="L811"' in older and "from=1011" in older
    assert "<style" not in page and 'style="' not in page and "<script>" not in page


def test_the_page_of_a_task_without_a_log_says_why(browse: Browse, alice: User, cluster: Cluster) -> None:
    cluster.submit(name="hello")
    page = browse(alice).get("/jobs/alice/hello/logs")
    assert page.status_code == 200
    assert "worker-0 waits for its turn, so it has no log yet." in page.content.decode()


def test_the_page_names_tasks_attempts_and_downloads(browse: Browse, alice: User, cluster: Cluster, job: Job) -> None:
    page = browse(alice).get("/jobs/alice/hello/logs?task=worker-0&attempt=1&stream=stderr").content.decode()
    assert 'aria-current="page"' in page
    assert "taskRoles/worker/0/logs/stdout?attempt=1&amp;download=1" in page
    assert 'data-stream="/stream/logs/alice/hello?task=worker-0&amp;attempt=1&amp;stream=stderr"' in page


def test_the_page_costs_the_same_queries_for_any_number_of_tasks(
    browse: Browse, alice: User, cluster: Cluster, django_assert_max_num_queries: Any
) -> None:
    cluster.add_node()
    cluster.submit(name="few", roles=[{"taskNumber": 1}])
    cluster.submit(name="many", roles=[{"taskNumber": 300}])
    client = browse(alice)
    for name in ("few", "many"):
        with django_assert_max_num_queries(9):
            assert client.get(f"/jobs/alice/{name}/logs").status_code == 200


@pytest.mark.parametrize("asked", ["task=../x", "task=worker-99", "attempt=9", "stream=all", "from=-1", "from=x"])
def test_the_page_of_nothing_is_an_error_page(browse: Browse, alice: User, job: Job, asked: str) -> None:
    assert browse(alice).get(f"/jobs/alice/hello/logs?{asked}").status_code in (400, 404)


def test_lines_come_as_json_with_their_times_and_what_matches(browse: Browse, alice: User, job: Job) -> None:
    got = browse(alice).get("/jobs/alice/hello/logs/rows?from=3&count=2").json()
    assert [(row["number"], row["text"]) for row in got["rows"]] == [(3, "line 3"), (4, "line 4")]
    assert (got["from"], got["total"], got["size"], got["live"]) == (3, 10, 71, True)
    assert 0 <= time.time() - got["rows"][0]["time"] / 1000 < LIMIT
    (marked,) = browse(alice).get("/jobs/alice/hello/logs/rows?from=3&count=1&q=N.").json()["rows"]
    assert "marks" not in marked
    (marked,) = browse(alice).get("/jobs/alice/hello/logs/rows?from=3&count=1&q=n.").json()["rows"]
    assert marked["marks"] == [[2, 4]]
    got = browse(alice).get("/jobs/alice/hello/logs/rows?at=0.9&count=4").json()
    assert got["place"] == 9 and [row["number"] for row in got["rows"]] == [7, 8, 9, 10]


@pytest.mark.parametrize("asked", ["q=(", "at=x", "at=0.11", "hide=x", "from=x", "tasks=some", "stream=x", "time=-1"])
def test_wrong_questions_have_a_sentence(browse: Browse, alice: User, job: Job, asked: str) -> None:
    answer = browse(alice).get(f"/jobs/alice/hello/logs/rows?{asked}")
    assert answer.status_code in (400, 404) and answer.json()["message"].endswith(".")


def test_tasks_and_attempts_come_together_by_time(browse: Browse, alice: User, cluster: Cluster) -> None:
    cluster.add_node()
    job = cluster.submit(name="two", roles=[{"taskNumber": 2}])
    cluster.settle()
    names = [task.container_name for task in job.tasks.order_by("index")]
    for number in range(6):
        cluster.engines["n1"].print(names[number % 2], f"step {number}\n".encode())
    url = "/jobs/alice/two/logs"
    got = browse(alice).get(f"{url}/rows?tasks=all&count=4&from=2").json()
    assert [row["text"] for row in got["rows"]] == ["step 1", "step 2", "step 3", "step 4"]
    assert [row["s"] for row in got["rows"]] == [2, 0, 2, 0] and got["counts"] == {"0": 3, "1": 0, "2": 3, "3": 0}
    hidden = browse(alice).get(f"{url}/rows?tasks=all&hide=0").json()
    assert [row["text"] for row in hidden["rows"]] == ["step 1", "step 3", "step 5"]
    page = browse(alice).get(f"{url}?tasks=all&q=step+[45]").content.decode()
    assert 'id="worker-0.1.o1"' in page and "2 matching lines" in page and "from=5" in page
    text = b"".join(browse(alice).get(f"{url}/download?tasks=all").streaming_content).decode().splitlines()
    assert [line.split(" ", 1)[1] for line in text[:2]] == ["worker-0.1 stdout step 0", "worker-1.1 stdout step 1"]
    archive = browse(alice).get(f"{url}/download?tasks=all&form=zip")
    with zipfile.ZipFile(io.BytesIO(b"".join(archive.streaming_content))) as files:
        assert files.read("attempt-1/worker-1.stdout.txt") == b"step 1\nstep 3\nstep 5\n"
        assert len(files.namelist()) == 2 and files.testzip() is None
    between = f"since={got['rows'][0]['time']}&until={int(time.time() * 1000)}"
    assert len(b"".join(browse(alice).get(f"{url}/download?tasks=all&{between}").streaming_content).splitlines()) >= 5


# --- the stream ----------------------------------------------------------------------------------------------------


async def stream(
    client: Client, query: str, *, lines: int, headers: dict[str, str] | None = None
) -> tuple[Viewer, dict[str, str]]:
    """Through the real ASGI handler with all middleware, until that many lines have come; then the client goes away."""
    path, _, asked = query.partition("?")
    cookie = "; ".join(f"{name}={value.value}" for name, value in client.cookies.items())
    sent = [(name.lower().encode(), value.encode()) for name, value in {"Cookie": cookie, **(headers or {})}.items()]
    scope = {
        "type": "http", "method": "GET", "path": path, "query_string": asked.encode(), "http_version": "1.1",
        "headers": [(b"host", b"testserver"), *sent],
    }  # fmt: skip
    viewer, started, gone = Viewer(), {}, asyncio.Event()
    asked_once = [{"type": "http.request", "body": b"", "more_body": False}]

    async def receive() -> dict[str, Any]:
        if asked_once:
            return asked_once.pop()
        await gone.wait()
        return {"type": "http.disconnect"}

    async def send(message: dict[str, Any]) -> None:
        if message["type"] == "http.response.start":
            started.update({name.decode(): value.decode() for name, value in message["headers"]})
            started["status"] = str(message["status"])
        elif started["status"] == "200":
            for part in filter(None, message.get("body", b"").decode().split("\n\n")):
                viewer.take(part)
            if len(viewer.lines) >= lines:
                gone.set()

    async with asyncio.timeout(LIMIT):
        await get_asgi_application()(scope, receive, send)
    return viewer, started


def test_the_stream_begins_where_it_is_asked_to(browse: Browse, alice: User, job: Job) -> None:
    url = "/stream/logs/alice/hello?task=worker-0"
    viewer, headers = asyncio.run(stream(browse(alice), f"{url}&from=9", lines=2))
    assert headers["Content-Type"].startswith("text/event-stream")
    assert viewer.lines == {9: "line 9", 10: "line 10"}
    again, _ = asyncio.run(stream(browse(alice), f"{url}&from=9", lines=1, headers={"Last-Event-ID": "63"}))
    assert again.lines == {10: "line 10"}
    assert hub._followers[next(iter(hub._followers))].viewers == 0


def test_the_stream_is_closed_to_guests_and_for_what_is_not_there(browse: Browse, alice: User, job: Job) -> None:
    for client, query, status in (
        (browse(None), "/stream/logs/alice/hello", "401"),
        (browse(alice), "/stream/logs/alice/nothing", "404"),
        (browse(alice), "/stream/logs/alice/hello?from=x", "400"),
    ):
        assert asyncio.run(stream(client, query, lines=1))[1]["status"] == status
