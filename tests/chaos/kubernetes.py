"""``python -m tests.chaos.kubernetes``: one fault after the other under running jobs on a real cluster of two nodes.

Prints, for each, what the user reads, seconds until they read it, seconds until the task runs elsewhere, and at the end
what was lost, doubled or leaked. A witness in each node's network (tests/chaos/witness.py) says what really ran.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from itertools import combinations
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from tests.acceptance.portal import ENDS, Portal, config
from tests.bed import kubernetes_bed
from tests.bed.docker_bed import BedNode
from tests.bed.kubernetes_bed import NAMESPACE, KubernetesBed
from tests.chaos.witness import PREAMBLE, Run, Witness
from tests.helpers import until
from tests.kubernetes.portal import CLUSTER, pods, portal_over, wait_clean

LOST_AFTER = 15  # LONGSHORE_NODE_LOST_AFTER of the portal
GRACE = 10  # seconds without a sign of life until the cluster says that a node is Unknown
SAYS = PREAMBLE.replace("gpus=$(cd /dev; echo nvidia[0-9]*)", "gpus=$(echo $NVIDIA_VISIBLE_DEVICES | tr , ' ')")
LOOPS = SAYS + "while :; do sleep 1; done"
ENDS_LATER = SAYS + "sleep 40; leave 3"
PATIENCE = 240.0


@dataclass
class Row:
    """What one fault did. Seconds are counted from the fault."""

    fault: str
    saw: str = ""
    told: float | None = None
    elsewhere: float | None = None
    notes: list[str] = field(default_factory=list)
    broken: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        told, elsewhere = (f"{value:.0f} s" if value is not None else "-" for value in (self.told, self.elsewhere))
        return f"| {self.fault} | {self.saw} | {told} | {elsewhere} | {'; '.join(self.notes + self.broken)} |"


@dataclass
class Stage:
    bed: KubernetesBed
    portal: Portal
    witness: Witness
    number: int = 0

    def begin(self, command: str = LOOPS, **more: Any) -> tuple[str, Run]:
        """A job that runs, and its life as the witness saw it begin."""
        name = self.submit(command, **more)
        self.portal.wait_running(name, timeout=PATIENCE)
        return name, until(lambda: next(iter(self.witness.of(name)), None), 60, 0.1, f"the witness sees {name}")

    def submit(self, command: str = LOOPS, **more: Any) -> str:
        self.number += 1
        asked = {"gpuNumber": 1, **more}
        image = {"image": asked.pop("image")} if "image" in asked else {}
        return self.portal.submit(config(f"fault-{self.number}", command, **asked) | image)

    def told(self, name: str, node: str) -> str:
        """What the user reads by now, on the page of the job or of its node; empty while all is well."""
        if self.portal.job(name)["jobStatus"]["retries"]:
            return next((one["reason"] for one in self.portal.events(name) if one["kind"] == "attempt.decided"), "")
        found = self.portal.http.get(f"/nodes/{CLUSTER}/{node}")
        said = found.json() if found.status_code == 200 else {}
        return f"node {node}: {said['healthReason']}" if said.get("health") == "unreachable" else ""

    def wait_ready(self, node: str) -> None:
        name = f"{CLUSTER}/{node}"
        until(lambda: self.portal.node(name)["health"] == "ready", PATIENCE, what=f"{node} is ready")

    def end(self, *names: str) -> None:
        for name in names:
            if self.portal.state(name) not in ENDS:
                self.portal.stop(name)
            self.portal.wait_state(name, timeout=PATIENCE)
        wait_clean(self.portal, self.bed, PATIENCE)


def watched(stage: Stage, row: Row, name: str, run: Run, *, elsewhere: bool, since: float | None = None) -> None:
    """Wait for what the user is told and, if so wanted, for the next life of the task. ``since``: when it broke, if
    that was not now."""
    began = since or time.monotonic()
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end and (row.told is None or (elsewhere and row.elsewhere is None)):
        with suppress(AssertionError):
            if row.told is None and (said := stage.told(name, run.node)):
                row.told, row.saw = time.monotonic() - began, said
        if later := [one for one in stage.witness.of(name) if one.app != run.app]:
            row.elsewhere = row.elsewhere or later[0].began - began
            row.notes = [f"{run.node} -> {later[0].node}"]
        time.sleep(0.2)
    if row.told is None or (elsewhere and row.elsewhere is None):
        row.broken.append(f"NOT within {PATIENCE:.0f} s: {stage.portal.job(name)['jobStatus']}")


@contextmanager
def down(stage: Stage, node: str, mode: Any) -> Iterator[None]:
    stage.bed.node_down(node, mode)
    try:
        yield
    finally:
        stage.bed.node_up(node)


def node_lost(mode: str, what: str) -> Callable[[Stage], Row]:
    def fault(stage: Stage) -> Row:
        row = Row(what)
        name, run = stage.begin()
        with down(stage, run.node, mode):
            watched(stage, row, name, run, elsewhere=True)
            if stage.witness.of(name)[-1].node == run.node:
                row.broken.append("it was tried again on the silent node")
        stage.wait_ready(run.node)
        until(lambda: run.ended is not None, PATIENCE, what="the end of the old container")
        stage.end(name)
        return row

    return fault


def crashed_and_booted(stage: Stage) -> Row:
    """Back before anybody counts it as lost."""
    row = Row("node crashed, booted at once")
    name, run = stage.begin()
    stage.bed.node_down(run.node, "crash")
    began = time.monotonic()
    stage.bed.node_up(run.node)
    up = time.monotonic() - began
    watched(stage, row, name, run, elsewhere=True, since=began)
    row.notes.append(f"up after {up:.0f} s")
    stage.end(name)
    return row


def confirmed_gone(stage: Stage) -> Row:
    row = Row("node crashed, an admin says that it is gone")
    name, run = stage.begin()
    node = f"{CLUSTER}/{run.node}"
    with down(stage, run.node, "crash"):
        began = time.monotonic()
        until(lambda: stage.portal.node(node)["health"] == "unreachable", 60, what="it is silent")
        answer = stage.portal.http.put(f"/nodes/{node}/gone")
        said = time.monotonic() - began
        watched(stage, row, name, run, elsewhere=True, since=began)
        row.notes.append(f"confirmed after {said:.0f} s: {answer.status_code}")
        until(lambda: len(pods(stage.bed, stage.portal)) == 1, 60, 0.2, "no pod of the node that is gone")
        row.notes.append(f"its pod gone after {time.monotonic() - began:.0f} s")
    stage.wait_ready(run.node)
    stage.end(name)
    return row


def confirmed_wrongly(stage: Stage) -> Row:
    """What runs on has no pod any more when its node is back, and what waited for its GPUs is placed there at once."""
    row = Row("node cut off, an admin says wrongly that it is gone")
    name, run = stage.begin(gpuNumber=2)
    with down(stage, run.node, "cut"):
        began = time.monotonic()
        until(lambda: stage.portal.node(f"{CLUSTER}/{run.node}")["health"] == "unreachable", 60, what="it is silent")
        stage.portal.http.put(f"/nodes/{CLUSTER}/{run.node}/gone")
        watched(stage, row, name, run, elsewhere=True, since=began)
        until(lambda: len(pods(stage.bed, stage.portal)) == 1, 60, 0.2, "no pod of the node that is gone")
        waits = stage.submit(gpuNumber=2)
    back = time.monotonic()
    until(lambda: stage.witness.of(waits), PATIENCE, 0.2, "the next one has the GPUs")
    after = stage.witness.of(waits)[0].began - back
    ended = (run.ended or time.monotonic()) - back
    row.notes.append(f"when it was back, the old one ended after {ended:.0f} s, the next began after {after:.0f} s")
    stage.end(name, waits)
    return row


def node_leaves_and_joins(stage: Stage) -> Row:
    row = Row("node deleted from the cluster, later it joins again")
    name, run = stage.begin()
    node = f"{CLUSTER}/{run.node}"
    stage.bed.kubectl("delete", "node", run.node)
    try:
        watched(stage, row, name, run, elsewhere=True)
        began = time.monotonic()
        until(lambda: stage.portal.http.get(f"/nodes/{node}").status_code == 404, PATIENCE, what="the node is no more")
        row.notes.append(f"its row went {time.monotonic() - began:.0f} s later")
    finally:
        stage.bed.node_down(run.node, "kill")
        stage.bed.node_up(run.node)
    began = time.monotonic()
    until(lambda: stage.portal.http.get(f"/nodes/{node}").status_code == 200, PATIENCE, what="the node is a node again")
    stage.wait_ready(run.node)
    row.notes.append(f"ready {time.monotonic() - began:.0f} s after it joined")
    until(lambda: run.ended is not None, PATIENCE, what="the end of the old container")
    stage.end(name)
    return row


def deleted(*how: str) -> Callable[[Stage], Row]:
    def fault(stage: Stage) -> Row:
        row = Row(" ".join(["kubectl delete pod", *how]))
        name, run = stage.begin()
        (pod,) = pods(stage.bed, stage.portal)
        stage.bed.kubectl("-n", NAMESPACE, "delete", pod, "--wait=false", *how)
        watched(stage, row, name, run, elsewhere=True)
        stage.end(name)
        return row

    return fault


def api_away(mode: str, what: str) -> Callable[[Stage], Row]:
    def fault(stage: Stage) -> Row:
        row = Row(what)
        ends, run = stage.begin(ENDS_LATER)
        goes_on, second = stage.begin()
        stage.bed.api_down(cast(Any, mode))
        began = time.monotonic()
        try:
            until(lambda: stage.told(ends, run.node), 60, 0.2, what="anybody is told")
            row.told, row.saw = time.monotonic() - began, stage.told(ends, run.node)
            time.sleep(max(0.0, 60 - (time.monotonic() - began)))
        finally:
            stage.bed.api_up()
        back = time.monotonic()
        status = stage.portal.wait_state(ends, timeout=PATIENCE)
        row.notes.append(f"its end was known {time.monotonic() - back:.0f} s after the API was back")
        if (status["state"], stage.portal.log(ends)) != ("FAILED", "begin\nend 3\n") or status["retries"]:
            row.broken.append(f"WRONG END {status} {stage.portal.log(ends)!r}")
        time.sleep(5)
        if second.ended is not None or stage.portal.job(goes_on)["jobStatus"]["retries"]:
            row.broken.append("A JOB WAS DISTURBED")
        stage.end(ends, goes_on)
        return row

    return fault


def watches_cut(stage: Stage) -> Row:
    """Every connection of this machine's own network to the API, thrice: the portal's watches and logs are among
    them."""
    row = Row("watch connections cut, 5 times", saw="nothing: it goes on")
    name, run = stage.begin(SAYS + "sleep 12; leave 3")
    host, _, port = stage.bed.api.removeprefix("https://").partition(":")
    cut = 0
    for _ in range(5):
        said = subprocess.run(
            ["ss", "-K", "-tnH", "dst", host, "dport", "=", f":{port}"], capture_output=True, text=True
        )
        cut += len(said.stdout.splitlines())
        time.sleep(2)
    row.notes.append(f"{cut} connections cut")
    status = stage.portal.wait_state(name, timeout=PATIENCE)
    until(lambda: run.ended is not None, PATIENCE, what="the witness saw its end")
    row.told = time.monotonic() - (run.ended or 0)
    row.saw = "nothing but its end"
    if (status["state"], stage.portal.log(name), status["retries"]) != ("FAILED", "begin\nend 3\n", 0):
        row.broken.append(f"WRONG END {status} {stage.portal.log(name)!r}")
    stage.end(name)
    return row


def quota_met(stage: Stage) -> Row:
    row = Row("quota of the namespace met")
    stage.bed.kubectl("-n", NAMESPACE, "create", "quota", "small", "--hard=pods=0")
    try:
        began = time.monotonic()
        name = stage.submit()
        row.saw = until(lambda: stage.told(name, ""), PATIENCE, 0.2, "anybody is told")
        row.told = time.monotonic() - began
    finally:
        stage.bed.kubectl("-n", NAMESPACE, "delete", "quota", "small")
    began = time.monotonic()
    until(lambda: stage.witness.of(name), PATIENCE, 0.2, "it runs")
    row.notes.append(f"runs {time.monotonic() - began:.0f} s after the quota was lifted")
    stage.end(name)
    return row


def image_missing(stage: Stage) -> Row:
    row = Row("image missing")
    began = time.monotonic()
    name = stage.submit("true", image="127.0.0.1:9/no/such:1")
    row.saw = until(lambda: stage.told(name, ""), PATIENCE, 0.2, "anybody is told")
    row.told = time.monotonic() - began
    stage.end(name)
    return row


FAULTS: dict[str, Callable[[Stage], Row]] = {
    "crash": node_lost("crash", "node crashed (kubelet and containers killed)"),
    "boot": crashed_and_booted,
    "gone": confirmed_gone,
    "gone-wrongly": confirmed_wrongly,
    "kubelet": node_lost("kill", "kubelet killed, containers go on"),
    "hang": node_lost("hang", "kubelet stopped (SIGSTOP), containers go on"),
    "cut": node_lost("cut", "node's network cut"),
    "freeze": node_lost("freeze", "all of the node hangs"),
    "api": api_away("kill", "API server killed for 60 s"),
    "api-hang": api_away("hang", "API server hangs for 60 s"),
    "watch": watches_cut,
    "delete": deleted(),
    "delete-force": deleted("--force", "--grace-period=0"),
    "quota": quota_met,
    "image": image_missing,
    "leave": node_leaves_and_joins,
}


def doubled(runs: list[Run]) -> list[str]:
    """Two lives at once of one task in one attempt or on one node, and two that had one GPU."""
    found = []
    for one, two in combinations(runs, 2):
        same = (one.job, one.task) == (two.job, two.task) and (one.app == two.app or one.node == two.node)
        if same and one.overlaps(two):
            found.append(f"{one}; {two}")
        if one.overlaps(two) and one.node == two.node and set(one.gpus) & set(two.gpus):
            found.append(f"a GPU was given twice: {one}; {two}")
    return found


def main() -> int:
    asked = argparse.ArgumentParser(prog="python -m tests.chaos.kubernetes")
    asked.add_argument("faults", nargs="*", choices=[*FAULTS, []], help="all of them, where none is named")
    options = asked.parse_args()
    if reason := kubernetes_bed.missing():
        print(f"Not possible here: {reason}.")
        return 2
    home = Path(tempfile.mkdtemp(prefix="ls-chaos-"))
    with ExitStack() as stack:
        bed = KubernetesBed()
        stack.callback(bed.stop)
        names = bed.up(2, K8S_GRACE=str(GRACE))
        bridge = bed.bridge
        witness = Witness()
        stack.callback(witness.close)
        for node in names:
            witness.watch(cast(BedNode, SimpleNamespace(name=node, bed=SimpleNamespace(bridge=bridge))))
        portal = stack.enter_context(portal_over(bed, home, LONGSHORE_NODE_LOST_AFTER=str(LOST_AFTER)))
        stage = Stage(bed, portal, witness)
        rows = [_tried(stage, name) for name in options.faults or FAULTS]
        portal.stop_all()
        wait_clean(portal, bed, PATIENCE)
        leaked = [str(run) for run in witness.runs if run.ended is None] + pods(bed, portal)
    twice = doubled(witness.runs)
    print(f"\nload {os.getloadavg()[0]:.0f}, LONGSHORE_NODE_LOST_AFTER={LOST_AFTER}, a node is Unknown after {GRACE} s")
    print("| fault | the user reads | told after | elsewhere after | |\n|---|---|---|---|---|")
    print("\n".join(map(str, rows)))
    broken = [one for row in rows for one in row.broken]
    shutil.rmtree(home, ignore_errors=True)
    print(json.dumps({"lives": len(witness.runs), "lost": len(broken), "doubled": twice, "leaked": leaked}, indent=1))
    return int(bool(broken or twice or leaked))


def _tried(stage: Stage, name: str) -> Row:
    try:
        row = FAULTS[name](stage)
    except Exception as error:
        row = Row(name, broken=[f"{type(error).__name__}: {error}"[:300]])
        with suppress(Exception):
            stage.portal.stop_all()
            wait_clean(stage.portal, stage.bed, PATIENCE)
    print(row, flush=True)
    return row


if __name__ == "__main__":
    sys.exit(main())
