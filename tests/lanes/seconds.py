"""How long each file of tests took when it ran last on this machine, so that lanes get equal shares. Kept for the gate
and for whole runs, as the gate runs less of many files."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from pathlib import Path

from tests.lanes.lane import ROOT

CACHE = Path.home() / ".cache" / "longshore" / "test-seconds.json"
# Of files that have not run here yet and take long.
_EXPECTED = {
    "test_benchmarks.py": 270,
    "test_broken_off.py": 70,
    "test_chaos.py": 70,
    "test_check_cluster.py": 45,
    "test_code_docker.py": 35,
    "test_command.py": 30,
    "test_docker_runtime.py": 80,
    "test_examples.py": 65,
    "test_files_and_ssh.py": 35,
    "test_files_of_two_hosts.py": 40,
    "test_hdfs_store.py": 75,
    "test_hold_docker.py": 80,
    "test_main_job.py": 35,
    "test_restore.py": 90,
    "test_s3_under_a_log.py": 60,
    "test_schedulers.py": 75,
    "test_several_hosts.py": 65,
    "test_slow_clients.py": 50,
    "test_terminal_docker.py": 40,
    "test_two_nodes.py": 160,
    "test_up.py": 90,
    "test_web_pages.py": 40,
    "test_webhdfs_clients.py": 70,
}
_OF_RULES = {
    "tests/api/test_openapi.py": 15,
    "tests/api/test_strangers.py": 15,
    "tests/integration/test_forecasts.py": 15,
    "tests/integration/test_lanes_run.py": 25,
    "tests/integration/test_upgrade.py": 25,
    "tests/unit/test_adversaries.py": 15,
    "tests/unit/test_user_shares.py": 12,
}


def shares(groups: Iterable[tuple[str, ...]], number: int, *, of: str) -> list[list[str]]:
    """The files of these groups in so many lists that take about as long each; a group stays together. ``of`` is the
    kind of run, "gate" or "all"."""
    known = _known().get(of, {})
    times, files = [0.0] * number, [[] for _ in range(number)]  # type: tuple[list[float], list[list[str]]]
    long = {group: sum(known.get(file) or _expected(file) for file in group) for group in groups}
    for group in sorted(long, key=lambda group: (-long[group], group)):
        least = times.index(min(times))
        times[least] += long[group]
        files[least] += group
    return files


def learn(measured: dict[str, float], *, of: str) -> None:
    """Keeps these for the next run of this kind. Where it cannot, as in a home that is read-only, lanes are balanced
    worse, and nothing fails."""
    try:
        CACHE.parent.mkdir(parents=True, exist_ok=True)
        part = CACHE.with_suffix(f".{os.getpid()}")
        known = _known()
        known[of] = known.get(of, {}) | {file: round(seconds, 1) for file, seconds in measured.items()}
        part.write_text(json.dumps(known))
        part.replace(CACHE)
    except OSError as error:
        print(f"the seconds of this run are not kept: {error}")


def _known() -> dict[str, dict[str, float]]:
    try:
        known: dict[str, dict[str, float]] = json.loads(CACHE.read_text())
    except (OSError, ValueError):
        return {}
    return known


def _expected(file: str) -> float:
    """A file of the acceptance tests waits for real parts; others take about a second for 100 lines."""
    if "/acceptance/" in file:
        return _EXPECTED.get(Path(file).name, 20)
    return _OF_RULES.get(file) or (ROOT / file).read_bytes().count(b"\n") / 100
