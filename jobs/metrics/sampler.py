"""The sampler process: every ten seconds it asks all engines what running tasks use, and writes it to ring files.

``manage.py runsampler``. Any number may run: the lease lets one act, as with schedulers; the others fetch its files
(jobs/metrics/sharing). The files are all it keeps: killed and started again it goes on where it was, and the moments
between are gaps.
"""

from __future__ import annotations

import contextlib
import signal
import threading
import time
from collections import defaultdict
from datetime import UTC, datetime, timedelta
from pathlib import Path
from queue import Empty

import structlog
from django.db import DatabaseError, close_old_connections

from base.core.bulk import chunks, with_ids
from base.wakes import processes
from base.wakes.lease import Fenced, Lease
from clusters.models import Node
from jobs.attempts import note_saved
from jobs.config.spec import JobSpec
from jobs.metrics import janitor, latest, places, rates, ring
from jobs.metrics.engine import EngineSampler, NodeTarget, TaskTarget, Work
from jobs.metrics.sharing import SharedRings
from jobs.models import Job, Task

log = structlog.get_logger()

EVERY = 10  # seconds: the step of the finest tier
CLEAN_UP_EVERY = 3600.0  # seconds
_PATIENCE = timedelta(seconds=2.5 * EVERY)  # it renews its lease once a round


