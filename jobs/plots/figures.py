"""The figures of ``/metrics``. The number of queries does not grow with nodes, jobs or tasks."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import datetime

from django.conf import settings
from django.db.models import Count, Min, Q, Sum
from django.utils import timezone
from django_q.models import OrmQ
from prometheus_client.core import GaugeMetricFamily, InfoMetricFamily, Metric

from clusters.models import Allocation, Node
from jobs import queries
from jobs.metrics import idle, places
from jobs.metrics.idle import GpuNow
from jobs.metrics.read import fresh
from jobs.models import Task
from jobs.planning.lifecycle import TASK_LIVE, JobState
from portal.files.store import state as store_state
from portal.overview import hosts
from portal.wakes import beats

_MB = 2**20


def families(*, with_names: bool) -> Iterator[Metric]:
    """All families; ``with_names``: also those of single jobs."""
    gpus = idle.held_gpus()
    yield from _of_portal()
    yield from _of_hosts()
    yield from _of_jobs()
    yield from _of_nodes(gpus)
    if with_names:
        yield from _of_each_job(gpus)


def gauge(name: str, says: str, labels: Sequence[str], rows: Iterator[tuple[Sequence[str], float | None]]) -> Metric:
    """A family; rows whose value nobody knows are left out."""
    family = GaugeMetricFamily(f"longshore_{name}", says, labels=labels)
    for values, number in rows:
        if number is not None and number == number:
            family.add_metric(values, number)
    return family


def _of_portal() -> Iterator[Metric]:
    info = InfoMetricFamily("longshore", "This portal")
    info.add_metric([], {"version": settings.VERSION, "instance": settings.INSTANCE})
    yield info
    ages = beats.ages()
    seen = (([name], age) for name, age in ages.items())
    yield gauge("process_seen_seconds", "Since a process was last seen", ["process"], seen)
    store = store_state.is_up()
    yield gauge("store_up", "Whether the file store answers", [], iter([([], None if store is None else float(store))]))
    orders = OrmQ.objects.count()
    yield gauge("orders", "Orders that workers have not carried out yet", [], iter([([], float(orders))]))


def _of_hosts() -> Iterator[Metric]:
    found = hosts.hosts()
    lines = [(host.name, process) for host in found for process in host.processes]
    yield gauge("host_up", "Whether any process of it lives", ["host"], (([host.name], host.lives) for host in found))
    free = (([host.name], host.free) for host in found)
    yield gauge("host_disk_free_bytes", "Of the disk of its LONGSHORE_HOME", ["host"], free)
    yield gauge("host_clock_ahead_seconds", "Of the database's", ["host"], (([host.name], host.skew) for host in found))
    counts = Counter((name, process.name) for name, process in lines if process.lives)
    every = {(name, process.name) for name, process in lines}
    running = ((key, float(counts[key])) for key in sorted(every))
    yield gauge("host_processes", "How many of them live", ["host", "process"], running)
    acting = (([name, process.name], process.epoch) for name, process in lines)
    says = "The epoch of the lease by which it acts, of a scheduler or sampler"
    yield gauge("lease_epoch", says, ["host", "process"], acting)


def _of_jobs() -> Iterator[Metric]:
    counts = queries.count_by_state()
    by_state = (([state], float(number)) for state, number in counts.items())
    yield gauge("jobs", "Jobs by state, ended ones too", ["state"], by_state)
    rows = list(
        queries.live_jobs()
        .values_list("vc", "state")
        .annotate(jobs=Count("id"), gpus=Sum("total_gpus"), since=Min("queued_at"))
    )
    waiting = [row for row in rows if row[1] == JobState.WAITING]
    running = [row for row in rows if row[1] == JobState.RUNNING]
    now = timezone.now()
    yield gauge("queue_jobs", "Jobs that wait", ["vc"], ((row[:1], float(row[2])) for row in waiting))
    yield gauge("queue_gpus", "GPUs that waiting jobs ask for", ["vc"], ((row[:1], float(row[3])) for row in waiting))
    oldest = ((row[:1], _seconds(now, row[4])) for row in waiting)
    yield gauge("queue_oldest_seconds", "How long the oldest waiting job has waited", ["vc"], oldest)
    yield gauge("running_jobs", "Jobs that run", ["vc"], ((row[:1], float(row[2])) for row in running))
    live = Task.objects.filter(state__in=TASK_LIVE).order_by().values_list("state").annotate(number=Count("id"))
    yield gauge("tasks", "Tasks that hold something", ["state"], (([state], float(number)) for state, number in live))


def _of_nodes(gpus: Sequence[GpuNow]) -> Iterator[Metric]:
    nodes = list(Node.objects.order_by("name"))
    names = {node.pk: node.name for node in nodes}
    taken: dict[str, list[int]] = {node.name: [0, 0, 0] for node in nodes}
    vcs: dict[str, list[int]] = {}
    for node_id, vc, cpus, memory, ids in Allocation.objects.values_list("node", "vc", "cpus", "memory_mb", "gpu_ids"):
        for sums in (taken.setdefault(names.get(node_id, ""), [0, 0, 0]), vcs.setdefault(vc, [0, 0, 0])):
            sums[0], sums[1], sums[2] = sums[0] + cpus, sums[1] + memory, sums[2] + len(ids)

    whole = {
        node.name: {
            "up": float(node.health == Node.Health.READY),
            "offered": float(node.status == Node.Status.ACTIVE),
            "cpus": float(node.cpus),
            "memory": float(node.memory_mb * _MB),
            "gpus": float(len(node.gpus)),
        }
        for node in nodes
    }

    def each(what: str) -> Iterator[tuple[Sequence[str], float]]:
        return (([name], values[what]) for name, values in whole.items())

    def of(sums: dict[str, list[int]], at: int, factor: int = 1) -> Iterator[tuple[Sequence[str], float]]:
        return (([name], float(one[at] * factor)) for name, one in sorted(sums.items()))

    yield gauge("node_up", "Whether its engine answers", ["node"], each("up"))
    yield gauge("node_offered", "Whether new tasks are placed there", ["node"], each("offered"))
    yield gauge("node_cpus", "Cores", ["node"], each("cpus"))
    yield gauge("node_cpus_taken", "Cores that tasks hold", ["node"], of(taken, 0))
    yield gauge("node_memory_bytes", "Memory", ["node"], each("memory"))
    yield gauge("node_memory_taken_bytes", "Memory that tasks hold", ["node"], of(taken, 1, _MB))
    yield gauge("node_gpus", "GPUs", ["node"], each("gpus"))
    yield gauge("node_gpus_taken", "GPUs that tasks hold", ["node"], of(taken, 2))
    yield gauge("vc_cpus_taken", "Cores that tasks of a virtual cluster hold", ["vc"], of(vcs, 0))
    yield gauge("vc_memory_taken_bytes", "Memory that they hold", ["vc"], of(vcs, 1, _MB))
    yield gauge("vc_gpus_taken", "GPUs that they hold", ["vc"], of(vcs, 2))
    yield from _used(nodes)
    idle_by_node = {node.name: 0 for node in nodes if node.gpus}
    for gpu in gpus:
        if gpu.idle_since is not None:
            idle_by_node[gpu.node] = idle_by_node.get(gpu.node, 0) + 1
    says = "GPUs that tasks hold and have not used for long"
    yield gauge("node_gpus_idle", says, ["node"], (([name], float(number)) for name, number in idle_by_node.items()))


def _used(nodes: Sequence[Node]) -> Iterator[Metric]:
    """As the sampler last measured it, if that was lately."""
    now = time.time()
    of_nodes = {node.name: fresh(places.of_node(node.name), now) for node in nodes}
    for name, column in (
        ("cpu_used_cores", "cpu"),
        ("memory_used_bytes", "memory"),
        ("network_in_bytes_per_second", "networkIn"),
        ("network_out_bytes_per_second", "networkOut"),
        ("disk_read_bytes_per_second", "diskRead"),
        ("disk_written_bytes_per_second", "diskWritten"),
    ):
        rows = (([node], values.get(column)) for node, values in of_nodes.items())
        yield gauge(f"node_{name}", "What its tasks use together", ["node"], rows)
    of_gpus = {
        (node.name, str(gpu["id"])): fresh(places.of_gpu(node.name, str(gpu["id"])), now)
        for node in nodes
        for gpu in node.gpus
    }
    for name, column, factor, says in (
        ("busy_ratio", "util", 0.01, "How busy it is"),
        ("memory_used_bytes", "memory", 1, "Its memory in use"),
        ("memory_bytes", "total", 1, "Its memory"),
        ("power_watts", "power", 1, "What it draws"),
        ("temperature_celsius", "temperature", 1, "How hot it is"),
    ):
        values = ((list(key), _times(found.get(column), factor)) for key, found in of_gpus.items())
        yield gauge(f"gpu_{name}", says, ["node", "gpu"], values)


def _of_each_job(gpus: Sequence[GpuNow]) -> Iterator[Metric]:
    """Of running jobs."""
    labels = ["user", "job", "vc"]
    sums: dict[tuple[str, str, str], dict[str, float]] = {}
    now = time.time()
    which = Q(state="RUNNING", job__state=JobState.RUNNING)
    fields = ("job__username", "job__name", "job__vc", "attempt__app_id", "role", "index")
    for user, job, vc, app_id, role, index in Task.objects.filter(which).order_by("id").values_list(*fields):
        found = fresh(places.of_task(app_id, role, index), now)
        one = sums.setdefault((user, job, vc), {"tasks": 0.0})
        one["tasks"] += 1
        for column in ("cpu", "memory"):
            if column in found:
                one[column] = one.get(column, 0.0) + found[column]
    vc_of = {key[:2]: key[2] for key in sums}
    for gpu in gpus:
        one = sums.get((gpu.username, gpu.job, vc_of.get((gpu.username, gpu.job), "")), {})
        one["gpus"] = one.get("gpus", 0.0) + 1
        if gpu.util is not None:
            one["busy"] = one.get("busy", 0.0) + gpu.util / 100
        one["idle"] = one.get("idle", 0.0) + (gpu.idle_since is not None)
    for name, column, says in (
        ("tasks", "tasks", "Its running tasks"),
        ("cpu_used_cores", "cpu", "What its tasks use together"),
        ("memory_used_bytes", "memory", "What its tasks use together"),
        ("gpus", "gpus", "GPUs that it holds"),
        ("gpus_busy", "busy", "How many of them work: two that are half busy are one"),
        ("gpus_idle", "idle", "GPUs that it holds and has not used for long"),
    ):
        yield gauge(f"job_{name}", says, labels, ((list(key), one.get(column)) for key, one in sums.items()))


def _times(value: float | None, factor: float) -> float | None:
    return None if value is None else value * factor


def _seconds(now: datetime, since: datetime | None) -> float | None:
    return None if since is None else max(0.0, (now - since).total_seconds())
