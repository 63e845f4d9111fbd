"""The live log: at once, every line once, whatever breaks in between; and no more than a page can take."""

from __future__ import annotations

import asyncio
import errno
import os
import random
import threading
import time
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from django.db import connections

from base.core.errors import NodeUnreachable
from clusters.engines.runtime import FaultReason, RuntimeFault
from jobs.logs import follow
from jobs.logs import read as logs
from jobs.logs.follow import LogFollower, TooManyLogs, hub
from jobs.logs.read import open_log
from jobs.logs.spool import Spool
from jobs.logs.together import live as log_live
from jobs.logs.together.batches import batch_of
from jobs.models import Task
from tests.cluster import Cluster
from tests.fakes.runtime import FakeRuntime
from tests.helpers import LIMIT, in_gate, quick, until
from tests.logs import Viewer

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def home(settings: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    settings.HOME = tmp_path
    monkeypatch.setattr(log_live, "INTERVAL", 0.01)
    monkeypatch.setattr(logs, "PATIENCE", LIMIT)  # an engine in memory is silent only while the machine is busy
    yield
    hub.close()


@pytest.fixture
def task(cluster: Cluster) -> Task:
    cluster.add_node()
    job = cluster.submit()
    cluster.settle()
    return cluster.task(job)


@pytest.fixture
def engine(cluster: Cluster, task: Task) -> FakeRuntime:
    return cluster.engines["n1"]


def has(count: int) -> Any:
    return lambda viewer, kind: len(viewer.lines) >= count


def test_what_is_written_arrives_at_once(engine: FakeRuntime, task: Task) -> None:
    async def watch() -> None:
        viewer = Viewer()
        engine.print(task.container_name, b"one\n")
        watching = asyncio.create_task(viewer.watch(task.pk, until=has(2), timeout=LIMIT))
        async with asyncio.timeout(LIMIT):
            while not viewer.lines:
                await asyncio.sleep(0.01)
        with quick(0.5, "a line of a log arrives"):
            engine.print(task.container_name, b"two\n")
            await watching
        assert viewer.text() == ["one", "two"]

    asyncio.run(watch())


def test_it_ends_when_the_container_has_ended_and_all_is_sent(
    cluster: Cluster, engine: FakeRuntime, task: Task
) -> None:
    engine.print(task.container_name, b"a\nb\nc")

    async def watch() -> Viewer:
        viewer = Viewer()
        watching = asyncio.create_task(viewer.watch(task.pk, timeout=LIMIT))
        await asyncio.sleep(0)
        await asyncio.to_thread(engine.finish, task.container_name)
        await watching
        return viewer

    viewer = asyncio.run(watch())
    assert viewer.text() == ["a", "b", "c"]
    assert viewer.ended == {"lines": 3, "size": 5}


def test_a_partial_line_grows_under_its_number(engine: FakeRuntime, task: Task) -> None:
    async def watch() -> list[str]:
        viewer, seen = Viewer(), []
        engine.print(task.container_name, b"10 %")

        def look(viewer: Viewer, kind: str) -> bool:
            if kind == "lines":
                seen.append(viewer.lines[1])
                engine.print(task.container_name, [b"\r50 %", b"\r100 %\n", b"done\n", b""][len(seen) - 1])
            return len(viewer.lines) == 2

        await viewer.watch(task.pk, until=look, timeout=LIMIT)
        assert viewer.text() == ["100 %", "done"]
        return seen

    assert asyncio.run(watch())[:3] == ["10 %", "50 %", "100 %"]


def test_a_last_line_that_is_given_again_is_not_doubled(
    engine: FakeRuntime, task: Task, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(follow, "REREAD", 0.01)
    engine.print(task.container_name, b"one\n")
    follower = hub.attach(task.pk, "stdout")
    for line in (b"two\n", b"three\n"):
        until(lambda: follower.spool.state().caught_up and follower._reading is not None and follower._reading._follow)
        engine.give_log_again(task.container_name)
        engine.print(task.container_name, line)
        until(lambda said=line: follower.spool.view().read(0, 100).endswith(said))
    assert follower.spool.view().read(0, 100) == b"one\ntwo\nthree\n"
    hub.release(follower)


@pytest.mark.parametrize("seed", range(6))
def test_random_breaks_neither_lose_nor_double_a_line(
    seed: int, cluster: Cluster, engine: FakeRuntime, task: Task, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Viewers leave and come back, the node is cut and healed, its engine gives what it has just rotated once more, the
    follower's process dies, the container ends and its log moves to the store."""
    monkeypatch.setattr(follow, "REREAD", 0.01)
    dice, of_viewers = random.Random(seed), random.Random(seed + 1000)  # one for each of two threads
    lines = [f"{n} " + "x" * dice.choice([0, 5, 200, 20_000]) for n in range(250)]
    data = "".join(f"{line}\n" for line in lines).encode()

    def write() -> None:
        at = 0
        while at < len(data):
            size = dice.choice([1, 30, 400, 5000, 70_000])
            engine.print(task.container_name, data[at : at + size])
            at += size
            happens = dice.random()
            if happens < 0.05:
                engine.cut()
                time.sleep(0.01)
                engine.heal()
            elif happens < 0.08 and (follower := hub._followers.pop((task.pk, "stdout"), None)):
                follower.stop()
            elif happens < 0.12:
                engine.give_log_again(task.container_name)
            time.sleep(dice.choice([0, 0.001, 0.01]))
        engine.finish(task.container_name)

    async def watch() -> Viewer:
        viewer = Viewer()
        writing = asyncio.create_task(asyncio.to_thread(write))
        while viewer.ended is None:
            patience = of_viewers.randrange(1, 30)
            left = [patience]

            def enough(viewer: Viewer, kind: str, left: list[int] = left) -> bool:
                left[0] -= 1
                return left[0] <= 0

            try:
                await viewer.watch(task.pk, until=enough, timeout=0.5 if not writing.done() else 10)
            except TimeoutError:
                pass  # its follower was taken away: a browser would reconnect just so
            if writing.done() and of_viewers.random() < 0.5:
                await asyncio.to_thread(cluster_end)
        await writing
        return viewer

    def cluster_end() -> None:
        cluster.settle()
        connections.close_all()

    viewer = asyncio.run(watch())
    assert viewer.text() == [line[: 16 * 1024] for line in lines]
    assert viewer.skipped == 0
    assert viewer.doubled == []


def test_a_hundred_megabytes_skip_to_the_end_and_stay_small(engine: FakeRuntime, task: Task) -> None:
    piece = b"".join(b"%0110d\n" % n for n in range(590))[: 64 * 1024 - 64 * 1024 % 111]
    pieces = 400 if in_gate() else 1600  # a quarter is more than it may keep, too
    for _n in range(pieces):  # the same bytes again and again: the engine's memory is not what is measured
        engine.print(task.container_name, piece)
    engine.finish(task.container_name)

    async def watch() -> Viewer:
        viewer = Viewer()
        await viewer.watch(task.pk, timeout=LIMIT)
        return viewer

    tracemalloc.start()
    viewer = asyncio.run(watch())
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    total = pieces * len(piece) // 111
    assert viewer.ended == {"lines": total, "size": total * 111}
    assert viewer.skipped + len(viewer.lines) == total
    assert viewer.largest < 200_000
    assert max(viewer.lines) == total
    assert peak < 16 << 20


def test_a_line_of_10_mb_is_one_small_event(engine: FakeRuntime, task: Task) -> None:
    engine.print(task.container_name, b"before\n" + b"x" * (10 << 20) + b"\nafter\n")
    engine.finish(task.container_name)
    viewer = Viewer()
    asyncio.run(viewer.watch(task.pk, timeout=LIMIT))
    assert [len(text) for text in viewer.text()] == [6, 16 * 1024, 5]
    assert viewer.largest < 100_000


def test_ten_viewers_are_one_follower(engine: FakeRuntime, task: Task) -> None:
    engine.print(task.container_name, b"shared\n")

    async def watch() -> None:
        viewers = [Viewer() for _ in range(10)]
        await asyncio.gather(*(viewer.watch(task.pk, until=has(1), timeout=LIMIT) for viewer in viewers))
        assert all(viewer.text() == ["shared"] for viewer in viewers)

    asyncio.run(watch())
    until(lambda: engine.calls["logs"] >= 2)
    assert engine.calls["logs"] == 2  # what there is, then what comes
    assert hub._followers[task.pk, "stdout"].viewers == 0


def test_sixty_viewers_read_hardly_more_often_than_one(
    engine: FakeRuntime, task: Task, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_live, "INTERVAL", 0.1)
    # All who come to the same place are within INTERVAL then, however long a busy machine takes to run sixty of them.
    monkeypatch.setattr(log_live, "time", SimpleNamespace(monotonic=lambda: 0.0))
    reads: list[int] = []

    def counted(*arguments: Any) -> Any:
        reads.append(1)
        return batch_of(*arguments)

    monkeypatch.setattr(log_live, "batch_of", counted)

    async def watch() -> list[Viewer]:
        viewers = [Viewer() for _ in range(60)]
        watching = [asyncio.create_task(viewer.watch(task.pk, until=has(20), timeout=LIMIT)) for viewer in viewers]
        for number in range(20):
            engine.print(task.container_name, b"line %d\n" % number)
            await asyncio.sleep(0.05)
        await asyncio.gather(*watching)
        return viewers

    viewers = asyncio.run(watch())
    assert all(viewer.text() == [f"line {number}" for number in range(20)] for viewer in viewers)
    assert not any(viewer.doubled for viewer in viewers)
    assert len(reads) < 60 + 20 * 10, "the first place of each, and then together"


def test_another_process_takes_over_where_the_first_one_died(engine: FakeRuntime, task: Task) -> None:
    """Two spools on one folder stand for two processes: a flock belongs to the opening, not to the process."""
    engine.print(task.container_name, b"one\n")
    first = LogFollower(task.pk, "stdout")
    until(lambda: first.spool.size() == 4)
    second = LogFollower(task.pk, "stdout")
    until(lambda: second.spool.state().caught_up)
    assert (first.spool.copies, second.spool.copies) == (True, False)
    first.stop()
    engine.print(task.container_name, b"two\n")
    until(lambda: second.spool.copies and second.spool.size() == 8)
    assert [line.text for line in second.spool.view().lines(1, 9)] == ["one", "two"]
    second.stop()


def test_a_copy_that_got_ahead_of_its_record_is_cut_back(tmp_path: Path, engine: FakeRuntime, task: Task) -> None:
    spool = Spool(tmp_path / "spool")
    assert spool.acquire()
    for chunk in [*engine.logs(task.container_name, "stdout")]:
        spool.append(chunk)
    spool.mark("", caught_up=True)
    with (tmp_path / "spool" / "data").open("ab") as file:
        file.write(b"written, but killed before the record was")
    spool._lock.close()  # type: ignore[union-attr]
    other = Spool(tmp_path / "spool")
    assert other.size() > 0
    assert other.acquire()
    assert other.size() == 0


def test_a_silent_node_is_said_and_the_log_goes_on_when_it_is_back(engine: FakeRuntime, task: Task) -> None:
    engine.print(task.container_name, b"one\n")

    async def watch() -> Viewer:
        viewer = Viewer()

        def look(viewer: Viewer, kind: str) -> bool:
            if kind == "lines" and len(viewer.lines) == 1:
                engine.cut()
            elif kind == "note" and viewer.notes[-1]:
                engine.heal()
            elif kind == "note":
                engine.print(task.container_name, b"two\n")
            return len(viewer.lines) == 2

        await viewer.watch(task.pk, until=look, timeout=LIMIT)
        return viewer

    viewer = asyncio.run(watch())
    assert viewer.text() == ["one", "two"]
    assert "does not answer" in viewer.notes[0]
    assert viewer.notes[1] == "", "that it answers again is said before anything is written"


@pytest.mark.parametrize("happens", ["the clock is set back", "a rotated file comes again"])
def test_stamps_that_go_back_neither_lose_nor_double_a_line(
    happens: str, engine: FakeRuntime, task: Task, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(follow, "REREAD", 0.01)
    follower = hub.attach(task.pk, "stdout")
    until(lambda: follower.spool.state().caught_up)
    said: list[str] = []
    for half in range(2):
        if half and happens == "the clock is set back":
            engine.turn_clock_back(100)
        elif half:
            engine.give_log_again(task.container_name)
        for _ in range(3):
            said.append(f"line {len(said)}")
            engine.print(task.container_name, f"{said[-1]}\n".encode())
            until(lambda: follower.spool.view().newlines >= len(said))
    assert [line.text for line in follower.spool.view().lines(1, 99)] == said
    hub.release(follower)


def test_a_log_that_lost_its_head_is_not_given_again_when_the_clock_goes_back(
    engine: FakeRuntime, task: Task, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(follow, "REREAD", 0.01)
    engine.print(task.container_name, b"old\n")
    follower = hub.attach(task.pk, "stdout")
    until(lambda: follower.spool.state().caught_up and follower.spool.size() == 4)
    engine.rotate(task.container_name)
    for text in (b"new\n", b"er\n"):
        engine.print(task.container_name, text)
    until(lambda: follower.spool.size() == 11)
    engine.give_log_again(task.container_name)
    engine.print(task.container_name, b"more\n")
    until(lambda: follower.spool.view().newlines >= 4 and b"more" in follower.spool.view().read(0, 99))
    assert [line.text for line in follower.spool.view().lines(1, 9)] == ["old", "new", "er", "more"]
    hub.release(follower)


def test_a_log_that_cannot_be_read_is_not_taken_for_ended(engine: FakeRuntime, task: Task) -> None:
    engine.print(task.container_name, b"half\n")
    engine.damage_log(task.container_name)
    engine.finish(task.container_name)
    follower = hub.attach(task.pk, "stdout")
    until(lambda: "cannot read the log" in follower.spool.state().problem)
    assert follower.spool.size() == 5 and not follower.spool.state().ended
    hub.release(follower)


def test_no_more_logs_than_the_process_can_follow(task: Task, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(follow, "MOST", 1)
    held = hub.attach(task.pk, "stdout")
    with pytest.raises(TooManyLogs):
        hub.attach(task.pk, "stderr")
    hub.release(held)
    other = hub.attach(task.pk, "stderr")  # the one nobody looks at made way
    assert list(hub._followers) == [(task.pk, "stderr")]
    hub.release(other)


def test_a_log_can_be_watched_before_its_task_starts(cluster: Cluster) -> None:
    job = cluster.submit()
    waiting = cluster.task(job)

    async def watch() -> Viewer:
        viewer = Viewer()
        watching = asyncio.create_task(viewer.watch(waiting.pk, until=has(1), timeout=LIMIT))
        await asyncio.sleep(0)
        await asyncio.to_thread(start)
        await watching
        return viewer

    def start() -> None:
        cluster.add_node()
        cluster.settle()
        cluster.engines["n1"].print(cluster.task(job).container_name, b"hello\n")
        connections.close_all()

    assert asyncio.run(watch()).text() == ["hello"]


def test_a_container_that_is_made_just_after_its_log_was_asked_for(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = cluster.add_node()
    job = cluster.submit()
    cluster.tick()  # it is placed, and no worker has made its container yet
    task, ask = cluster.task(job), engine.logs
    asked: list[str] = []

    def logs(name: str, *arguments: Any, **values: Any) -> Any:
        try:
            return ask(name, *arguments, **values)
        except RuntimeFault as fault:
            asked.append(fault.reason)
            cluster.settle()  # it runs before the follower looks at its row again
            engine.print(name, b"hello\n")
            raise

    monkeypatch.setattr(engine, "logs", logs)
    viewer = Viewer()
    asyncio.run(viewer.watch(task.pk, until=has(1), timeout=LIMIT))
    assert (asked, viewer.text()) == ([FaultReason.GONE], ["hello"])


def test_the_first_reader_of_a_log_deletes_old_spools_and_nothing_else(settings: Any, tmp_path: Path) -> None:
    settings.HOME = tmp_path
    code, old = tmp_path / "spool" / "code" / "attempt.tar", follow.spool_folder(1, "stdout") / "data"
    for file in (code, old):
        file.parent.mkdir(parents=True)
        file.touch()
    readers = follow.Followers()
    try:
        readers.attach(2, "stdout")
        assert code.exists() and not old.exists()
    finally:
        readers.close()


def test_a_full_disk_is_said_and_in_the_end_no_line_is_missing(
    engine: FakeRuntime, task: Task, monkeypatch: pytest.MonkeyPatch
) -> None:
    write, is_full = os.pwrite, threading.Event()

    def pwrite(fd: int, data: bytes, offset: int) -> int:
        if is_full.is_set():
            raise OSError(errno.ENOSPC, "No space left on device")
        return write(fd, data, offset)

    monkeypatch.setattr(os, "pwrite", pwrite)
    engine.print(task.container_name, b"before\n")
    follower = hub.attach(task.pk, "stdout")
    until(lambda: follower.spool.view().size == 7)
    is_full.set()
    engine.print(task.container_name, b"meanwhile\n")
    until(lambda: follower.spool.state().problem.startswith("The disk of this host of the portal is full."))
    with pytest.raises(NodeUnreachable, match="disk of this host"):
        open_log(task, "stdout")
    is_full.clear()
    engine.print(task.container_name, b"after\n")
    until(lambda: follower.spool.view().size == 23)
    assert b"".join(logs.open_log(task, "stdout").view.pieces()) == b"before\nmeanwhile\nafter\n"
    assert follower.spool.state().problem == ""
    hub.release(follower)
