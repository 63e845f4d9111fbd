"""Two schedulers beside each other, either of which may stand still for a minute at the worst moment, lose its
connection before or after a commit, or have its clock set: every job settles, and nothing is done twice.

Each seed is one history, on the real scheduler, planner, lease and workers' code. LONGSHORE_SEEDS=2000 runs more of
them; LONGSHORE_FIRST_SEED=15 begins elsewhere.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

import pytest
from django.db import OperationalError

from base.models import LeaseRow
from base.wakes.lease import PATIENCE, Fenced, Lease
from jobs.models import Job
from jobs.planning.lifecycle import JOB_END_STATES
from jobs.scheduling.loop import Scheduler
from jobs.scheduling.rows.stamps import Stamps
from tests.cluster import Cluster
from tests.integration.test_simulation import History

pytestmark = pytest.mark.django_db
FIRST = int(os.environ.get("LONGSHORE_FIRST_SEED", "0"))
SEEDS = range(FIRST, FIRST + int(os.environ.get("LONGSHORE_SEEDS", "15")))
STEPS = 30


class TroubledLease(Lease):
    """Right before a transaction its process may stand still while the world goes on, and right before or right after
    its commit the connection may break."""

    history: TwoSchedulers

    @contextmanager
    def writing(self) -> Iterator[None]:
        trouble = self.history.trouble()
        if trouble == "stands still":
            self.history.goes_on_without(self.holder)
        if trouble == "breaks before":
            raise OperationalError("the connection is gone")
        with super().writing():
            assert LeaseRow.objects.get().holder == self.holder, "it writes though the lease is another's"
            yield
        if trouble == "breaks after":
            raise OperationalError("the connection is gone; whether it was committed is not known")


class TwoSchedulers(History):
    def __init__(self, cluster: Cluster, seed: int) -> None:
        super().__init__(cluster, seed)
        self.schedulers = {name: self._scheduler(name) for name in ("first", "second")}
        self.clocks = {"first": 0.0, "second": 0.0, "workers": 0.0}  # seconds by which somebody has set them
        self.standing: set[str] = set()  # schedulers in the middle of a pass
        self.calm_now = False
        self.tick = cluster.tick
        cluster.tick = self.some_pass  # type: ignore[method-assign]
        self.turns: Counter[str] = Counter()

    def _scheduler(self, name: str) -> Scheduler:
        lease = TroubledLease("scheduler", holder=name)
        lease.history = self
        return self.cluster.new_scheduler(lease)

    def trouble(self) -> str:
        if self.calm_now:
            return ""
        kinds = {"": 12, "stands still": 2, "breaks before": 1, "breaks after": 1}
        return self.random.choices(list(kinds), list(kinds.values()))[0]

    def some_pass(self, *, look: bool = True) -> int:
        """Of whichever scheduler; only the holder of the lease gets far."""
        free = sorted(self.schedulers.keys() - self.standing)
        if not free:
            return 0
        name = self.random.choice(free)
        scheduler = self.schedulers[name]
        self.cluster.clock.set = timedelta(seconds=self.clocks[name])
        self.standing.add(name)
        try:
            if scheduler.lease.epoch is None and not scheduler.lease.try_take():
                return 0
            self.turns[name] += 1
            self.cluster.scheduler = scheduler
            changed = self.tick(look=look)
            scheduler.invariants.check(scheduler.lease, self.cluster.clock.now())
            return changed
        except Fenced:
            scheduler._forget()
            return 1
        except OperationalError:
            return 1
        finally:
            self.standing.discard(name)

    def goes_on_without(self, holder: str) -> None:
        """It sleeps: for a moment, or long enough to lose the lease, which it does not notice."""
        if self.depth >= 2:
            return
        self.depth += 1
        for seconds in self.random.choice([(1,), (PATIENCE.total_seconds() / 2 + 1,) * 4]):
            self.some_pass()
            self.cluster.ahead(seconds)
            self.some_pass()
            self.work_some()
            self.finish_one()
        self.depth -= 1

    def between_two_reads(self) -> None:
        """The picture of the database is read in several queries, and the other one writes in between."""
        for name in sorted(self.standing):
            if self.trouble() == "stands still":
                self.goes_on_without(name)

    def set_a_clock(self) -> None:
        whose = self.random.choice(list(self.clocks))
        self.clocks[whose] = self.random.choice([0, 0, -3600, -60, 60, 3600])

    def work_some(self) -> None:
        self.cluster.clock.set = timedelta(seconds=self.clocks["workers"])
        super().work_some()

    def calm_down(self) -> None:
        """Whose turn it is is chance, and a pass of the one that has no lease does nothing: so it takes as long as it
        takes, and only what stays for ever is left."""
        for _ in range(10):
            self.calm()
            for _ in range(20):
                self.cluster.settle(1)
                self.cluster.ahead(5)
            if not (Job.objects.exclude(state__in=sorted(JOB_END_STATES), deleted_at=None).exists() or self.seen()):
                return

    def step(self) -> None:
        if self.random.random() < 0.1:
            self.set_a_clock()
        super().step()


@pytest.mark.parametrize("seed", SEEDS)
def test_every_job_settles_and_nothing_is_done_twice(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    history = TwoSchedulers(cluster, seed)
    read = Stamps.read
    monkeypatch.setattr(Stamps, "read", lambda of: history.between_two_reads() or read(of))
    for _ in range(STEPS):
        history.step()
    history.calm_now = True
    history.calm_down()
    assert list(Job.objects.exclude(state__in=sorted(JOB_END_STATES)).values_list("name", "state")) == []
    assert not Job.objects.exclude(deleted_at=None).exists(), "a deleted job was not purged"
    cluster.assert_clean()
    for scheduler in history.schedulers.values():
        assert (scheduler.invariants.healed, scheduler.invariants.broken) == (0, 0), "a pass left something wrong"
