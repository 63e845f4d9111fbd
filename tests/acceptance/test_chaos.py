"""Fifty real jobs while every process of the portal is killed at random: none is lost, none runs twice, none is wrong.

The engine itself is the witness: its events say when each container began and ended.
"""

from __future__ import annotations

import os
import random
import signal
import time
from collections import Counter
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

import httpx
import pytest

from clusters.runtime import LABEL_JOB, LABEL_TASK
from tests.acceptance.portal import ENDS, Json, Portal, config, portal_on
from tests.acceptance.witness import times, witness
from tests.bed.docker_bed import BedNode
from tests.helpers import until

pytestmark = pytest.mark.docker
SEED = int(os.environ.get("CHAOS_SEED", "7"))
KILLS = {"web": 4, "scheduler": 4, "workers": 8, "up": 1}  # of the workers, any process of theirs
PAUSE = 1.2  # seconds at most between two deeds


@dataclass(frozen=True)
class Kind:
    """``end`` is (state, v1 exit code), ``log`` what each task must have written."""

    command: str
    count: int
    end: tuple[str, int]
    log: str = "begin\nend\n"
    attempts: int = 1
    more: Json = field(default_factory=dict)


KINDS = {
    "short": Kind("echo begin; echo end", 14, ("SUCCEEDED", 0)),
    "long": Kind("echo begin; sleep 2; echo end", 12, ("SUCCEEDED", 0)),
    "fails": Kind("echo begin; echo end; exit 3", 10, ("FAILED", 255), attempts=2, more={"retryCount": 1}),
    "gang": Kind("echo begin; sleep 1; echo end", 6, ("SUCCEEDED", 0), more={"taskNumber": 2}),
    "memory": Kind("echo begin; exec tail /dev/zero", 4, ("FAILED", 196), log="begin\n", more={"retryCount": 1}),
    "endless": Kind(
        "echo begin; while :; do sleep 1; done", 4, ("STOPPED", -7351), log=""
    ),  # by its user, some before they began
}


def test_fifty_jobs_outlive_the_death_of_every_process(docker_engine: BedNode, tmp_path: Path) -> None:
    dice = random.Random(SEED)
    jobs = {f"{key}-{number}": kind for key, kind in KINDS.items() for number in range(kind.count)}
    assert len(jobs) == 50
    deeds = [*jobs, *(who for who, times in KILLS.items() for _ in range(times))]
    dice.shuffle(deeds)
    for name in [name for name in jobs if name.startswith("endless")]:
        deeds.insert(dice.randint(deeds.index(name) + 1, len(deeds)), f"stop {name}")
    with portal_on(tmp_path, docker_engine) as portal, witness(docker_engine, portal) as seen:
        for deed in deeds:
            if deed in jobs:
                submit(portal, config(deed, jobs[deed].command, **jobs[deed].more))
            elif deed.startswith("stop "):
                stop(portal, deed.removeprefix("stop "))
            else:
                kill(portal, deed, dice)
            let_pass(dice.uniform(0, PAUSE))
        for who in ("web", "scheduler"):
            assert portal.text().count(f"{who} was ended by SIGKILL") >= KILLS[who] - 1, "each death was a real one"
        until(lambda: all_ended(portal), 120, 0.5, what="every job has ended")
        portal.wait_clean(docker_engine, timeout=60)
        for name, kind in jobs.items():
            check_job(portal, name, kind)
        check_containers(portal, seen())


def test_work_goes_on_whichever_process_of_the_workers_is_killed(docker_engine: BedNode, tmp_path: Path) -> None:
    """django-q2 replaces its dead, but a queue that one of them was reading stays locked for the next."""
    with portal_on(tmp_path, docker_engine) as portal:
        for nth in range(5):  # the first one, its sentinel, a worker, the monitor, the pusher
            victims = until(lambda: _whole(portal.running("workers")), 30, 0.1, what="all five run")
            os.kill(victims[nth], signal.SIGKILL)
            assert portal.wait_state(portal.submit(config(f"after-{nth}")))["state"] == "SUCCEEDED"
        portal.wait_clean(docker_engine)


