"""The sampler on engines in memory: what it asks, what it writes, and what it leaves alone."""

from __future__ import annotations

import math
import socket
import threading
from collections.abc import Iterator
from contextlib import suppress
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from base.models import Heartbeat
from base.wakes import lease as leases
from base.wakes import processes
from base.wakes.lease import Fenced, Lease
from clusters.engines.runtime import LABEL_TASK, ContainerRequest
from clusters.models import Node
from jobs import queries
from jobs.config.spec import JobSpec
from jobs.containers import discard
from jobs.metrics import engine, janitor, latest, places, rates, read, ring
from jobs.metrics.sampler import Sampler
from jobs.models import Job, Task
from tests.builders import make_job, make_node
from tests.fakes.meter import Load
from tests.fakes.runtime import FakeRuntime
from tests.helpers import LIMIT, until
from tests.hosts import Hosts

pytestmark = pytest.mark.django_db(transaction=True)
AT = 1_800_000_000
ENDPOINT = "unix:///fake/n1"
SMI = "0, GPU-aa, 97, 1024, 40960, 300, 61\n"


@pytest.fixture(autouse=True)
def _folder(settings: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings.METRICS_DIR = tmp_path / "metrics"
    # What is left alone for a while is so for the whole test, and an exporter may take its time.
    for limit in ("_FIRST_PAUSE", "_LONGEST_PAUSE", "SMI_EVERY", "EXPORTER"):
        monkeypatch.setattr(engine, limit, LIMIT)


@pytest.fixture
def sampler() -> Iterator[Sampler]:
    sampler = Sampler()
    assert sampler.lease.try_take()
    yield sampler
    sampler._end()


def running(hosts: Hosts, *, tasks: int = 1, name: str = "n1", gpus: int = 0, **node: Any) -> tuple[Job, FakeRuntime]:
    """A job that runs on a node of its own."""
    endpoint = f"unix:///fake/{name}"
    row = make_node(name, cpus=64, memory_mb=1 << 18, gpus=gpus * tasks, endpoint=endpoint, **node)
    job = make_job("alice", f"job-{name}", state="RUNNING", tasks=tasks, gpus=gpus, node=row)
    runtime = hosts.add(endpoint)
    for task in Task.objects.filter(job=job):
        network = "bridge" if row.network == "bridge" else "host"
        labels = {LABEL_TASK: str(task.pk)}
        runtime.ensure(ContainerRequest(task.container_name, "i", ("sh",), labels=labels, network=network))  # type: ignore[arg-type]
    Task.objects.update(container_started_at=timezone.now() - timedelta(hours=1))
    return job, runtime


def tick(sampler: Sampler, at: int) -> None:
    """One round, to its end."""
    sampler.tick(at)
    until(lambda: all(one.latest[0] == at for one in sampler._engines.values()), what="all engines are through")


def figures(job: Job) -> dict[str, read.Figure]:
    attempt = queries.current_attempt(job)
    return dict(read.figures(attempt, attempt.tasks.all(), JobSpec.from_json(job.spec))[0].figures)


def test_what_nobody_measures_is_not_called_nothing(hosts: Hosts, sampler: Sampler) -> None:
    """A cluster of Kubernetes tells nothing of what runs there."""
    _, runtime = running(hosts, tasks=2)
    tick(sampler, AT)
    for task in Task.objects.all():
        runtime.vanish(task.container_name)
    tick(sampler, AT + 10)
    (known,) = (one.latest[1]["n1"] for one in sampler._engines.values())
    values = dict(zip(rates.OF_A_NODE, known, strict=True))
    assert values["tasks"] == 2 and math.isnan(values["cpu"]) and math.isnan(values["memory"])
    Task.objects.update(state="SUCCEEDED")
    sampler.tick(AT + 20)
    assert sampler._idle_nodes["n1"][:3] == [0.0, 0.0, 0.0], "a node without tasks uses nothing"


def test_it_writes_what_a_task_uses(hosts: Hosts, sampler: Sampler) -> None:
    job, runtime = running(hosts, network="bridge")
    name = Task.objects.get().container_name
    runtime.loads[name] = Load(cpu=0.5, memory=1 << 20, pids=3, network=(1000.0, 10.0), disk=(0.0, 50.0))
    tick(sampler, AT)
    until(lambda: tick(sampler, AT + 10) or "cpu" in figures(job), every=1.1)
    found = figures(job)
    assert found["cpu"].last == pytest.approx(0.5, rel=0.1)
    assert (found["memory"].peak, found["memory"].asked, found["pids"].last) == (1 << 20, 1024 * 2.0**20, 3)
    assert found["networkIn"].last == pytest.approx(1000, rel=0.1)
    assert found["diskWritten"].last == pytest.approx(50, rel=0.2)


def test_what_is_not_known_has_no_figure(hosts: Hosts, sampler: Sampler) -> None:
    job, _ = running(hosts, gpus=1)
    tick(sampler, AT)
    assert not figures(job).keys() & {"networkIn", "gpu0Util", "cpu"}


def test_a_dead_node_costs_nothing_but_its_own_samples(hosts: Hosts, sampler: Sampler) -> None:
    dead, runtime = running(hosts, name="dead")
    alive, _ = running(hosts, name="alive")
    runtime.cut()
    for at in (AT, AT + 10, AT + 20):
        tick(sampler, at)
    assert figures(dead) == {} and "memory" in figures(alive)
    assert runtime.calls["usage"] == 1, "it is asked again after a pause"
    assert ring.summary(places.of_node("dead")) is None


def test_an_engine_that_hangs_delays_no_other(hosts: Hosts, sampler: Sampler, monkeypatch: pytest.MonkeyPatch) -> None:
    slow, runtime = running(hosts, name="slow")
    quick, _ = running(hosts, name="quick")
    over = threading.Event()
    monkeypatch.setattr(runtime, "usage", lambda *_: over.wait(LIMIT) and {})
    for at in (AT, AT + 10):
        sampler.tick(at)
        until(lambda at=at: (found := ring.summary(places.of_node("quick"))) and found.at == at)  # type: ignore[misc]
    over.set()
    assert figures(slow) == {} and "memory" in figures(quick)


def test_an_unreachable_node_is_not_asked(hosts: Hosts, sampler: Sampler) -> None:
    _, runtime = running(hosts)
    Node.objects.update(health="unreachable")
    tick(sampler, AT)
    assert runtime.calls["usage"] == 0


def test_a_node_adds_up_its_tasks_and_the_cluster_its_nodes(hosts: Hosts, sampler: Sampler) -> None:
    for name in ("n1", "n2"):
        _, _runtime = running(hosts, name=name, tasks=2)
    make_node("n3", endpoint="unix:///fake/n3")
    tick(sampler, AT)
    tick(sampler, AT + 10)
    node = ring.summary(places.of_node("n1")) or pytest.fail("no file")
    cluster = ring.summary(places.of_cluster()) or pytest.fail("no file")
    assert (node.columns["tasks"].last, node.columns["memory"].last) == (2, 2 * (64 << 20))
    assert (cluster.at, cluster.columns["tasks"].last, cluster.columns["memory"].last) == (AT, 4, 4 * (64 << 20))
    idle = ring.summary(places.of_node("n3")) or pytest.fail("no file")
    assert idle.columns["tasks"].last == 0


def test_gpus_are_asked_in_the_container_where_no_exporter_is(hosts: Hosts, sampler: Sampler) -> None:
    job, runtime = running(hosts, gpus=1)
    runtime.programs["nvidia-smi"] = SMI
    tick(sampler, AT)
    tick(sampler, AT + 10)
    found = figures(job)
    assert (found["gpu0Util"].peak, found["gpu0Memory"].peak, found["gpu0Power"].peak) == (97, 1024 * 2.0**20, 300)
    assert runtime.calls["output"] == 1, "not each time"


def test_gpus_are_those_of_the_exporter_where_it_is_set(hosts: Hosts, sampler: Sampler, exporter: str) -> None:
    job, runtime = running(hosts, gpus=2, exporter=exporter)
    runtime.programs["nvidia-smi"] = SMI
    tick(sampler, AT)
    assert (figures(job)["gpu0Util"].peak, runtime.calls["output"]) == (3, 0)
    gpu = ring.summary(places.of_gpu("n1", "1")) or pytest.fail("no file")
    assert gpu.columns["util"].last == 80
    node = ring.summary(places.of_node("n1")) or pytest.fail("no file")
    found = {name: column.last for name, column in node.columns.items()}
    assert (found["gpus"], found["gpusBusy"], found["gpusIdle"]) == (2, pytest.approx(0.83), 1)


def test_how_a_node_is_now_is_in_one_file(hosts: Hosts, sampler: Sampler) -> None:
    _, runtime = running(hosts, gpus=1)
    runtime.programs["nvidia-smi"] = SMI
    tick(sampler, AT)
    tick(sampler, AT + 10)
    known, task = latest.read("n1"), Task.objects.get()
    assert known.at == AT + 10 and known.now("tasks", AT + 10) == 1
    for key, value in ((latest.of_task(task.pk, "gpu0Util"), 97), (latest.of_gpu("0", "temperature"), 61)):
        assert known.now(key, AT + rates.FRESH) == value, "asked in the first round alone"
        assert known.now(key, AT + rates.FRESH + 1) is None, "what was known before is not how it is now"
    assert known.now(latest.of_task(task.pk, "memory"), AT + 10 + rates.FRESH) == 64 << 20
    tick(sampler, AT + 100)
    assert not [key for key in latest.read("n1").last if key.startswith("gpu/")], "nobody asks for what is old"
    Task.objects.update(state="SUCCEEDED")
    sampler.tick(AT + 110)
    assert latest.read("n1").now("tasks", AT + 110) == 0, "a node that runs nothing is in its file too"


def test_an_idle_gpu_is_idle_in_the_file_too(hosts: Hosts, sampler: Sampler) -> None:
    _, runtime = running(hosts, gpus=1)
    runtime.programs["nvidia-smi"] = "0, GPU-aa, 0, 1024, 40960, 300, 61\n"
    tick(sampler, AT)
    sampler._engines[ENDPOINT, ""]._asks_at.clear()
    tick(sampler, AT + 10)
    util, known = latest.of_task(Task.objects.get().pk, "gpu0Util"), latest.read("n1")
    assert known.idle_since(util, AT + 10, after=10) == AT and known.idle_since(util, AT + 10, after=11) == 0


def test_what_a_sampler_that_was_killed_left_beside_the_files_of_a_node_goes() -> None:
    make_node("n1")
    ring.write(places.of_node("n1"), rates.OF_A_NODE, AT, rates.node_values(0, [], {}, []))
    folder = places.of_node("n1").parent
    (left := folder / ".0f3e").write_text('{"at": 17')
    now = left.stat().st_mtime
    janitor.clean_up(now + 60)
    assert left.exists(), "it may be written now"
    janitor.clean_up(now + 7200)
    assert [file.name for file in folder.iterdir()] == ["node.ring"]


def test_an_exporter_that_is_away_costs_nothing_else(hosts: Hosts, sampler: Sampler) -> None:
    job, _ = running(hosts, exporter="http://127.0.0.1:9/metrics")
    tick(sampler, AT)
    assert "memory" in figures(job)


def test_an_exporter_that_drips_its_answer_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    begun, over = threading.Event(), threading.Event()
    asked: list[float] = []

    class Timer(threading.Timer):
        """Its time is over once the answer has begun to drip."""

        def __init__(self, seconds: float, *does: Any) -> None:
            asked.append(seconds)
            super().__init__(0, *does)

        def run(self) -> None:
            begun.wait(LIMIT)
            super().run()

    monkeypatch.setattr(threading, "Timer", Timer)
    listening = socket.create_server(("127.0.0.1", 0))

    def drip() -> None:
        connection, _ = listening.accept()
        with connection, suppress(OSError):
            assert connection.recv(1000)
            connection.sendall(b"HTTP/1.1 200 OK\r\n\r\n#")
            begun.set()
            over.wait(LIMIT)

    thread = threading.Thread(target=drip, daemon=True)
    thread.start()
    with listening, pytest.raises(OSError, match="takes longer"):
        engine.fetch(f"http://127.0.0.1:{listening.getsockname()[1]}/metrics")
    over.set()
    thread.join(LIMIT)
    assert asked == [engine.EXPORTER]


def test_only_one_sampler_acts_and_the_other_writes_nothing(hosts: Hosts, sampler: Sampler) -> None:
    job, _ = running(hosts)
    other = Sampler(Lease("sampler", holder="another host"))
    assert not other.lease.try_take()
    with pytest.raises(Fenced):
        other.tick(AT)
    assert figures(job) == {} and not Heartbeat.objects.filter(name="sampler").exists()
    tick(sampler, AT)
    assert Heartbeat.objects.filter(name="sampler").exists()


def test_a_round_takes_as_many_queries_for_many_tasks_as_for_one(
    hosts: Hosts, sampler: Sampler, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processes, "EVERY", math.inf)  # neither a beat nor the lease is due a second time
    monkeypatch.setattr(leases, "RENEW", timedelta.max)
    running(hosts, tasks=30)
    sampler.tick(AT)
    with CaptureQueriesContext(connection) as queries:
        sampler.tick(AT + 10)
    assert len(queries) <= 5, [one["sql"] for one in queries]


def test_the_files_go_with_the_job(hosts: Hosts, sampler: Sampler) -> None:
    job, _ = running(hosts)
    tick(sampler, AT)
    folder = places.of_attempt(job.attempts.get().app_id)
    assert [one.name for one in folder.iterdir()] == ["worker-0.ring"]
    discard.note([job.pk])
    discard.discard_all(list(discard.Discarded.objects.values_list("id", flat=True)))
    assert not folder.exists()


def test_the_janitor_removes_what_belongs_to_nothing_what_is_old_and_what_has_no_room(
    hosts: Hosts, sampler: Sampler, settings: Any
) -> None:
    job, _ = running(hosts)
    tick(sampler, AT)
    kept = places.of_attempt(job.attempts.get().app_id)
    ring.write(places.of_task("application_0_0", "w", 0), ("cpu",), AT, [1])
    ring.write(places.of_node("gone"), ("cpu",), AT, [1])
    now = kept.stat().st_mtime
    janitor.clean_up(now + 60)
    assert places.of_attempt("application_0_0").exists(), "what is young belongs to something"
    janitor.clean_up(now + 7200)
    assert kept.exists() and places.of_node("n1").exists()
    assert not places.of_attempt("application_0_0").exists() and not places.of_node("gone").exists()
    settings.METRICS_MB = 0
    janitor.clean_up(now + 7200)
    assert not kept.exists()


def test_names_of_roles_are_parts_of_paths_and_no_more() -> None:
    for role in ("..", "a/b", "x" * 255, "worker.1"):
        path = places.of_task("application_1_1", role, 0)
        assert path.parent == places.of_attempt("application_1_1") and len(path.name) < 200
    assert places.of_task("a", "x" * 255, 0) != places.of_task("a", "x" * 254, 0)


@pytest.fixture
def exporter() -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            text = 'DCGM_FI_DEV_GPU_UTIL{gpu="0",UUID="GPU-a"} 3\nDCGM_FI_DEV_GPU_UTIL{gpu="1",UUID="GPU-b"} 80\n'
            self.send_response(200)
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, *_: Any) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/metrics"
    server.shutdown()
    thread.join()
    server.server_close()


