"""Once all is whole and calm: what is wrong, stuck, leaked or doubled, each in a sentence."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import combinations

import httpx

from base.files.store.base import PART
from base.files.store.local import LocalStore
from tests.acceptance.portal import ENDS, Portal, containers
from tests.bed.docker_bed import BedNode
from tests.chaos.faults import Faults
from tests.chaos.jobs import kind_of
from tests.chaos.witness import Run, Witness

NO_ENGINE = ("kill-dockerd", "stop-dockerd", "crash")
KINDS = ("wrong", "stuck", "leaked", "doubled")
# Of each, what is left over, or None where the table is empty.
LEFTOVERS = {
    "allocations": "SELECT owner, node_id, gpu_ids, ports FROM clusters_allocation",
    # A claim of a worker that was killed stays in the row; it means nothing once it has lapsed.
    "tasks in hand": "SELECT id, state, claim FROM jobs_task WHERE claim <> '' AND claimed_until > CURRENT_TIMESTAMP",
    "tasks not collected": "SELECT id, state, node FROM jobs_task WHERE collected = false AND state <> 'WAITING'",
    "nodes with something held": "SELECT name, held FROM clusters_node WHERE health <> 'ready'",
}


@dataclass
class Verdict:
    """Sentences by kind. ``again``: tasks that ran a second time in one attempt, one life after the other."""

    found: dict[str, list[str]] = field(default_factory=lambda: {kind: [] for kind in KINDS})
    again: list[str] = field(default_factory=list)
    outlived: int = 0  # containers on a node that was given up, beside their next attempt elsewhere

    @property
    def clean(self) -> bool:
        return not any(self.found.values())


def leftovers(portal: Portal, nodes: list[BedNode], witness: Witness) -> Iterator[str]:
    """What a calm portal without a live job has none of."""
    for node in nodes:
        yield from (f"container {name} on {node.name}" for name in containers(node, portal))
    for what, query in LEFTOVERS.items():
        yield from (f"{what}: {row}" for row in portal.rows(query))
    yield from (f"running, says the witness: {run}" for run in list(witness.runs) if run.ended is None)


def not_ended(portal: Portal, names: list[str]) -> list[str]:
    with suppress(httpx.HTTPError):
        states = {job["name"]: job["state"] for job in portal.get("/jobs")}
        return [name for name in names if states.get(name, "STOPPED") not in ENDS]
    return names


def judge(portal: Portal, nodes: list[BedNode], witness: Witness, names: list[str], faults: Faults) -> Verdict:
    verdict = Verdict()
    stuck = not_ended(portal, names)
    for name in stuck:
        verdict.found["stuck"].append(f"{name} is {portal.state(name)}")
    for name in names:
        if name not in stuck:
            verdict.found["wrong"] += _wrong(portal, witness, name, faults)
    verdict.found["leaked"] += leftovers(portal, nodes, witness)
    store = portal.home / "store"
    LocalStore(store).clean_up(age=0)  # parts of killed writers; the portal does so when they are some hours old
    verdict.found["leaked"] += [f"{path} in the store" for path in store.rglob(f"*{PART}") if path.is_file()]
    count_runs(verdict, witness.runs, faults)
    return verdict


def evidence(portal: Portal, witness: Witness, name: str) -> str:
    """All that is known of a job."""
    with suppress(httpx.HTTPError, AssertionError):
        told = [
            f"    {event['time']} {event['kind']} {event['task'] or ''} {event['reason']}"
            for event in portal.events(name)
        ]
        return "\n".join([*told[-30:], *(f"    witness: {run}" for run in witness.of(name))])
    return "    nothing is known of it"


def _wrong(portal: Portal, witness: Witness, name: str, faults: Faults) -> Iterator[str]:
    kind = kind_of(name)
    answer = portal.http.get(f"/user/admin/jobs/{name}")
    if kind.end[0] == "GONE" or answer.status_code != 200:
        if (answer.status_code == 404) != (kind.end[0] == "GONE"):
            yield f"{name} answers {answer.status_code}, though it is to be {kind.end[0]}"
        return
    status = answer.json()["jobStatus"]
    end, retries = (status["state"], status["appExitCode"]), status["retryDetails"]
    if end != kind.end:
        yield f"{name} is {end} instead of {kind.end}: {status['appExitDiagnostics']}"
    elif kind.tries is not None and retries["user"] != kind.tries:
        yield f"{name} was charged with {retries['user']} tries instead of {kind.tries}"
    else:
        yield from _unseen(portal, witness, name, status["state"], faults)


def _unseen(portal: Portal, witness: Witness, name: str, state: str, faults: Faults) -> Iterator[str]:
    """The end that is told must be one that the last attempt's tasks have told the witness."""
    ((app, number),) = portal.rows(
        "SELECT a.app_id, a.number FROM jobs_attempt a JOIN jobs_job j ON j.id = a.job_id"
        f" WHERE a.number = j.attempt_number AND j.name = '{name}'"
    )
    runs = [run for run in witness.of(name) if run.app == app]
    said = [run.said for run in runs]
    tasks = kind_of(name).more.get("taskNumber", 1)
    if state == "SUCCEEDED" and (len({run.task for run in runs}) != tasks or any(said)):
        yield f"{name} SUCCEEDED in attempt {number}, but its {tasks} tasks said {said}"
    if state == "FAILED" and kind_of(name).end[1] == 255 and not any(said):
        yield f"{name} FAILED in attempt {number}, but no task said a code"
    for run in runs:
        if run.said is not None and not _was_removed(run, faults) and not _lost_lines(run, faults):
            role, _, index = run.task.rpartition("-")
            try:
                log = portal.log(name, role, int(index))
            except AssertionError as refused:
                log = str(refused)
            if log != f"begin\nend {run.said}\n":
                yield f"{name} has the log {log!r}: {run}"


def _was_removed(run: Run, faults: Faults) -> bool:
    """A container of its job was, by hand."""
    return any(container.startswith(f"longshore-admin-{run.job}-") for container in faults.removed)


def _lost_lines(run: Run, faults: Faults) -> bool:
    """Its engine may have: the disk was full, or it ended while there was no engine that took what it wrote last."""
    ended = run.ended or math.inf
    mine = [past for past in faults.past if past.node == run.node and past.began <= ended and run.began <= past.over]
    return any(past.what == "fill" or (past.what in NO_ENGINE and ended <= past.over) for past in mine)


def count_runs(verdict: Verdict, runs: list[Run], faults: Faults) -> None:
    lives: dict[tuple[str, str], list[Run]] = defaultdict(list)
    for run in runs:
        lives[run.job, run.task].append(run)
    for mine in lives.values():
        for one, two in combinations(mine, 2):
            same = one.app == two.app
            if one.overlaps(two) and (same or one.node == two.node):
                verdict.found["doubled"].append(f"{one.job} ran twice at once: {one}; {two}")
            elif one.overlaps(two):
                verdict.outlived += 1
            elif same and not _was_removed(one, faults):
                verdict.again.append(f"{one.job} ran twice in one attempt: {one}; {two}")
    for one, two in combinations([run for run in runs if run.gpus], 2):
        if one.node == two.node and set(one.gpus) & set(two.gpus) and one.overlaps(two):
            verdict.found["doubled"].append(f"a GPU was given twice: {one.job} {one}; {two.job} {two}")
