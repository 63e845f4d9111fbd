"""``longshore exec``, ``forward`` and ``ssh``: through the portal into a running task, against a real engine."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import httpx
import pytest

from tests.acceptance.laptop import GOES_ON, Laptop, begin, laptop_of, stop_all_of
from tests.acceptance.portal import Portal, free_port
from tests.bed.docker_bed import BedNode
from tests.bed.ssh_image import ensure_ssh_image
from tests.helpers import LIMIT, until

SERVES = """echo began
while :; do
  printf 'HTTP/1.0 200 OK\\r\\n\\r\\nhello from inside' | nc -l -p "$PAI_CONTAINER_HOST_http_PORT_LIST"
done
"""
HOLDS = """echo began
while :; do { while echo held; do sleep 0.2; done; } | nc -l -p "$PAI_CONTAINER_HOST_http_PORT_LIST"; done
"""


@pytest.fixture(scope="module")
def portal(shared_portal: Portal, docker_engine: BedNode) -> Iterator[Portal]:
    yield shared_portal
    stop_all_of(shared_portal)
    shared_portal.wait_clean(docker_engine)


@pytest.fixture(scope="module")
def laptop(portal: Portal, tmp_path_factory: pytest.TempPathFactory) -> Laptop:
    return laptop_of(portal, tmp_path_factory.mktemp("laptop"))


@pytest.fixture(scope="module")
def serving(laptop: Laptop) -> str:
    return begin(laptop, "serves", SERVES)


def test_a_command_in_a_task_has_its_bytes_and_its_exit_code(laptop: Laptop, serving: str) -> None:
    done = laptop.does("exec", serving, "--", "sh", "-c", "seq 3; echo wrong >&2; exit 7", code=7)
    assert done.stdout == "1\n2\n3\nwrong\n"
    read = laptop.does("exec", serving, "--", "cat", given="typed\nno line end")
    assert read.stdout == "typed\nno line end"


def test_a_shell_ends_where_its_input_does(laptop: Laptop, serving: str) -> None:
    assert "42" in laptop.does("exec", serving, given="echo $((6 * 7))\n").stdout


def test_nobody_else_gets_in_and_a_job_that_does_not_run_is_said(laptop: Laptop, portal: Portal, serving: str) -> None:
    portal.http.put("/user", json={"username": "nora", "password": "noras own", "admin": False, "modify": False})
    answer = httpx.post(f"{portal.url}/api/v1/token", json={"username": "nora", "password": "noras own"})
    nora = {"LONGSHORE_URL": portal.url, "LONGSHORE_TOKEN": answer.json()["token"]}
    for command in (("exec", f"mira~{serving}", "--", "true"), ("forward", f"mira~{serving}", "http")):
        assert "is for mira and for admins" in laptop.does(*command, code=77, **nora).stderr
    assert "is not found" in laptop.does("exec", "nothing", "--", "true", code=66).stderr


def test_a_port_of_a_task_is_one_of_this_machine(laptop: Laptop, serving: str) -> None:
    local = free_port()
    forwarding = laptop.begins("forward", "-l", str(local), serving, "http")
    assert forwarding.stderr is not None
    assert f"http://127.0.0.1:{local} leads to port http of main-0" in forwarding.stderr.readline()
    for _ in range(3):  # its program takes one connection, and begins anew
        assert until(lambda: _asked(local), what="an answer") == "hello from inside"
    forwarding.send_signal(signal.SIGINT)
    assert forwarding.wait(LIMIT) == 130
    assert "was given no port 22. It has: http (" in laptop.does("forward", serving, "22", code=66).stderr
    assert "not found" in laptop.does("ssh", "nowhere", code=66).stderr
    assert "Its image needs an sshd" in laptop.does("ssh", serving, code=66).stderr
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        assert "cannot be used" in laptop.does("forward", "-l", port, serving, "http", code=1).stderr


def test_ssh_and_sftp_come_through_the_portal(laptop: Laptop, docker_engine: BedNode) -> None:
    name = begin(laptop, "has-sshd", GOES_ON, ensure_ssh_image(docker_engine))
    said = laptop.does("ssh", "--config").stderr
    config = said.rpartition("Include ")[2].strip()
    assert Path(config).is_file()
    assert until(lambda: _logged_in(laptop, config, name), 40, 0.5, "a login") == f"0-mira~{name}\n"
    key = laptop.home / "config" / "longshore" / "keys" / f"main-0.{name}.longshore"
    assert key.stat().st_mode & 0o777 == 0o600
    assert laptop.does("ssh", name, "echo through").stdout == "through\n"


def test_a_connection_ends_with_the_right_to_it(laptop: Laptop, portal: Portal) -> None:
    name = begin(laptop, "listens", HOLDS)
    ada = {"username": "ada", "password": "adas secret"}
    portal.http.put("/user", json={**ada, "admin": True, "modify": False})
    token = httpx.post(f"{portal.url}/api/v1/token", json=ada).json()["token"]
    local = free_port()
    forwarding = laptop.begins("forward", "-l", str(local), f"mira~{name}", "http", LONGSHORE_TOKEN=token)
    assert forwarding.stderr is not None and "leads to" in forwarding.stderr.readline()
    with until(lambda: _held(local), what="its program takes the connection") as held:
        portal.http.put("/user/ada/password", json={"newPassword": "another secret"})
        with pytest.raises(ConnectionResetError):
            while held.recv(100):
                pass
    forwarding.kill()
    assert "You are not signed in any more." in forwarding.communicate(timeout=LIMIT)[1]


def _held(port: int) -> socket.socket | None:
    """A connection that the task has taken: its program takes one at a time, and begins anew."""
    made = socket.create_connection(("127.0.0.1", port), LIMIT)
    with suppress(ConnectionResetError):
        if made.recv(100).startswith(b"held\n"):
            return made
    made.close()
    return None


def _logged_in(laptop: Laptop, config: str, name: str) -> str:
    done = subprocess.run(
        [shutil.which("ssh") or "ssh", "-F", config, f"main-0.{name}.longshore", "echo $PAI_TASK_INDEX-$PAI_JOB_NAME"],
        env={**os.environ, **laptop.environment},
        capture_output=True,
        text=True,
        timeout=LIMIT,
        stdin=subprocess.DEVNULL,
    )
    return done.stdout


def _asked(port: int) -> str:
    try:
        return httpx.get(f"http://127.0.0.1:{port}/", timeout=LIMIT).text
    except httpx.HTTPError:
        return ""