class Sampler:
    """``tick`` is what one round does and what tests call; ``run`` calls it every ten seconds."""

    def __init__(self, lease: Lease | None = None) -> None:
        self.lease = lease or Lease("sampler", patience=_PATIENCE)
        self._engines: dict[tuple[str, str], EngineSampler] = {}
        self._idle_nodes: dict[str, list[float]] = {}  # those that run nothing
        self._stopped = threading.Event()
        self._clean_up_at = time.monotonic() + 60
        self._shared = SharedRings()

    def run(self) -> None:
        """Sample until SIGTERM or SIGINT."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: self.stop())
        while not self._stopped.is_set():
            try:
                at = int(time.time()) // EVERY * EVERY
                if self.lease.epoch is not None or self._begins():
                    self.tick(at)
                else:
                    processes.record_process("sampler")
                    self._shared.pull(_folders(_work(at)))
                    self._clean_up()
            except Fenced as fenced:
                log.warning("another sampler acts now", reason=str(fenced))
            except DatabaseError:
                log.exception("the database does not answer")
                close_old_connections()
            except OSError:
                log.exception("the files of metrics cannot be written")
            self._stopped.wait(EVERY - time.time() % EVERY)
        self._end()

    def stop(self) -> None:
        self._stopped.set()

    def _begins(self) -> bool:
        """Take the lease, if it is free, and the files as the sampler before left them."""
        if not self.lease.try_take():
            return False
        self._shared.pull(_folders(_work(0)))
        self._shared.wait(EVERY)
        return True

    def tick(self, at: int) -> None:
        """Give each engine its work for the moment ``at``, and add up the one before. Raises Fenced."""
        with self.lease.writing():
            processes.record_process("sampler")
            processes.record_heartbeat("sampler", self._report())
        self._write_cluster(at - EVERY)
        self._note_saves()
        work = _work(at)
        for key in self._engines.keys() - work.keys():
            self._engines.pop(key).stop()
        self._idle_nodes = {}
        for key, of_engine in work.items():
            if of_engine.tasks or any(node.exporter for node in of_engine.nodes):
                if key not in self._engines:
                    self._engines[key] = EngineSampler(*key)
                self._engines[key].give(of_engine)
            else:
                self._write_idle(of_engine)
        self._shared.push(_folders(work))
        self._clean_up()

    def _note_saves(self) -> None:
        saved: dict[int, float] = {}
        for of_engine in self._engines.values():
            with contextlib.suppress(Empty):
                while True:
                    id, at = of_engine.saved.get_nowait()
                    saved[id] = at
        if saved:
            with self.lease.writing():
                for id, at in saved.items():
                    note_saved([id], datetime.fromtimestamp(at, UTC))

    def _clean_up(self) -> None:
        if time.monotonic() >= self._clean_up_at:
            self._clean_up_at = time.monotonic() + CLEAN_UP_EVERY
            janitor.clean_up(time.time())

    def _write_idle(self, work: Work) -> None:
        """Nobody is asked about a node that runs nothing."""
        for node in work.nodes:
            values = rates.node_values(0, [], {}, [])
            summary = ring.write(places.of_node(node.name), rates.OF_A_NODE, work.at, values)
            latest.write(node.name, work.at, summary, {}, {})
            self._idle_nodes[node.name] = values

    def _write_cluster(self, at: int) -> None:
        known = [of_nodes for moment, of_nodes in (engine.latest for engine in self._engines.values()) if moment == at]
        if nodes := [*(values for of_nodes in known for values in of_nodes.values()), *self._idle_nodes.values()]:
            ring.write(places.of_cluster(), rates.OF_A_NODE, at, rates.cluster_values(nodes))

    def _report(self) -> processes.Report:
        threads = [engine.thread for engine in self._engines.values()]
        late = sorted(thread.name for thread in threads if thread.is_late())
        return processes.Report(threads=len(threads), late_threads=late)

    def _end(self) -> None:
        for engine in self._engines.values():
            engine.stop()
        with contextlib.suppress(DatabaseError):
            self.lease.give_back()
        processes.forget_process("sampler")


_TASK = (
    *("id", "node", "container_name", "role", "index", "gpu_ids", "container_started_at", "attempt__app_id"),
    "job_id",
)
_saves: dict[int, bool] = {}  # by job, what its config says, which never changes


def _work(at: int) -> dict[tuple[str, str], Work]:
    """The work of each engine, of all nodes that answer the scheduler. It takes two queries, and one more where there
    are new jobs."""
    tasks: dict[str, list[TaskTarget]] = {}
    rows = Task.live().filter(state="RUNNING").exclude(container_name="").order_by("id").values_list(*_TASK)
    saves = _saving({row[-1] for row in rows})
    for id, node, container, role, index, gpu_ids, started, app_id, job in rows:
        path = places.of_task(app_id, role, index)
        since = started.timestamp() if started else None
        target = TaskTarget(id, node, container, path, tuple(map(str, gpu_ids)), since, saves[job])
        tasks.setdefault(node, []).append(target)
    nodes: dict[tuple[str, str], list[NodeTarget]] = {}
    known = Node.objects.filter(health=Node.Health.READY).order_by("id")
    for name, endpoint, tls_dir, exporter, gpus in known.values_list("name", "endpoint", "tls_dir", "exporter", "gpus"):
        ids = tuple(str(gpu["id"]) for gpu in gpus)
        nodes.setdefault((endpoint, tls_dir), []).append(NodeTarget(name, exporter, ids))
    return {
        key: Work(at, [task for node in some for task in tasks.get(node.name, ())], some) for key, some in nodes.items()
    }


def _saving(jobs: set[int]) -> dict[int, bool]:
    """Whether a job may say that it saved: those that say how they are told to end. Looking takes a node a while."""
    global _saves
    _saves = {id: saves for id, saves in _saves.items() if id in jobs}
    for some in chunks(sorted(jobs - _saves.keys())):
        for id, spec in with_ids(Job.objects.all(), some).values_list("id", "spec"):
            _saves[id] = JobSpec.from_json(spec).asked.grace is not None
    return defaultdict(bool, _saves)


def _folders(work: dict[tuple[str, str], Work]) -> set[Path]:
    """The folders of the files that are written now."""
    tasks = {task.path.parent for of_engine in work.values() for task in of_engine.tasks}
    nodes = {places.of_node(node.name).parent for of_engine in work.values() for node in of_engine.nodes}
    return {places.root(), *tasks, *nodes}
