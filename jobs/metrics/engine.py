"""Samples the containers of one engine, and the GPUs of its nodes, in a thread of its own.

What an engine does not answer in time is missing from the files, and nothing else is: no other engine waits. One that
does not answer at all is asked again after a pause that grows to a minute.
"""

from __future__ import annotations

import http.client
import socket
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from queue import Empty, SimpleQueue
from urllib.parse import urlsplit

import structlog

from base.core.threads import KeptThread
from clusters.engines import schemes
from clusters.engines.measuring import ContainerUsage, Measurable
from clusters.engines.runtime import SAVED_FILE, RuntimeFault
from jobs.metrics import gpus, latest, places, rates, ring
from jobs.metrics.gpus import GpuUse
from jobs.metrics.layout import RingSummary

log = structlog.get_logger()

SECONDS = 8.0  # for the containers of an engine, of the ten between two samples
EXPORTER = 2.0  # seconds for the answer of an exporter
MOST_OF_EXPORTER = 4 << 20  # bytes
SMI_EVERY = 30.0  # seconds: running a program in a container costs its node some 50 ms
SMI_SECONDS = 5.0
SMI_SILENT = 600.0  # seconds before a container is asked again in which the program did not end
SAVED_EVERY = 30.0  # seconds between two looks whether a task has said that it saved
MOST_LOOKS = 20  # of these in one round
# By the container's own clock: now, and when it touched the file.
SAVED = ("/bin/sh", "-c", f"[ -e {SAVED_FILE} ] && date +%s && date -r {SAVED_FILE} +%s")
_OLDEST = 10**9  # seconds; what a container says may be anything
_FIRST_PAUSE, _LONGEST_PAUSE = 10.0, 60.0
_LONGEST = 60.0  # seconds after which the thread counts as stuck


@dataclass(frozen=True, slots=True)
class TaskTarget:
    id: int
    node: str
    container: str
    path: Path
    gpu_ids: tuple[str, ...]
    started: float | None  # seconds since 1970 by the engine's clock
    saves: bool = False  # whether it may say that it saved


@dataclass(frozen=True, slots=True)
class NodeTarget:
    name: str
    exporter: str = ""
    gpu_ids: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Work:
    """What to sample for the moment ``at`` (seconds since 1970, a multiple of ten)."""

    at: int
    tasks: Sequence[TaskTarget]
    nodes: Sequence[NodeTarget]


@dataclass(slots=True)
class RetryDelay:
    """It says when something that failed is tried again."""

    until: float = 0.0  # monotonic
    pause: float = 0.0

    def failed(self) -> bool:
        """Note a failure. Returns whether it is the first one in a row."""
        first = not self.pause
        self.pause = min(_LONGEST_PAUSE, 2 * self.pause) or _FIRST_PAUSE
        self.until = time.monotonic() + self.pause
        return first

    def worked(self) -> None:
        self.until = self.pause = 0.0

    @property
    def rests(self) -> bool:
        return time.monotonic() < self.until


