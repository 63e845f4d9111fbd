"""One fault, from the moment in which it strikes until nothing is left of it, and what there was to count."""

from __future__ import annotations

import math
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import combinations

import httpx

from benchmarks.faults.deeds import FULL, OfNode, OfPortal, job_of, send, wake
from benchmarks.faults.stage import EVERY, GPUS, LEASE, LOST_AFTER, PATIENCE, Stage
from benchmarks.report import wait_for
from tests.acceptance.portal import ROOT
from tests.bed.docker_bed import BedNode
from tests.chaos.witness import Run

SECONDS = 14  # that a task works: it ends while nobody sees its node, and its result waits there for the return
SETTLED = 45.0  # seconds after which what is still there is called leaked


@dataclass
class Row:
    """Times are seconds: ``told`` until the portal says it (``by``), ``elsewhere`` until the task runs on another node
    (for processes of the portal: until a job runs that was submitted then), ``clean`` from the return until the node
    is ready and nothing is left there."""

    fault: str
    by: str
    waits: str = ""
    told: float = math.nan
    elsewhere: float = math.nan
    clean: float = math.nan
    runs: int = 0
    reported: int = 0  # results that tasks have told the witness
    accepted: int = 0  # of them by the portal
    twice: int = 0  # of them for one task
    doubled: int = 0  # runs of one task in one attempt, or with one GPU, at the same time
    leaked: int = 0  # GPUs
    stale: int = 0  # containers


def strike_node(stage: Stage, deed: OfNode) -> Row:
    """A job works on the node that breaks, and begins anew elsewhere."""
    row = Row(deed.name, "node", "" if deed.says_goodbye else f"{LOST_AFTER} s lost")
    node, job = stage.nodes[deed.way], job_of(deed)
    _occupy(stage, deed, job)
    stage.only(*(way for way in stage.nodes if way != deed.way))
    struck = time.monotonic()
    deed.strike(node)
    try:
        wait_for(
            lambda: stage.health(node) == "unreachable", PATIENCE, EVERY, f"the portal says that {node.name} is away"
        )
        row.told = time.monotonic() - struck
        row.elsewhere = stage.wait_run(job, not_on=node.name).began - struck
    finally:
        deed.heal(node)
    return _settled(stage, node, row, [job])


def fill_node(stage: Stage) -> Row:
    """A job that works on the node goes on; those that are to start there start elsewhere, and after three refusals
    the node is marked: it is offered to nobody until a start succeeds or five minutes are over."""
    row = Row(FULL.name, "mark")
    node, works, starts = stage.nodes[FULL.way], f"{job_of(FULL)}-works", [f"{job_of(FULL)}-{at}" for at in range(3)]
    _occupy(stage, FULL, works, gpus=1)
    stage.only(*stage.nodes)  # jobs go where others run already, so that nodes stay whole
    FULL.strike(node)
    struck = time.monotonic()
    try:
        for name in starts:
            stage.submit(name, node, 1, gpus=1)
        wait_for(lambda: stage.has_mark(node), PATIENCE, EVERY, f"{node.name} is marked")
        row.told = time.monotonic() - struck
        row.elsewhere = max(stage.wait_run(name).began for name in starts) - struck
        stage.wait_end(works)
    finally:
        FULL.heal(node)
        stage.portal.change_node(node.name, gpuNumber=GPUS)  # it is tried, as an admin does who has made room
    return _settled(stage, node, row, [works, *starts])


