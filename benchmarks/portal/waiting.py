"""What a long queue costs: many jobs submitted one by one behind one that holds the whole node, while nothing changes,
what is asked about one in their middle, and their end."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass

from benchmarks.portal.pages import signed_in
from benchmarks.processes import cpu_of
from benchmarks.report import Report, ms, wait_for
from benchmarks.sizes import size
from tests.acceptance.portal import Portal, config
from tests.bed.docker_bed import BedNode

JOBS = size(2_000, 12)  # a multiple of 3: ended by the API one by one, by the API at once, and by the page
AT_ONCE = size(1_000, 3)  # jobs that one request of the API ends
ON_A_PAGE = size(100, 2)  # jobs that one form ends
CLIENTS = 4  # who submit or end jobs at the same time
SETTLE, STILL = size((20.0, 60.0), (0.0, 0.5))  # seconds: for what follows a submission, and without any change
TIMES = size(40, 2)  # how often each question is asked
CORES = 4  # what the node is said to have, and each job asks for


@dataclass
class Took:
    seconds: float = 0.0
    cpu: float = 0.0  # seconds, of all processes of the portal


def measure(report: Report, portal: Portal, _: BedNode) -> None:
    portal.change_node("local", cpuNumber=CORES)
    portal.submit(config("holder", "sleep 100000", cpuNumber=CORES))
    portal.wait_state("holder", "RUNNING")
    names = [f"waits-{at}" for at in range(JOBS)]
    report.title(f"{JOBS:,} jobs that wait, CPU of all processes")
    with _taking(portal) as took:
        _at_once(lambda name: portal.submit(config(name, cpuNumber=CORES)), names)
        time.sleep(SETTLE)
    each = 1000 * took.cpu / JOBS
    what = f"{took.seconds - SETTLE:.1f} s, {SETTLE:.0f} s more for what follows"
    report.add("submitted one by one, each", f"{each:.1f} ms", what, "<= 8 ms", each <= 8)
    with _taking(portal) as took:
        time.sleep(STILL)
    share = 100 * took.cpu / STILL
    report.add(f"nothing changes for {STILL:.0f} s", f"{share:.2f} % of a core", "", "<= 0.5 %", share <= 0.5)
    _ask(report, portal, names[JOBS // 2])
    third = JOBS // 3
    _stop(report, portal, "by the API, one by one", names[:third], _one_by_one, None)
    _stop(report, portal, f"by the API, {AT_ONCE:,} at once", names[third : 2 * third], _many, 2.0)
    _stop(report, portal, f"by the page, {ON_A_PAGE} at once", names[2 * third :], _by_page, 2.0)
    portal.http.delete("/user/admin/jobs/holder").raise_for_status()


def _ask(report: Report, portal: Portal, name: str) -> None:
    """About a job in the middle of the queue, and of all."""
    path = f"/user/admin/jobs/{name}"
    for what, asked, most in (
        ("its detail", path, 5.0),
        ("why it waits", f"{path}/why", 5.0),
        ("the list of all", "/jobs", None),
    ):
        with _taking(portal) as took:
            for _ in range(TIMES):
                portal.http.get(asked).raise_for_status()
        each = 1000 * took.cpu / TIMES
        target = ("", None) if most is None else (f"<= {most:.0f} ms", each <= most)
        report.add(what, f"{each:.1f} ms", f"{ms(took.seconds / TIMES)} until it is there", *target)


def _stop(
    report: Report,
    portal: Portal,
    how: str,
    names: Sequence[str],
    stop: Callable[[Portal, Sequence[str]], None],
    most: float | None,
) -> None:
    named = ", ".join(f"'{name}'" for name in names)
    left = f"SELECT count(*) FROM jobs_job WHERE state = 'WAITING' AND name IN ({named})"
    with _taking(portal) as took:
        stop(portal, names)
        wait_for(lambda: portal.rows(left) == [(0,)], 240, 0.05, "they have ended")
    each = 1000 * took.cpu / len(names)
    waited = 1000 * took.seconds / len(names)
    target = ("", None) if most is None else (f"<= {most:.0f} ms", each <= most)
    report.add(f"stopped {how}, each", f"{each:.1f} ms", f"{waited:.1f} ms until ended", *target)


def _one_by_one(portal: Portal, names: Sequence[str]) -> None:
    def stop(name: str) -> None:
        path = f"/user/admin/jobs/{name}/executionType"
        portal.http.put(path, json={"value": "STOP"}).raise_for_status()

    _at_once(stop, names)


def _many(portal: Portal, names: Sequence[str]) -> None:
    for at in range(0, len(names), AT_ONCE):
        body = {"jobs": list(names[at : at + AT_ONCE])}
        assert portal.http.post("/jobs/stop", json=body).raise_for_status().json()["left"] == []


def _by_page(portal: Portal, names: Sequence[str]) -> None:
    with closing(signed_in(portal)) as browser:
        for at in range(0, len(names), ON_A_PAGE):
            some = names[at : at + ON_A_PAGE]
            form = {"job": [f"admin/{name}" for name in some], "typed": str(len(some))}
            token = {"X-CSRFToken": browser.cookies["csrftoken"], "Referer": portal.url}
            browser.post("/jobs/stop", data=form, headers=token).raise_for_status()


def _at_once(do: Callable[[str], object], names: Sequence[str]) -> None:
    with ThreadPoolExecutor(CLIENTS) as clients:
        list(clients.map(do, names))


@contextmanager
def _taking(portal: Portal) -> Iterator[Took]:
    """What is done inside takes this much."""
    took, began = Took(), time.perf_counter()
    before = {pid: cpu_of(pid) for pid in portal.processes()}
    yield took
    took.seconds = time.perf_counter() - began
    took.cpu = sum(cpu_of(pid) - before.get(pid, 0.0) for pid in portal.processes())
