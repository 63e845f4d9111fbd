"""Turns to look: few threads for many engines, and none that waits for another."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator

import pytest

from clusters.engines import schemes
from clusters.engines import turns as turning
from clusters.engines import watch as watching
from clusters.engines.runtime import LABEL_TASK, ContainerRequest
from clusters.engines.turns import Turns
from clusters.engines.watch import Watched, Watchers
from tests.fakes.runtime import FakeRuntime
from tests.helpers import until


@pytest.fixture
def turns() -> Iterator[Turns]:
    turns = Turns()
    turns.keep()
    yield turns
    turns.stop()


def at_once(turns: Turns, do: Callable[[], None]) -> None:
    turns.at(time.monotonic(), do)


def test_each_gets_its_turn_when_it_is_due(turns: Turns) -> None:
    seen: list[str] = []
    now = time.monotonic()
    for name, later in (("third", 0.3), ("first", 0.0), ("second", 0.15)):
        turns.at(now + later, lambda name=name: seen.append(name))  # type: ignore[misc]
    until(lambda: len(seen) == 3, what="all had their turn")
    assert seen == ["first", "second", "third"]


def test_what_hangs_delays_no_other(turns: Turns, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turning, "QUICK", 0.05)
    monkeypatch.setattr(turning, "MOST", 4)
    free, done = threading.Event(), threading.Event()
    for _ in range(20):
        at_once(turns, lambda: bool(free.wait(30)))  # type: ignore[arg-type,return-value]
    at_once(turns, done.set)
    assert done.wait(20)
    free.set()


def test_what_raises_stops_nothing(turns: Turns) -> None:
    done = threading.Event()
    at_once(turns, lambda: 1 / 0)  # type: ignore[arg-type,return-value]
    at_once(turns, done.set)
    assert done.wait(20)


def test_an_engine_has_one_thread_and_is_seldom_asked_while_nothing_happens(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watching, "LIST_EVERY", 30.0)
    runtimes = {f"fake://n{at}": FakeRuntime(hostname=f"n{at}") for at in range(20)}
    schemes.use(lambda endpoint, _: runtimes[endpoint])
    watch = Watchers(lambda: None)
    try:
        watch.keep_up({f"n{at}": Watched(f"fake://n{at}") for at in range(20)})
        until(lambda: len(watch.looks()) == 20, 30, what="all were looked at")
        assert len(watch.threads()) == 21
        before = {endpoint: runtime.calls["list"] for endpoint, runtime in runtimes.items()}
        time.sleep(0.3)
        assert {endpoint: runtime.calls["list"] for endpoint, runtime in runtimes.items()} == before
    finally:
        watch.stop()
        schemes.use(None)


def test_docker_is_looked_at_several_times_after_an_event_and_a_cluster_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watching, "LIST_EVERY", 30.0)
    runtimes = {endpoint: FakeRuntime(hostname=endpoint) for endpoint in ("unix:///d.sock", "kubernetes://lab/jobs")}
    docker, cluster = runtimes.values()
    for runtime in (docker, cluster):
        runtime.ensure(ContainerRequest("one", "image", ("sh",), labels={LABEL_TASK: "1"}))
        runtime.wait_event(0, lambda: None)
    schemes.use(lambda endpoint, _: runtimes[endpoint])
    watch = Watchers(lambda: None)
    try:
        watch.keep_up({endpoint: Watched(endpoint) for endpoint in runtimes})
        until(lambda: all(one.calls["wait_event"] == 2 for one in runtimes.values()), 30, what="both are watched")
        until(lambda: len(watch.looks()) == 2, 30, what="both were looked at")
        cluster.hold("one")
        until(lambda: cluster.calls["list"] == 2, 30, what="the look after the event")
        docker.hold("one")
        until(lambda: docker.calls["list"] >= 5, 30, what="the looks after the event")
        assert cluster.calls["list"] == 2
    finally:
        watch.stop()
        schemes.use(None)


def test_an_engine_that_hangs_is_looked_at_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    free = threading.Event()

    class Hanging(FakeRuntime):
        first = True

        def list(self, *, doubted: bool = False):  # type: ignore[no-untyped-def]
            if self.first:
                self.first = False
                free.wait(30)
            return super().list(doubted=doubted)

    monkeypatch.setattr(watching, "LONGEST_LOOK", 0.1)
    runtime = Hanging(hostname="n1")
    schemes.use(lambda endpoint, _: runtime)
    watch = Watchers(lambda: None)
    try:
        watch.keep_up({"n1": Watched("fake://n1")})
        until(lambda: not runtime.first, 30, what="the first look hangs")
        time.sleep(0.15)
        watch.keep_up({"n1": Watched("fake://n1")})
        until(lambda: "n1" in watch.looks(), 30, what="another look")
    finally:
        free.set()
        watch.stop()
        schemes.use(None)