def strike_portal(stage: Stage, deed: OfPortal) -> Row:
    """A job that works goes on and ends; a new one starts as soon as somebody acts."""
    row = Row(deed.name, "/healthz" if deed.is_stop else "its log", f"{LEASE} s lease" if deed.is_stop else "")
    node, works, starts = stage.nodes["tls"], f"{job_of(deed)}-works", f"{job_of(deed)}-starts"
    stage.only(*stage.nodes)
    stage.submit(works, node, 4)
    stage.wait_run(works)
    pids, before = stage.portal.running(deed.who), len(stage.portal.text())
    with _standby(stage, deed):
        struck = time.monotonic()
        send(deed, pids)
        try:
            if not deed.is_stop:
                wait_for(lambda: f"{deed.who} was ended" in stage.portal.text()[before:], PATIENCE, EVERY, "it is told")
                row.told = time.monotonic() - struck
            wait_for(lambda: _is_taken(stage, starts, node), PATIENCE, EVERY, f"{starts} is taken")
            while not stage.runs(starts):
                if deed.is_stop and math.isnan(row.told) and not stage.is_ok():
                    row.told = time.monotonic() - struck
                time.sleep(EVERY)
            row.elsewhere = stage.wait_run(starts).began - struck
        finally:
            wake(deed, pids)
        stage.wait_end(works)
        return _settled(stage, node, row, [works, starts])


def _occupy(stage: Stage, deed: OfNode, job: str, gpus: int = GPUS) -> None:
    """Returns when the job works on the node, and the portal has seen it."""
    stage.only(deed.way)
    stage.submit(job, stage.nodes[deed.way], SECONDS, gpus)
    stage.wait_run(job)
    wait_for(lambda: stage.portal.task(job)["taskState"] == "RUNNING", PATIENCE, EVERY, f"{job} is seen")


@contextmanager
def _standby(stage: Stage, deed: OfPortal) -> Iterator[None]:
    """Another scheduler where the first is only stopped."""
    if not deed.is_stop:
        yield
        return
    command, quiet = [sys.executable, str(ROOT / "manage.py"), "runscheduler"], subprocess.DEVNULL
    second = subprocess.Popen(command, stdin=quiet, stdout=quiet, stderr=quiet, env=stage.portal.environment())
    try:
        time.sleep(4)  # until it waits for the lease, which nothing tells
        yield
    finally:
        second.kill()
        second.wait(10)


def _is_taken(stage: Stage, name: str, node: BedNode) -> bool:
    """As a client does that tries again."""
    try:
        stage.submit(name, node, 1, gpus=1)
    except httpx.HTTPError:
        return False
    return True


def _settled(stage: Stage, node: BedNode, row: Row, jobs: list[str]) -> Row:
    """The row with its counts. It begins with the return of what broke."""
    healed = time.monotonic()
    try:
        wait_for(lambda: stage.health(node) == "ready" and not stage.left_on(node), SETTLED, EVERY, "the node is clean")
        row.clean = time.monotonic() - healed
    except TimeoutError:
        row.stale = len(stage.left_on(node))
    for job in jobs:
        stage.wait_end(job)
    _count_runs(stage, row, jobs)
    row.leaked = _not_given(stage, node, f"after-{jobs[0]}")
    return row


def _count_runs(stage: Stage, row: Row, jobs: list[str]) -> None:
    runs, accepted = [run for job in jobs for run in stage.runs(job)], [stage.accepted(job) for job in jobs]
    row.runs, row.reported = len(runs), sum(run.said is not None for run in runs)
    row.accepted, row.twice = sum(accepted), sum(max(0, times - 1) for times in accepted)
    row.doubled = sum(_at_once(one, two) for one, two in combinations(runs, 2))


def _at_once(one: Run, two: Run) -> bool:
    same = (one.app, one.task) == (two.app, two.task)
    shared = one.node == two.node and bool(set(one.gpus) & set(two.gpus))
    return one.overlaps(two) and (same or shared)


def _not_given(stage: Stage, node: BedNode, probe: str) -> int:
    """GPUs that are still taken when nothing runs, and those of the node that a job does not get that asks for all."""
    try:
        wait_for(lambda: not stage.gpus_taken(), SETTLED, EVERY, "no GPU is taken")
    except TimeoutError:
        return stage.gpus_taken()
    stage.only(*(way for way, each in stage.nodes.items() if each is node))
    stage.submit(probe, node, 0)
    run = stage.wait_run(probe)
    stage.wait_end(probe)
    return GPUS - len(run.gpus)
