"""How long a key takes from a client of the portal to the task and back, beside the engine's own exec in the same run;
with one terminal, and with fifty that are open."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

import docker
from websockets.sync.client import ClientConnection, connect

from benchmarks.report import Report, percentile, spread
from benchmarks.sizes import size
from tests.acceptance.portal import Portal, config, container_of
from tests.bed.docker_bed import BedNode

KEYS = size(400, 5)
MANY = size(50, 2)
GOAL = 0.1  # seconds, p95: what a hand feels as at once


def measure(report: Report, portal: Portal, node: BedNode) -> None:
    report.title(f"A key in a terminal: typed, echoed by the task, shown ({KEYS} keys)")
    portal.submit(config("keys", "sleep 3000"))
    portal.wait_running("keys")
    bare = _bare(node, container_of(node, "keys"))
    report.add("bare exec of the engine", spread(bare, 95))
    with _terminal(portal) as socket:
        one = _through(socket)
        _add(report, "through the portal", one, bare)
        with ExitStack() as stack:
            for _ in range(MANY - 1):
                stack.enter_context(_terminal(portal))
            _add(report, f"with {MANY} terminals open", _through(socket), bare)
    portal.stop("keys")


def _add(report: Report, name: str, seconds: list[float], bare: list[float]) -> None:
    more = 1000 * (percentile(seconds, 50) - percentile(bare, 50))
    p95 = percentile(seconds, 95)
    report.add(name, spread(seconds, 95), f"{more:+.1f} ms at p50", f"p95 <= {1000 * GOAL:.0f} ms", p95 <= GOAL)


@contextmanager
def _terminal(portal: Portal) -> Iterator[ClientConnection]:
    head = {"Authorization": portal.http.headers["Authorization"]}
    address = f"{portal.url.replace('http', 'ws')}/terminal/admin/keys/main/0"
    with connect(address, additional_headers=head, proxy=None, open_timeout=60) as socket:
        json.loads(socket.recv(60))
        _quiet(lambda: socket.recv(0.5))
        yield socket
        socket.send('{"close": true}')


def _through(socket: ClientConnection) -> list[float]:
    def echoed() -> None:
        while isinstance(socket.recv(30), str):
            pass

    return _timed(lambda key: socket.send(key), echoed)


def _bare(node: BedNode, container: str) -> list[float]:
    api = docker.APIClient(base_url=node.unix, version="1.41")
    made = api.exec_create(container, ["/bin/sh"], stdin=True, tty=True)
    wire = api.exec_start(made["Id"], tty=True, socket=True)._sock
    try:
        wire.settimeout(0.5)
        _quiet(lambda: wire.recv(4096))
        wire.settimeout(30)
        return _timed(wire.sendall, lambda: wire.recv(64))
    finally:
        wire.sendall(b"\x03exit\r")
        wire.close()
        api.close()


def _timed(send: Callable[[bytes], object], echoed: Callable[[], object]) -> list[float]:
    took = []
    for at in range(KEYS):
        key = b"\x15" if at % 40 == 39 else b"x"  # Ctrl-U: the line stays short
        began = time.perf_counter()
        send(key)
        echoed()
        if key == b"x":
            took.append(time.perf_counter() - began)
        time.sleep(0.01)
    return took


def _quiet(read: Callable[[], object]) -> None:
    """Read the first prompt away."""
    try:
        while True:
            read()
    except (TimeoutError, OSError):
        return
