"""Half of a surrogate pair and NUL, which JSON may hold, are cleaned where an engine's answer comes in."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from types import SimpleNamespace
from typing import Any

import pytest

from base.models import User
from clusters.engines import faults
from clusters.engines.docker.runtime import DockerRuntime
from clusters.engines.kubernetes.connect import ClusterApi
from clusters.engines.kubernetes.events import events_of
from clusters.engines.kubernetes.hosts import host_of
from clusters.engines.runtime import RuntimeFault
from clusters.models import Node
from clusters.nodes.kubernetes import services
from jobs.metrics import latest, places, rates, ring
from tests.helpers import LIMIT
from tests.hosts import Hosts

HALF = "\ud800"
NODE = {
    "metadata": {"name": "gpu-1", "labels": {"nvidia.com/gpu.product": f"A100{HALF}", f"pool{HALF}": HALF}},
    "status": {
        "allocatable": {"cpu": "8", "memory": "16Gi", f"lab{HALF}/gpu": "2"},
        "conditions": [{"type": "Ready", "status": "True"}],
        "images": [{"names": [f"ubuntu{HALF}"]}],
        "nodeInfo": {"kubeletVersion": f"v1.20{HALF}"},
    },
}
ROW = {"Id": f"c1{HALF}", "Names": [f"/name{HALF}"], "State": "created", "Labels": {f"a{HALF}": f"b{HALF} \\ud800 😀"}}
NUL = {"Id": "c1\0", "Names": ["/\0name\0\0"], "State": "created", "Labels": {"a\0": "b\\\0 \\\\u0000 \\u0000 \\\\\0"}}


class Engine(ThreadingHTTPServer):
    """Answers everything with ``says``."""

    def __init__(self, says: bytes) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.says = says
        Thread(target=self.serve_forever, args=(0.01,)).start()


class _Handler(BaseHTTPRequestHandler):
    server: Engine

    def do_GET(self) -> None:
        body = self.server.says if "/version" not in self.path else b'{"ApiVersion": "1.41"}'
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def serve() -> Iterator[Callable[[Any], Engine]]:
    engines: list[Engine] = []

    def begin(says: Any) -> Engine:
        engines.append(Engine(json.dumps(says).encode()))
        return engines[-1]

    yield begin
    for engine in engines:
        engine.shutdown()
        engine.server_close()


@pytest.fixture
def ask(monkeypatch: pytest.MonkeyPatch) -> Callable[[Any], Any]:
    """What the client of a cluster reads where this is answered."""

    def asked(says: Any) -> Any:
        answer = SimpleNamespace(read=lambda _: json.dumps(says).encode(), release_conn=lambda: None)
        monkeypatch.setattr(ClusterApi, "opened", lambda *_, **__: answer)
        return ClusterApi("kubernetes://lab/longshore", None).ask("GET", "/api/v1/nodes/gpu-1")

    return asked


@pytest.mark.django_db
def test_a_gpu_whose_name_is_no_text_is_on_the_pages_and_in_the_metrics(
    ask: Callable[[Any], Any],
    hosts: Hosts,
    admin: User,
    browse: Callable[[User | None], Any],
    settings: Any,
    tmp_path: Path,
    measures_stay: None,
) -> None:
    settings.METRICS_DIR = tmp_path
    engine = hosts.add("kubernetes://lab/longshore")
    engine.hosts["gpu-1"] = host_of(ask(NODE), {})
    services.register_cluster(admin, {"name": "lab", "endpoint": "kubernetes://", "namespace": "longshore"})
    assert Node.objects.get().gpus == [{"id": f"lab?/gpu:{nth}", "type": "A100?"} for nth in range(2)]
    now = int(time.time()) // 10 * 10
    of_node = ring.write(places.of_node("lab/gpu-1"), rates.OF_A_NODE, now, [1, 1.5, 2**30, 3, 4, 5, 6, 2, 0.9, 1, 1])
    of_gpu = ring.write(places.of_gpu("lab/gpu-1", "lab?/gpu:0"), rates.OF_A_NODES_GPU, now, [90, 1, 2, 300, 60])
    latest.write("lab/gpu-1", now, of_node, {"lab?/gpu:0": of_gpu}, {})
    client = browse(admin)
    told = client.get("/metrics").content.decode()
    assert 'longshore_gpu_busy_ratio{gpu="lab?/gpu:0",node="lab/gpu-1"} 0.9' in told
    for page in (
        "/metrics",
        "/nodes",
        "/nodes/lab/gpu-1",
        "/nodes/lab/gpu-1/metrics",
        "/api/v1/nodes",
        "/cluster/metrics",
    ):
        assert client.get(page).status_code == 200, page


def test_a_container_s_name_that_is_no_text_is_read_as_one(serve: Callable[[Any], Engine]) -> None:
    runtime = DockerRuntime(f"tcp://127.0.0.1:{serve([ROW]).server_port}", timeout=LIMIT)
    (status,) = runtime.list()
    assert (status.id, status.name, status.labels) == ("c1?", "name?", {"a?": "b? \\ud800 😀"})


def test_nul_in_what_an_engine_says_is_read_as_a_question_mark(serve: Callable[[Any], Engine]) -> None:
    runtime = DockerRuntime(f"tcp://127.0.0.1:{serve([NUL]).server_port}", timeout=LIMIT)
    (status,) = runtime.list()
    assert (status.id, status.name) == ("c1?", "?name??")
    assert status.labels == {"a?": "b\\? \\\\u0000 \\u0000 \\\\?"}
    assert faults.short("no\0 image") == "no? image"


def test_what_a_cluster_tells_of_a_change_is_text_too() -> None:
    pieces = [json.dumps({"object": {"message": HALF}}).encode() + b'\n{"object": "\xed\xa0\x80"}\n', b""]
    answer: Any = SimpleNamespace(read1=lambda _: pieces.pop(0))
    assert list(events_of(answer)) == [{"object": {"message": "?"}}, {"object": "?"}]


def test_what_is_no_json_is_said_to_be_none(ask: Callable[[Any], Any]) -> None:
    with pytest.raises(RuntimeFault, match="is no Kubernetes API"):
        ask([HALF])
