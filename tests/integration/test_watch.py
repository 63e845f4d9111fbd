"""Nothing blinds the scheduler: no exception in a watcher, no database that is away, no look that is old."""

from __future__ import annotations

import io
from collections.abc import Iterator

import pytest
from django.conf import settings
from django.db import InterfaceError
from django.utils import timezone
from django_q.models import OrmQ
from django_q.signing import SignedPackage

from clusters.engines import schemes
from clusters.engines.runtime import LABEL_INSTANCE, LABEL_TASK, ContainerStatus, Phase
from clusters.engines.watch import OLD, Watched, Watchers
from clusters.models import Node
from clusters.nodes import survey
from jobs.models import Event
from tests.cluster import IMAGE, Cluster
from tests.fakes.runtime import FakeRuntime
from tests.helpers import until


class Failing(FakeRuntime):
    """Its first lists raise what nobody expects."""

    left = 3

    def list(self, *, doubted: bool = False) -> list[ContainerStatus]:
        if self.left:
            self.left -= 1
            raise InterfaceError("connection already closed")
        return super().list(doubted=doubted)


@pytest.fixture
def failing() -> Iterator[Failing]:
    runtime = Failing(hostname="n1", images=frozenset({IMAGE}))
    schemes.set_engine_factory(lambda endpoint, _: runtime)
    yield runtime
    schemes.set_engine_factory(None)


def test_a_watcher_outlives_any_exception_and_needs_no_database(failing: Failing) -> None:
    watch = Watchers(lambda: None)
    try:
        watch.keep_up({"n1": Watched("fake://n1")})
        until(lambda: "n1" in watch.looks(), 30, what="the look that works")
        assert failing.left == 0
    finally:
        watch.stop()


def test_a_node_that_moved_gets_another_watcher(failing: Failing) -> None:
    watch = Watchers(lambda: None)
    try:
        watch.keep_up({"n1": Watched("fake://old")})
        threads = watch.threads()
        watch.keep_up({"n1": Watched("fake://old")})
        assert watch.threads() == threads
        watch.keep_up({"n1": Watched("fake://new")})
        assert not set(watch.threads()[1:]) & set(threads[1:])
    finally:
        watch.stop()


def test_it_watches_again_after_it_was_stopped(failing: Failing) -> None:
    """A scheduler that lost the lease stops watching, and begins again when it has it back."""
    watch = Watchers(lambda: None)
    try:
        for _ in range(2):
            watch.keep_up({"n1": Watched("fake://n1")})
            until(lambda: "n1" in watch.looks(), 30, what="a look")
            watch.stop()
            assert watch.looks() == {}
    finally:
        watch.stop()


class Several(FakeRuntime):
    """An engine of two nodes."""

    def list(self, *, doubted: bool = False) -> list[ContainerStatus]:
        labels = {LABEL_TASK: "1", LABEL_INSTANCE: settings.INSTANCE}
        return [ContainerStatus(node, f"on-{node}", Phase.RUNNING, labels, node=node) for node in ("n1", "n2")]


def test_nodes_of_one_engine_are_watched_once_and_told_apart() -> None:
    schemes.set_engine_factory(lambda endpoint, _: Several(hostname="control"))
    watch = Watchers(lambda: None)
    try:
        watch.keep_up({name: Watched("fake://control") for name in ("n1", "n2")})
        assert len(watch.threads()) == 2
        until(lambda: len(watch.looks()) == 2, 30, what="the first look")
        found = {name: (look.node, list(look.containers)) for name, look in watch.looks().items()}
        assert found == {"n1": ("n1", ["on-n1"]), "n2": ("n2", ["on-n2"])}
    finally:
        watch.stop()
        schemes.set_engine_factory(None)


@pytest.mark.django_db
def test_an_image_that_was_built_on_a_node_is_listed_as_soon_as_its_engine_tells(cluster: Cluster) -> None:
    engine = cluster.add_node()
    Node.objects.update(surveyed_at=timezone.now())
    watch = cluster.scheduler.watch = Watchers(lambda: None)
    try:
        watch.keep_up({"n1": Watched("fake://n1")})
        until(lambda: engine.calls["wait_event"], 30, what="it is watched")
        engine.import_image("lab/built:1", io.BytesIO(), ())
        until(lambda: any(one.has_new_images for one in watch._watchers.values()), 30, what="the event")
        cluster.scheduler._do_routine()
        orders = [SignedPackage.loads(row.payload) for row in OrmQ.objects.all()]
        (names,) = [order["args"][0] for order in orders if order["func"] == "jobs.containers.tasks.survey"]
        for name, thorough in names:
            survey.survey(name, thorough=thorough)
        assert "lab/built:1" in Node.objects.get().images
        assert watch.new_images() in ([], ["n1"]), "the survey may have put the sample image there"
    finally:
        watch.stop()


@pytest.mark.django_db
def test_an_old_look_says_nothing(cluster: Cluster) -> None:
    cluster.add_node(cpus=4)
    runs = cluster.submit()
    cluster.settle()
    blind = Watchers(lambda: None)
    cluster.scheduler.watch = blind
    blind._watchers = cluster._watchers
    cluster.ahead(OLD.total_seconds() + 1)
    assert blind.looks() == {}
    assert blind.blind()["n1"] > OLD.total_seconds()
    blind.keep_up = lambda nodes: None  # type: ignore[method-assign]
    waits = cluster.submit(name="waits")
    cluster.ahead(600)
    cluster.scheduler.tick()
    assert cluster.job(runs).state == "RUNNING", "not lost: nobody has asked the node"
    assert cluster.job(waits).state == "WAITING", "nothing is placed on a node that nobody sees"
    node = Node.objects.get()
    assert (node.health, "Nobody has seen it" in node.health_reason) == ("unreachable", True)
    assert Event.objects.filter(kind="node.unreachable").count() == 1
    cluster.tick()
    assert Node.objects.get().health == "ready"
    assert cluster.job(waits).state == "RUNNING"


def test_without_a_node_no_thread_is_missed() -> None:
    watch = Watchers(lambda: None)
    watch.keep_up({})
    assert watch.threads() == []
