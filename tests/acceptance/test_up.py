"""``manage.py up`` for real: a folder of its own, real processes, real signals."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from urllib.error import URLError

import pytest

from portal.supervisor import ReadinessWatch
from tests.acceptance.portal import WHO, environment, free_port, processes_of
from tests.helpers import LIMIT, quick, until

ROOT = Path(__file__).resolve().parents[2]
ALWAYS = (WHO["web"], WHO["scheduler"], WHO["workers"], WHO["sampler"])


class Portal:
    """One ``manage.py up`` in its own LONGSHORE_HOME. Its processes are those with that folder in their environment."""

    def __init__(self, home: Path, **settings: str) -> None:
        self.home = home
        self.settings = settings
        self.port = free_port()
        self.output = home / "output.txt"
        self.process = self.start()

    def start(self) -> subprocess.Popen[bytes]:
        with self.output.open("ab") as output:
            return subprocess.Popen(
                [sys.executable, str(ROOT / "manage.py"), "up"],
                stdout=output,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                env=self.environment(),
                start_new_session=True,
            )

    def environment(self) -> dict[str, str]:
        own = {
            "LONGSHORE_HOME": str(self.home),
            "LONGSHORE_BIND": f"127.0.0.1:{self.port}",
            "DOCKER_HOST": f"unix://{self.home}/no-docker.sock",
        }
        return environment({**own, **self.settings})

    def text(self) -> str:
        return self.output.read_text()

    def get(self, path: str) -> tuple[int, bytes]:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=LIMIT) as answer:
                return answer.status, answer.read()
        except (URLError, OSError) as error:
            return getattr(error, "code", 0), b""

    def wait_until_ready(self) -> None:
        until(lambda: "is ready: http" in self.text() or self.process.poll() is not None, 90, what="ready")
        assert self.process.poll() is None, self.text()

    def processes(self) -> dict[int, str]:
        return processes_of(self.home)

    def running(self, what: str) -> list[int]:
        return sorted(pid for pid, line in self.processes().items() if what in line)

    def clean_up(self) -> None:
        for _ in range(3):
            for pid in self.processes():
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
        self.process.wait(LIMIT)


@pytest.fixture(scope="module")
def portal(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Portal]:
    """Shared, since a start costs seconds; the last test of this file ends it."""
    one = Portal(tmp_path_factory.mktemp("shared"))
    try:
        one.wait_until_ready()
        yield one
    finally:
        one.clean_up()


def test_it_starts_answers_and_ends_within_ten_seconds_with_no_orphan(tmp_path: Path) -> None:
    portal = Portal(tmp_path)
    try:
        portal.wait_until_ready()
        assert portal.get("/login")[0] == 200
        assert portal.get("/api/v1/") == (200, b"<pre>PAI RESTful API</pre>")
        until(lambda: json.loads(portal.get("/healthz")[1])["status"] == "ok", 30, what="all processes seen")
        assert all(portal.running(what) for what in ALWAYS)
        secret = portal.home / "secrets" / "admin-password"
        assert secret.read_text().strip() in portal.text()
        assert secret.stat().st_mode & 0o777 == 0o600
        with quick(10, "the end of the portal"):
            portal.process.send_signal(signal.SIGTERM)
            portal.process.wait(LIMIT)
        assert portal.processes() == {}

        portal.output.write_text("")
        portal.process = portal.start()
        portal.wait_until_ready()
        assert "password" not in portal.text()  # printed once
        os.killpg(portal.process.pid, signal.SIGINT)  # Ctrl-C
        portal.process.wait(LIMIT)
        assert portal.processes() == {}
    finally:
        portal.clean_up()


def test_several_web_processes_share_the_work_are_replaced_and_leave_no_orphan(tmp_path: Path) -> None:
    portal, part = Portal(tmp_path, LONGSHORE_WEB_PROCESSES="2"), "multiprocessing.spawn"
    try:
        portal.wait_until_ready()
        before = until(lambda: len(found := portal.running(part)) == 2 and found, 30, what="two of them")
        os.kill(before[0], signal.SIGKILL)
        until(lambda: len(set(portal.running(part)) | set(before)) == 3, 30, what="another for the killed one")
        until(lambda: portal.get("/login")[0] == 200, 30, what="a page from those that are left")
        portal.process.kill()
        portal.process.wait(LIMIT)
        until(lambda: not portal.processes(), 20, what="all gone, also the new one once it has started")
    finally:
        portal.clean_up()


@pytest.mark.parametrize("what", ALWAYS)
def test_a_killed_process_is_started_again_and_its_children_are_gone(portal: Portal, what: str) -> None:
    until(lambda: portal.running(what), 30, what=what)
    before = portal.running(what)
    os.kill(before[0], signal.SIGKILL)
    until(lambda: (now := portal.running(what)) and not set(before) & set(now), 30, what=f"a new {what}")
    until(lambda: portal.get("/healthz")[0] == 200, 30, what="web answers again")


def test_what_all_others_are_forked_from_has_no_thread_and_no_connection(portal: Portal) -> None:
    """Neither survives a fork."""
    told = Path(f"/proc/{portal.process.pid}")
    assert "\nThreads:\t1\n" in (told / "status").read_text()
    files = [os.readlink(file) for file in (told / "fd").iterdir()]
    assert not [file for file in files if file.startswith("socket:") or "db.sqlite3" in file], files


def test_they_share_the_memory_of_the_program(portal: Portal) -> None:
    """What a process alone has is less than half of what it uses: the program is loaded once."""
    for who in ("web", "scheduler", "workers", "sampler"):
        (pid,) = portal.running(WHO[who])
        kept = {"Rss": 0, "Private_Clean": 0, "Private_Dirty": 0}
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:]:
            name, _, size = line.partition(":")
            if name in kept:
                kept[name] = int(size.split()[0])
        assert kept["Private_Clean"] + kept["Private_Dirty"] < kept["Rss"] / 2, (who, kept)


def test_a_second_one_on_the_same_folder_is_refused_in_a_sentence(portal: Portal) -> None:
    assert refusal(portal.home, **portal.environment()).startswith(
        f"CommandError: Longshore already runs from {portal.home} (process {portal.process.pid})."
    )


def test_killing_it_leaves_no_orphan(portal: Portal) -> None:
    until(lambda: portal.running(WHO["workers"]), 30, what="workers")
    portal.process.kill()
    portal.process.wait(LIMIT)
    until(lambda: not portal.processes(), what="all gone")


def test_a_taken_port_and_a_wrong_value_are_told_in_a_sentence(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert f"LONGSHORE_BIND is 127.0.0.1:{port}, which cannot be used: Address already in use." in refusal(
            tmp_path, LONGSHORE_BIND=f"127.0.0.1:{port}"
        )
    assert "LONGSHORE_NODE_LOST_AFTER is 'soon'" in refusal(tmp_path, LONGSHORE_NODE_LOST_AFTER="soon")
    assert "LONGSHORE_ADMIN_PASSWORD: This password is too short." in refusal(
        tmp_path, LONGSHORE_ADMIN_PASSWORD="short", LONGSHORE_BIND=f"127.0.0.1:{free_port()}"
    )


@pytest.mark.parametrize(("public", "said"), [("", "http://127.0.0.1:8080"), ("https://gpu.lab", "https://gpu.lab")])
def test_it_says_that_it_is_ready_at_the_address_which_people_use(public: str, said: str) -> None:
    assert ReadinessWatch("0.0.0.0", "8080", "1", None, public=public)._sentence().endswith(f" is ready: {said}")


def test_no_other_user_of_the_machine_reads_anything_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can try it as somebody else")
    with tempfile.TemporaryDirectory() as outside:
        os.chmod(outside, 0o755)
        home = Path(outside, "a-path-so-long-that-the-sockets-of-wake-ups-cannot-be-below-it", "home")
        home.mkdir(mode=0o755, parents=True)  # as the first release made it
        (home / "dockerd.log").touch(mode=0o644)
        monkeypatch.setenv("TMPDIR", outside)
        portal = Portal(home)
        try:
            portal.wait_until_ready()
            assert f"could read {home}; now they cannot" in portal.text()
            sockets = [str(each) for each in Path(outside).glob("longshore-*-*")]
            assert sockets
            assert found_by("nobody", str(home), *sockets) == []
            assert found("-perm", "/077", within=[str(home), *sockets]) == []
        finally:
            portal.clean_up()


def found_by(user: str, *folders: str) -> list[str]:
    """What of it this user can list, read or write."""
    conditions = ["(", "-readable", "-o", "-writable", "-o", "-executable", ")"]
    find = ["runuser", "-u", user, "--", "find", *folders, *conditions]
    return subprocess.run(find, capture_output=True, text=True, timeout=LIMIT, cwd="/").stdout.split()


def found(*conditions: str, within: list[str]) -> list[str]:
    find = ["find", *within, "!", "-type", "l", *conditions]
    return subprocess.run(find, capture_output=True, text=True, timeout=LIMIT, check=True).stdout.split()


def refusal(home: Path, **settings: str) -> str:
    """What a start that must fail says; one line and no traceback."""
    answer = subprocess.run(
        [sys.executable, str(ROOT / "manage.py"), "up"],
        capture_output=True,
        text=True,
        timeout=LIMIT,
        env={"PATH": os.environ["PATH"], **settings, "LONGSHORE_HOME": str(home)},
    )
    assert answer.returncode == 1
    assert len(answer.stderr.strip().splitlines()) == 1, answer.stderr
    return answer.stderr


def test_prepare_does_what_a_start_needs_and_ends(tmp_path: Path) -> None:
    own = {"LONGSHORE_HOME": str(tmp_path), "LONGSHORE_BIND": f"127.0.0.1:{free_port()}"}
    command = [sys.executable, str(ROOT / "manage.py"), "up", "--prepare"]
    for told in (1, 0):  # a first start is not silent until the database is made
        done = subprocess.run(command, env=environment(own), capture_output=True, text=True, timeout=LIMIT)
        assert done.returncode == 0, done.stderr
        assert done.stdout.count("the database is brought up to this release") == told
    assert (tmp_path / "static" / ".stamp").exists() and (tmp_path / "secrets" / "admin-password").exists()
    assert processes_of(tmp_path) == {}
