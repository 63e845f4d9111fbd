"""Which lanes there are, and which tests each of them runs."""

from __future__ import annotations

import os
from collections.abc import Iterable

from tests.bed import kubernetes_bed, postgres_bed
from tests.lanes.lane import PYTEST, ROOT, Lane

ENGINES = 4  # lanes that share the acceptance tests
# How long a file of the acceptance tests takes beside the others, where it is not some twenty.
LONG = {
    "test_benchmarks.py": 150,
    "test_broken_off.py": 75,
    "test_chaos.py": 180,
    "test_clients.py": 40,
    "test_code_docker.py": 50,
    "test_docker_runtime.py": 100,
    "test_docker_trouble.py": 40,
    "test_examples.py": 60,
    "test_files_and_ssh.py": 50,
    "test_hdfs_store.py": 140,
    "test_hold_docker.py": 65,
    "test_main_job.py": 65,
    "test_pai_fs.py": 110,
    "test_store_dies.py": 55,
    "test_two_nodes.py": 135,
    "test_up.py": 50,
    "test_webhdfs_clients.py": 145,
}
# Files that share a lane, with its HDFS or its portal: to start one takes ten seconds of the machine.
TOGETHER = (
    ("test_code_docker.py", "test_hdfs_store.py", "test_store_dies.py", "test_webhdfs_clients.py"),
    ("test_examples.py", "test_files_and_ssh.py", "test_pai_fs.py"),
    ("test_extras_docker.py", "test_main_job.py", "test_samples.py", "test_secrets_docker.py", "test_seeds.py"),
)
# What runs on one database only. Sweeps over every route: bodies and queries on the one that is stricter, who may see
# what on the other. The sweep over every exit. Random histories: two schedulers on the one that has several writers,
# one scheduler on the other. And what hardly asks a database.
ON_POSTGRES = ("tests/api/test_fuzz.py", "tests/integration/test_two_schedulers.py")
ON_SQLITE = (
    "tests/api/test_every_route.py",
    "tests/api/test_log.py",
    "tests/api/test_log_html.py",
    "tests/api/test_metrics.py",
    "tests/api/test_old_addresses.py",
    "tests/api/test_openapi.py",
    "tests/api/test_privacy.py",
    "tests/api/test_schemathesis.py",
    "tests/api/test_transport.py",
    "tests/api/test_webhdfs.py",
    "tests/integration/test_costs.py",
    "tests/integration/test_delivery.py",
    "tests/integration/test_fake_meter.py",
    "tests/integration/test_fake_runtime.py",
    "tests/integration/test_house.py",
    "tests/integration/test_kubernetes_stop.py",
    "tests/integration/test_log_archive.py",
    "tests/integration/test_setup.py",
    "tests/integration/test_simulation.py",
    "tests/integration/test_slow_clients.py",
    "tests/integration/test_truth.py",
    "tests/integration/test_watch.py",
)


def lanes() -> list[Lane]:
    """In the order in which they start: those that wait for engines beside those that compute."""
    database = ("tests/integration", "tests/api")
    no_postgres = postgres_bed.missing()
    engines = [Lane(f"engine-{nth}", files) for nth, files in enumerate(shares(), 1)]
    return [
        *engines[:2],
        Lane("pages", ["tests/pages"], program=(*_apart(), *PYTEST)),
        Lane("sqlite", [*database, *([] if no_postgres else without(*ON_POSTGRES))], polite=True),
        *engines[2:],
        Lane(
            "postgres", [*database, *without(*ON_SQLITE)], {"DATABASE_URL": "postgres"}, polite=True, lacks=no_postgres
        ),
        Lane("unit", ["tests/unit"], polite=True),
        Lane("kubernetes", ["tests/kubernetes"], lacks=kubernetes_bed.missing()),
        Lane("lint", [], program=("scripts/lint",), polite=True),
    ]


def whole_run(known: dict[str, Lane]) -> list[Lane]:
    """All of them; the cluster, which takes minutes, only where it is required. By its name it runs anyway."""
    if "kubernetes" not in os.environ.get("LONGSHORE_REQUIRE", "").split(","):
        known["kubernetes"].lacks = "it runs where LONGSHORE_REQUIRE names it, or by `make test ARGS=kubernetes`"
    return list(known.values())


def without(*files: str) -> list[str]:
    return [f"--ignore={file}" for file in files]


def _apart() -> tuple[str, ...]:
    """In front of a command: a network of its own, where root runs this. Chromium drops what it is loading whenever the
    machine gets or loses an interface, and the engines of other lanes see to that all the time."""
    front = ("unshare", "--net", "sh", "-c", 'ip link set lo up && exec "$@"', "sh")
    return front if os.geteuid() == 0 else ()


def shares() -> list[list[str]]:
    """The files of the acceptance tests, each to the lane with the least to do."""
    times, files = [0] * ENGINES, [[] for _ in range(ENGINES)]  # type: tuple[list[int], list[list[str]]]
    found = {path.name for path in (ROOT / "tests" / "acceptance").glob("test_*.py")}
    together = [*TOGETHER, *((name,) for name in sorted(found.difference(*TOGETHER)))]
    for names in sorted(together, key=lambda names: -_long(names)):
        least = times.index(min(times))
        times[least] += _long(names)
        files[least] += [f"tests/acceptance/{name}" for name in names]
    return files


def _long(names: Iterable[str]) -> int:
    return sum(LONG.get(name, 20) for name in names)
