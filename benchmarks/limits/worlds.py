"""Databases of one user who asks for very much, and a bystander with two small jobs.

``alice`` has the large jobs, ``bob`` one that runs and one that waits behind hers. The scheduler itself places what
runs; its engines are simulated.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from benchmarks.sizes import size

NODES = 4
SIZES = size(
    {"tasks": 10_000, "jobs": 10_000, "ported": 1_000, "ports": 100},
    {"tasks": 8, "jobs": 8, "ported": 4, "ports": 3},
)


def empty() -> list[dict[str, Any]]:
    return []


def waiting() -> list[dict[str, Any]]:
    """One job that would fit if no other job ran."""
    return running()


def running() -> list[dict[str, Any]]:
    return [_named("wide", tasks=SIZES["tasks"])]


def many() -> list[dict[str, Any]]:
    return [_named(f"many-{at}", cpus=_cpus()) for at in range(SIZES["jobs"])]


def ports_running() -> list[dict[str, Any]]:
    return [_named("wide", tasks=SIZES["ported"], ports=SIZES["ports"])]


def ports_waiting() -> list[dict[str, Any]]:
    cpus = 3 * NODES * _cpus() // (4 * SIZES["ported"])
    return [_named("wide", tasks=SIZES["ported"], ports=SIZES["ports"], cpus=cpus)]


WORLDS: dict[str, Callable[[], list[dict[str, Any]]]] = {
    "empty": empty,
    "one job, its tasks waiting": waiting,
    "one job, its tasks running": running,
    "jobs waiting": many,
    "tasks with ports waiting": ports_waiting,
    "tasks with ports running": ports_running,
}


def fill(world: str) -> None:
    """Rows for this world, with what is placed placed. The database has no jobs and no nodes yet."""
    from base.models import User
    from benchmarks.data import rows
    from benchmarks.scheduler.passes import Simulation
    from clusters.models import VirtualCluster
    from jobs.models import Job

    VirtualCluster.objects.get_or_create(name="default", defaults={"capacity": 100, "max_capacity": 100})
    for name in ("alice", "bob", "root"):
        User.objects.create_user(name, "correct horse", is_admin=name == "root")
    rows.add_nodes(NODES, gpus=8, cpus=_cpus(), memory_mb=1024 * (_cpus() + 100))
    # What waits needs the port that Bob's first job has, or more than its running holds leave.
    first = _named("small")
    blocker = _named("blocker", tasks=NODES, cpus=_cpus() // 2)
    large = WORLDS[world]()
    stays = world.endswith("waiting")
    last = _named("behind", gpus=8, tasks=NODES + 1, cpus=1)
    rows.add_waiting([first, *([blocker] if stays else []), *large, last])
    Job.objects.update(username="alice")
    Job.objects.filter(name__in=("small", "behind")).update(username="bob")
    if stays:
        Job.objects.filter(name="blocker").update(username="root")
    simulation = Simulation()
    while simulation.one_pass().placed:
        pass


def _cpus() -> int:
    """Of each node: room for all the tasks, and some."""
    return max(SIZES["tasks"], SIZES["jobs"]) // NODES + 100


def _named(name: str, *, cpus: int = 1, ports: int = 0, **more: int) -> dict[str, Any]:
    """``more`` are those of ``make_config``."""
    from tests.builders import make_config

    config = make_config(name, **more)
    [role] = config["taskRoles"]
    role.update(cpuNumber=cpus, memoryMB=100)
    if ports:
        role["portList"] = [{"label": f"p{at}", "beginAt": 0, "portNumber": 1} for at in range(ports)]
    return config
