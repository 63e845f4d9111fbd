"""What every container runtime must do. Run on the fake by tests/integration, on a real engine by tests/acceptance.

A module subclasses ``RuntimeContract`` and gives the fixture ``lab``: an engine, and how to say there what a container
shall do.
"""

from __future__ import annotations

import io
import itertools
import os
import random
import socket
import tarfile
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import pytest

from clusters.engines.runtime import (
    LABEL_TASK,
    ContainerRequest,
    ContainerStatus,
    Engine,
    FaultReason,
    File,
    LogChunk,
    Phase,
    RuntimeFault,
    Stream,
)
from tests.helpers import LIMIT, quick, until

_numbers = itertools.count(1)


def resumed(chunks: Iterator[LogChunk], at: str, taken: int) -> Iterator[LogChunk]:
    """What follows the place (``at``, ``taken``) in ``chunks``, which were asked for with ``since=at``: how a reader of
    a log may go on where it was, which every runtime must allow."""
    skip: int | None = None
    for chunk in chunks:
        if skip is None:
            skip = taken if chunk.at == at else 0
        if rest := chunk.data[skip:]:
            yield LogChunk(at if skip else chunk.at, rest)
        skip = max(0, skip - len(chunk.data))


@dataclass(frozen=True)
class Program:
    """What a container shall do: write, then end with ``exit_code``, or run until stopped when that is None. One that
    ``saves`` says so, and writes what it was told, when it is told that it ends."""

    stdout: bytes = b""
    stderr: bytes = b""
    exit_code: int | None = 0
    ignores_term: bool = False
    saves: bool = False


FOREVER = Program(exit_code=None)
DEAF = Program(stdout=b"deaf\n", exit_code=None, ignores_term=True)
PREFIX = "longshore-contract-"  # of the containers of these tests; those of portals may be on the same engine


class Lab(Protocol):
    runtime: Engine
    address: str  # of the engine's host
    image: str  # the engine has it
    absent_image: str  # no registry has it
    absent_gpus: tuple[str, ...]  # no host has them

    def argv(self, program: Program) -> tuple[str, ...]: ...

    def files(self, program: Program) -> tuple[File, ...]: ...

    def read_file(self, name: str, path: str) -> bytes: ...

    def echo(self, port: int) -> None:
        """From now on whatever is sent to this port of the host comes back."""
        ...


def request(lab: Lab, program: Program = FOREVER, **more: Any) -> ContainerRequest:
    """With a name and a task of its own."""
    number = f"{os.getpid()}-{next(_numbers)}"
    return ContainerRequest(
        **{
            "name": f"{PREFIX}{number}",
            "image": lab.image,
            "argv": lab.argv(program),
            "files": lab.files(program),
            "labels": {LABEL_TASK: number},
            **more,
        }
    )


def found(lab: Lab, name: str) -> ContainerStatus | None:
    return next((status for status in lab.runtime.list() if status.name == name), None)


def ended(lab: Lab, name: str) -> ContainerStatus:
    def look() -> ContainerStatus | None:
        status = found(lab, name)
        return status if status and status.phase is Phase.EXITED else None

    status = until(look)
    assert status is not None
    return status


def text(chunks: Iterator[LogChunk]) -> bytes:
    return b"".join(chunk.data for chunk in chunks)


def exactly(way: socket.socket, size: int) -> bytes:
    got = bytearray()
    while len(got) < size and (piece := way.recv(size - len(got))):
        got += piece
    return bytes(got)


