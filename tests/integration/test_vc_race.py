"""A virtual cluster is deleted in the moment in which somebody submits to it. What matters is PostgreSQL, where writers
do not take turns (the lane of that name runs this there too)."""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection

from base.core.errors import NoVirtualCluster, RemoveRunningVc
from base.models import User
from clusters.models import VirtualCluster
from clusters.vcs import services as vc_services
from jobs import services
from jobs.models import Job
from tests.helpers import LIMIT

pytestmark = pytest.mark.django_db(transaction=True)
ROUNDS = 40


def config(vc: str, name: str) -> str:
    role = {"name": "w", "taskNumber": 1, "cpuNumber": 1, "memoryMB": 100, "gpuNumber": 0, "command": "x"}
    return json.dumps({"jobName": name, "image": "i", "virtualCluster": vc, "taskRoles": [role]})


def linger(units: int) -> None:
    """Some half milliseconds, so that now the one and now the other is first."""
    for _ in range(units * 20_000):
        pass


class Together:
    """Two things that begin at once, each in a thread with a connection of its own."""

    def __init__(self, *what: Callable[[], Any]) -> None:
        self.outcomes: list[str] = [""] * len(what)
        self.threads = [threading.Thread(target=self._do, args=(at, one)) for at, one in enumerate(what)]
        for thread in self.threads:
            thread.start()
        for thread in self.threads:
            thread.join(LIMIT)

    def _do(self, at: int, what: Callable[[], Any]) -> None:
        try:
            what()
            self.outcomes[at] = "done"
        except Exception as error:
            self.outcomes[at] = type(error).__name__
        finally:
            connection.close()


def test_it_never_leaves_a_live_job_in_a_deleted_virtual_cluster(admin: User, monkeypatch: pytest.MonkeyPatch) -> None:
    look = services.load_idle_nodes
    seen: Counter[tuple[str, ...]] = Counter()
    for round in range(ROUNDS):
        vc = f"race{round}"
        vc_services.create_or_resize_vc(admin, vc, 1)
        barrier = threading.Barrier(2, timeout=LIMIT)

        def look_and_wait(barrier: threading.Barrier = barrier, round: int = round) -> Any:
            """The last thing before a job is written: the cluster was there when it was asked for."""
            found = look()
            barrier.wait()
            linger(3 * (round % 8))
            return found

        def delete(vc: str = vc, barrier: threading.Barrier = barrier, round: int = round) -> None:
            connection.ensure_connection()
            barrier.wait()
            linger(7 - round % 8)
            vc_services.delete_vc(admin, vc)

        monkeypatch.setattr(services, "load_idle_nodes", look_and_wait)
        together = Together(lambda vc=vc: services.submit(admin, config(vc, f"j-{vc}")), delete)  # type: ignore[misc]
        seen[tuple(together.outcomes)] += 1
        submitted = Job.objects.filter(vc=vc).exists()
        assert submitted == VirtualCluster.objects.filter(name=vc).exists(), together.outcomes
        if submitted:
            Job.objects.filter(vc=vc).delete()
            vc_services.delete_vc(admin, vc)
    right = {("done", RemoveRunningVc.__name__), (NoVirtualCluster.__name__, "done")}

    assert set(seen) <= right, seen
