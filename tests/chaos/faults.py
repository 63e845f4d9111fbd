"""Everything that breaks in a trial, and how it is made whole."""

from __future__ import annotations

import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass

from tests.acceptance.portal import ROOT, Portal, containers
from tests.bed.docker_bed import BedNode
from tests.bed.postgres_bed import Postgres
from tests.chaos.plan import RM, Deed
from tests.helpers import LIMIT, until

CURES = {
    "cut": "heal",
    "freeze": "thaw",
    "kill-dockerd": "start-dockerd",
    "stop-dockerd": "start-dockerd",
    "crash": "boot",
    "fill": "drain",
}


@dataclass(frozen=True)
class Past:
    """What a node has been through; times are of time.monotonic()."""

    what: str
    node: str
    began: float
    over: float


class Faults:
    """One at a time for each node, one at a time for the portal with its database: see plan."""

    def __init__(self, portal: Portal, nodes: list[BedNode], database: Postgres | None, seed: int) -> None:
        self.portal, self.database = portal, database
        self.nodes = {str(number): node for number, node in enumerate(nodes, 1)}
        self.done: Counter[str] = Counter()
        self.removed: set[str] = set()  # names of containers that were removed by hand
        self.past: list[Past] = []
        self._dice = random.Random(seed)
        self._stopped: list[int] = []
        self._second: subprocess.Popen[bytes] | None = None

    def commit(self, deed: Deed) -> None:
        """Breaks it, waits, makes it whole."""
        if deed.what == RM:
            self._remove(self.nodes[deed.where])
            return
        if deed.what in CURES:
            self._node(deed)
        else:
            getattr(self, f"_{deed.what.replace(' ', '_')}")(deed.lasts)
        self.done[deed.what] += 1

    def heal(self) -> None:
        """Whatever an interrupted deed has left."""
        for pid in self._stopped:
            _signal(pid, signal.SIGCONT)
        if self.database is not None:
            self.database.thaw()
        self._end_second()

    # --- nodes -------------------------------------------------------------------------------------------------------

    def _node(self, deed: Deed) -> None:
        node, began = self.nodes[deed.where], time.monotonic()
        node.fault(deed.what)
        try:
            time.sleep(deed.lasts)
        finally:
            node.fault(CURES[deed.what])
        self.past.append(Past(deed.what, node.name, began, time.monotonic()))

    def _remove(self, node: BedNode) -> None:
        """As somebody does who cleans up on a node, if there is anything."""
        if names := containers(node, self.portal):
            name = self._dice.choice(sorted(names))
            subprocess.run(["docker", "-H", node.unix, "rm", "-f", name], capture_output=True, timeout=LIMIT)
            self.removed.add(name)
            self.done[RM] += 1

    # --- the portal --------------------------------------------------------------------------------------------------

    def _kill(self, who: str) -> None:
        victims = until(lambda: self._running(who), 60, 0.05, what=f"{who} run again")
        _signal(self._dice.choice(victims), signal.SIGKILL)

    def _kill_web(self, _: float) -> None:
        self._kill("web")

    def _kill_scheduler(self, _: float) -> None:
        self._kill("scheduler")

    def _kill_workers(self, _: float) -> None:
        self._kill("workers")

    def _kill_up(self, _: float) -> None:
        self.portal.kill()
        self.portal.start()

    def _stall_scheduler(self, lasts: float) -> None:
        """As a host that swaps, or a virtual machine that is moved."""
        self._stop(until(lambda: self._running("scheduler"), 60, 0.05, what="the scheduler runs"))
        time.sleep(lasts)
        self._go_on()

    def _second_scheduler(self, lasts: float) -> None:
        """It waits for the end of the first, and has it when somebody kills that."""
        self._start_second()
        time.sleep(lasts / 2)
        self._kill("scheduler")
        time.sleep(lasts / 2)
        self._end_second()

    def _usurp_scheduler(self, lasts: float) -> None:
        """The first is stalled and its lock is lost: a second one acts, and the first wakes up beside it."""
        first = until(lambda: self._running("scheduler"), 60, 0.05, what="the scheduler runs")
        self._start_second()
        time.sleep(5)
        self._stop(first)
        if self.database is not None:
            self.database.end_sessions()
        time.sleep(lasts)
        self._go_on()
        time.sleep(5)
        self._end_second()

    def _running(self, who: str) -> list[int]:
        second = self._second.pid if self._second is not None else 0
        return [pid for pid in self.portal.running(who) if pid != second]

    def _stop(self, pids: list[int]) -> None:
        self._stopped = pids
        for pid in pids:
            _signal(pid, signal.SIGSTOP)

    def _go_on(self) -> None:
        for pid in self._stopped:
            _signal(pid, signal.SIGCONT)
        self._stopped = []

    def _start_second(self) -> None:
        with self.portal.output.open("ab") as output:
            self._second = subprocess.Popen(
                [sys.executable, str(ROOT / "manage.py"), "runscheduler"],
                env=self.portal.environment(),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
            )

    def _end_second(self) -> None:
        if self._second is not None:
            self._second.kill()
            self._second.wait(LIMIT)
            self._second = None

    # --- the database ------------------------------------------------------------------------------------------------

    def _lock_database(self, lasts: float) -> None:
        """As a backup does, or a shell that somebody forgot in a transaction."""
        held = sqlite3.connect(self.portal.home / "longshore.sqlite3", timeout=LIMIT, isolation_level=None)
        try:
            held.execute("BEGIN IMMEDIATE")
            time.sleep(lasts)
        finally:
            held.close()

    def _restart_database(self, _: float) -> None:
        assert self.database is not None
        self.database.restart()

    def _end_sessions(self, _: float) -> None:
        assert self.database is not None
        self.database.end_sessions()

    def _freeze_database(self, lasts: float) -> None:
        assert self.database is not None
        self.database.freeze()
        try:
            time.sleep(lasts)
        finally:
            self.database.thaw()


def _signal(pid: int, which: int) -> None:
    with suppress(ProcessLookupError):  # it was just ending
        os.kill(pid, which)
