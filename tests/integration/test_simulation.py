"""Random faults over the real scheduler and the real workers' code: whatever happens, in whatever order, every job
settles, no GPU is given twice, no task has two containers.

Each seed is one history. LONGSHORE_SEEDS=2000 runs more of them; a failing seed is in the test's name.
"""

from __future__ import annotations

import gc
import json
import os
import random
from collections import Counter
from typing import Any

import pytest
from django.db import connection

from clusters.engines.runtime import LABEL_GPUS, LABEL_HOLD, LABEL_TASK, ContainerStatus, Phase, RuntimeFault
from clusters.models import Node, VcGrant, VirtualCluster
from jobs import services
from jobs.containers import tasks
from jobs.models import Job, Task
from jobs.planning.lifecycle import JOB_END_STATES, TASK_END_STATES, TASK_LIVE_STATES
from jobs.scheduling.garbage import Garbage
from tests.cluster import Cluster
from tests.integration.test_recovery import WorkerDied, dies, lives

pytestmark = pytest.mark.django_db
SEEDS = range(int(os.environ.get("LONGSHORE_SEEDS", "15")))
STEPS = 60
MET = {("success", "SUCCEEDED"), *(("end", state.value) for state in JOB_END_STATES)}


class History:
    """Few GPUs and impatient clocks, so that every mistake about who holds what soon shows."""

    def __init__(self, cluster: Cluster, seed: int) -> None:
        self.cluster = cluster
        self.random = random.Random(seed)
        self.late_orders: list[tuple[str, int, str, str]] = []
        self.was_away: set[str] = set()  # nodes that did not answer once: their old containers may still run
        self.ceiling = 2  # GPUs of the virtual cluster a
        self.depth = 0  # of workers that stand still in the middle of a start while the world goes on
        for vc, capacity, most in (("a", 50, 50), ("b", 25, 100)):
            row = VirtualCluster.objects.create(name=vc, capacity=capacity, max_capacity=most)
            VcGrant.objects.create(vc=row, username=cluster.owner.username)
        for name in ("n1", "n2"):
            cluster.add_node(name, gpus=2, cpus=4).step = self.in_the_middle

    def step(self) -> None:
        weights = {
            self.submit: 3,
            self.cluster.tick: 5,
            self.tick_on_an_old_look: 2,
            self.work_some: 5,
            self.worker_dies: 1,
            self.finish_one: 2,
            self.hold_one: 0.7,
            self.release_one: 1,
            self.stop_one: 1.5,
            self.delete_one: 0.5,
            self.cut_or_heal: 1,
            self.node_is_lost: 0.7,
            self.nodes_come_back: 2,
            self.power_loss: 0.3,
            self.lose_a_container: 0.3,
            self.forget_images: 1,
            self.time_passes: 2,
            self.drain_or_offer: 0.5,
        }
        self.random.choices(list(weights), list(weights.values()))[0]()
        self.check()

    def in_the_middle(self, name: str, what: str) -> None:
        """A worker stands still during a pull, or between create and start; the claim may lapse meanwhile. Right
        after it has asked whether the start is still wanted nothing is played: that moment is the engine's own."""
        if what in ("pull", "put") and self.depth < 2 and self.random.random() < 0.6:
            self.depth += 1
            if self.random.random() < 0.5:
                self.withdraw(name)
            for _ in range(self.random.randint(0, 6)):
                self.step()
            self.depth -= 1

    def withdraw(self, container: str) -> None:
        """Its job is stopped, the claim lapses, and somebody else wants the GPUs."""
        if task := Task.objects.filter(container_name=container).select_related("job").first():
            services.stop(self.cluster.owner, task.job)
        for seconds in (1, 40, 1):
            self.submit()
            self.cluster.ahead(seconds)
            self.cluster.tick()
            self.work_some()

    def node_is_lost(self) -> None:
        name, runtime = self.random.choice(list(self.cluster.engines.items()))
        self.was_away.add(name)
        runtime.cut()
        for seconds in (1, 65):
            self.submit()
            self.cluster.ahead(seconds)
            self.cluster.tick()

    def nodes_come_back(self) -> None:
        for runtime in self.cluster.engines.values():
            runtime.heal()
        self.cluster.tick()
        self.work_some()

    def tick_on_an_old_look(self) -> None:
        for _ in range(2):
            self.cluster.tick(look=False)

    def forget_images(self) -> None:
        for runtime in self.cluster.engines.values():
            runtime.images.clear()

    def submit(self) -> None:
        roles = [
            {"name": f"r{at}", "taskNumber": self.random.randint(1, 2), "gpuNumber": self.random.choice([0, 1, 1, 2])}
            for at in range(self.random.randint(1, 2))
        ]
        self.cluster.submit(
            name=f"j{Job.objects.count()}-{self.random.random()}",
            roles=roles,
            retryCount=self.random.choice([0, 0, 1, 3]),
            jobEnvs={"isDebug": self.random.random() < 0.3},
            virtualCluster=self.random.choice(["default", "a", "b"]),
            extras={
                **self.random.choice([{}, {}, {"preemptible": True}, {"maxRunSeconds": 100}, {"priority": -1}]),
                **self.after_others(),
            },
        )

    def after_others(self) -> dict[str, Any]:
        """Some jobs start after others, of which some have ended."""
        there = list(Job.objects.filter(deleted_at=None).values_list("name", flat=True))
        if not there or self.random.random() < 0.7:
            return {}
        chosen = self.random.sample(there, min(len(there), self.random.randint(1, 2)))
        return {"dependsOn": [{"job": name, "after": self.random.choice(["success", "end"])} for name in chosen]}

    def drain_or_offer(self) -> None:
        """An admin wants a node empty, or offers it again."""
        status = self.random.choice([Node.Status.DRAINING, Node.Status.ACTIVE, Node.Status.ACTIVE])
        Node.objects.filter(name=self.random.choice(list(self.cluster.engines))).update(status=status)

    def work_some(self) -> None:
        """Orders come late, twice, in another order, or never."""
        orders = [*self.cluster.orders(), *self.late_orders]
        self.cluster.lose_orders()
        self.random.shuffle(orders)
        self.late_orders = [order for order in orders if self.random.random() < 0.15]
        for order in orders:
            if self.random.random() < 0.85:
                tasks.carry_out(*order)
                self.check()

    def worker_dies(self) -> None:
        at = self.random.choice(["pull", "create", "put", "start"])
        for runtime in self.cluster.engines.values():
            runtime.step = dies(at)  # type: ignore[assignment]
        for order in self.cluster.orders()[:1]:
            try:
                tasks.carry_out(*order)
            except WorkerDied:
                pass
        for runtime in self.cluster.engines.values():
            runtime.step = self.in_the_middle

    def finish_one(self) -> None:
        if running := self.running():
            node, status = self.random.choice(running)
            self.cluster.engines[node].finish(status.name, self.random.choice([0, 0, 1, 137]))

    def hold_one(self) -> None:
        """A command for debugging fails, and its container is kept."""
        for node, status in self.running():
            if LABEL_HOLD in status.labels and not status.held:
                self.cluster.engines[node].hold(status.name, self.random.choice([1, 3]))
                return

    def release_one(self) -> None:
        if job := self.any_job():
            services.release(self.cluster.owner, job)

    def stop_one(self) -> None:
        if job := self.any_job():
            services.stop(self.cluster.owner, job)

    def delete_one(self) -> None:
        if job := self.any_job():
            services.delete(self.cluster.owner, job)

    def cut_or_heal(self) -> None:
        name, runtime = self.random.choice(list(self.cluster.engines.items()))
        self.was_away.add(name)
        self.random.choice([runtime.cut, runtime.heal, runtime.heal])()

    def power_loss(self) -> None:
        self.random.choice(list(self.cluster.engines.values())).power_loss()

    def lose_a_container(self) -> None:
        if seen := self.seen():
            node, status = self.random.choice(seen)
            self.cluster.engines[node].remove(status.name)

    def time_passes(self) -> None:
        self.cluster.ahead(self.random.choice([1, 5, 20, 40, 40, 70, 70]))

    def any_job(self) -> Job | None:
        jobs = list(Job.objects.filter(deleted_at=None))
        return self.random.choice(jobs) if jobs else None

    def seen(self) -> list[tuple[str, ContainerStatus]]:
        found: list[tuple[str, ContainerStatus]] = []
        for name, runtime in self.cluster.engines.items():
            try:
                found += [(name, status) for status in runtime.list()]
            except RuntimeFault:
                continue
        return found

    def running(self) -> list[tuple[str, ContainerStatus]]:
        return [(name, status) for name, status in self.seen() if status.phase is Phase.RUNNING]

    def check(self) -> None:
        seen = self.seen()
        gpus = [
            (node, gpu)
            for node, status in seen
            if status.phase is Phase.RUNNING
            for gpu in filter(None, status.labels[LABEL_GPUS].split(","))
        ]
        assert not [gpu for gpu, count in Counter(gpus).items() if count > 1], "a GPU was given twice"
        owners = Counter(status.labels[LABEL_TASK] for _, status in seen)
        assert not [task for task, count in owners.items() if count > 1], "a task has two containers"
        known = _rows("SELECT id, state, container_name, exit_code FROM jobs_task")
        ended = {name: code for _, state, name, code in known if state in TASK_END_STATES}
        for node, status in seen:
            if status.phase is Phase.RUNNING and node not in self.was_away:
                assert status.name not in ended, f"runs on though its task ended with {ended[status.name]}"
        live = {str(id) for id, state, *_ in known if state in TASK_LIVE_STATES}
        held = _rows("SELECT owner, vc, gpu_ids FROM clusters_allocation")
        assert {owner for owner, *_ in held} == live, "an allocation without its live task"
        assert set(_rows(_STARTED)) <= MET, "it started before the jobs that it waits for"
        borrowed = sum(len(json.loads(ids)) for _, vc, ids in held if vc == "a")
        assert borrowed <= self.ceiling, "a virtual cluster is above its ceiling"

    def calm(self) -> None:
        """No more faults: every program ends, time passes."""
        Node.objects.update(status=Node.Status.ACTIVE)
        VirtualCluster.objects.update(max_capacity=100)  # also for jobs that ask for more than their ceiling was
        self.ceiling = 4
        for runtime in self.cluster.engines.values():
            runtime.step = lives
            runtime.heal()
        for _ in range(40):
            self.cluster.settle(4)
            for node, status in self.seen():
                if status.phase is Phase.RUNNING:
                    self.cluster.engines[node].finish(status.name, 0)
            self.cluster.ahead(65)
            self.check()
            if not Job.objects.exclude(state__in=sorted(JOB_END_STATES)).exists() and not self.seen():
                return


