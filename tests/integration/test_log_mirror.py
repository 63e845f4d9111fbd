"""No host alone has a log: what one has copied another goes on with, at the same places."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from base.core.errors import NodeUnreachable
from base.files.store import open_store
from base.files.store.base import StoreUnavailable
from jobs.logs import archive, mirror
from jobs.logs import read as logs
from jobs.logs.follow import hub
from jobs.logs.places import find_archive, place_of
from jobs.logs.read import open_log
from jobs.models import Task
from tests.cluster import Cluster
from tests.fakes.runtime import FakeRuntime
from tests.helpers import LIMIT, until

pytestmark = pytest.mark.django_db(transaction=True)
Host = Callable[[str], None]


@pytest.fixture(autouse=True)
def on_host(settings: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Host]:
    """``on_host("b")``: from now on the process is host b's. All hosts have one store."""
    monkeypatch.setattr(mirror, "is_shared", lambda: True)
    monkeypatch.setattr(mirror, "EVERY", 1000.0)  # tests say when
    monkeypatch.setattr(mirror, "PIECE", 1000)
    monkeypatch.setattr(logs, "PATIENCE", LIMIT)  # an engine in memory is silent only while the machine is busy
    monkeypatch.setattr("base.files.store.local_root", lambda: tmp_path / "store")

    def switch(name: str) -> None:
        followers = list(hub._followers.values())
        hub.close()
        for follower in followers:  # what they have copied is in the store when they have ended
            follower._thread.join(LIMIT)
        settings.HOME = tmp_path / name

    switch("a")
    yield switch
    hub.close()


@pytest.fixture
def task(cluster: Cluster) -> Task:
    cluster.add_node()
    job = cluster.submit()
    cluster.settle()
    return Task.objects.select_related("attempt", "job").get(pk=cluster.task(job).pk)


@pytest.fixture
def engine(cluster: Cluster, task: Task) -> FakeRuntime:
    return cluster.engines["n1"]


def text(count: int, first: int = 0) -> bytes:
    return b"".join(b"line %d %s\n" % (n, b"x" * (n % 90)) for n in range(first, first + count))


def read(task: Task) -> bytes:
    return b"".join(logs.open_log(task, "stdout").view.pieces())


def test_what_the_engine_has_no_longer_another_host_has_at_the_same_places(
    engine: FakeRuntime, task: Task, on_host: Host
) -> None:
    engine.print(task.container_name, text(100))
    before = open_log(task, "stdout").view
    on_host("b")
    engine.rotate(task.container_name)
    engine.print(task.container_name, text(20, 100))
    view = open_log(task, "stdout").view
    assert read(task) == text(120)
    assert view.start_of(77) == before.start_of(77)
    assert view.times is not None and before.times is not None
    assert list(view.times.read(0, 100)) == list(before.times.read(0, 100))


def test_a_log_of_a_node_that_is_silent_is_read_on_a_host_that_never_followed_it(
    engine: FakeRuntime, task: Task, on_host: Host
) -> None:
    engine.print(task.container_name, text(100))
    assert read(task) == text(100)
    on_host("b")
    engine.cut()
    with pytest.raises(NodeUnreachable):
        read(task)
    log = open_log(task, "stdout", stale=True, patience=LIMIT)
    assert b"".join(log.view.pieces()) == text(100) and log.note


def test_a_host_that_dies_loses_what_came_since_it_last_wrote_and_the_engine_has_that(
    engine: FakeRuntime, task: Task, on_host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine.print(task.container_name, text(100))
    read(task)
    follower = hub.attach(task.pk, "stdout")
    follower.flush()
    monkeypatch.setattr(mirror.Mirror, "flush", lambda *_: None)  # from here on host a is dead
    engine.print(task.container_name, text(30, 100))
    on_host("b")
    assert read(task) == text(130)


def test_what_viewers_of_another_host_saw_is_archived_when_the_container_is_gone(
    cluster: Cluster, engine: FakeRuntime, task: Task, on_host: Host
) -> None:
    engine.print(task.container_name, text(100))
    read(task)
    on_host("b")
    engine.remove(task.container_name)
    archive.archive(task)
    kept = find_archive(place_of(task))
    assert kept is not None and not kept.complete
    cluster.settle()
    assert b"".join(open_store().open_read(f"{place_of(task).folder}/stdout")) == text(100)
    assert kept.streams["stdout"]["lines"] == 100
    assert sorted(entry.name for entry in open_store().list(place_of(task).folder)) == [
        "index.json",
        "stdout",
        "stdout.times",
    ]


def test_an_archived_log_has_no_copy_left_whoever_writes_last(engine: FakeRuntime, task: Task) -> None:
    engine.print(task.container_name, text(10))
    read(task)
    follower = hub.attach(task.pk, "stdout")
    follower.flush()
    archive.archive(task)
    engine.print(task.container_name, text(10, 10))
    read_more = open_log(task, "stdout")
    follower.flush()
    hub.close()
    assert read_more.ended
    assert "live" not in [entry.name for entry in open_store().list(place_of(task).folder)]


def test_a_copy_that_is_not_whole_is_not_begun_with(engine: FakeRuntime, task: Task, on_host: Host) -> None:
    engine.print(task.container_name, text(100))
    read(task)
    on_host("b")
    open_store().delete(f"{place_of(task).folder}/live/stdout-000002")
    assert read(task) == text(100)
    on_host("c")  # host b wrote it anew
    engine.cut()
    assert open_log(task, "stdout", stale=True, patience=LIMIT).view.size == len(text(100))


def test_while_the_store_is_down_the_engine_is_enough(
    engine: FakeRuntime, task: Task, monkeypatch: pytest.MonkeyPatch
) -> None:
    def down() -> None:
        raise StoreUnavailable

    monkeypatch.setattr(mirror, "open_store", down)
    engine.print(task.container_name, text(100))
    assert read(task) == text(100)


def test_of_two_that_copy_the_one_that_is_behind_takes_nothing_back(engine: FakeRuntime, task: Task) -> None:
    engine.print(task.container_name, text(100))
    read(task)
    follower = hub.attach(task.pk, "stdout")
    behind = mirror.Mirror(place_of(task), "stdout")
    state = follower.spool.state()
    engine.print(task.container_name, text(50, 100))
    until(lambda: follower.spool.state().size == len(text(150)))
    follower.flush()
    behind._write(open_store(), follower.spool, state)
    there = mirror.stored(open_store(), place_of(task), "stdout")
    assert there is not None and there.size == len(text(150)) > state.size
