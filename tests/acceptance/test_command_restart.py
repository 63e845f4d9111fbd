"""``longshore`` while its portal is really stopped and started, and at a terminal where Ctrl-C is pressed."""

from __future__ import annotations

import os
import pty
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.acceptance.laptop import GOES_ON, IMAGE, Laptop, begin, laptop_of
from tests.acceptance.portal import Portal, portal_on
from tests.bed.docker_bed import BedNode
from tests.helpers import LIMIT, until

COUNTS = "echo began; i=0; until [ -e /tmp/end ]; do i=$((i+1)); echo line $i; sleep 0.1; done; echo $i\n"


@pytest.fixture(scope="module")
def portal(docker_engine: BedNode, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Portal]:
    with portal_on(tmp_path_factory.mktemp("portal"), docker_engine) as one:
        yield one


@pytest.fixture
def laptop(portal: Portal, tmp_path: Path) -> Laptop:
    return laptop_of(portal, tmp_path)


def test_what_waits_for_a_job_or_copies_goes_on_when_the_portal_is_started_again(
    laptop: Laptop, portal: Portal
) -> None:
    name = begin(laptop, "counts", COUNTS)
    content = os.urandom(200 << 20)
    (laptop.project / "large").write_bytes(content)
    following, waiting = laptop.begins("logs", "-f", name), laptop.begins("wait", name)
    inside = laptop.begins("exec", name, "--", "sh", "-c", "echo in; sleep 1000")
    assert inside.stdout is not None and inside.stdout.readline() == "in\n"
    assert following.stdout is not None and following.stdout.readline() == "began\n"
    copying = laptop.begins("cp", "large", "store:/users/mira/large")
    until(lambda: list((portal.home / "store" / "users" / "mira").glob(".large.*")), what="a part of it is there")
    portal.terminate()
    for one in (following, waiting, copying):
        assert one.stderr is not None and " does not answer (" in one.stderr.readline()
    said = inside.communicate(timeout=LIMIT)[1]
    assert inside.returncode == 69 and said.count("\n") == 1, (inside.returncode, said)
    portal.start()
    assert "copied 1 file, 209715200 bytes" in copying.communicate(timeout=LIMIT)[1]
    assert (portal.home / "store" / "users" / "mira" / "large").read_bytes() == content
    laptop.does("exec", name, "--", "touch", "/tmp/end")
    lines = following.stdout.read().splitlines()
    assert lines == [*(f"line {number}" for number in range(1, len(lines))), str(len(lines) - 1)]
    assert (following.wait(LIMIT), waiting.wait(LIMIT)) == (0, 0)


def test_a_pipe_that_nobody_reads_ends_it_quietly(laptop: Laptop) -> None:
    name = begin(laptop, "piped", "echo began; while :; do echo line; sleep 0.1; done\n")
    for command in (f"logs -f {name}", f"exec {name} -- yes"):
        line = f"{laptop.program} {command} | head -1 >/dev/null; echo ${{PIPESTATUS[0]}}"
        env, project = laptop.environment, laptop.project
        done = subprocess.run(["bash", "-c", line], env=env, cwd=project, capture_output=True, text=True, timeout=LIMIT)
        assert (done.stdout, done.stderr) == ("141\n", "")
    laptop.does("stop", name)


def test_ctrl_c_where_a_terminal_asks_stops_the_job_as_a_second_one_does(laptop: Laptop) -> None:
    (laptop.project / "train.sh").write_text(GOES_ON)
    ours, theirs = pty.openpty()
    running = subprocess.Popen(
        [laptop.program, "run", "--name", "asked", *IMAGE, "--", "sh", "train.sh"],
        env={**laptop.environment, "TERM": "dumb"},
        cwd=laptop.project,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
        preexec_fn=_own,
    )
    os.close(theirs)
    said = b""
    for awaited in (b"began", b"q leaves it"):
        while awaited not in said:
            said += os.read(ours, 1000)
        until(lambda: _sleeps(running.pid), what="it waits")
        os.write(ours, b"\x03")
    while b"STOPPED\r\n" not in said:
        said += os.read(ours, 1000)
    assert running.wait(LIMIT) == 130
    os.close(ours)
    assert laptop.told("show", "asked")["jobStatus"]["state"] == "STOPPED"


def _own() -> None:
    """Its standard input is the terminal whose Ctrl-C it hears."""
    import fcntl
    import termios

    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


def _sleeps(pid: int) -> bool:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "S"