class EngineSampler:
    """``give`` it work every ten seconds. ``latest`` is the moment of the last finished work, and what its nodes used
    then by name."""

    def __init__(self, endpoint: str, tls_dir: str) -> None:
        self.endpoint = endpoint
        self.latest: tuple[int, dict[str, list[float]]] = (0, {})
        self.thread = KeptThread(
            f"sample-{endpoint}", self._step, longest=_LONGEST, interrupt=lambda: self._given.put(None)
        )
        self._tls_dir = tls_dir
        self._meter: Measurable | None = None
        self._before: dict[int, ContainerUsage] = {}
        self.saved: SimpleQueue[tuple[int, float]] = SimpleQueue()  # tasks, and when they saved (seconds since 1970)
        self._looks_at: dict[int, float] = {}  # when a task is looked at again for that (monotonic)
        self._saves: dict[int, str] = {}  # what was seen then
        self._asks_at: dict[int, float] = {}  # when the container of a task is asked for its GPUs again (monotonic)
        self._rest = RetryDelay()
        self._exporters: dict[str, RetryDelay] = {}
        self._given: SimpleQueue[Work | None] = SimpleQueue()

    def give(self, work: Work) -> None:
        """It is done at once; while the last one is not done yet, this one is left out."""
        self.thread.ensure_running()
        with suppress(Empty):
            self._given.get_nowait()
        self._given.put(work)

    def stop(self) -> None:
        self.thread.stop()

    def _step(self) -> None:
        with suppress(Empty):
            if (work := self._given.get(timeout=_LONGEST / 4)) is not None:
                self.sample(work)

    def sample(self, work: Work) -> None:
        """Ask, and write what is known. Raises OSError when the files cannot be written."""
        used, answered = self._usage(work)
        of_nodes = {node.name: self._of_exporter(node) for node in work.nodes}
        rows: dict[str, list[list[float]]] = {node.name: [] for node in work.nodes}
        known: dict[str, dict[str, GpuUse]] = {node.name: dict(of_nodes[node.name]) for node in work.nodes}
        written: dict[str, dict[int, RingSummary]] = {node.name: {} for node in work.nodes}
        for task in work.tasks:
            now = used.get(task.container)
            if now is None:
                continue
            uses = self._gpus_of(task, of_nodes.get(task.node, {}))
            known.get(task.node, {}).update(uses)
            before = self._before.get(task.id) or rates.at_start(now, task.started)
            values = rates.task_values(now, before, task.gpu_ids, uses)
            summary = ring.write(task.path, rates.columns_of(task.gpu_ids), work.at, values, rates.IDLE)
            written.get(task.node, {})[task.id] = summary
            rows.get(task.node, []).append(values)
        self._before = {task.id: used[task.container] for task in work.tasks if task.container in used}
        self._asks_at = {task.id: self._asks_at[task.id] for task in work.tasks if task.id in self._asks_at}
        self._look_for_saves([task for task in work.tasks if task.saves and task.container in used])
        self.latest = work.at, self._write_nodes(work, rows, known, written) if answered else {}

    def _usage(self, work: Work) -> tuple[dict[str, ContainerUsage], bool]:
        """The usage by container, and whether the engine answered."""
        if not work.tasks:
            return {}, True
        if self._rest.rests:
            return {}, False
        try:
            if self._meter is None:
                self._meter = schemes.meter_at(self.endpoint, self._tls_dir or None)
            # Each time another one is first: of too many those at the end are left out.
            first = work.at // 10 * 97 % len(work.tasks)
            names = [task.container for task in (*work.tasks[first:], *work.tasks[:first])]
            used = self._meter.usage(names, SECONDS)
        except RuntimeFault as fault:
            if self._rest.failed():
                log.warning("an engine is not sampled", endpoint=self.endpoint, reason=fault.sentence)
            return {}, False
        self._rest.worked()
        return used, True

    def _gpus_of(self, task: TaskTarget, of_node: Mapping[str, GpuUse]) -> Mapping[str, GpuUse]:
        """What is known of the task's GPUs, by their ids: from the node's exporter, else by asking in the
        container, now and then. What was asked before is not told again."""
        uses = {id: of_node[id] for id in task.gpu_ids if id in of_node}
        if uses or not task.gpu_ids or self._meter is None:
            return uses
        if time.monotonic() < self._asks_at.get(task.id, 0.0):
            return {}
        self._asks_at[task.id] = time.monotonic() + SMI_EVERY - 1
        try:
            return gpus.of_smi(self._meter.output(task.container, gpus.SMI, SMI_SECONDS), task.gpu_ids)
        except RuntimeFault:
            self._asks_at[task.id] = time.monotonic() + SMI_SILENT
            return {}

    def _look_for_saves(self, tasks: Sequence[TaskTarget]) -> None:
        """Tell of those that have saved since they were last looked at."""
        known = {task.id for task in tasks}
        self._looks_at = {id: at for id, at in self._looks_at.items() if id in known}
        self._saves = {id: said for id, said in self._saves.items() if id in known}
        due = [task for task in tasks if time.monotonic() >= self._looks_at.get(task.id, 0.0)]
        for task in due[:MOST_LOOKS]:
            assert self._meter is not None, "it has told what these tasks use"
            self._looks_at[task.id] = time.monotonic() + SAVED_EVERY - 1
            try:
                now, _, saved = self._meter.output(task.container, SAVED, SMI_SECONDS).strip().partition("\n")
            except RuntimeFault:
                self._looks_at[task.id] = time.monotonic() + SMI_SILENT
                continue
            if saved != self._saves.get(task.id) and now.isdecimal() and saved.isdecimal() and len(now + saved) < 40:
                self._saves[task.id] = saved
                self.saved.put((task.id, time.time() - min(max(0, int(now) - int(saved)), _OLDEST)))

    def _of_exporter(self, node: NodeTarget) -> dict[str, GpuUse]:
        rest = self._exporters.setdefault(node.name, RetryDelay())
        if not node.exporter or rest.rests:
            return {}
        try:
            uses = gpus.of_exporter(fetch(node.exporter))
        except (OSError, ValueError, http.client.HTTPException) as error:
            if rest.failed():
                log.warning("an exporter gives nothing", node=node.name, address=node.exporter, reason=str(error))
            return {}
        rest.worked()
        return {id: uses[id] for id in node.gpu_ids if id in uses}

    def _write_nodes(
        self,
        work: Work,
        rows: Mapping[str, list[list[float]]],
        known: Mapping[str, dict[str, GpuUse]],
        written: Mapping[str, Mapping[int, RingSummary]],
    ) -> dict[str, list[float]]:
        there: dict[str, list[TaskTarget]] = {}
        for task in work.tasks:
            there.setdefault(task.node, []).append(task)
        values = {}
        for node in work.nodes:
            uses = known[node.name]
            tasks = there.get(node.name, [])
            held = [id for task in tasks for id in task.gpu_ids]
            values[node.name] = rates.node_values(len(tasks), rows[node.name], uses, held)
            of_node = ring.write(places.of_node(node.name), rates.OF_A_NODE, work.at, values[node.name])
            of_gpus = {
                id: ring.write(places.of_gpu(node.name, id), rates.OF_A_NODES_GPU, work.at, use.values(), rates.IDLE)
                for id, use in uses.items()
            }
            latest.write(node.name, work.at, of_node, of_gpus, written[node.name])
        return values


def fetch(address: str) -> str:
    """The text of an exporter at an address such as ``http://gpu-01:9400/metrics``. Raises OSError, HTTPException or
    ValueError."""
    parts = urlsplit(address)
    kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
    connection = kind(parts.hostname or "", parts.port, timeout=EXPORTER)
    connection.connect()
    # The time-out of a socket begins anew with each byte; this one is of the whole answer.
    is_late = threading.Event()
    over = threading.Timer(EXPORTER, _break, [connection.sock, is_late])
    over.start()
    try:
        connection.request("GET", parts.path or "/metrics", headers={"Accept": "text/plain"})
        response = connection.getresponse()
        body = response.read(MOST_OF_EXPORTER)
        if is_late.is_set():
            raise TimeoutError(f"its answer takes longer than {EXPORTER:g} s")
        if response.status != 200:
            raise ValueError(f"it answers {response.status}")
        return body.decode(errors="replace")
    finally:
        over.cancel()
        connection.close()


def _break(connection: socket.socket, is_late: threading.Event) -> None:
    is_late.set()  # first: who reads goes on as soon as the connection ends
    with suppress(OSError):  # it is closed already
        connection.shutdown(socket.SHUT_RDWR)
