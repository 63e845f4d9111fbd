"""A terminal on a real engine, through a portal of two web processes."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from websockets.sync.client import ClientConnection, connect

from tests.acceptance.docker_lab import DockerLab
from tests.acceptance.portal import Portal, config, container_of, docker, portal_on
from tests.acceptance.test_docker_runtime import lab, way
from tests.bed.docker_bed import BedNode
from tests.contract_attach import AttachContract, Person
from tests.helpers import LIMIT, until

pytestmark = pytest.mark.docker
__all__ = ["lab", "way"]  # fixtures: each way to an engine


@pytest.mark.parametrize("way", ["unix"])
class TestTerminals(AttachContract):
    async def is_gone(self, lab: DockerLab, person: Person) -> None:  # type: ignore[override]
        def runs() -> bool:
            listed = lab.sdk.api.top(lab.sdk.containers.list()[0].id)["Processes"]
            return any("sleep 999" in process[-1] for process in listed)

        await asyncio.to_thread(until, lambda: not runs())


@pytest.mark.parametrize("way", ["tls", "ssh"])
class TestFarTerminals:
    """Of the contract, what hangs on the way on which the bytes travel."""

    test_a_shell_answers_what_is_typed = AttachContract.test_a_shell_answers_what_is_typed
    test_control_c_gets_through_while_a_program_writes_without_end = (
        AttachContract.test_control_c_gets_through_while_a_program_writes_without_end
    )
    test_a_megabyte_is_pasted_whole = AttachContract.test_a_megabyte_is_pasted_whole
    test_it_says_how_the_shell_ended = AttachContract.test_it_says_how_the_shell_ended
    test_a_shell_ends_with_its_container = AttachContract.test_a_shell_ends_with_its_container
    test_closing_ends_the_shell = AttachContract.test_closing_ends_the_shell
    test_a_shell_whose_owner_was_lost_is_ended_by_its_mark = (
        AttachContract.test_a_shell_whose_owner_was_lost_is_ended_by_its_mark
    )
    is_gone = TestTerminals.is_gone


@pytest.fixture(scope="module")
def portal(docker_engine: BedNode, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Portal]:
    home = tmp_path_factory.mktemp("portal")
    with portal_on(home, docker_engine, LONGSHORE_WEB_PROCESSES="2", LONGSHORE_TERMINALS="60") as one:
        one.submit(config("shell", "sleep 1000"))
        one.wait_running("shell")
        yield one
        one.stop_all()
        one.wait_clean(docker_engine)


@contextmanager
def terminal(portal: Portal, job: str = "shell", **query: Any) -> Iterator[tuple[ClientConnection, dict[str, Any]]]:
    asked = "&".join(f"{name}={value}" for name, value in query.items())
    head = {"Authorization": portal.http.headers["Authorization"]}
    address = f"{portal.url.replace('http', 'ws')}/terminal/admin/{job}/main/0?{asked}"
    with connect(address, additional_headers=head, proxy=None, open_timeout=LIMIT, ping_timeout=LIMIT) as socket:
        yield socket, json.loads(socket.recv(LIMIT))


def reads(socket: ClientConnection, pattern: str) -> str:
    seen = ""
    while not (found := re.search(pattern, seen)):
        try:
            data = socket.recv(LIMIT)
        except TimeoutError:
            pytest.fail(f"It said only {seen!r}.")
        seen += data.decode(errors="replace") if isinstance(data, bytes) else ""
    return found[0]


def test_it_has_the_environment_of_the_command(portal: Portal) -> None:
    with terminal(portal, cols=133, rows=33) as (socket, _):
        socket.send(b"stty size; echo $PAI_USER_NAME-$PAI_JOB_NAME; echo $PAI_WORK_DIR-${LONGSHORE_FILE_0-none}\r")
        reads(socket, r"\n33 133\r\nadmin-\S*shell\r\n/\S*-none\r\n")
        socket.send('{"close": true}')


def test_a_window_finds_its_shell_again_in_whichever_process_it_comes_to(portal: Portal) -> None:
    with terminal(portal) as (socket, first):
        socket.send(b"KEPT=yes-it-is\r")
    for _ in range(8):
        with terminal(portal, shell=first["shell"]) as (socket, again):
            assert again["shell"] == first["shell"]
            socket.send(b"echo ${KEPT#yes-}\r")
            reads(socket, r"\nit-is\r\n")
    with terminal(portal, shell=first["shell"]) as (socket, _):
        socket.send('{"close": true}')


def test_a_failed_task_is_opened_again_with_the_files_it_had(portal: Portal, docker_engine: BedNode) -> None:
    portal.submit(config("broken", "echo 417 >found.txt; exit 1"))
    portal.wait_state("broken")
    until(lambda: portal.get("/user/admin/jobs/broken/rewind")["kept"], 30, 0.2, "it is kept")
    answer = portal.http.post("/user/admin/jobs/broken/rewind", json={})
    assert answer.status_code == 201, answer.text
    name = answer.json()["name"]
    portal.wait_running(name)
    with terminal(portal, name) as (socket, _):
        socket.send(b"echo file-$(cat found.txt)\r")
        reads(socket, r"\nfile-417\r\n")
    portal.stop(name)


def test_fifty_hold_no_thread_and_end_with_their_windows(portal: Portal, docker_engine: BedNode) -> None:
    with terminal(portal) as (socket, _):
        socket.send(b"exit 0\r")
    before = threads(portal)
    name = container_of(docker_engine, "shell")
    opened = [terminal(portal) for _ in range(50)]
    sockets = [each.__enter__()[0] for each in opened]
    try:
        for socket in sockets:
            socket.send(b"echo one-$((1 + 1))\r")
        for socket in sockets:
            reads(socket, r"\none-2\r\n")
        assert threads(portal) - before <= 2 * 40  # of pools, whatever the number of terminals
    finally:
        for socket in sockets:
            socket.send('{"close": true}')
        for each in opened:
            each.__exit__(None, None, None)
    until(lambda: shells_in(docker_engine, name) == 0, LIMIT, 0.5, "the shells to end")


def threads(portal: Portal) -> int:
    pids = portal.running("web")
    return sum(len(list(Path(f"/proc/{pid}/task").iterdir())) for pid in pids)


def shells_in(node: BedNode, container: str) -> int:
    lines = docker(node, "top", container).splitlines()[1:]
    return sum("/bin/sh -c" not in line and line.rstrip().endswith(("bash", "/bin/sh")) for line in lines)
