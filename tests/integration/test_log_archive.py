"""A log is kept before its container goes, once, whole, and apart from that of any other attempt."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from base.core.errors import NodeUnreachable, NoLog
from base.files.store import open_store
from clusters.engines.runtime import FaultReason, LogChunk, RuntimeFault, Stream
from clusters.models import Node
from jobs import services
from jobs.logs import archive
from jobs.logs import read as logs
from jobs.logs.follow import hub, spool_folder
from jobs.logs.places import HEAD_GONE, LARGEST_INDEX, find_archive, place_of, sign_from_now_on, write_index
from jobs.logs.together.sources import Source, open_together
from jobs.models import Task
from tests.cluster import Cluster
from tests.fakes.runtime import FakeRuntime
from tests.helpers import LIMIT, until

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def home(settings: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    settings.HOME = tmp_path
    monkeypatch.setattr(logs, "PATIENCE", LIMIT)  # an engine in memory is silent only while the machine is busy
    yield tmp_path
    hub.close()


@pytest.fixture
def running(cluster: Cluster) -> Task:
    """A task whose container runs on node n1."""
    cluster.add_node()
    job = cluster.submit()
    cluster.settle()
    return fresh(cluster.task(job))


def fresh(task: Task) -> Task:
    return Task.objects.select_related("attempt", "job").get(pk=task.pk)


def engine(cluster: Cluster) -> FakeRuntime:
    return cluster.engines["n1"]


def end(cluster: Cluster, task: Task, code: int = 0) -> Task:
    """The container exits, its log is kept, it is removed."""
    engine(cluster).finish(task.container_name, code)
    cluster.settle()
    assert task.container_name not in {status.name for status in engine(cluster).list()}
    return fresh(task)


def test_both_streams_are_read_after_the_container_is_gone(cluster: Cluster, running: Task) -> None:
    engine(cluster).print(running.container_name, b"one\ntwo\nthr")
    engine(cluster).print(running.container_name, b"oops\n", "stderr")
    task = end(cluster, running)
    assert b"".join(logs.open_log(task, "stdout").view.pieces()) == b"one\ntwo\nthr"
    assert logs.tail(task, "stderr", lines=10) == b"oops\n"
    assert logs.tail(task, "stdout", lines=2) == b"two\nthr"
    assert logs.tail(task, "stdout", lines=0) == b""
    assert logs.tail(task, "stdout", lines=10**9) == b"one\ntwo\nthr"
    assert b"".join(logs.open_log(task, "stdout").view.pieces(4, 7)) == b"two"
    assert b"".join(logs.open_log(task, "stdout").view.pieces(99, 102)) == b""


def test_an_archived_log_needs_no_node_any_more(cluster: Cluster, running: Task) -> None:
    engine(cluster).print(running.container_name, b"kept\n")
    task = end(cluster, running)
    Node.objects.all().delete()
    assert logs.tail(task, "stdout", lines=1) == b"kept\n"


def test_a_job_submitted_again_under_its_name_does_not_meet_the_old_log(cluster: Cluster) -> None:
    cluster.add_node()
    for text in (b"first\n", b"second\n"):
        job = cluster.submit(name="same")
        cluster.settle()
        task = cluster.task(job)
        engine(cluster).print(task.container_name, text)
        assert logs.tail(end(cluster, task), "stdout", lines=5) == text
        services.delete(cluster.owner, cluster.job(job))
    assert len(open_store().list("/Container/alice/alice~same/log")) == 2


def test_every_attempt_is_readable_afterwards(cluster: Cluster) -> None:
    cluster.add_node()
    job = cluster.submit(name="again", retryCount=1)
    for text in (b"first try\n", b"second try\n"):
        cluster.settle()
        cluster.ahead(3600)
        cluster.settle()
        task = cluster.task(job)
        engine(cluster).print(task.container_name, text)
        end(cluster, task, 1)
    texts = [logs.tail(logs.find_task(job, "worker", 0, number), "stdout", lines=1) for number in (1, 2)]
    assert texts == [b"first try\n", b"second try\n"]


def test_archiving_again_changes_nothing(cluster: Cluster, running: Task, home: Path) -> None:
    engine(cluster).print(running.container_name, b"once\n")
    engine(cluster).finish(running.container_name)
    engine(cluster).gives_short_logs = True
    archive.archive(running)
    before = {path: path.stat().st_mtime_ns for path in (home / "store").rglob("*")}
    asked = engine(cluster).calls.copy()
    assert (asked["short_logs"], asked["logs"]) == (1, 0)
    archive.archive(running)
    assert {path: path.stat().st_mtime_ns for path in (home / "store").rglob("*")} == before
    assert engine(cluster).calls == asked


def test_a_worker_that_is_late_and_reads_half_of_it_does_not_spoil_what_is_kept(
    cluster: Cluster, running: Task, monkeypatch: pytest.MonkeyPatch
) -> None:
    for n in range(10):
        engine(cluster).print(running.container_name, b"line %d\n" % n)
    engine(cluster).finish(running.container_name)
    begun, go_on = threading.Event(), threading.Event()
    whole = FakeRuntime.logs

    def half(self: FakeRuntime, name: str, stream: Any, **values: Any) -> Any:
        if threading.current_thread().name != "late":
            return whole(self, name, stream, **values)

        def chunks() -> Iterator[LogChunk]:
            yield LogChunk("2026-01-01T00:00:00.000000000Z", b"line 0\n")
            begun.set()
            assert go_on.wait(LIMIT)  # the container is removed meanwhile: the engine says no more

        return chunks()

    monkeypatch.setattr(FakeRuntime, "logs", half)
    late = threading.Thread(target=archive.archive, args=[running], name="late")
    late.start()
    assert begun.wait(LIMIT)
    archive.archive(running)
    go_on.set()
    late.join(LIMIT)
    assert logs.tail(running, "stdout", lines=100).count(b"\n") == 10


def test_a_container_that_is_gone_leaves_a_word_and_what_viewers_saw(cluster: Cluster, running: Task) -> None:
    engine(cluster).print(running.container_name, b"seen\n")
    follower = hub.attach(running.pk, "stdout")
    until(lambda: follower.spool.size() == 5)
    engine(cluster).vanish(running.container_name)
    archive.archive(running)
    archive.archive(running)
    hub.release(follower)
    log = logs.open_log(running, "stdout")
    assert b"".join(log.view.pieces()) == b"seen\n"
    assert log.note == archive.LOST
    with pytest.raises(NoLog, match="gone before its log could be kept"):
        logs.open_log(running, "stderr")


def test_a_silent_node_is_asked_again_later(cluster: Cluster, running: Task) -> None:
    engine(cluster).print(running.container_name, b"patience\n")
    engine(cluster).finish(running.container_name)
    engine(cluster).cut()
    with pytest.raises(RuntimeFault) as fault:
        archive.archive(running)
    assert fault.value.reason is FaultReason.UNREACHABLE
    with pytest.raises(NodeUnreachable, match="worker-0 cannot be read now"):
        logs.open_log(running, "stdout")
    engine(cluster).heal()
    archive.archive(running)
    assert logs.tail(running, "stdout", lines=1) == b"patience\n"


def test_a_log_whose_head_the_engine_has_thrown_away_says_so(cluster: Cluster, running: Task) -> None:
    engine(cluster).print(running.container_name, b"old\n")
    engine(cluster).rotate(running.container_name)
    engine(cluster).print(running.container_name, b"new\n")
    log = logs.open_log(end(cluster, running), "stdout")
    assert (b"".join(log.view.pieces()), log.note) == (b"new\n", HEAD_GONE)
    assert find_archive(place_of(running)).complete is False  # type: ignore[union-attr]


def test_a_log_that_cannot_be_read_to_its_end_is_tried_again_and_then_kept_as_far_as_it_goes(
    cluster: Cluster, running: Task
) -> None:
    engine(cluster).print(running.container_name, b"half\n")
    engine(cluster).damage_log(running.container_name)
    engine(cluster).finish(running.container_name)
    cluster.settle()
    assert not fresh(running).collected and find_archive(place_of(running)) is None
    cluster.ahead(archive.UNREADABLE_FOR.total_seconds() + 1)
    cluster.settle()
    log = logs.open_log(fresh(running), "stdout")
    assert b"".join(log.view.pieces()) == b"half\n" and "cannot read the log" in log.note
    cluster.assert_clean()


def test_a_live_log_is_read_before_and_after_more_is_written(cluster: Cluster, running: Task) -> None:
    engine(cluster).print(running.container_name, b"one\n")
    assert logs.tail(running, "stdout", lines=5) == b"one\n"
    engine(cluster).print(running.container_name, b"two\n")
    until(lambda: logs.tail(running, "stdout", lines=5) == b"one\ntwo\n")
    assert not logs.open_log(running, "stdout").ended
    assert engine(cluster).calls["logs"] <= 3  # one look, then one follower however often it is read


def test_no_log_says_why(cluster: Cluster) -> None:
    cluster.add_node()
    job = cluster.submit()
    task = fresh(cluster.task(job))
    with pytest.raises(NoLog, match="waits for its turn"):
        logs.open_log(task, "stdout")
    with pytest.raises(NoLog, match="no attempt 7"):
        logs.find_task(job, "worker", 0, 7)
    with pytest.raises(NoLog, match="no task worker-9"):
        logs.find_task(job, "worker", 9)


def test_the_index_of_an_archive_is_enough_to_find_any_line(cluster: Cluster, running: Task, home: Path) -> None:
    data = b"".join(b"%06d %s\n" % (n, b"x" * (n % 300)) for n in range(5000))
    engine(cluster).print(running.container_name, data)
    task = end(cluster, running)
    view = logs.open_log(task, "stdout").view
    assert view.line_count() == 5000
    assert [line.text[:6] for line in view.lines(4321, 2)] == ["004320", "004321"]
    (index,) = home.rglob("index.json")
    assert json.loads(index.read_text())["complete"] is True
    assert not [path for path in home.rglob("*") if "part" in str(path.relative_to(home)) and path.is_file()]


def test_the_spool_goes_when_nobody_looks_any_more(
    cluster: Cluster, running: Task, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("jobs.logs.follow.LINGER", 0.05)
    follower = hub.attach(running.pk, "stdout")
    until(lambda: follower.spool.state().caught_up)
    assert spool_folder(running.pk, "stdout").is_dir()
    hub.release(follower)
    until(lambda: not spool_folder(running.pk, "stdout").exists())
    until(lambda: not follower._thread.is_alive())


STDOUT = {"bytes": 4, "newlines": 1, "blocks": [0]}
STREAMS: dict[Stream, dict[str, Any]] = {"stdout": STDOUT, "stderr": {"bytes": 0, "newlines": 0, "blocks": []}}
INDEX = {"complete": True, "reason": "", **STREAMS}
BIG = 10**15


@pytest.mark.parametrize(
    "written",
    [
        b"",
        b"\xff",
        b"[" * 100_000,
        b"7",
        b"{}",
        json.dumps({**INDEX, "complete": 1}).encode(),
        json.dumps({**INDEX, "stdout": 5}).encode(),
        json.dumps({**INDEX, "stdout": {**STDOUT, "newlines": BIG}}).encode(),
        json.dumps({**INDEX, "stdout": {**STDOUT, "bytes": BIG}}).encode(),
        json.dumps({**INDEX, "stdout": {**STDOUT, "bytes": 4.5}}).encode(),
        json.dumps({**INDEX, "stdout": {**STDOUT, "blocks": [7]}}).encode(),
        json.dumps({**INDEX, "stdout": {**STDOUT, "blocks": [-1]}}).encode(),
        json.dumps({**INDEX, "stdout": {**STDOUT, "lines": BIG, "tops": ""}}).encode(),
        json.dumps({**INDEX, "stdout": {**STDOUT, "lines": -1, "tops": ""}}).encode(),
        json.dumps({**INDEX, "stdout": {**STDOUT, "lines": 1, "tops": "?"}}).encode(),
        json.dumps(INDEX).encode().ljust(LARGEST_INDEX + 1),
        json.dumps(INDEX).encode(),
        json.dumps({**INDEX, "signature": "0" * 64}).encode(),
    ],
    ids=range(18),
)
def test_what_the_user_puts_in_the_place_of_an_index_is_none(cluster: Cluster, running: Task, written: bytes) -> None:
    store, place = open_store(), place_of(running)
    store.write(f"{place.folder}/index.json", [written])
    assert find_archive(place) is None
    engine(cluster).print(running.container_name, b"one\ntwo\n")
    assert logs.tail(end(cluster, running), "stdout", lines=2) == b"one\ntwo\n"


def test_an_index_of_another_log_is_none_and_one_of_an_older_release_is(cluster: Cluster, running: Task) -> None:
    store, place = open_store(), place_of(running)
    write_index(store, "/Container/alice/other", STREAMS, complete=True, reason="")
    with store.open_read("/Container/alice/other/index.json") as file:
        store.write(f"{place.folder}/index.json", [file.read()])
    assert find_archive(place) is None
    write_index(store, place.folder, STREAMS, complete=True, reason="")
    assert find_archive(place)
    store.write(f"{place.folder}/index.json", [json.dumps(INDEX).encode()])
    assert find_archive(place) is None
    sign_from_now_on()  # as the migration does
    assert find_archive(place)


def test_a_log_that_the_store_has_lost_was_kept_all_the_same(cluster: Cluster, running: Task) -> None:
    engine(cluster).print(running.container_name, b"one\n")
    task = end(cluster, running)
    assert logs.tail(task, "stdout", lines=1) == b"one\n"
    open_store().delete(place_of(task).folder, recursive=True)
    with pytest.raises(NoLog, match="This log was kept, and the file store does not have it"):
        logs.tail(fresh(task), "stdout", lines=1)


@pytest.mark.parametrize("taken", ["", "/index.json", "/stdout", "/stdout.times"])
def test_a_container_goes_also_where_the_place_of_its_log_is_taken(cluster: Cluster, running: Task, taken: str) -> None:
    store, folder = open_store(), place_of(running).folder
    if taken:
        store.mkdirs(f"{folder}{taken}")
    else:
        store.write(folder, [b"no folder"])
    engine(cluster).print(running.container_name, b"one\n")
    task = end(cluster, running)
    assert task.collected
    with pytest.raises(NoLog):
        logs.tail(task, "stdout", lines=1)


def test_the_times_of_a_log_may_be_cut_off_behind_our_back(cluster: Cluster, running: Task) -> None:
    engine(cluster).print(running.container_name, b"one\ntwo\n")
    task = end(cluster, running)
    open_store().write(f"{place_of(task).folder}/stdout.times", [b"cut"])
    [log] = open_together([Source(0, task, "stdout")]).logs
    assert open_together([log.source, Source(1, task, "stdout")]).order.lines(0, 9)[-1] == (1, 1)
    assert [row.line.text for row in open_together([log.source]).rows(0, 9)] == ["one", "two"]