class RuntimeContract:
    # --- keeping what a container had ---

    def test_it_makes_an_image_of_a_container_that_has_ended(self, lab: Lab) -> None:
        asked = request(lab, Program(exit_code=3), files=(*lab.files(Program()), File("/left/note", b"x" * 3000)))
        lab.runtime.ensure(asked)
        ended(lab, asked.name)
        image = f"localhost/longshore-kept:{asked.labels[LABEL_TASK]}"
        with pytest.raises(RuntimeFault) as caught:
            lab.runtime.keep(asked.name, image, 100)
        assert caught.value.reason is FaultReason.REFUSED
        assert 3000 <= lab.runtime.keep(asked.name, image, 1 << 20) < 1 << 20
        assert image in lab.runtime.image_names()
        lab.runtime.remove(asked.name)
        again = request(lab, image=image)
        lab.runtime.ensure(again)
        assert lab.read_file(again.name, "/left/note") == b"x" * 3000
        lab.runtime.remove(again.name)
        for _ in range(2):
            lab.runtime.drop_image(image)
        assert image not in lab.runtime.image_names()
        with pytest.raises(RuntimeFault) as caught:
            lab.runtime.keep(asked.name, image, 1 << 20)
        assert caught.value.reason is FaultReason.GONE

    # --- ensure ---

    def test_it_runs_a_container_to_its_end(self, lab: Lab) -> None:
        asked = request(lab, Program(exit_code=3))
        made = lab.runtime.ensure(asked)
        status = ended(lab, asked.name)
        assert (status.id, status.exit_code, status.oom_killed) == (made.id, 3, False)
        assert status.labels.items() >= asked.labels.items()
        assert status.started_at and status.finished_at and status.started_at <= status.finished_at

    def test_it_reports_a_running_container_without_an_exit_code(self, lab: Lab) -> None:
        asked = request(lab)
        assert lab.runtime.ensure(asked).phase is Phase.RUNNING
        status = found(lab, asked.name)
        assert status and status.phase is Phase.RUNNING and status.started_at
        assert status.exit_code is None and status.finished_at is None

    def test_it_adopts_a_running_container_of_that_name(self, lab: Lab) -> None:
        asked = request(lab)
        assert lab.runtime.ensure(asked).id == lab.runtime.ensure(asked).id

    def test_it_never_starts_an_ended_container_again(self, lab: Lab) -> None:
        asked = request(lab, Program(stdout=b"once\n", exit_code=1))
        lab.runtime.ensure(asked)
        status = ended(lab, asked.name)
        assert lab.runtime.ensure(asked) == status
        assert text(lab.runtime.logs(asked.name, "stdout")) == b"once\n"

    def test_it_puts_files_in_and_starts_a_container_left_in_created(self, lab: Lab) -> None:
        asked = request(lab, files=(File("/pai/bootstrap/run.sh", b"#!/bin/sh\n", 0o755), File("/etc/new", b"x")))
        left_in_created(lab, asked)
        assert lab.runtime.ensure(asked).phase is Phase.RUNNING
        assert lab.read_file(asked.name, "/pai/bootstrap/run.sh") == b"#!/bin/sh\n"
        assert lab.read_file(asked.name, "/etc/new") == b"x"

    def test_it_unpacks_tars_in_the_container(self, lab: Lab, tmp_path: Path) -> None:
        with tarfile.open(tmp_path / "code.tar", "w") as tar:
            for name, content in (("pai/code/a/x.py", b"print()"), ("pai/code/a/b/deep", b"1")):
                header = tarfile.TarInfo(name)
                header.size = len(content)
                tar.addfile(header, io.BytesIO(content))
        asked = request(lab, tars=(tmp_path / "code.tar",))
        left_in_created(lab, asked)  # whoever adopts it unpacks them again
        assert lab.runtime.ensure(asked).phase is Phase.RUNNING
        assert lab.read_file(asked.name, "/pai/code/a/x.py") == b"print()"
        assert lab.read_file(asked.name, "/pai/code/a/b/deep") == b"1"

    def test_it_makes_nothing_when_the_start_is_withdrawn_before_create(self, lab: Lab) -> None:
        asked = request(lab)
        with pytest.raises(RuntimeFault) as raised:
            lab.runtime.ensure(asked, still_wanted=lambda: False)
        assert raised.value.reason is FaultReason.WITHDRAWN
        assert found(lab, asked.name) is None

    def test_it_leaves_a_created_container_when_the_start_is_withdrawn_later(self, lab: Lab) -> None:
        asked = request(lab)
        left_in_created(lab, asked)
        status = found(lab, asked.name)
        assert status and status.phase is Phase.CREATED
        assert status.started_at is None and status.exit_code is None

    def test_it_makes_one_container_of_two_starts_at_once(self, lab: Lab) -> None:
        asked = request(lab)
        together = threading.Barrier(2)
        made: list[ContainerStatus] = []

        def start() -> None:
            asked_before: list[bool] = []

            def guard() -> bool:
                if not asked_before:
                    together.wait(LIMIT)
                asked_before.append(True)
                return True

            made.append(lab.runtime.ensure(asked, still_wanted=guard))

        threads = [threading.Thread(target=start) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(LIMIT)
        assert len({status.id for status in made}) == 1 and len(made) == 2

    def test_it_removes_a_container_whose_start_is_refused(self, lab: Lab) -> None:
        asked = request(lab, gpu_ids=lab.absent_gpus)
        with pytest.raises(RuntimeFault) as raised:
            lab.runtime.ensure(asked)
        assert raised.value.reason is FaultReason.GPU_MISSING
        assert found(lab, asked.name) is None

    def test_a_start_that_is_refused_is_never_seen_as_an_end(self, lab: Lab) -> None:
        asked = {one.name: one for one in (request(lab, gpu_ids=lab.absent_gpus) for _ in range(6))}
        seen, over = list[ContainerStatus](), threading.Event()

        def look() -> None:
            while not over.is_set():  # beside a portal on the same engine, which tries whether a container starts
                seen.extend(status for status in lab.runtime.list() if status.name in asked)

        watchers = [threading.Thread(target=look) for _ in range(3)]
        for watcher in watchers:
            watcher.start()
        for one in asked.values():
            with pytest.raises(RuntimeFault):
                lab.runtime.ensure(one)
        over.set()
        for watcher in watchers:
            watcher.join(LIMIT)
        assert {(status.phase, status.exit_code) for status in seen} <= {(Phase.CREATED, None)}

    def test_it_says_that_a_port_is_taken(self, lab: Lab) -> None:
        lab.runtime.ensure(request(lab, network="bridge", ports=(23456,)))
        asked = request(lab, network="bridge", ports=(23456,))
        with pytest.raises(RuntimeFault) as raised:
            lab.runtime.ensure(asked)
        assert (raised.value.reason, raised.value.permanent) == (FaultReason.PORT_TAKEN, False)
        assert found(lab, asked.name) is None

    def test_it_says_that_an_image_does_not_exist(self, lab: Lab) -> None:
        asked = request(lab, image=lab.absent_image, argv=("true",))
        with pytest.raises(RuntimeFault) as raised:
            lab.runtime.ensure(asked)
        assert (raised.value.reason, raised.value.permanent) == (FaultReason.IMAGE_MISSING, True)
        assert lab.absent_image in raised.value.sentence

    def test_it_passes_on_what_a_callback_raises(self, lab: Lab) -> None:
        def guard() -> bool:
            raise LookupError("the claim is gone")

        with pytest.raises(LookupError):
            lab.runtime.ensure(request(lab), still_wanted=guard)

    # --- whose containers ---

    def test_it_does_not_touch_a_container_it_did_not_make(self, lab: Lab, stranger: str) -> None:
        assert found(lab, stranger) is None
        for touch in (
            lambda: lab.runtime.stop(stranger, 1),
            lambda: lab.runtime.tell(stranger, "SIGTERM", "{}"),
            lambda: lab.runtime.remove(stranger),
            lambda: lab.runtime.ensure(request(lab, name=stranger)),
        ):
            with pytest.raises(RuntimeFault) as raised:
                touch()
            assert raised.value.reason is FaultReason.REFUSED

    def test_it_does_not_adopt_the_container_of_another_task(self, lab: Lab) -> None:
        asked = request(lab)
        lab.runtime.ensure(asked)
        with pytest.raises(RuntimeFault) as raised:
            lab.runtime.ensure(request(lab, name=asked.name))
        assert raised.value.reason is FaultReason.REFUSED
        assert found(lab, asked.name) is not None

    # --- tell, stop and remove ---

    def test_it_tells_once_why_a_container_ends_and_hears_that_it_has_saved(self, lab: Lab) -> None:
        note = '{\n"reason": "it\'s $HOME, \\\\ and \\"more\\""\n}\n'
        asked = request(lab, Program(exit_code=None, saves=True))
        lab.runtime.ensure(asked)
        lab.runtime.tell(asked.name, "", note)
        until(lambda: lab.runtime.tell(asked.name, "", "another note"))
        assert text(lab.runtime.logs(asked.name, "stdout")).decode().endswith(note)
        status = found(lab, asked.name)
        assert status is not None and status.phase is Phase.RUNNING

    def test_it_tells_with_a_signal_and_does_not_wait_for_the_end(self, lab: Lab) -> None:
        for program, code in ((Program(stdout=b"up\n", exit_code=None), 143), (DEAF, 137)):
            asked = request(lab, program)
            lab.runtime.ensure(asked)
            until(lambda name=asked.name: text(lab.runtime.logs(name, "stdout")))
            assert not lab.runtime.tell(asked.name, "SIGTERM", "{}")
            lab.runtime.stop(asked.name, 0 if program is DEAF else int(LIMIT))
            assert (ended(lab, asked.name).exit_code, lab.runtime.tell(asked.name, "SIGTERM", "{}")) == (code, False)

    def test_it_stops_with_term(self, lab: Lab) -> None:
        asked = request(lab, Program(stdout=b"up\n", exit_code=None))
        lab.runtime.ensure(asked)
        until(lambda: text(lab.runtime.logs(asked.name, "stdout")))  # before that its first process ignores a TERM
        lab.runtime.stop(asked.name, int(LIMIT))  # after which it would be killed: 137
        assert ended(lab, asked.name).exit_code == 143

    def test_it_kills_what_ignores_term(self, lab: Lab) -> None:
        asked = request(lab, DEAF)
        lab.runtime.ensure(asked)
        until(lambda: text(lab.runtime.logs(asked.name, "stdout")))
        lab.runtime.stop(asked.name, 1)
        assert ended(lab, asked.name).exit_code == 137

    def test_it_stops_and_removes_what_is_gone_or_done_without_complaint(self, lab: Lab) -> None:
        asked = request(lab, Program())
        lab.runtime.ensure(asked)
        ended(lab, asked.name)
        lab.runtime.stop(asked.name, 1)
        for _ in range(2):
            lab.runtime.remove(asked.name)
        lab.runtime.stop(asked.name, 1)
        assert found(lab, asked.name) is None

    def test_it_removes_a_container_by_the_id_that_its_start_gave(self, lab: Lab) -> None:
        asked = request(lab)
        status = lab.runtime.ensure(asked)
        for _ in range(2):
            lab.runtime.remove(asked.name, status.id)
        assert found(lab, asked.name) is None

    def test_it_removes_a_running_container(self, lab: Lab) -> None:
        asked = request(lab)
        lab.runtime.ensure(asked)
        lab.runtime.remove(asked.name)
        assert found(lab, asked.name) is None

    # --- logs ---

    def test_it_keeps_the_two_streams_apart(self, lab: Lab) -> None:
        asked = request(lab, Program(stdout=b"out 1\n\n  out 2 \n", stderr="Fehler ä\n".encode()))
        lab.runtime.ensure(asked)
        ended(lab, asked.name)
        assert text(lab.runtime.logs(asked.name, "stdout")) == b"out 1\n\n  out 2 \n"
        assert text(lab.runtime.logs(asked.name, "stderr")) == "Fehler ä\n".encode()

    def test_it_gives_a_long_line_whole_in_small_chunks(self, lab: Lab) -> None:
        line = b"0123456789abcdef" * 20_000 + b"\n"
        asked = request(lab, Program(stdout=line))
        lab.runtime.ensure(asked)
        ended(lab, asked.name)
        chunks = list(lab.runtime.logs(asked.name, "stdout"))
        assert text(iter(chunks)) == line
        assert max(len(chunk.data) for chunk in chunks) <= 64 * 1024

    def test_it_resumes_a_log_at_any_place(self, lab: Lab) -> None:
        said = b"".join(b"line %d\n" % number for number in range(50)) + b"x" * 40_000 + b"\n"
        asked = request(lab, Program(stdout=said))
        lab.runtime.ensure(asked)
        ended(lab, asked.name)
        chunks = list(lab.runtime.logs(asked.name, "stdout"))
        at, taken, got = "", 0, b""
        for chunk in chunks:
            at, taken = (at, taken + len(chunk.data)) if chunk.at == at else (chunk.at, len(chunk.data))
            got += chunk.data
            rest = text(resumed(lab.runtime.logs(asked.name, "stdout", since=at), at, taken))
            assert got + rest == said

    def test_it_follows_a_log_until_the_container_ends(self, lab: Lab) -> None:
        asked = request(lab, Program(stdout=b"first\n", exit_code=None))
        lab.runtime.ensure(asked)
        log = lab.runtime.logs(asked.name, "stdout", follow=True)
        assert next(log).data == b"first\n"
        lab.runtime.stop(asked.name, 10)
        assert list(log) == []

    def test_it_lets_another_thread_close_a_follower(self, lab: Lab) -> None:
        asked = request(lab, Program(stdout=b"first\n", exit_code=None))
        lab.runtime.ensure(asked)
        log = lab.runtime.logs(asked.name, "stdout", follow=True)
        next(log)
        rest: list[LogChunk] = []
        reader = threading.Thread(target=lambda: rest.extend(log))
        reader.start()
        log.close()  # type: ignore[attr-defined]
        reader.join(LIMIT)
        assert not reader.is_alive() and rest == []

    @pytest.mark.parametrize("stream", ["stdout", "stderr"])
    def test_it_has_no_log_of_a_container_that_is_gone(self, lab: Lab, stream: Stream) -> None:
        with pytest.raises(RuntimeFault) as raised:
            list(lab.runtime.logs("longshore-never-was", stream))
        assert raised.value.reason is FaultReason.GONE

    # --- events ---

    def test_it_wakes_when_a_container_ends(self, lab: Lab) -> None:
        asked = request(lab)
        lab.runtime.ensure(asked)
        drain(lab)
        woken = threading.Event()

        def watch() -> None:
            while not woken.is_set():
                lab.runtime.wait_event(1.5, woken.set)

        watcher = threading.Thread(target=watch, daemon=True)
        watcher.start()
        lab.runtime.stop(asked.name, 5)
        assert woken.wait(LIMIT)
        watcher.join(LIMIT)
        assert not watcher.is_alive()

    def test_it_loses_no_event_between_two_windows(self, lab: Lab) -> None:
        asked = request(lab)
        lab.runtime.ensure(asked)
        drain(lab)
        lab.runtime.stop(asked.name, 5)
        woken = threading.Event()
        until(lambda: lab.runtime.wait_event(0.5, woken.set) and woken.is_set(), what="the end between two windows")

    def test_it_tells_of_images_that_come_and_go_apart_from_containers(self, lab: Lab) -> None:
        asked = request(lab, Program(exit_code=3))
        lab.runtime.ensure(asked)
        ended(lab, asked.name)
        drain(lab)
        image, told = "localhost/longshore-kept:told", threading.Event()
        for change in (lambda: lab.runtime.keep(asked.name, image, 1 << 30), lambda: lab.runtime.drop_image(image)):
            told.clear()
            change()
            until(lambda: lab.runtime.wait_event(0.5, lambda: None, told.set) and told.is_set(), what="an image")

    def test_its_window_ends_in_time_also_when_nothing_happens(self, lab: Lab) -> None:
        drain(lab)
        begun = time.monotonic()
        with quick(3, "a window of 0.3 s"):
            assert lab.runtime.wait_event(0.3, lambda: None) is True
        assert time.monotonic() - begun > 0.25

    # --- the engine ---

    def test_it_leads_to_what_listens_on_its_host(self, lab: Lab) -> None:
        lab.echo(port := random.randrange(20_000, 29_000))
        sent = os.urandom(300_000)
        with lab.runtime.dial(lab.address, port) as way:
            threading.Thread(target=way.sendall, args=(sent,), daemon=True).start()
            way.settimeout(LIMIT)
            assert exactly(way, len(sent)) == sent

    def test_it_says_that_nothing_listens_on_a_port(self, lab: Lab) -> None:
        with pytest.raises(RuntimeFault) as caught:
            lab.runtime.dial(lab.address, 29_999)
        assert (caught.value.reason, "29999" in caught.value.sentence) == (FaultReason.REFUSED, True)

    def test_it_knows_its_host(self, lab: Lab) -> None:
        info = lab.runtime.info()
        assert info.engine_id and info.hostname and info.version
        assert info.cpus >= 1 and info.memory_mb > 500
        assert not info.swarm_worker and not info.kubelet


def left_in_created(lab: Lab, asked: ContainerRequest) -> None:
    """As a worker leaves it that dies between create and start."""
    answers = iter([True, False])
    with pytest.raises(RuntimeFault) as raised:
        lab.runtime.ensure(asked, still_wanted=lambda: next(answers))
    assert raised.value.reason is FaultReason.WITHDRAWN


def drain(lab: Lab) -> None:
    """Take the events so far."""
    lab.runtime.list()
    lab.runtime.wait_event(0.2, lambda: None)
