"""The figures of ``/metrics``. The number of queries does not grow with nodes, jobs or tasks, and that of files grows
with nodes alone: one of each is read."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any

from django.conf import settings
from django.db.models import Count, Min, Q, Sum
from django.utils import timezone
from django_q.models import OrmQ

from base.core.bulk import values_of
from base.files.store.state import is_store_up
from base.wakes import processes
from clusters.models import Node, VirtualCluster
from clusters.nodes.queries import take_stock
from clusters.placement.fit import NodeView, gpus_to_give, in_force
from clusters.placement.shares import Hold
from jobs import queries
from jobs.metrics import latest
from jobs.metrics.idle import GpuNow, Known, held_gpus
from jobs.metrics.latest import of_gpu, of_task
from jobs.models import Task
from jobs.planning.lifecycle import TASK_LIVE_STATES, JobState
from portal.hosts import hosts
from portal.metrics.text import Family

_MB = 2**20


def families(*, with_names: bool) -> Iterator[Family]:
    """All families; ``with_names``: also those of single jobs."""
    known = cache(latest.read)
    gpus = held_gpus(known=known)
    yield from _of_portal()
    yield from _of_hosts()
    yield from _of_jobs()
    yield from _of_nodes(gpus, known)
    if with_names:
        yield from _of_each_job(gpus, known)


def gauge(name: str, says: str, labels: Sequence[str], values: Mapping[Any, float | None]) -> Family:
    """A family: the values by a tuple of those of its labels. What nobody knows is left out."""
    there = {key: value for key, value in values.items() if value is not None and not math.isnan(value)}
    return Family(f"longshore_{name}", says, labels, there)


def by(label: str, name: str, says: str, values: Mapping[Any, float | None]) -> Family:
    """Return the same with one label."""
    return gauge(name, says, [label], {(key,): value for key, value in values.items()})


def _of_portal() -> Iterator[Family]:
    yield gauge("info", "This portal", ["version", "instance"], {(settings.VERSION, settings.INSTANCE): 1.0})
    yield by("process", "process_seen_seconds", "Since a process was last seen", processes.ages())
    store = is_store_up()
    yield gauge("store_up", "Whether the file store answers", [], {(): None if store is None else float(store)})
    yield gauge("orders", "Orders that workers have not carried out yet", [], {(): float(OrmQ.objects.count())})


def _of_hosts() -> Iterator[Family]:
    known = hosts.hosts()
    lines = [(host.name, process) for host in known for process in host.processes]
    yield by("host", "host_up", "Whether any process of it lives", {host.name: host.lives for host in known})
    free = {host.name: host.free for host in known}
    yield by("host", "host_disk_free_bytes", "Of the disk of its LONGSHORE_HOME", free)
    yield by("host", "host_clock_ahead_seconds", "Of the database's", {host.name: host.skew for host in known})
    labels = ["host", "process"]
    lives = Counter((name, process.name) for name, process in lines if process.lives)
    every = sorted({(name, process.name) for name, process in lines})
    yield gauge("host_processes", "How many of them live", labels, {key: float(lives[key]) for key in every})
    epochs = {(name, process.name): process.epoch for name, process in lines if process.epoch is not None}
    yield gauge("lease_epoch", "The epoch of the lease by which it acts, of a scheduler or sampler", labels, epochs)


def _of_jobs() -> Iterator[Family]:
    counts = queries.count_by_state()
    yield by("state", "jobs", "Jobs by state, ended ones too", {state: float(each) for state, each in counts.items()})
    rows = (
        queries.live_jobs()
        .values_list("vc", "state")
        .annotate(jobs=Count("id"), gpus=Sum("total_gpus"), since=Min("queued_at"))
    )
    sums = {(vc, state): (float(jobs), float(gpus), since) for vc, state, jobs, gpus, since in rows}
    nothing = (0.0, 0.0, None)
    vcs = sorted({*VirtualCluster.objects.values_list("name", flat=True), *(vc for vc, _ in sums)})
    waiting = {vc: sums.get((vc, JobState.WAITING), nothing) for vc in vcs}
    yield by("vc", "queue_jobs", "Jobs that wait", {vc: jobs for vc, (jobs, _, _) in waiting.items()})
    yield by("vc", "queue_gpus", "GPUs that waiting jobs ask for", {vc: gpus for vc, (_, gpus, _) in waiting.items()})
    now = timezone.now()
    oldest = {vc: max(0.0, (now - since).total_seconds()) if since else 0.0 for vc, (_, _, since) in waiting.items()}
    yield by("vc", "queue_oldest_seconds", "How long the oldest waiting job has waited", oldest)
    running = {vc: sums.get((vc, JobState.RUNNING), nothing)[0] for vc in vcs}
    yield by("vc", "running_jobs", "Jobs that run", running)
    number_of = dict(Task.live().order_by().values_list("state").annotate(number=Count("id")))
    tasks = {state: float(number_of.get(state, 0)) for state in sorted(TASK_LIVE_STATES)}
    yield by("state", "tasks", "Tasks that hold something", tasks)


def _of_nodes(gpus: Sequence[GpuNow], known: Known) -> Iterator[Family]:
    stock = take_stock()
    nodes = in_force(stock.nodes, timezone.now())
    holds = stock.holds.values()
    names = VirtualCluster.objects.values_list("name", flat=True)
    vcs = _taken(names, ((hold.vc, hold) for hold in holds))
    taken = _taken((node.name for node in nodes), ((hold.node, hold) for hold in holds))
    healths = Node.objects.order_by("name").values_list("name", "health")
    answers = {name: float(health == Node.Health.READY) for name, health in healths}
    is_offered = {node.name: float(node.offered) for node in nodes}
    yield by("node", "node_up", "Whether its engine answers", answers)
    yield by("node", "node_offered", "Whether new tasks are placed there", is_offered)
    yield by("node", "node_cpus", "Cores", {node.name: float(node.cpus) for node in nodes})
    yield by("node", "node_cpus_taken", "Cores that tasks hold", taken[0])
    yield by("node", "node_memory_bytes", "Memory", {node.name: float(node.memory_mb * _MB) for node in nodes})
    yield by("node", "node_memory_taken_bytes", "Memory that tasks hold", taken[1])
    yield by("node", "node_gpus", "GPUs", {node.name: float(len(node.gpus)) for node in nodes})
    free = {node.name: float(len(gpus_to_give(node))) for node in nodes}
    yield by("node", "node_gpus_free", "GPUs that a task could get now", free)
    yield by("node", "node_gpus_taken", "GPUs that tasks hold", taken[2])
    yield by("vc", "vc_cpus_taken", "Cores that tasks of a virtual cluster hold", vcs[0])
    yield by("vc", "vc_memory_taken_bytes", "Memory that they hold", vcs[1])
    yield by("vc", "vc_gpus_taken", "GPUs that they hold", vcs[2])
    yield from _used(nodes, known)
    idle_on = Counter(gpu.node for gpu in gpus if gpu.idle_since is not None)
    idle = {name: float(idle_on[name]) for name in [*(node.name for node in nodes if node.gpus), *idle_on]}
    yield by("node", "node_gpus_idle", "GPUs that tasks hold and have not used for long", idle)


def _taken(names: Iterable[str], holds: Iterable[tuple[str, Hold]]) -> Sequence[dict[str, float | None]]:
    """Cores, bytes and GPUs that are held, each by name, in their order."""
    sums = {name: [0, 0, 0] for name in names}
    for name, hold in holds:
        of_name = sums.setdefault(name, [0, 0, 0])
        of_name[0] += hold.cpus
        of_name[1] += hold.memory_mb * _MB
        of_name[2] += len(hold.gpu_ids)
    return [{name: float(sums[name][at]) for name in sorted(sums)} for at in range(3)]


def _used(nodes: Sequence[NodeView], known: Known) -> Iterator[Family]:
    """What the sampler measured last, if that was lately."""
    now = time.time()
    for name, column in (
        ("cpu_used_cores", "cpu"),
        ("memory_used_bytes", "memory"),
        ("network_in_bytes_per_second", "networkIn"),
        ("network_out_bytes_per_second", "networkOut"),
        ("disk_read_bytes_per_second", "diskRead"),
        ("disk_written_bytes_per_second", "diskWritten"),
    ):
        of_nodes = {node.name: known(node.name).now(column, now) for node in nodes}
        yield by("node", f"node_{name}", "What its tasks use together", of_nodes)
    gpus = [(node.name, known(node.name), str(id)) for node in nodes for id, _ in node.gpus]
    for name, column, factor, says in (
        ("busy_ratio", "util", 0.01, "How busy it is"),
        ("memory_used_bytes", "memory", 1, "Its memory in use"),
        ("memory_bytes", "total", 1, "Its memory"),
        ("power_watts", "power", 1, "What it draws"),
        ("temperature_celsius", "temperature", 1, "How hot it is"),
    ):
        last = {(node, id): there.now(of_gpu(id, column), now) for node, there, id in gpus}
        values = {key: value * factor for key, value in last.items() if value is not None}
        yield gauge(f"gpu_{name}", says, ["node", "gpu"], values)


def _of_each_job(gpus: Sequence[GpuNow], known: Known) -> Iterator[Family]:
    """The figures of each running job."""
    labels = ["user", "job", "vc"]
    sums: dict[tuple[str, str, str], dict[str, float]] = {}
    now = time.time()
    which = Q(state="RUNNING", job__state=JobState.RUNNING)
    fields = ("job__username", "job__name", "job__vc", "id", "node")
    for user, job, vc, id, node in values_of(Task.live().filter(which).order_by("id").values_list(*fields)):
        there = known(node)
        of_job = sums.setdefault((user, job, vc), {"tasks": 0.0})
        of_job["tasks"] += 1
        for column in ("cpu", "memory"):
            if (used := there.now(of_task(id, column), now)) is not None:
                of_job[column] = of_job.get(column, 0.0) + used
    vc_of = {key[:2]: key[2] for key in sums}
    for gpu in gpus:
        of_job = sums.get((gpu.username, gpu.job, vc_of.get((gpu.username, gpu.job), "")), {})
        of_job["gpus"] = of_job.get("gpus", 0.0) + 1
        if gpu.util is not None:
            of_job["busy"] = of_job.get("busy", 0.0) + gpu.util / 100
        of_job["idle"] = of_job.get("idle", 0.0) + (gpu.idle_since is not None)
    for name, column, says in (
        ("tasks", "tasks", "Its running tasks"),
        ("cpu_used_cores", "cpu", "What its tasks use together"),
        ("memory_used_bytes", "memory", "What its tasks use together"),
        ("gpus", "gpus", "GPUs that it holds"),
        ("gpus_busy", "busy", "How many of them work: two that are half busy are one"),
        ("gpus_idle", "idle", "GPUs that it holds and has not used for long"),
    ):
        yield gauge(f"job_{name}", says, labels, {key: of_job.get(column) for key, of_job in sums.items()})
