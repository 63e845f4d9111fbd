"""What pages, answers and passes cost with so many of one thing.

Run as a process with a LONGSHORE_HOME of its own (``python -m benchmarks.growth.ask nodes 100``); prints one JSON
object: {what: seconds of CPU}.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import django

from benchmarks.sizes import size

if TYPE_CHECKING:
    from benchmarks.scheduler.passes import Simulation

TIMES = size(5, 1)
FEW = 20  # jobs and nodes where it is something else that grows
PAGES = {
    "nodes": ("/", "/nodes", "/wall", "/vcs", "/jobs?state=WAITING", "/timeline?from=1d", "/api/v1/nodes", "/metrics"),
    "jobs": (
        *("/", "/jobs", "/jobs?user=user3&state=FAILED", "/jobs?q=old-7", "/jobs/user5/old-5", "/usage"),
        *("/timeline?from=1d", "/api/v1/jobs?limit=50", "/api/v1/user/user5/jobs/old-5"),
    ),
    "tasks": (
        *("/", "/jobs", "/nodes", "/timeline?from=1d", "/jobs/admin/wide", "/jobs/admin/wide/events"),
        *("/api/v1/jobs?limit=50", "/api/v1/user/admin/jobs/wide"),
    ),
}


def main() -> None:
    django.setup()
    print(json.dumps(FOUND[sys.argv[1]](int(sys.argv[2]))))


def with_nodes(number: int) -> dict[str, float]:
    from benchmarks.data import rows
    from benchmarks.scheduler import passes
    from clusters.models import VirtualCluster

    VirtualCluster.objects.all().delete()
    rows.add_nodes(number, gpus=passes.GPUS, cpus=passes.CPUS, memory_mb=passes.MEMORY_MB)
    jobs = (passes.WAITING + passes.EXTRA["teams"]) * number // passes.NODES
    names = rows.add_teams(passes.TEAMS)
    rows.add_waiting(rows.shapes_of_teams(jobs, names))
    rows.add_lengths(names, FEW)
    return _scheduled(passes.Simulation()) | _asked("nodes")


def with_jobs(number: int) -> dict[str, float]:
    from benchmarks.data import rows
    from benchmarks.scheduler.passes import Simulation

    rows.add_nodes(1, gpus=FEW // 2, cpus=FEW, memory_mb=FEW * 1024)
    rows.add_waiting(rows.shapes_alike(FEW))
    rows.add_history(number)
    return _scheduled(Simulation()) | _submitted(1) | _asked("jobs")


def with_tasks(number: int) -> dict[str, float]:
    from benchmarks.data import rows
    from benchmarks.scheduler.passes import Simulation
    from jobs.models import Job

    rows.add_nodes(FEW, gpus=0, cpus=number, memory_mb=2048 * number)
    simulation = Simulation()
    found = _submitted(number) | _scheduled(simulation) | _asked("tasks")
    simulation = _anew(simulation)
    simulation.end_everything()
    used = 0.0
    for _ in range(number + FEW):
        used += simulation.one_pass().cpu
        if Job.objects.get(name="wide").completed_at is not None:
            return {**found, "all of it ends": used}
    raise RuntimeError(f"The job of {number} tasks has not ended.")


FOUND: dict[str, Callable[[int], dict[str, float]]] = {"nodes": with_nodes, "jobs": with_jobs, "tasks": with_tasks}


def _scheduled(simulation: Simulation) -> dict[str, float]:
    """All that has room is placed; then nothing changes any more."""
    placing = [simulation.one_pass()]
    while placing[-1].placed:
        placing.append(simulation.one_pass())
    return {
        "all that has room is placed": sum(one.cpu for one in placing),
        "pass in which nothing changes": _least(lambda: simulation.one_pass().cpu),
        "the same, turns worked out anew": _least(lambda: simulation.one_pass(anew=True).cpu),
        "first pass of a new process": _least(lambda: _anew(simulation).one_pass().cpu),
    }


def _anew(simulation: Simulation) -> Simulation:
    """Another process, which has the lease from now on."""
    process = type(simulation)()
    process.running = simulation.running
    return process


def _submitted(tasks: int) -> dict[str, float]:
    from jobs import services
    from tests.builders import make_config

    user, config = _admin(), json.dumps(make_config("wide", tasks=tasks))
    used = time.process_time()
    services.submit(user, config)
    return {"submission": time.process_time() - used}


def _asked(what: str) -> dict[str, float]:
    from django.test import Client

    client = Client()
    client.force_login(_admin())
    return {address: _least(partial(_get, client, address)) for address in PAGES[what]}


def _admin() -> Any:
    from base.models import User

    return User.objects.get_or_create(username="admin", defaults={"is_admin": True})[0]


def _get(client: Any, address: str) -> float:
    """Seconds of CPU for an answer that is made anew."""
    _change()
    used = time.process_time()
    answer = client.get(address)
    content = b"".join(answer.streaming_content) if answer.streaming else answer.content
    used = time.process_time() - used
    assert answer.status_code == 200, (address, answer.status_code, content[:300])
    return used


def _change() -> None:
    """So that nobody may answer what was answered before, nor of what is remembered for some seconds: how many jobs
    ended, and the look at a long queue. Else what is asked again and again would cost as much with a million."""
    from django.utils import timezone

    from clusters.models import Node
    from jobs import queries
    from jobs.models import Job
    from jobs.waiting import queue

    queries._ended.clear()
    queue._recent = None
    Job.objects.filter(pk=Job.objects.earliest("pk").pk).update(changed_at=timezone.now())
    Node.objects.filter(pk=Node.objects.earliest("pk").pk).update(last_seen_at=timezone.now())


def _least(ask: Callable[[], float]) -> float:
    """The least seconds of some times, after a first one: what else comes in between only adds to it."""
    return min([ask() for _ in range(TIMES + 1)][1:])


if __name__ == "__main__":
    main()
