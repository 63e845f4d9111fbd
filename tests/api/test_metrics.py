"""What a job used, in the API and on its page."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from base.models import User
from jobs.metrics import latest, places, rates, ring
from jobs.models import Attempt, Job, Task
from tests.builders import make_job, make_node
from tests.http import ApiClient, Client
from tests.measures import measured

Api = Callable[[User | None], ApiClient]
Browse = Callable[[User | None], Client]
pytestmark = pytest.mark.django_db
URL = "/api/v1/user/alice/jobs/train"
MB = 2.0**20


@pytest.fixture(autouse=True)
def _folder(settings: Any, tmp_path: Path, measures_stay: None) -> None:
    settings.METRICS_DIR = tmp_path / "metrics"


def write(
    job: Job, index: int, at: int, *, cpu: float = math.nan, memory: float = math.nan, gpu: float = math.nan
) -> None:
    task = Task.objects.get(job=job, index=index)
    values = [cpu, memory, 3.0, *[math.nan] * 5, *[value for _ in task.gpu_ids for value in (gpu, 5 * MB, math.nan)]]
    measured(task, at, values)


@pytest.fixture
def job(alice: User) -> Job:
    """Two tasks that have run for five minutes, measured for one; an hour ago the first had used more."""
    job = make_job("alice", "train", state="RUNNING", tasks=2, gpus=1, node=make_node(gpus=2, cpus=8), age=7200)
    Attempt.objects.filter(job=job).update(launched_at=timezone.now() - timedelta(hours=1, minutes=50))
    now = int(time.time()) // 10 * 10
    write(job, 0, now - 4000, cpu=4, memory=900 * MB, gpu=50)
    for number in range(6):
        write(job, 0, now - 60 + 10 * number, cpu=1, memory=100 * MB, gpu=90)
    return job


def test_a_task_has_a_series_for_each_measure_that_is_known(api: Api, alice: User, job: Job) -> None:
    answer = api(alice).get(f"{URL}/taskRoles/worker/0/metrics")
    assert answer.status_code == 200
    found = answer.json()
    assert found["step"] == 10
    assert [value for _, value in found["series"]["cpu"]] == [4, 1, 1, 1, 1, 1, 1]
    assert found["series"]["gpu0Util"][0][1] == 50 and "networkIn" not in found["series"]
    assert found["series"]["cpu"][0][0] % 10_000 == 0 and found["peaks"] == {}


def test_a_span_and_a_step_can_be_asked_for(api: Api, alice: User, job: Job) -> None:
    begin = 1000 * int(time.time() - 300)
    found = api(alice).get(f"{URL}/taskRoles/worker/0/metrics?from={begin}&step=60&attempt=1").json()
    assert (found["step"], found["from"]) == (60, begin)
    assert {value for _, value in found["series"]["cpu"]} == {value for _, value in found["peaks"]["cpu"]} == {1}


def test_the_summary_has_peaks_and_means_beside_what_was_asked(api: Api, alice: User, job: Job) -> None:
    found = api(alice).get(f"{URL}/metrics/summary").json()
    assert (found["attempt"], found["next"], len(found["tasks"])) == (1, None, 2)
    first, second = found["tasks"]
    assert (first["role"], first["index"], second["metrics"], second["from"]) == ("worker", 0, {}, None)
    memory = first["metrics"]["memory"]
    assert (memory["peak"], memory["asked"], memory["last"]) == (900 * MB, 1024 * MB, 100 * MB)
    assert memory["mean"] == pytest.approx(1500 * MB / 7)


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("taskRoles/worker/9/metrics", 404),
        ("taskRoles/nobody/0/metrics", 404),
        ("taskRoles/worker/0/metrics?attempt=7", 404),
        ("taskRoles/worker/0/metrics?from=yesterday", 400),
        ("taskRoles/worker/0/metrics?step=-1", 400),
        ("metrics/summary?attempt=x", 400),
        ("taskRoles/worker/0/metrics?from=5&to=1", 200),
    ],
)
def test_bad_questions_are_refused(api: Api, alice: User, job: Job, path: str, status: int) -> None:
    assert api(alice).get(f"{URL}/{path}").status_code == status


@pytest.mark.parametrize("path", ["taskRoles/worker/0/metrics", "metrics/summary"])
def test_what_a_job_used_is_part_of_its_story(api: Api, bob: User, job: Job, settings: Any, path: str) -> None:
    assert api(bob).get(f"{URL}/{path}").status_code == 200
    settings.JOB_PRIVACY = "owner"
    assert api(bob).get(f"{URL}/{path}").status_code == 403
    assert api(None).get(f"{URL}/{path}").status_code == 401


@pytest.mark.parametrize("path", ["", "/data", "/csv"])
def test_so_it_is_on_the_page(browse: Browse, alice: User, bob: User, job: Job, settings: Any, path: str) -> None:
    settings.JOB_PRIVACY = "owner"
    assert browse(alice).get(f"/jobs/alice/train/metrics{path}").status_code == 200
    assert browse(bob).get(f"/jobs/alice/train/metrics{path}").status_code == 403


def test_the_page_shows_peaks_and_means_without_a_script(browse: Browse, alice: User, job: Job) -> None:
    text = " ".join(browse(alice).get("/jobs/alice/train/metrics").content.decode().split())
    assert "asked 1.0 GB" in text and "900 MB" in text and "GPU busy" in text
    assert text.count('class="ls-chart"') == text.count("data-plot=") >= 5
    assert "<b>No plot of Network in, Network out.</b>" in text


def test_a_page_of_many_tasks_takes_as_many_queries_as_of_one(browse: Browse, alice: User, job: Job) -> None:
    client = browse(alice)
    client.get("/jobs/alice/train/metrics")
    with CaptureQueriesContext(connection) as queries:
        client.get("/jobs/alice/train/metrics")
    assert len(queries) <= 16


def test_where_nothing_was_measured_the_page_says_why(browse: Browse, alice: User) -> None:
    make_job("alice", "waits")
    make_job("alice", "short", state="SUCCEEDED")
    assert "Nothing is measured before the job runs" in browse(alice).get("/jobs/alice/waits/metrics").content.decode()
    assert "ran for less than some 10 s" in browse(alice).get("/jobs/alice/short/metrics").content.decode()


def test_the_script_gets_all_lines_on_one_grid(browse: Browse, alice: User, job: Job) -> None:
    found = browse(alice).get("/jobs/alice/train/metrics/data?range=1h").json()
    cpu = found["plots"]["cpu"]
    assert cpu["labels"] == ["worker-0", "worker-1"] and cpu["limit"] == 1
    assert all(len(line) == len(found["times"]) for line in cpu["lines"])
    assert set(cpu["lines"][0]) == {None, 1} and set(cpu["lines"][1]) == {None}
    assert found["step"] == 10


@pytest.mark.parametrize(
    ("query", "status"), [("from=5&to=4", 400), ("attempt=9", 404), ("task=nobody", 200), ("from=x", 200)]
)
def test_bad_queries_of_the_page_are_no_errors_of_the_server(
    browse: Browse, alice: User, job: Job, query: str, status: int
) -> None:
    assert browse(alice).get(f"/jobs/alice/train/metrics/data?{query}").status_code == status


def test_a_table_for_other_programs(browse: Browse, alice: User, job: Job) -> None:
    answer = browse(alice).get("/jobs/alice/train/metrics/csv?range=1h")
    lines = answer.content.decode().splitlines()
    assert lines[0].startswith("time,task,gpu,gpuMemory,cpu,memory")
    assert len(lines) == 7 and lines[1].split(",")[1:3] == ["worker-0", "90.0"]
    assert datetime.fromisoformat(lines[1].split(",")[0].replace("Z", "+00:00")).tzinfo == UTC


def test_the_table_of_tasks_shows_what_each_uses(
    browse: Browse, alice: User, bob: User, job: Job, settings: Any
) -> None:
    text = browse(alice).get("/jobs/alice/train").content.decode()
    assert "90 % GPU" in " ".join(re.sub("<[^>]*>", " ", text).split()) and "100 MB" in text
    assert text.count('class="ls-spark"') == 1 and 'd="M' in text
    settings.JOB_PRIVACY = "owner"
    assert "ls-spark" not in browse(bob).get("/jobs/alice/train").content.decode()


@pytest.fixture
def idle(job: Job) -> Job:
    """Its second task has a GPU that was last busy an hour ago."""
    now = int(time.time()) // 10 * 10
    write(job, 1, now - 3600, memory=1, gpu=90)
    for at in range(now - 3500, now + 10, 100):
        write(job, 1, at, memory=1, gpu=1)
    write(job, 1, now, memory=1, gpu=1)
    return job


def test_idle_gpus_are_listed_with_their_owners(browse: Browse, bob: User, idle: Job, settings: Any) -> None:
    text = " ".join(browse(bob).get("/cluster/metrics").content.decode().split())
    assert "Idle GPUs" in text and "alice/</span>train" in text and "1 h" in text
    settings.JOB_PRIVACY = "owner"
    assert "Idle GPUs" not in browse(bob).get("/cluster/metrics").content.decode()


def test_the_owner_gets_a_notice_and_nobody_else(browse: Browse, alice: User, bob: User, idle: Job) -> None:
    for url in ("/", "/jobs/alice/train"):
        assert "idle for" in browse(alice).get(url).content.decode()
    assert "idle for" not in browse(bob).get("/").content.decode()


def test_a_gpu_that_nobody_measures_or_that_works_is_not_called_idle(browse: Browse, bob: User, job: Job) -> None:
    assert "Idle GPUs" not in browse(bob).get("/cluster/metrics").content.decode()


@pytest.mark.parametrize("url", ["/nodes/node-1/metrics", "/cluster/metrics"])
def test_nodes_and_the_cluster_have_plots(browse: Browse, alice: User, job: Job, url: str) -> None:
    now = int(time.time()) // 10 * 10
    for at in range(now - 600, now, 10):
        values = [2, 1.5, 2**30, math.nan, math.nan, math.nan, math.nan, 2, 0.9, 2**30, 1]
        ring.write(places.of_cluster(), rates.OF_A_NODE, at, values)
        of_node = ring.write(places.of_node("node-1"), rates.OF_A_NODE, at, values)
        of_gpus = {
            id: ring.write(places.of_gpu("node-1", id), rates.OF_A_NODES_GPU, at, [90, 2**30, 2**31, 300, 61])
            for id in "01"
        }
        latest.write("node-1", at, of_node, of_gpus, {})
    text = browse(alice).get(url).content.decode()
    assert text.count('class="ls-chart"') >= 5 and "1.5 of 8" in text
    found = browse(alice).get(f"{url}/data?range=1h").json()
    assert {"cpu", "memory", "gpu"} <= set(found["plots"]) and found["plots"]["cpu"]["limit"] == 8
    assert browse(None).get(url).status_code == 302
    for query in ("from=9&to=1", "range=99", "from=x"):
        assert browse(alice).get(f"{url}/data?{query}").status_code in (200, 400)
    page = browse(alice).get("/nodes/node-1").content.decode()
    assert "90 % busy, 1.0 GB of 2.0 GB" in page and "1.5 busy now" in page


def test_of_a_node_that_is_not_there_nothing_is_shown(browse: Browse, alice: User) -> None:
    assert browse(alice).get("/nodes/nobody/metrics").status_code == 404


def test_home_shows_how_busy_the_gpus_of_a_job_are(browse: Browse, alice: User, job: Job) -> None:
    assert "GPUs 90 % busy" in browse(alice).get("/").content.decode()


def test_the_strip_says_what_is_used_now_and_afterwards_on_average(
    browse: Browse, alice: User, bob: User, job: Job, settings: Any
) -> None:
    def small() -> list[str]:
        return [cell.small for cell in browse(alice).get("/jobs/alice/train").context["shown"].strip][:3]

    assert small() == ["90 % busy now", "1.0 cores busy now", "100 MB used now"]
    Job.objects.update(state="SUCCEEDED", completed_at=timezone.now())
    assert small() == ["84 % busy on average", "1.4 cores busy on average", "peak 900 MB of 1.0 GB in worker-0"]
    settings.JOB_PRIVACY = "owner"
    assert "busy" not in browse(bob).get("/jobs/alice/train").content.decode()


@pytest.mark.parametrize(
    ("endpoint", "says"),
    [("kubernetes://lab/jobs", "Nothing is measured on nodes of a Kubernetes"), ("unix:///here", "is measured yet")],
)
def test_a_page_without_measures_says_why(
    browse: Callable[[User | None], Client], alice: User, endpoint: str, says: str
) -> None:
    make_job("alice", "there", state="RUNNING", node=make_node("lab/n1", endpoint=endpoint))
    assert says in browse(alice).get("/jobs/alice/there/metrics").content.decode()
