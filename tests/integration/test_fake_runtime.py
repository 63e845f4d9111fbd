"""The fake engine: the contract, and what only it can do."""

from __future__ import annotations

import itertools
import socket
import threading

import pytest

from clusters.engines.runtime import ContainerRequest, FaultReason, File, Phase, Progress, RuntimeFault
from tests.contract_attach import AttachContract
from tests.contract_runtime import Lab, Program, RuntimeContract, request
from tests.fakes.runtime import Behaviour, FakeRuntime
from tests.helpers import LIMIT, until


class FakeLab:
    image = "team/image:1"
    absent_image = "team/absent:1"
    absent_gpus = ("17",)
    address = "10.0.0.1"

    def __init__(self) -> None:
        self.runtime = FakeRuntime(gpu_ids=frozenset(), images=frozenset({self.image}))
        missing = RuntimeFault(
            f"Image {self.absent_image} does not exist.", reason=FaultReason.IMAGE_MISSING, permanent=True
        )
        self.runtime.behave(Behaviour(pull_fault=missing), image=self.absent_image)
        self._numbers = itertools.count(1)

    def argv(self, program: Program) -> tuple[str, ...]:
        word = f"program-{next(self._numbers)}-"
        behaviour = Behaviour(
            exit_code=program.exit_code,
            stdout=tuple(program.stdout.splitlines(keepends=True)),
            stderr=tuple(program.stderr.splitlines(keepends=True)),
            ignores_term=program.ignores_term,
            saves=program.saves,
        )
        self.runtime.behave(behaviour, contains=word)
        return ("sh", "-c", word)

    def files(self, program: Program) -> tuple[File, ...]:
        return ()

    def read_file(self, name: str, path: str) -> bytes:
        return self.runtime.files_of(name)[path]

    def echo(self, port: int) -> None:
        listener = socket.create_server(("127.0.0.1", 0))
        self.runtime.listening[port] = listener.getsockname()
        threading.Thread(target=_echo, args=(listener,), daemon=True).start()


def _echo(listener: socket.socket) -> None:
    with listener, listener.accept()[0] as way:
        while piece := way.recv(65536):
            way.sendall(piece)


@pytest.fixture
def lab() -> FakeLab:
    return FakeLab()


@pytest.fixture
def stranger(lab: FakeLab) -> str:
    lab.runtime.ensure(ContainerRequest("somebody-elses", lab.image, ("true",)))
    return "somebody-elses"


class TestContract(RuntimeContract):
    pass


class TestTerminals(AttachContract):
    pass


def test_it_ends_a_container_on_time_and_wakes(lab: FakeLab) -> None:
    lab.runtime.behave(Behaviour(exit_code=4, seconds=0.05), contains="timed")
    asked = request(lab, argv=("timed",))
    lab.runtime.ensure(asked)
    woken: list[int] = []
    lab.runtime.wait_event(0.2, lambda: woken.append(1))
    assert woken and lab.runtime.list()[0].exit_code == 4


def test_it_ends_a_container_when_told(lab: FakeLab) -> None:
    asked = request(lab)
    lab.runtime.ensure(asked)
    lab.runtime.finish(asked.name, 137, oom=True)
    (status,) = lab.runtime.list()
    assert (status.exit_code, status.oom_killed) == (137, True)


def test_it_cannot_be_reached_while_cut_and_its_containers_go_on(lab: FakeLab) -> None:
    asked = request(lab)
    lab.runtime.ensure(asked)
    lab.runtime.cut()
    with pytest.raises(RuntimeFault) as raised:
        lab.runtime.list()
    assert raised.value.reason is FaultReason.UNREACHABLE
    lab.runtime.heal()
    assert lab.runtime.list()[0].phase is Phase.RUNNING


def test_it_ends_streams_when_cut(lab: FakeLab) -> None:
    asked = request(lab)
    lab.runtime.ensure(asked)
    log = lab.runtime.logs(asked.name, "stdout", follow=True)
    answers: list[bool] = []
    watch = threading.Thread(target=lambda: answers.append(lab.runtime.wait_event(LIMIT, lambda: None)))
    watch.start()
    until(lambda: lab.runtime.calls["wait_event"])
    lab.runtime.cut()
    watch.join(LIMIT)
    assert answers == [False] and list(log) == []


def test_it_loses_everything_that_runs_with_the_power(lab: FakeLab) -> None:
    asked = request(lab)
    lab.runtime.ensure(asked)
    lab.runtime.power_loss()
    (status,) = lab.runtime.list()
    assert (status.lost, status.exit_code) == (True, None)


def test_with_a_full_disk_its_list_misses_an_end_until_somebody_looks_closer(
    lab: FakeLab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tests.fakes.host.LOOK_CLOSER", LIMIT)
    names = [request(lab), request(lab)]
    for asked in names:
        lab.runtime.ensure(asked)
    lab.runtime.disk_full = True
    for asked in names:
        lab.runtime.finish(asked.name)
        assert next(one for one in lab.runtime.list() if one.name == asked.name).phase is Phase.RUNNING
    monkeypatch.setattr("tests.fakes.host.LOOK_CLOSER", 0.0)
    assert {status.exit_code for status in lab.runtime.list()} == {0}


def test_it_raises_a_fault_once_for_each_time_it_was_asked(lab: FakeLab) -> None:
    lab.runtime.fail_next("stop", RuntimeFault("No.", reason=FaultReason.UNREACHABLE))
    with pytest.raises(RuntimeFault, match=r"No\."):
        lab.runtime.stop("any", 1)
    lab.runtime.stop("any", 1)


def test_it_takes_the_copy_it_has_when_the_registry_is_away(lab: FakeLab) -> None:
    away = RuntimeFault("away", reason=FaultReason.REGISTRY_UNREACHABLE)
    lab.runtime.behave(Behaviour(pull_fault=away))
    assert lab.runtime.ensure(request(lab, argv=("x",), pull="always")).phase is Phase.RUNNING
    with pytest.raises(RuntimeFault, match="away"):
        lab.runtime.ensure(request(lab, argv=("x",), image="team/other:1"))


def test_it_reports_the_progress_it_was_told(lab: FakeLab) -> None:
    steps = (Progress(1, 2, "half"), Progress(2, 2, "all"))
    lab.runtime.behave(Behaviour(pull=steps), image="team/other:1")
    seen: list[Progress] = []
    lab.runtime.ensure(request(lab, argv=("x",), image="team/other:1"), on_progress=seen.append)
    assert tuple(seen) == steps


def test_a_worker_may_die_at_any_step(lab: FakeLab) -> None:
    def die(name: str, what: str) -> None:
        if what == "start":
            raise KeyboardInterrupt

    asked = request(lab)
    lab.runtime.step = die
    with pytest.raises(KeyboardInterrupt):
        lab.runtime.ensure(asked)
    assert lab.runtime.list()[0].phase is Phase.CREATED


def test_it_follows_what_a_container_prints(lab: FakeLab) -> None:
    asked = request(lab)
    lab.runtime.ensure(asked)
    log = lab.runtime.logs(asked.name, "stderr", follow=True)
    lab.runtime.print(asked.name, b"oops\n", "stderr")
    assert next(log).data == b"oops\n"


_: type[Lab] = FakeLab
