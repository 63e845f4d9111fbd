"""``/metrics``: what Prometheus reads, who may, and the dashboard that is drawn from it."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from prometheus_client.parser import text_string_to_metric_families

from base.files.store import state as store_state
from base.models import User
from base.wakes import processes
from clusters.models import VirtualCluster
from jobs.metrics import latest, places, rates, ring
from jobs.models import Task
from tests.builders import make_job, make_node
from tests.helpers import LIMIT, files_opened
from tests.http import ApiClient

Api = Callable[[User | None], ApiClient]
pytestmark = pytest.mark.django_db
DASHBOARD = Path(__file__).resolve().parents[2] / "docs" / "run" / "grafana.json"


@pytest.fixture(autouse=True)
def cluster(settings: Any, tmp_path: Path, alice: User, measures_stay: None) -> None:
    """One job runs on two GPUs, one of which it has not used for an hour; one waits."""
    settings.METRICS_DIR = tmp_path
    node = make_node("gpu-01", gpus=4, cpus=8)
    make_job("alice", "secret-name", state="RUNNING", gpus=2, node=node)
    make_job("alice", "waits", gpus=1)
    task = Task.objects.select_related("attempt").get(state="RUNNING")
    path, ids = places.of_task(task.attempt.app_id, "worker", 0), [str(id) for id in task.gpu_ids]
    now = int(time.time()) // 10 * 10
    nan = float("nan")
    for at in range(now - 3600, now + 10, 100):
        values = [1.5, 2**30, *[nan] * 6, 90, 2**30, nan, 0, 2**20, nan]
        ring.write(path, rates.columns_of(ids), at, values, rates.IDLE)
    of_task = ring.write(path, rates.columns_of(ids), now, values, rates.IDLE)
    of_node = ring.write(places.of_node("gpu-01"), rates.OF_A_NODE, now, [1, 1.5, 2**30, 3, 4, 5, 6, 2, 0.9, 2**30, 1])
    of_gpu = ring.write(places.of_gpu("gpu-01", "0"), rates.OF_A_NODES_GPU, now, [90, 2**30, 2**36, 300, 60])
    latest.write("gpu-01", now, of_node, {"0": of_gpu}, {task.pk: of_task})


def read(answer: Any) -> dict[str, dict[tuple[str, ...], float]]:
    """{metric: {values of its labels: value}}"""
    assert answer.status_code == 200
    assert answer["Content-Type"].startswith("text/plain")
    found: dict[str, dict[tuple[str, ...], float]] = {}
    for family in text_string_to_metric_families(answer.content.decode()):
        assert family.documentation
        for sample in family.samples:
            found.setdefault(sample.name, {})[tuple(sample.labels.values())] = sample.value
    return found


def test_it_tells_of_portal_queue_nodes_and_gpus(api: Api) -> None:
    found = read(api(None).get("/metrics"))
    assert found["longshore_jobs"][("RUNNING",)] == found["longshore_jobs"][("WAITING",)] == 1
    assert found["longshore_queue_gpus"] == {("default",): 1}
    assert found["longshore_queue_oldest_seconds"][("default",)] > 30
    assert found["longshore_node_up"] == {("gpu-01",): 1}
    assert (found["longshore_node_gpus"], found["longshore_node_gpus_taken"]) == ({("gpu-01",): 4}, {("gpu-01",): 2})
    assert found["longshore_node_cpu_used_cores"] == {("gpu-01",): 1.5}
    assert found["longshore_node_gpus_idle"] == {("gpu-01",): 1}
    assert found["longshore_gpu_busy_ratio"] == {("0", "gpu-01"): pytest.approx(0.9)}
    assert found["longshore_gpu_temperature_celsius"] == {("0", "gpu-01"): 60}
    assert found["longshore_vc_gpus_taken"] == {("default",): 2}
    assert found["longshore_tasks"] == {("RUNNING",): 1, ("STARTING",): 0, ("STOPPING",): 0}
    assert set(found["longshore_gpu_power_watts"]) == {("0", "gpu-01")}, "what nobody measures is left out"


def test_what_is_nothing_is_told_as_zero(api: Api) -> None:
    VirtualCluster.objects.create(name="vision")
    found = read(api(None).get("/metrics"))
    for name in ("queue_jobs", "queue_gpus", "queue_oldest_seconds", "running_jobs", "vc_gpus_taken"):
        assert found[f"longshore_{name}"][("vision",)] == 0, name


def test_without_an_admin_s_token_no_user_and_no_job_is_named(api: Api, admin: User) -> None:
    for_all = api(None).get("/metrics").content.decode()
    assert "alice" not in for_all and "secret-name" not in for_all and "longshore_job_" not in for_all
    found = read(api(admin).get("/metrics"))
    key = ("secret-name", "alice", "default")
    assert {tuple(sorted(one)) for one in found["longshore_job_cpu_used_cores"]} == {tuple(sorted(key))}
    assert list(found["longshore_job_gpus_busy"].values()) == [pytest.approx(0.9)]
    assert list(found["longshore_job_gpus_idle"].values()) == [1]


@pytest.mark.parametrize(
    ("more", "status"),
    [
        ({}, 200),
        ({"REMOTE_ADDR": "::1"}, 200),
        ({"REMOTE_ADDR": "192.0.2.7"}, 401),
        ({"REMOTE_ADDR": ""}, 401),
        ({"HTTP_X_FORWARDED_FOR": "192.0.2.7"}, 401),
        ({"HTTP_FORWARDED": "for=192.0.2.7"}, 401),
    ],
)
def test_others_read_it_from_this_host_alone(api: Api, more: dict[str, str], status: int) -> None:
    assert api(None).get("/metrics", **more).status_code == status


def test_an_admin_reads_it_from_everywhere_and_a_user_does_not(api: Api, admin: User, alice: User) -> None:
    assert api(admin).get("/metrics", REMOTE_ADDR="192.0.2.7").status_code == 200
    assert api(alice).get("/metrics", REMOTE_ADDR="192.0.2.7").status_code == 403


def test_the_setting_says_from_where(api: Api, settings: Any) -> None:
    settings.METRICS_FROM = ()
    assert api(None).get("/metrics").status_code == 401


def test_many_nodes_and_jobs_take_as_many_queries_as_one(api: Api, admin: User) -> None:
    """The statements are compared, not their number: whoever reads that it failed sees which one came."""
    client, again = api(admin), []
    for time_ in range(2):
        assert client.get("/metrics").status_code == 200  # what has changed is read once, by three statements more
        with CaptureQueriesContext(connection) as queries:
            assert client.get("/metrics").status_code == 200
        again.append([" ".join(each["sql"].split())[:60] for each in queries])
        for number in range(5):
            name = f"n{time_}-{number}"
            make_job("bob", name, state="RUNNING", tasks=3, node=make_node(name))
    assert again[0] == again[1]
    assert len(again[0]) <= 15, again[0]


def test_a_file_is_read_for_each_node_not_for_each_gpu_and_task(api: Api, admin: User, settings: Any) -> None:
    make_job("bob", "wide", state="RUNNING", tasks=3, gpus=1, node=make_node("gpu-02", gpus=8))
    with files_opened(settings.METRICS_DIR) as opened:
        assert api(admin).get("/metrics").status_code == 200
    assert len(opened) == 2, opened


def test_every_expression_of_the_dashboard_names_metrics_that_exist(api: Api, admin: User) -> None:
    dashboard = json.loads(DASHBOARD.read_text())
    assert dashboard["title"] and dashboard["schemaVersion"] >= 36 and dashboard["uid"] == "longshore"
    panels = [panel for panel in dashboard["panels"] if panel["type"] != "row"]
    expressions = [target["expr"] for panel in panels for target in panel["targets"]]
    named = {name for text in expressions for name in re.findall(r"\blongshore_\w+", text)}
    processes.record_heartbeat("scheduler")
    assert store_state.is_store_up(LIMIT)
    known = set(read(api(admin).get("/metrics")))
    assert len(named) >= 20 and named - known == set()
    assert all("longshore_" in text for text in expressions)
    places_taken = [(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in dashboard["panels"]]
    assert len(set(places_taken)) == len(places_taken) and len({panel["id"] for panel in panels}) == len(panels)
    labels = {label for text in expressions for label in re.findall(r"by \((\w+)\)", text)}
    assert labels <= {"node", "gpu", "vc", "state", "user", "job", "process"}
