"""What a pass asks of the database: nothing where nobody has written, and no row twice."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from datetime import timedelta
from itertools import pairwise
from types import SimpleNamespace
from unittest.mock import Mock

import pytest
from django.db import OperationalError, connection, transaction
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from clusters.models import Allocation, Node
from clusters.nodes.queries import Ledger
from jobs.history import earlier
from jobs.models import Job, Task
from jobs.scheduling import loop
from jobs.scheduling.rows import written
from tests.builders import make_job, make_node
from tests.cluster import Cluster


@pytest.fixture
def statements() -> Iterator[CaptureQueriesContext]:
    with CaptureQueriesContext(connection) as captured:
        yield captured


def by_another_connection(job: int) -> None:
    def write() -> None:
        Job.objects.filter(id=job).update(priority=7)
        connection.close()

    thread = threading.Thread(target=write)
    thread.start()
    thread.join()


@pytest.mark.django_db(transaction=True)
def test_the_version_differs_once_anybody_has_written() -> None:
    job = make_job().pk
    before = written.version()
    assert list(Job.objects.values_list("priority", flat=True)) == [0]
    assert before is not None and written.version() == before, "reading changes nothing"
    by_another_connection(job)
    others = written.version()
    assert others != before
    Job.objects.filter(id=job).update(priority=8)
    assert written.version() not in (before, others)


@pytest.mark.django_db(transaction=True)
def test_what_was_taken_back_may_count_and_what_is_kept_does() -> None:
    job = make_job().pk
    before = written.version()
    with pytest.raises(ZeroDivisionError), transaction.atomic():
        Job.objects.filter(id=job).update(priority=8)
        _ = 1 / 0
    with transaction.atomic():
        Job.objects.filter(id=job).update(priority=9)
    assert written.version() != before


@pytest.mark.django_db(transaction=True)
@pytest.mark.skipif(connection.vendor != "sqlite", reason="SQLite tells who wrote")
def test_own_changes_are_told_from_those_of_others() -> None:
    job = make_job().pk
    before = written.own_version()
    Job.objects.filter(id=job).update(priority=8)
    own = written.own_version()
    assert before and own and own != before and own[:2] == before[:2]
    by_another_connection(job)
    others = written.own_version()
    assert others and others[:2] != own[:2]


@pytest.mark.django_db(transaction=True)
def test_a_pass_in_which_nobody_has_written_asks_only_whether_anybody_has(
    cluster: Cluster, statements: CaptureQueriesContext
) -> None:
    cluster.add_node(gpus=1)
    first, second = (cluster.submit(name=name, roles=[{"gpuNumber": 1}]) for name in ("first", "second"))
    cluster.settle()
    cluster.tick()
    assert (cluster.job(first).state, cluster.job(second).state) == ("RUNNING", "WAITING")
    looks = {name: watcher.look for name, watcher in cluster._watchers.items() if watcher.look}
    before = len(statements)
    cluster.scheduler.tick(looks)
    assert len(statements) - before == 1
    Job.objects.filter(id=second.pk).update(priority=3, changed_at=timezone.now() + timedelta(seconds=1))
    before = len(statements)
    cluster.scheduler.tick(looks)
    assert len(statements) - before > 5
    assert [job.priority for job in cluster.scheduler._loader._rows.waiting] == [3]


@pytest.mark.django_db
def test_what_somebody_wrote_of_a_nodes_health_is_put_right_in_the_next_pass(cluster: Cluster) -> None:
    cluster.add_node()
    cluster.tick()
    cluster.tick()
    Node.objects.update(health=Node.Health.UNREACHABLE)
    cluster.tick()
    assert Node.objects.get().health == Node.Health.READY


@pytest.mark.django_db(transaction=True)
def test_everything_is_read_again_after_a_minute_all_the_same(
    cluster: Cluster, statements: CaptureQueriesContext
) -> None:
    cluster.tick()
    cluster.ahead(61)
    before = len(statements)
    cluster.tick(look=False)
    assert len(statements) - before > 5


@pytest.mark.django_db(transaction=True)
@pytest.mark.skipif(connection.vendor != "sqlite", reason="SQLite tells who wrote")
def test_that_a_node_was_seen_makes_nobody_read_again(cluster: Cluster, statements: CaptureQueriesContext) -> None:
    cluster.add_node()
    cluster.tick()
    cluster.tick()
    cluster.ahead(20)
    seen = Node.objects.get().last_seen_at
    cluster.tick()
    assert Node.objects.get().last_seen_at > seen + timedelta(seconds=19)
    looks = {name: watcher.look for name, watcher in cluster._watchers.items() if watcher.look}
    before = len(statements)
    cluster.scheduler.tick(looks)
    assert len(statements) - before == 1


@pytest.mark.django_db
def test_a_pass_writes_the_row_of_a_task_that_it_places_once(
    cluster: Cluster, statements: CaptureQueriesContext
) -> None:
    cluster.add_node()
    cluster.tick()
    job = cluster.submit()
    before = len(statements)
    cluster.tick()
    written = [each["sql"] for each in statements.captured_queries[before:] if 'UPDATE "jobs_task"' in each["sql"]]
    assert len(written) == 1
    assert cluster.task(job).ordered_at is not None and cluster.orders()


@pytest.mark.django_db
def test_a_job_that_is_read_again_is_another_object_and_the_others_are_the_same(cluster: Cluster) -> None:
    make_node()
    jobs = [make_job(name=f"j{at}", state="RUNNING", node=Node.objects.get()) for at in range(3)]
    loader = cluster.scheduler._loader
    loader.learn()
    before = loader._rows.live
    Task.objects.filter(job=jobs[1]).update(fact_at=timezone.now())
    loader.learn()
    assert [now is then for now, then in zip(loader._rows.live, before, strict=True)] == [True, False, True]
    assert before[1][0] is loader._rows.live[1][0], "its row is not read for that"


@pytest.mark.django_db
def test_what_is_taken_is_known_whoever_came_and_went_meanwhile() -> None:
    node = make_node(cpus=100)

    def hold(owner: str, cpus: int = 1) -> Allocation:
        return Allocation.objects.create(
            owner=owner, node=node, vc="default", cpus=cpus, memory_mb=1, gpu_ids=["0"], ports=[7]
        )

    ledger, kept = Ledger(), [hold(str(at)) for at in range(3)]
    steps = (
        lambda: None,
        lambda: hold("3"),
        lambda: kept[0].delete(),
        lambda: (kept[1].delete(), hold("1", cpus=5)),  # the same owner has another row
        lambda: (kept[2].delete(), hold("4"), hold("5")),
        lambda: Allocation.objects.all().delete(),
        lambda: hold("6"),
    )
    for step in steps:
        step()
        [view] = ledger.nodes()
        assert view.used_cpus == sum(Allocation.objects.values_list("cpus", flat=True))
        assert {id: each.cpus for id, each in ledger.holds().items()} == dict(
            Allocation.objects.values_list("owner", "cpus")
        )
        assert ledger.use().get("default", {}).get("cpu", 0) == view.used_cpus


@pytest.mark.django_db
def test_what_could_not_be_read_is_read_by_the_next_pass(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """The job has another attempt by then: the tasks of the one before are gone from the picture."""
    cluster.add_node()
    job = cluster.submit(retryCount=3)
    other = cluster.submit(name="other")
    cluster.settle()
    first = cluster.task(job).pk
    cluster.finish(job, 1)
    cluster.tick()
    Job.objects.filter(id=other.pk).update(priority=5, changed_at=timezone.now())
    with monkeypatch.context() as away:
        away.setattr(earlier, "of", Mock(side_effect=OperationalError))
        cluster.work()
        for _ in range(2):
            with pytest.raises(OperationalError):
                cluster.tick()
    cluster.settle()
    live = {one.id: [task.id for task in tasks] for one, tasks in cluster.scheduler._loader._rows.live}
    assert live == {job.pk: [cluster.task(job).pk], other.pk: [cluster.task(other).pk]}
    assert first not in live[job.pk]


@pytest.mark.django_db
def test_turns_that_took_long_are_not_worked_out_again_so_soon(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster.add_node(gpus=1)
    cluster.submit(name="runs", roles=[{"gpuNumber": 1}])
    cluster.settle()
    cluster.submit(name="waits", roles=[{"gpuNumber": 1}])
    costs = list[float]()
    monkeypatch.setattr(loop, "hold_for", lambda cost: costs.append(cost) or timedelta(seconds=40))
    cluster.settle()
    known = len(costs)
    assert known and all(cost > 0 for cost in costs)
    for seconds, times in ((5, known + 1), (30, known + 1), (10, known + 2)):  # the first turns held as always
        cluster.ahead(seconds)
        cluster.tick()
        assert len(costs) == times


@pytest.mark.django_db
def test_passes_that_are_wanted_all_the_time_keep_apart(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not two at once and then a pause. The one that follows a first one comes at once."""
    scheduler, begun = cluster.scheduler, list[float]()
    watch = SimpleNamespace(now=1000.0)

    def tick() -> int:
        begun.append(watch.now)
        watch.now += 0.001
        scheduler.woken.set()
        if len(begun) == 6:
            scheduler.stop()
        return 0

    def sleep(seconds: float) -> None:
        watch.now += seconds + 0.0001  # as a real one does

    monkeypatch.setattr(loop, "time", SimpleNamespace(monotonic=lambda: watch.now, sleep=sleep))
    monkeypatch.setattr("jobs.scheduling.loop.signal.signal", lambda *_: None)
    monkeypatch.setattr(scheduler, "tick", tick)
    scheduler.run()
    gaps = [later - sooner for sooner, later in pairwise(begun)]
    assert gaps[0] < loop.CLOSE
    assert all(gap >= loop.CLOSE for gap in gaps[1:])
