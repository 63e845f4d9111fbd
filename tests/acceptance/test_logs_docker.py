"""Logs of real containers: on the page at once, whole after the container is gone, small however large."""

from __future__ import annotations

import asyncio
import resource
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from clusters.engines.docker.runtime import DockerRuntime
from clusters.engines.runtime import LABEL_TASK, ContainerRequest, Phase
from clusters.models import Node
from jobs.logs import archive
from jobs.logs import read as logs
from jobs.logs.follow import hub
from jobs.models import Task
from tests.acceptance.portal import was_quick
from tests.bed.docker_bed import BedNode
from tests.builders import make_job, make_node
from tests.helpers import LIMIT, until
from tests.logs import Viewer

pytestmark = [pytest.mark.docker, pytest.mark.usefixtures("unhurried"), pytest.mark.django_db(transaction=True)]


@pytest.fixture(autouse=True)
def home(settings: Any, tmp_path: Path) -> Iterator[None]:
    settings.HOME = tmp_path
    yield
    hub.close()


@pytest.fixture
def engine(docker_engine: BedNode) -> DockerRuntime:
    return DockerRuntime(docker_engine.unix, timeout=LIMIT)


class Running:
    """A task row and its real container."""

    def __init__(self, engine: DockerRuntime, node: Node, image: str) -> None:
        self.engine, self.node, self.image = engine, node, image
        self.names: list[str] = []

    def start(self, script: str, name: str) -> Task:
        job = make_job("alice", name, state="RUNNING", node=self.node)
        task = Task.objects.select_related("attempt", "job").get(job=job)
        task.container_name = f"longshore-test-{name}-{time.monotonic_ns()}"
        task.save()
        self.names.append(task.container_name)
        labels = {LABEL_TASK: str(task.pk)}
        self.engine.ensure(ContainerRequest(task.container_name, self.image, ("sh", "-c", script), labels=labels))
        return task

    def end(self, task: Task) -> Task:
        """Wait for its end, keep its log, remove it."""
        until(lambda: self._phase(task) is Phase.EXITED, 60, what="the container ended")
        archive.archive(task)
        self.engine.remove(task.container_name)
        Task.objects.filter(pk=task.pk).update(state="SUCCEEDED", collected=True)
        return Task.objects.select_related("attempt", "job").get(pk=task.pk)

    def _phase(self, task: Task) -> Phase:
        return next(status.phase for status in self.engine.list() if status.name == task.container_name)


@pytest.fixture
def running(engine: DockerRuntime, docker_engine: BedNode, sample_image: str) -> Iterator[Running]:
    node = make_node(endpoint=docker_engine.unix)
    running = Running(engine, node, sample_image)
    yield running
    for name in running.names:
        engine.remove(name)


def test_a_line_is_on_the_page_within_half_a_second_of_its_stamp(running: Running, engine: DockerRuntime) -> None:
    task = running.start("for i in 1 2 3 4 5 6 7 8; do echo line $i; sleep 0.3; done", "latency")
    came: dict[int, datetime] = {}

    def look(viewer: Viewer, kind: str) -> bool:
        for number in viewer.lines:
            came.setdefault(number, datetime.now(UTC))
        return len(viewer.lines) == 8

    viewer = Viewer()
    asyncio.run(viewer.watch(task.pk, until=look, timeout=LIMIT))
    assert viewer.text() == [f"line {n}" for n in range(1, 9)]
    stamps = stamps_of(engine, task)
    late = [(came[number] - stamps[number]).total_seconds() for number in range(2, 9)]
    was_quick(max(late), 0.5, f"the latest of {late}")


def stamps_of(engine: DockerRuntime, task: Task) -> dict[int, datetime]:
    """The engine's stamp of each line, read one line a chunk by following a log that is already written."""
    stamps: dict[int, datetime] = {}
    since = ""
    for number in range(1, 9):
        chunk = next(chunk for chunk in engine.logs(task.container_name, "stdout", since=since))
        stamps[number] = datetime.fromisoformat(chunk.at[:26] + "+00:00")
        whole, _, nanoseconds = chunk.at[:-1].partition(".")
        since = f"{whole}.{int(nanoseconds.ljust(9, '0')) + 1:09}Z"
    return stamps


def test_a_log_is_whole_for_every_attempt_after_container_and_node_are_gone(running: Running) -> None:
    tasks = []
    for name in ("first", "second"):
        task = running.start(f"echo {name}; echo oops >&2; printf 'no newline'", name)
        live = Viewer()
        asyncio.run(live.watch(task.pk, until=lambda viewer, kind: len(viewer.lines) == 2, timeout=LIMIT))
        assert live.lines[1] == name
        tasks.append((running.end(task), name))
    Node.objects.filter(pk=running.node.pk).update(name="another")
    for task, name in tasks:
        assert b"".join(logs.open_log(task, "stdout").view.pieces()) == f"{name}\nno newline".encode()
        assert logs.tail(task, "stderr", lines=1) == b"oops\n"


def test_a_viewer_who_comes_and_goes_sees_every_line_once(running: Running) -> None:
    script = "i=0; while [ $i -lt 3000 ]; do i=$((i+1)); echo $i; [ $((i % 300)) = 0 ] && sleep 0.1; done; true"
    task = running.start(script, "comings")
    viewer = Viewer()

    async def watch() -> None:
        async with asyncio.timeout(LIMIT):
            while viewer.ended is None:
                left = iter(range(4))
                await viewer.watch(
                    task.pk, until=lambda viewer, kind, left=left: next(left, None) is None, timeout=LIMIT
                )

    asyncio.run(watch())
    assert viewer.text() == [str(n) for n in range(1, 3001)]
    assert viewer.doubled == []
    ended = running.end(task)
    assert logs.open_log(ended, "stdout").view.line_count() == 3000


def test_a_hundred_megabytes_and_a_line_of_ten_hurt_nobody(running: Running) -> None:
    """Copied, shown, kept and read back in little memory."""
    line = "x" * 999
    script = f"head -c 10485760 /dev/zero | tr '\\0' y; echo; yes {line} | head -n 100000; echo last"
    task = running.start(script, "large")
    viewer = Viewer()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    asyncio.run(viewer.watch(task.pk, timeout=LIMIT))
    assert viewer.lines[max(viewer.lines)] == "last"
    assert viewer.ended == {"lines": 100_002, "size": 10485761 + 100_000_000 + 5}
    assert viewer.largest < 200_000
    ended = running.end(task)
    log = logs.open_log(ended, "stdout")
    assert sum(len(piece) for piece in log.view.pieces()) == 10485761 + 100_000_000 + 5
    assert logs.tail(ended, "stdout", lines=2) == f"{line}\nlast\n".encode()
    assert log.view.lines(1, 1)[0].note == "… 10.0 MB line, download to see all"
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    assert grown < 64, f"{grown:.0f} MB"
