"""What it costs to answer those who ask about very many nodes and jobs: how 1,000 nodes are now, the timeline of a day
of 10,000 jobs, and what a change would do to a queue of 10,000.

Run as a process with a LONGSHORE_HOME of its own (``python -m benchmarks.scheduler.questions``); prints one JSON
object.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import django

from benchmarks.sizes import size

NODES, JOBS, TIMES = size((1_000, 10_000, 3), (4, 40, 1))
CHANGES = "change=node:sim-0001:drain&change=node:sim-0002:drain"


def main() -> None:
    django.setup()
    from base.models import User
    from benchmarks.data import rows
    from benchmarks.scheduler import passes
    from clusters.models import VirtualCluster
    from tests.http import Browser

    VirtualCluster.objects.all().delete()
    rows.add_nodes(NODES, gpus=passes.GPUS, cpus=passes.CPUS, memory_mb=passes.MEMORY_MB)
    number = (passes.WAITING + passes.EXTRA["teams"]) * NODES // passes.NODES
    rows.add_waiting(rows.shapes_of_teams(number, rows.add_teams(passes.TEAMS)))
    simulation = passes.Simulation()
    while simulation.one_pass().placed:
        pass
    _sample()
    client = Browser()
    client.force_login(User.objects.create_user("admin", "correct horse", is_admin=True))
    found: dict[str, Any] = {
        "metrics": _asked(client, "/metrics"),
        "nodes_page": _asked(client, "/nodes"),
        "home": _asked(client, "/"),
        "policy": _asked(client, "/policy"),
    }
    rows.add_day(NODES, JOBS)
    found |= {
        "nodes": NODES,
        "jobs": JOBS,
        "timeline": _asked(client, "/timeline?from=1d"),
        "timeline_api": _asked(client, "/api/v1/cluster/timeline?from=1d&limit=10000"),
        "what_if": _asked(client, f"/api/v1/cluster/what-if?{CHANGES}"),
        "queue": _asked(client, "/jobs?state=WAITING"),
    }
    print(json.dumps(found))


def _sample() -> None:
    """What the sampler would have found a moment ago, of all nodes, GPUs and tasks."""
    from clusters.models import Node
    from jobs.metrics import latest, places, rates
    from jobs.metrics.layout import Mean, RingSummary
    from jobs.models import Task

    at = int(time.time())

    def measured(columns: Sequence[str]) -> RingSummary:
        return RingSummary(at, at, 1, {name: Mean(50.0, 50.0, 50.0, 50.0, 1, at, at) for name in columns})

    tasks: dict[str, dict[int, RingSummary]] = {}
    for id, node, gpus in Task.objects.filter(state="RUNNING").values_list("id", "node", "gpu_ids"):
        tasks.setdefault(node, {})[id] = measured(rates.columns_of([str(each) for each in gpus]))
    for name, gpus in Node.objects.values_list("name", "gpus"):
        of_gpus = {str(gpu["id"]): measured(rates.OF_A_NODES_GPU) for gpu in gpus}
        Path(places.of_latest(name)).parent.mkdir(parents=True, exist_ok=True)
        latest.write(name, at, measured(rates.OF_A_NODE), of_gpus, tasks.get(name, {}))


def _asked(client: Any, address: str) -> dict[str, float]:
    """The median CPU and time of an answer, in seconds, and its bytes."""
    cpu, wall, size = [], [], 0
    for _ in range(TIMES):
        used, began = time.process_time(), time.perf_counter()
        answer = client.get(address)
        cpu.append(time.process_time() - used)
        wall.append(time.perf_counter() - began)
        assert answer.status_code == 200, (address, answer.status_code, answer.content[:300])
        size = len(answer.content)
    return {"cpu": sorted(cpu)[TIMES // 2], "wall": sorted(wall)[TIMES // 2], "bytes": size}


if __name__ == "__main__":
    main()
