"""What tests wait with, and what they need of the machine."""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
import time
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import pytest

from tests.bed import docker_bed, nginx_bed, pgbouncer_bed, postgres_bed, slapd_bed
from tests.limits import LEAST, LIMIT

__all__ = ["LIMIT"]  # of tests.limits, for tests
T = TypeVar("T")


def until(condition: Callable[[], T], timeout: float = 10.0, every: float | None = None, what: str = "") -> T:
    """The first truthy answer; fails when the time is over (``awaited``). For what happens in another thread or
    process."""
    began = time.monotonic()
    if not (answer := awaited(condition, timeout, every)):
        pytest.fail(f"Not within {time.monotonic() - began:.0f} s: {what or condition}", pytrace=True)
    return answer


def awaited(condition: Callable[[], T], timeout: float = LEAST, every: float | None = None) -> T:
    """The first truthy answer, or the last one when the time is over: ``timeout`` or a minute, times the worst that the
    machine was seen to be busy meanwhile. Without ``every`` it asks less often the longer it waits: many tests wait
    side by side, and each question takes time."""
    began, busy = time.monotonic(), 1.0
    while not (answer := condition()):
        waited, busy = time.monotonic() - began, max(busy, patience())
        if waited > max(timeout, LEAST) * busy:
            break
        time.sleep(every or min(0.02 + waited / 20, 0.2))
    return answer


def box_of(locator: Any) -> dict[str, float]:
    """Where an element of a page is drawn: ``x``, ``y``, ``width`` and ``height`` in pixels. A page that draws a list
    anew takes an element away between the browser's finding it and measuring it, so it asks until there is a box."""
    return until(locator.bounding_box)


@contextmanager
def quick(seconds: float, what: str) -> Iterator[None]:
    """The block takes no longer than this on an idle machine, and as much longer as the machine is busy. The gate
    prints it and does not judge: a duration is asserted in whole runs alone."""
    began, busy = time.monotonic(), patience()
    yield
    took, busy = time.monotonic() - began, max(busy, patience())
    if took > seconds * busy:
        said = f"{what}: {took:.2f} s instead of {seconds} s, {busy:.1f} times as long being forgiven"
        if not in_gate():
            pytest.fail(said, pytrace=True)
        print(said)


_listening: list[list[str]] = []  # the lists of those who want to know which files are opened


def _note(event: str, values: tuple[Any, ...]) -> None:
    if event == "open" and _listening and isinstance(values[0], str | os.PathLike):
        for opened in _listening:
            opened.append(os.fspath(values[0]))


@contextmanager
def files_opened(folder: str | os.PathLike[str]) -> Iterator[list[str]]:
    """The paths of the files below a folder that this process opens in the block, in a list that is whole behind it."""
    _install()
    opened: list[str] = []
    _listening.append(opened)
    yield opened
    _listening.remove(opened)
    opened[:] = [path for path in opened if path.startswith(os.fspath(folder))]


@cache
def _install() -> None:
    """Nothing takes such a hook away again."""
    sys.addaudithook(_note)


def in_gate() -> bool:
    """Whether this is a run of the gate, whose verdict hangs on no clock."""
    return os.environ.get("TEST_RUN") == "gate"


def examples(many: int) -> int:
    """How many Hypothesis tries: so many, and in the gate a quarter of them, but not fewer than a few."""
    return min(many, max(15, many // 4)) if in_gate() else many


def on_a_loop(work: Coroutine[Any, Any, T]) -> T:
    """What it gives, on an event loop and in a thread of its own: Playwright has one in the thread of the tests."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, work).result()


def patience() -> float:
    """How much longer all things take while this many wait for each core: on average of a minute, and this moment."""
    cores = len(os.sched_getaffinity(0))
    running = int(Path("/proc/loadavg").read_text().split()[3].partition("/")[0])
    return max(1.0, os.getloadavg()[0] / cores, running / cores)


def need(part: str, lacks: str = "") -> None:
    """Skip with the reason when the machine lacks ``part``, or of it what ``lacks`` says; fail when LONGSHORE_REQUIRE
    names it."""
    reason = _missing(part) or lacks
    if reason and part in os.environ.get("LONGSHORE_REQUIRE", "").split(","):
        pytest.fail(f"LONGSHORE_REQUIRE asks for {part}: {reason}")
    if reason:
        pytest.skip(reason)


def all_missing() -> dict[str, str]:
    """The parts that this machine lacks, so that tests with them are skipped, and why."""
    return {part: reason for part in _PARTS if (reason := _missing(part))}


@cache
def _missing(part: str) -> str:
    """Empty when it is there, else why not."""
    return _PARTS[part]()


def _no_browser() -> str:
    return "" if chromium() else "chromium is not installed"


def _no_hdfs() -> str:
    from tests.bed import hdfs_bed  # uses this module

    return hdfs_bed.missing()


def _no_kubernetes() -> str:
    from tests.bed import kubernetes_bed

    return kubernetes_bed.missing()


def chromium() -> str | None:
    return shutil.which("chromium") or shutil.which("chromium-browser")


_PARTS: dict[str, Callable[[], str]] = {
    "docker": docker_bed.missing,
    "browser": _no_browser,
    "hdfs": _no_hdfs,
    "kubernetes": _no_kubernetes,
    "postgres": postgres_bed.missing,
    "nginx": nginx_bed.missing,
    "pgbouncer": pgbouncer_bed.missing,
    "slapd": slapd_bed.missing,
}
