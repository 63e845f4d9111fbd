"""Turns to look: few threads for many engines, and none that waits for another."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from functools import partial

import pytest

from clusters.engines import schemes
from clusters.engines import watch as watching
from clusters.engines import watcher_pool as turning
from clusters.engines.runtime import LABEL_TASK, ContainerRequest
from clusters.engines.watch import Watched, Watchers
from clusters.engines.watcher_pool import WatcherPool
from tests.fakes.runtime import FakeRuntime
from tests.helpers import LIMIT, until

HOUR = 3600.0


@pytest.fixture(autouse=True)
def _unhurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """However long a test takes, nothing is looked at again for the time that has passed alone."""
    monkeypatch.setattr(watching, "LIST_EVERY", HOUR)
    monkeypatch.setattr(watching, "MOST_PAUSE", HOUR)
    monkeypatch.setattr(watching, "EVENT_WINDOW", HOUR)
    monkeypatch.setattr(watching, "OLD", timedelta(seconds=HOUR))


@pytest.fixture
def turns() -> Iterator[WatcherPool]:
    turns = WatcherPool()
    turns.ensure_running()
    yield turns
    turns.stop()


def at_once(turns: WatcherPool, do: Callable[[], None]) -> None:
    turns.at(time.monotonic(), do)


@contextmanager
def watching_all(runtimes: Mapping[str, FakeRuntime]) -> Iterator[Watchers]:
    """Watchers of these engines by their endpoints, which end with the block, their threads too."""
    schemes.set_engine_factory(lambda endpoint, _: runtimes[endpoint])
    watch = Watchers(lambda: None)
    try:
        yield watch
    finally:
        watch.stop()
        for runtime in runtimes.values():
            runtime.cut()
        schemes.set_engine_factory(None)


def test_each_gets_its_turn_when_it_is_due() -> None:
    class Noting(WatcherPool):
        def _begin(self, do: Callable[[], None]) -> None:
            begun.append(do.args[0])  # type: ignore[attr-defined]
            super()._begin(do)

    begun: list[str] = []
    seen: dict[str, float] = {}
    turns, now = Noting(), time.monotonic()
    due = {"third": 0.3, "first": 0.0, "second": 0.15}
    for name, later in due.items():
        turns.at(now + later, partial(lambda name: seen.update({name: time.monotonic()}), name))
    turns.ensure_running()
    until(lambda: len(seen) == 3, what="all had their turn")
    turns.stop()
    assert begun == ["first", "second", "third"]
    assert all(seen[name] >= now + later for name, later in due.items())


def test_what_hangs_delays_no_other(turns: WatcherPool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turning, "QUICK", 0.05)
    monkeypatch.setattr(turning, "MOST", 4)
    free, done = threading.Event(), threading.Event()
    try:
        for _ in range(20):
            at_once(turns, lambda: bool(free.wait()))  # type: ignore[arg-type,return-value]
        at_once(turns, done.set)
        assert done.wait(LIMIT)
    finally:
        free.set()


def test_what_raises_stops_nothing(turns: WatcherPool) -> None:
    done = threading.Event()
    at_once(turns, lambda: 1 / 0)  # type: ignore[arg-type,return-value]
    at_once(turns, done.set)
    assert done.wait(LIMIT)


def test_an_engine_has_one_thread_and_is_seldom_asked_while_nothing_happens() -> None:
    runtimes = {f"fake://n{at}": FakeRuntime(hostname=f"n{at}") for at in range(20)}
    with watching_all(runtimes) as watch:
        watch.keep_up({f"n{at}": Watched(f"fake://n{at}") for at in range(20)})
        until(lambda: len(watch.looks()) == 20, 30, what="all were looked at")
        assert len(watch.threads()) == 21
        until(lambda: all(runtime.calls["wait_event"] for runtime in runtimes.values()), 30, what="all are followed")
        queue = watch._turns._due
        until(lambda: len(queue.queue) == 20, 30, what="each has one more turn")
        assert all(turn.time > time.monotonic() + HOUR / 2 for turn in queue.queue)
        assert {(runtime.calls["list"], runtime.calls["wait_event"]) for runtime in runtimes.values()} == {(1, 1)}


def test_docker_is_looked_at_several_times_after_an_event_and_a_cluster_once() -> None:
    runtimes = {endpoint: FakeRuntime(hostname=endpoint) for endpoint in ("unix:///d.sock", "kubernetes://lab/jobs")}
    docker, cluster = runtimes.values()
    for runtime in (docker, cluster):
        runtime.ensure(ContainerRequest("one", "image", ("sh",), labels={LABEL_TASK: "1"}))
        runtime.wait_event(0, lambda: None)
    with watching_all(runtimes) as watch:
        watch.keep_up({endpoint: Watched(endpoint) for endpoint in runtimes})
        until(lambda: all(one.calls["wait_event"] == 2 for one in runtimes.values()), 30, what="both are watched")
        until(lambda: len(watch.looks()) == 2, 30, what="both were looked at")
        cluster.hold("one")
        until(lambda: cluster.calls["list"] == 2, 30, what="the look after the event")
        docker.hold("one")
        until(lambda: docker.calls["list"] >= 5, 30, what="the looks after the event")
        assert cluster.calls["list"] == 2


def test_an_engine_that_hangs_is_looked_at_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    free = threading.Event()

    class Hanging(FakeRuntime):
        first = True

        def list(self, *, doubted: bool = False):  # type: ignore[no-untyped-def]
            if self.first:
                self.first = False
                free.wait()
            return super().list(doubted=doubted)

    monkeypatch.setattr(watching, "LONGEST_LOOK", 0.1)
    runtime = Hanging(hostname="n1")
    with watching_all({"fake://n1": runtime}) as watch:

        def is_looked_at() -> bool:
            watch.keep_up({"n1": Watched("fake://n1")})
            return "n1" in watch.looks()

        try:
            until(is_looked_at, 30, what="another look, while the first one hangs")
            assert not runtime.first
        finally:
            free.set()