def test_it_tells_when_a_job_that_asked_for_it_last_saved(hosts: Hosts, sampler: Sampler) -> None:
    job, runtime = running(hosts)
    other, unasked = running(hosts, name="n2")
    Job.objects.filter(pk=job.pk).update(spec={**job.spec, "extras": {"graceSeconds": 20}})
    for said in ("", "nothing of the kind", "1\n", f"{'9' * 50}\n1\n"):
        runtime.programs["/bin/sh"] = unasked.programs["/bin/sh"] = said
        saves_seen(sampler)
    assert not Job.objects.exclude(saved_at=None).exists()
    runtime.programs["/bin/sh"] = unasked.programs["/bin/sh"] = "1000\n940\n"
    saves_seen(sampler)
    job.refresh_from_db()
    assert job.saved_at is not None and 60 <= (timezone.now() - job.saved_at).total_seconds() < 60 + LIMIT
    saves_seen(sampler)
    before, job.saved_at = job.saved_at, Job.objects.get(pk=job.pk).saved_at
    assert job.saved_at == before and Job.objects.get(pk=other.pk).saved_at is None and unasked.calls["output"] == 0


def saves_seen(sampler: Sampler) -> None:
    """Two rounds: in the first it is looked at, in the second noted."""
    for one in sampler._engines.values():
        one._looks_at.clear()
    tick(sampler, AT)
    tick(sampler, AT + 10)
