"""A whole portal in one thread, on engines in memory: the real scheduler, the real workers' code, the real queue.

A test says when each acts, so that a crash between any two steps can be played: ``tick`` is one pass of the scheduler,
``work`` carries out what is in the queue, ``lose_orders`` empties it instead.
"""

from __future__ import annotations

import itertools
import json
import time
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

from django_q.models import OrmQ
from django_q.signing import SignedPackage

from base.models import User
from base.wakes.lease import Lease
from clusters.engines import schemes
from clusters.engines.runtime import ContainerStatus, Phase, RuntimeFault
from clusters.engines.watch import Watched, Watcher
from clusters.models import Allocation, Node
from jobs import services
from jobs.containers import tasks
from jobs.models import Attempt, Event, Job, Task
from jobs.scheduling.loop import Scheduler
from tests.fakes.runtime import Behaviour, FakeRuntime

IMAGE = "lab/image:1"
_BEGAN = datetime(2000, 1, 1, tzinfo=UTC)


def config(name: str = "j1", *, roles: list[dict[str, Any]] | None = None, **values: Any) -> str:
    """A job config; a role is {"name": "w"} plus what differs from one task with 1 core and 100 MB."""
    default = {"taskNumber": 1, "cpuNumber": 1, "memoryMB": 100, "gpuNumber": 0, "command": "work"}
    written = [{**default, "name": "worker", **role} for role in roles or [{}]]
    return json.dumps({"jobName": name, "image": IMAGE, "taskRoles": written, **values})


class Clock:
    """What ``timezone.now`` and the steady clock say in the portal under test: the moment at which it began and what
    the test added, however busy the machine is; a microsecond more at each look, so that no two stamps are equal.
    ``set`` is how far somebody has set the time of day alone forward or back."""

    def __init__(self) -> None:
        self.late = self.set = timedelta(0)
        self._began = datetime.now(UTC), _BEGAN + timedelta(seconds=time.monotonic())
        self._looks = itertools.count()

    def now(self) -> datetime:
        return self._began[0] + self._passed() + self.set

    def steady(self) -> datetime:
        return self._began[1] + self._passed()

    def _passed(self) -> timedelta:
        return self.late + timedelta(microseconds=next(self._looks))


class Cluster:
    def __init__(self, owner: User, clock: Clock) -> None:
        self.owner = owner
        self.clock = clock
        self.engines: dict[str, FakeRuntime] = {}
        self.look_wanted: set[str] = set()  # nodes of which the scheduler doubts the picture
        self.scheduler = self.new_scheduler()
        self.scheduler.lease.try_take()
        self._watchers: dict[str, Watcher] = {}
        schemes.set_engine_factory(lambda endpoint, _: self.engines[endpoint.removeprefix("fake://")])

    # --- the set-up ------------------------------------------------------------------------------------------------

    def add_node(self, name: str = "n1", *, gpus: int = 0, gpu_type: str = "", **values: Any) -> FakeRuntime:
        runtime = FakeRuntime(hostname=name, images=frozenset({IMAGE}))
        self.engines[name] = runtime
        fields = {"address": f"10.0.0.{len(self.engines)}", "cpus": 8, "memory_mb": 16000, **values}
        listed = [{"id": str(n), "type": gpu_type} for n in range(gpus)]
        Node.objects.create(name=name, endpoint=f"fake://{name}", gpus=listed, **fields)
        return runtime

    def submit(self, text: str | None = None, **values: Any) -> Job:
        return services.submit(self.owner, text or config(**values))

    def new_scheduler(self, lease: Lease | None = None) -> Scheduler:
        """One that does not look at nodes by itself."""
        made = Scheduler(lease)
        made.watch.keep_up = lambda nodes: None  # type: ignore[method-assign]
        made.watch.look_again = self.look_wanted.update  # type: ignore[method-assign, assignment]
        return made

    # --- one step each ---------------------------------------------------------------------------------------------

    def tick(self, *, look: bool = True) -> int:
        """Look at every node (or act on the last look), then one pass."""
        for name in Node.objects.values_list("name", flat=True) if look else ():
            watcher = self._watchers.setdefault(name, Watcher(name, Watched(f"fake://{name}"), lambda: None))
            watcher.look_now(doubted=name in self.look_wanted)
            self.look_wanted.discard(name)
        return self.scheduler.tick({name: watcher.look for name, watcher in self._watchers.items() if watcher.look})

    def orders(self) -> list[tuple[str, int, str, str]]:
        return [order for row in OrmQ.objects.order_by("id") for order in SignedPackage.loads(row.payload)["args"][0]]

    def work(self, only: Callable[[tuple[str, int, str, str]], bool] = lambda order: True) -> int:
        """Carry out every order in the queue, as a worker would."""
        found = [order for order in self.orders() if only(order)]
        self.lose_orders()
        for order in found:
            tasks.carry_out(*order)
        return len(found)

    def lose_orders(self) -> None:
        OrmQ.objects.all().delete()

    def settle(self, rounds: int = 12) -> None:
        """Tick and work until nothing changes any more."""
        for _ in range(rounds):
            changed = self.tick()
            if not self.work() and not changed and not self.look_wanted:
                return

    # --- what a test looks at --------------------------------------------------------------------------------------

    def job(self, job: Job) -> Job:
        return Job.objects.get(pk=job.pk)

    def tasks(self, job: Job) -> list[Task]:
        current = Job.objects.get(pk=job.pk)
        return list(Task.objects.filter(job=job, attempt__number=current.attempt_number).order_by("id"))

    def task(self, job: Job, at: int = 0) -> Task:
        return self.tasks(job)[at]

    def attempts(self, job: Job) -> list[Attempt]:
        return list(Attempt.objects.filter(job=job).order_by("number"))

    def kinds(self, job: Job) -> list[str]:
        return list(Event.objects.filter(job=job).order_by("id").values_list("kind", flat=True))

    def containers(self, phase: Phase | None = None) -> list[ContainerStatus]:
        found = [status for runtime in self.engines.values() for status in self._all(runtime)]
        return [status for status in found if phase in (None, status.phase)]

    def _all(self, runtime: FakeRuntime) -> Iterable[ContainerStatus]:
        try:
            return runtime.list()
        except RuntimeFault:
            return []

    def finish(self, job: Job, code: int = 0, at: int = 0, *, oom: bool = False) -> None:
        task = self.task(job, at)
        self.engines[task.node].finish(task.container_name, code, oom=oom)

    def allocated(self) -> int:
        return Allocation.objects.count()

    def assert_clean(self) -> None:
        """Nothing is left of jobs that have ended."""
        assert self.containers() == []
        assert self.allocated() == 0

    @staticmethod
    def runs(exit_code: int | None, **values: Any) -> Behaviour:
        return Behaviour(exit_code=exit_code, **values)

    def ahead(self, seconds: float) -> None:
        self.clock.late += timedelta(seconds=seconds)
