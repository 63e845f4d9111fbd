"""Several hosts on one PostgreSQL, each with a whole portal, of which some die, hang or are cut off under a load.

    .venv/bin/python -m tests.chaos.hosts --jobs 200

It prints for each fault the seconds until the next job was placed, and in the end what was lost and what was doubled.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import signal
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import httpx
import psycopg

from clusters.engines.docker.runtime import DockerRuntime
from clusters.engines.sample_image import ensure_sample_image
from tests.acceptance.portal import ENDS, WHO, Json, config, docker, register
from tests.acceptance.witness import times, witness
from tests.bed import docker_bed, postgres_bed
from tests.bed.docker_bed import Bed, BedNode
from tests.bed.portal_hosts import KEYS, PortalHost, PortalHosts
from tests.bed.postgres_bed import USER, Postgres
from tests.helpers import LIMIT, until

PACE = 0.5  # seconds between two submissions
INSTANCE = "label=longshore.instance"


@dataclass
class Cluster:
    """The hosts, their database and the Docker nodes."""

    hosts: PortalHosts
    database: Postgres
    nodes: list[BedNode]
    names: list[str] = field(default_factory=list)
    heard: list[Callable[[], list[Json]]] = field(default_factory=list)
    _session: psycopg.Connection[Any] | None = None
    _numbers: Iterator[int] = field(default_factory=lambda: count(1))

    @property
    def instance(self) -> str:
        return hashlib.sha256(f"longshore instance {KEYS['LONGSHORE_SECRET_KEY']}".encode()).hexdigest()[:12]

    @property
    def alive(self) -> list[PortalHost]:
        return [host for host in self.hosts.all if not host.has_ended()]

    def rows(self, query: str) -> list[Any]:
        if self._session is None or self._session.closed:
            self._session = psycopg.connect(
                host=str(self.database.folder), user=USER, dbname="postgres", autocommit=True
            )
        try:
            return self._session.execute(query).fetchall()
        except psycopg.Error:
            self._session.close()
            raise

    def holder(self) -> tuple[PortalHost, int]:
        """The host whose scheduler acts, and that process."""
        ((holder,),) = self.rows("SELECT holder FROM portal_leaserow WHERE name = 'scheduler'")
        namespace = holder.split()[0].rpartition("/")[2]
        for host in self.alive:
            for pid in host.running(WHO["scheduler"]):
                if os.readlink(f"/proc/{pid}/ns/pid") == namespace:
                    return host, pid
        raise LookupError(holder)

    def wait_holder(self) -> tuple[PortalHost, int]:
        def ask() -> tuple[PortalHost, int] | None:
            with suppress(LookupError, psycopg.Error, OSError):
                return self.holder()
            return None

        found = until(ask, 60, 0.1, "a scheduler acts")
        assert found is not None
        return found

    # --- users -------------------------------------------------------------------------------------------------------

    def submit(self, command: str = "sleep 1") -> str:
        """As through a load balancer: by whichever host takes it."""
        name = f"job-{next(self._numbers)}"
        body = config(name, command, cpuNumber=1, memoryMB=100)
        self.names.append(name)
        until(lambda: any(_accepted(host, body) for host in self.alive), 60, 0.2, f"{name} is taken")
        return name

    @contextmanager
    def load(self) -> Iterator[None]:
        """Jobs are submitted at a steady pace for as long as the block lasts."""
        over = threading.Event()

        def submit() -> None:
            while not over.wait(PACE):
                self.submit()

        thread = threading.Thread(target=submit, daemon=True)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join(LIMIT)

    def states(self) -> dict[str, str]:
        return dict(self.rows("SELECT name, state FROM jobs_job"))

    def wait_ended(self, timeout: float = 120) -> None:
        def all_ended() -> bool:
            states = self.states()
            return all(states.get(name) in ENDS for name in self.names)

        until(all_ended, timeout, 0.5, "all jobs have ended")

    # --- faults ------------------------------------------------------------------------------------------------------

    def measure(self, fault: Callable[[], object]) -> tuple[float, float]:
        """Do it, and return the seconds until a scheduler acted again (another one, or the same) and until the next job
        was placed. Call while jobs wait or come."""
        before = self._seen()
        began = time.monotonic()
        fault()
        done = self._seen(*before)
        acted = until(lambda: self._seen()[0] > done[0] and time.monotonic() - began, 60, 0.05, "a scheduler acts")
        until(lambda: self._seen()[1] > before[1], 60, 0.05, "a job is placed")
        return float(acted), time.monotonic() - began

    def _seen(self, acted: int = 0, placed: int = 0) -> tuple[int, int]:
        """How often a scheduler has written so far, in growing numbers, and the last placement. What is given, while
        the database does not answer."""
        with suppress(psycopg.Error):
            writes = "SELECT epoch * 1000000 + beats FROM portal_leaserow WHERE name = 'scheduler'"
            places = "SELECT coalesce(max(id), 0) FROM jobs_event WHERE kind = 'job.placed'"
            ((writes_now, places_now),) = self.rows(f"SELECT ({writes}), ({places})")
            return int(writes_now), int(places_now)
        return acted, placed

    # --- the verdict -------------------------------------------------------------------------------------------------

    def verdict(self) -> list[str]:
        """Sentences about jobs that were lost or ran twice, and about what was left over. None when all is well."""
        return [*self._lost(), *self._doubled(), *self._left()]

    def _lost(self) -> Iterator[str]:
        states = self.states()
        yield from (f"{name} is {states.get(name)}" for name in self.names if states.get(name) != "SUCCEEDED")

    def _doubled(self) -> Iterator[str]:
        """By the events of the engines, from the beginning."""
        starts: dict[str, list[int]] = defaultdict(list)
        for heard in self.heard:
            for name, moments in times(heard(), "start").items():
                starts[name] += moments
        yield from (f"{name} was started {len(moments)} times" for name, moments in starts.items() if len(moments) > 1)
        starts = {name: moments for name, moments in starts.items() if "-trial-" not in name}
        if len(starts) != len(self.names):
            yield f"{len(starts)} containers were started for {len(self.names)} jobs"

    def _left(self) -> Iterator[str]:
        def held() -> list[Any]:
            return self.rows("SELECT owner, node_id FROM clusters_allocation")

        with suppress(BaseException):
            until(lambda: not held(), 60, 0.5)
        yield from (f"allocation {row} is left" for row in held())
        for node in self.nodes:
            with suppress(BaseException):
                until(lambda node=node: not _containers(node), 60, 0.5)  # type: ignore[misc]
            yield from (f"container {name} is left on {node.name}" for name in _containers(node))


@contextmanager
def cluster(bed: Bed, nodes: list[BedNode], hosts: int = 3, **settings: str) -> Iterator[Cluster]:
    """So many hosts that run and have these nodes, whose engines have the sample image."""
    with ExitStack() as stack:
        database = Postgres(listen=f"{bed.network}.1")
        stack.callback(database.close)
        all_hosts = PortalHosts(bed, hosts, DATABASE_URL=database.over_network, **settings)
        stack.callback(all_hosts.close)
        for node in nodes:
            stack.callback(remove, node)
        made = Cluster(all_hosts, database, nodes)
        try:
            all_hosts.start()
            for node in nodes:
                _register(made, node)
                made.heard.append(stack.enter_context(witness(node, made)))
            yield made
        except BaseException:
            for host in all_hosts.all:
                print(f"===== {host.name}\n{host.text()[-4000:]}")
            raise


def remove(node: BedNode) -> None:
    if names := _containers(node):
        docker(node, "rm", "-fv", *names)


def _register(made: Cluster, node: BedNode) -> None:
    keys = {name: (node.tls_dir / f"{name}.pem").read_text() for name in ("ca", "cert", "key")}
    body = {"name": node.name, "endpoint": node.tls, "tls": keys, "cpuNumber": 8, "memoryMB": 8000}
    register(made.hosts.all[0].http, body)


def _accepted(host: PortalHost, body: dict[str, Any]) -> bool:
    """A job that an earlier request has submitted, of which the answer was lost, is in the way of its second one."""
    with suppress(httpx.HTTPError):
        answer = host.http.post("/jobs", json=body, timeout=10)
        assert answer.status_code in (201, 409) or answer.status_code >= 500, answer.text
        return answer.status_code < 500
    return False


def _containers(node: BedNode) -> list[str]:
    return docker(node, "ps", "-a", "--format", "{{.Names}}", "--filter", INSTANCE).split()


# --- the large run ---------------------------------------------------------------------------------------------------


def faults(made: Cluster) -> Iterator[tuple[str, Callable[[], object], Callable[[], object]]]:
    """Name, how it is done, how it is healed."""
    host, pid = made.wait_holder()
    yield "scheduler killed", lambda: os.kill(pid, 9), lambda: None
    host, pid = made.wait_holder()
    yield "scheduler stopped", lambda: os.kill(pid, 19), lambda p=pid: os.kill(p, 18)  # type: ignore[misc]
    for who in ("web", "workers", "sampler"):
        yield f"{who} killed", lambda w=WHO[who]: _kill_everywhere(made, w), lambda: None  # type: ignore[misc]
    host, _ = made.wait_holder()
    yield "disk of the host full", host.fill_disk, host.make_room
    host, _ = made.wait_holder()
    yield "host killed", host.kill, host.start
    host, _ = made.wait_holder()
    yield "host lost its power", host.power_off, lambda h=host: (h.plug(), h.start())  # type: ignore[misc]
    host, _ = made.wait_holder()
    yield "host hung", host.freeze, host.thaw
    host, _ = made.wait_holder()
    yield "cut from PostgreSQL", lambda: host.cut(f"{host.bed.network}.1"), host.heal
    host, _ = made.wait_holder()
    nodes = [node.address for node in made.nodes]
    yield "cut from the nodes", lambda: host.cut(*nodes), host.heal
    yield "PostgreSQL restarted", made.database.restart, lambda: None
    host, _ = made.wait_holder()
    yield "clock 10 minutes ahead", lambda: host.set_clock(600), lambda: host.set_clock(0)
    yield "clock 10 minutes behind", lambda: host.set_clock(-600), lambda: host.set_clock(0)


def _kill_everywhere(made: Cluster, who: str) -> None:
    """On all hosts at once: their supervisors start it again."""
    for host in made.alive:
        for pid in host.running(who):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def run(jobs: int) -> bool:
    with ExitStack() as stack:
        bed = Bed()
        stack.callback(bed.down)
        nodes = bed.up(2)
        for node in nodes:
            ensure_sample_image(DockerRuntime(node.unix))
        made = stack.enter_context(cluster(bed, nodes))
        print(f"3 hosts, load {os.getloadavg()[0]:.1f} of {os.cpu_count()} cores", flush=True)
        began = time.monotonic()
        with made.load():
            for what, do, heal in faults(made):
                until(lambda: made.states().get(made.names[0]) == "SUCCEEDED" if made.names else False, 60, 0.5)
                acted, placed = made.measure(do)
                print(f"{what:<24} acts again after {acted:5.1f} s, next placement after {placed:5.1f} s", flush=True)
                time.sleep(5)
                heal()
                until(lambda: len(made.alive) == 3, 30, 0.5, "all hosts run")
                time.sleep(10)
            until(lambda: len(made.names) >= jobs, jobs * 10, 1, "all jobs are submitted")
        made.wait_ended(300)
        found = made.verdict()
        print(f"{len(made.names)} jobs in {time.monotonic() - began:.0f} s: {len(found)} lost, doubled or left over")
        print("\n".join(found))
        return not found


def main() -> int:
    asked = argparse.ArgumentParser(prog="python -m tests.chaos.hosts")
    asked.add_argument("--jobs", type=int, default=200)
    options = asked.parse_args()
    if reason := docker_bed.missing() or postgres_bed.missing():
        print(f"Not possible here: {reason}.")
        return 2
    return int(not run(options.jobs))


if __name__ == "__main__":
    import django

    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "tests.settings")
    django.setup()
    sys.exit(main())