def _whole(pids: list[int]) -> list[int]:
    return pids if len(pids) == 5 else []


# --- deeds -----------------------------------------------------------------------------------------------------------


def submit(portal: Portal, sent: Json) -> None:
    """As a stubborn client does: it asks again until it knows. Its job may be there although the answer was lost."""
    until(lambda: _accepted(portal, sent), 40, 0.2, what=f"{sent['jobName']} is accepted")


def _accepted(portal: Portal, sent: Json) -> bool:
    try:
        answer = portal.http.post("/jobs", json=sent)
    except httpx.TransportError:
        return False
    assert answer.status_code in (201, 409), answer.text
    return True


def stop(portal: Portal, name: str) -> None:
    until(lambda: _stop_taken(portal, name), 40, 0.2, what=f"the stop of {name} is accepted")


def _stop_taken(portal: Portal, name: str) -> bool:
    try:
        portal.stop(name)
    except httpx.TransportError:
        return False
    return True


def kill(portal: Portal, who: str, dice: random.Random) -> None:
    if who == "up":
        portal.kill()
        portal.start()
        return
    victims = until(lambda: portal.running(who), 30, 0.05, what=f"{who} run again")
    try:
        os.kill(dice.choice(victims), signal.SIGKILL)
    except ProcessLookupError:
        pass  # it was just ending


def let_pass(seconds: float) -> None:
    then = time.monotonic() + seconds
    until(lambda: time.monotonic() >= then, seconds + 5)


def all_ended(portal: Portal) -> bool:
    try:
        return {job["state"] for job in portal.get("/jobs")} <= set(ENDS)
    except httpx.TransportError:
        return False


# --- checks ----------------------------------------------------------------------------------------------------------


def check_job(portal: Portal, name: str, kind: Kind) -> None:
    status = portal.job(name)["jobStatus"]
    assert (status["state"], status["appExitCode"]) == kind.end, (name, status["appExitDiagnostics"])
    retries = {"user": kind.attempts - 1, "platform": 0, "resource": 0}
    assert status["retryDetails"] == retries, (name, [event["reason"] for event in portal.events(name)])
    assert [one["attempt"] for one in portal.attempts(name)] == list(range(kind.attempts, 0, -1))
    for attempt in range(1, kind.attempts + 1):
        for index in range(kind.more.get("taskNumber", 1)):
            if kind.log:
                assert portal.log(name, index=index, attempt=attempt) == kind.log, (name, attempt, index)


def check_containers(portal: Portal, events: list[Json]) -> None:
    """Every task of every attempt had one container, which was started once (a stopped one may have had none); of two
    attempts the second began after the first had ended."""
    attributes = {event["Actor"]["Attributes"]["name"]: event["Actor"]["Attributes"] for event in events}
    begun = times(events, "start")
    ended = times(events, "die")
    tasks = {str(id) for (id,) in portal.rows("SELECT id FROM jobs_task")}
    stopped = {str(id) for (id,) in portal.rows("SELECT id FROM jobs_task WHERE state = 'STOPPED'")}
    started = Counter(attributes[id][LABEL_TASK] for id in begun)
    assert tasks - stopped <= set(started) <= tasks and set(started.values()) == {1}, started.most_common(3)
    assert {len(times) for times in begun.values()} == {1} and begun.keys() == ended.keys()
    lives: dict[tuple[str, str], list[tuple[int, int]]] = {}
    for id, (start,) in begun.items():
        place = portal.rows(f"SELECT role, `index` FROM jobs_task WHERE id = {attributes[id][LABEL_TASK]}")[0]
        lives.setdefault((attributes[id][LABEL_JOB], str(place)), []).append((start, max(ended[id])))
    for task, spans in lives.items():
        spans.sort()
        assert all(one[1] < two[0] for one, two in pairwise(spans)), (task, spans)