_STARTED = """SELECT d.condition, d.ended FROM jobs_dependency d JOIN jobs_job j ON j.id = d.job_id
    WHERE j.state IN ('RUNNING', 'SUCCEEDED')"""


def _rows(query: str) -> list[tuple[Any, ...]]:
    """Of a query that is asked thousands of times: a queryset costs ten times as much."""
    with connection.cursor() as cursor:
        cursor.execute(query)
        return list(cursor.fetchall())


@pytest.fixture
def cheap(monkeypatch: pytest.MonkeyPatch) -> None:
    """A history costs what its portal computes: no disk is waited for, and nobody looks for garbage all the time."""
    monkeypatch.setattr(os, "fsync", lambda _: None)
    gc.freeze()
    Garbage().begin()


@pytest.mark.usefixtures("cheap")
@pytest.mark.parametrize("seed", SEEDS)
def test_every_job_settles_and_nothing_is_given_twice(cluster: Cluster, seed: int) -> None:
    history = History(cluster, seed)
    for _ in range(STEPS):
        history.step()
    history.calm()
    assert list(Job.objects.exclude(state__in=sorted(JOB_END_STATES)).values_list("name", "state")) == []
    assert not Job.objects.exclude(deleted_at=None).exists(), "a deleted job was not purged"
    cluster.assert_clean()
    assert all(node.held == {} for node in Node.objects.all())
