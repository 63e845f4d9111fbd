"""``longshore`` as its users have it: what they do on their first day, against a portal with a real engine."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.portal import ROOT, SECRET, Portal, free_port
from tests.bed.docker_bed import BedNode
from tests.helpers import LIMIT, until

PROGRAM = str(ROOT / "scripts" / "longshore")
IMAGE = ("--image", "longshore/sample:1", "--memory", "100m")
ENDS = "for i in 1 2 3; do echo step $i; done; echo warned >&2; cat data/in.txt; exit 3\n"
GOES_ON = "echo began; while :; do sleep 0.2; done\n"


@dataclass(frozen=True)
class Laptop:
    """A user's machine: a home and a folder of its own."""

    home: Path
    url: str

    @property
    def project(self) -> Path:
        return self.home / "project"

    @property
    def environment(self) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith("LONGSHORE_")}
        return {**kept, "XDG_CONFIG_HOME": str(self.home / "config")}

    def does(self, *arguments: str, code: int = 0, **env: str) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            [PROGRAM, *arguments],
            env={**self.environment, **env},
            cwd=self.project,
            capture_output=True,
            text=True,
            timeout=LIMIT,
            stdin=subprocess.DEVNULL,
        )
        assert done.returncode == code, (arguments, done.returncode, done.stdout, done.stderr)
        return done

    def told(self, *arguments: str) -> Any:
        return json.loads(self.does(*arguments, "--json").stdout)

    def begins(self, *arguments: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [PROGRAM, *arguments],
            env={**self.environment, "PYTHONUNBUFFERED": "1"},
            cwd=self.project,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            stdin=subprocess.DEVNULL,
            text=True,
        )


@pytest.fixture(scope="module")
def portal(shared_portal: Portal, docker_engine: BedNode) -> Iterator[Portal]:
    shared_portal.http.put("/user", json={"username": "mira", "password": SECRET, "admin": False, "modify": False})
    yield shared_portal
    for job in shared_portal.get("/jobs"):
        if job["state"] in ("WAITING", "RUNNING"):
            shared_portal.http.put(f"/user/{job['username']}/jobs/{job['name']}/executionType", json={"value": "STOP"})
    shared_portal.wait_clean(docker_engine)


@pytest.fixture
def laptop(portal: Portal, tmp_path: Path) -> Laptop:
    laptop = Laptop(tmp_path, portal.url)
    (laptop.project / "data").mkdir(parents=True)
    (laptop.project / "data" / "in.txt").write_text("what goes in\n")
    (laptop.project / "train.sh").write_text(ENDS)
    (laptop.project / ".longshoreignore").write_text("*.bin\n")
    (laptop.project / "model.bin").write_bytes(bytes(1000))
    said = laptop.does("login", portal.url, "--user", "mira", LONGSHORE_PASSWORD=SECRET).stderr
    assert f"Signed in to {portal.url} as mira" in said and SECRET not in said
    kept = tmp_path / "config" / "longshore" / "account.json"
    assert kept.stat().st_mode & 0o777 == 0o600
    return laptop


def begin(laptop: Laptop, name: str, script: str = GOES_ON) -> str:
    """A job that runs until it is stopped."""
    (laptop.project / "train.sh").write_text(script)
    laptop.does("run", "-d", "--name", name, *IMAGE, "--", "sh", "train.sh")
    until(lambda: "began" in laptop.does("logs", name).stdout, 40, 0.3, f"{name} runs")
    return name


# --- the first day ---------------------------------------------------------------------------------------------------


def test_a_folder_is_run_followed_and_ends_with_the_job_s_own_code(laptop: Laptop) -> None:
    done = laptop.does("run", *IMAGE, "--", "sh", "train.sh", code=3)
    assert done.stdout == "step 1\nstep 2\nstep 3\nwhat goes in\n"
    assert "\nwarned\n" in done.stderr and "FAILED, exit code 3" in done.stderr
    assert "without 1 that are left out" in done.stderr
    (job,) = [each for each in laptop.told("ls") if each["name"].startswith("project-")][:1]
    assert (job["state"], job["username"]) == ("FAILED", "mira")
    assert "exit code" in laptop.does("why", job["name"]).stdout
    assert laptop.does("logs", "--grep", "STEP [12]", job["name"]).stdout == ""
    assert laptop.does("logs", "--grep", "step [12]", job["name"]).stdout == "step 1\nstep 2\n"


def test_a_job_that_cannot_run_is_refused_before_anything_is_uploaded(laptop: Laptop, portal: Portal) -> None:
    done = laptop.does("run", "--name", "huge", "--memory", "9t", *IMAGE[:2], "--", "true", code=65)
    assert "longshore: This could never run: " in done.stderr and "GB of memory" in done.stderr
    assert laptop.does("show", "huge", code=66).stderr == "longshore: Job huge is not found.\n"
    assert not (portal.home / "store" / "users" / "mira" / "code" / "huge").exists()


def test_a_config_is_submitted_and_one_with_a_mistake_refused_with_its_line(laptop: Laptop) -> None:
    text = '{"jobName": "one-file", // a comment\n "image": "longshore/sample:1",\n "taskRoles": [%s]}'
    role = '{"name": "main", "cpuNumber": 1, "memoryMB": 100, "command": "echo hello"}'
    (laptop.project / "job.json").write_text(text % role)
    assert laptop.does("submit", "-f", "job.json").stdout == "hello\n"
    assert laptop.does("wait", "one-file").stdout == ""
    assert "one-file" in laptop.does("submit", "job.json", code=65).stderr
    (laptop.project / "job.json").write_text(text % role.replace("100", '"much"'))
    assert "longshore: line 3, column" in laptop.does("submit", "job.json", code=65).stderr


def test_a_running_job_is_shown_and_stopped(laptop: Laptop) -> None:
    name = begin(laptop, "to-stop")
    shown = laptop.does("show", name).stdout
    assert "mira~to-stop  RUNNING" in shown and "main-0  RUNNING  local" in shown
    assert laptop.told("show", name)["taskRoles"]["main"]["taskStatuses"][0]["nodeName"] == "local"
    assert "told to stop" in laptop.does("stop", name).stderr
    laptop.does("wait", name, code=1)
    assert "STOPPED" in laptop.does("ls", "--state", "STOPPED").stdout


def test_one_that_waits_says_why_and_what_would_help(laptop: Laptop) -> None:
    name = begin(laptop, "holder", GOES_ON)
    laptop.does("run", "-d", "--name", "waits", "--cpus", "8", *IMAGE, "--", "true")
    said = until(lambda: laptop.does("why", "waits").stdout, what="a reason")
    assert "8" in said and "CPU" in said.upper()
    assert laptop.told("why", "waits")["summary"]
    laptop.does("stop", "waits")
    laptop.does("stop", name)


def test_a_folder_goes_to_the_store_and_back(laptop: Laptop) -> None:
    laptop.does("cp", "data", "store:/users/mira/sets")
    laptop.does("cp", "store:/users/mira/sets/in.txt", "back.txt")
    laptop.does("cp", "store:/users/mira/sets", "back")
    assert (laptop.project / "back.txt").read_text() == "what goes in\n"
    assert (laptop.project / "back" / "in.txt").read_text() == "what goes in\n"
    again = laptop.does("cp", "data/in.txt", "store:/users/mira/sets/", code=73)
    assert "exists already" in again.stderr
    laptop.does("cp", "-f", "data/in.txt", "store:/users/mira/sets/")
    assert "nowhere does not exist" in laptop.does("cp", "store:/users/mira/nowhere", ".", code=66).stderr


def test_the_package_does_the_same(portal: Portal, laptop: Laptop) -> None:
    import client

    token = json.loads((laptop.home / "config" / "longshore" / "account.json").read_text())["token"]
    portal_of_mira = client.Client(portal.url, token)
    job = portal_of_mira.run("cat data/in.txt", folder=str(laptop.project), image=IMAGE[1], memory="100m")
    assert [line.text for line in job.logs(follow=True)] == ["what goes in"]
    assert job.wait()["state"] == "SUCCEEDED"
    assert [line.text for line in job.logs()] == ["what goes in"]
    assert job.name in [each.name for each in portal_of_mira.jobs()]
    with pytest.raises(client.ClientError, match="not found"):
        portal_of_mira.job("nobody-has-it").status()


# --- bad luck --------------------------------------------------------------------------------------------------------


def test_each_wrong_address_or_token_is_a_sentence_and_a_code(laptop: Laptop, portal: Portal) -> None:
    away = f"http://127.0.0.1:{free_port()}"
    said = laptop.does("ls", code=69, LONGSHORE_URL=away, LONGSHORE_TOKEN=_token(laptop)).stderr
    assert said == f"longshore: {away} does not answer (Connection refused).\n"
    assert "You are not signed in" in laptop.does("ls", code=77, LONGSHORE_URL=away).stderr
    assert "is no token" in laptop.does("ls", code=77, LONGSHORE_TOKEN="abc").stderr
    forged = _token(laptop)[:-3] + "abc"
    (laptop.project / "job.json").write_text("{}")
    assert "Sign in: longshore login" in laptop.does("submit", "job.json", code=77, LONGSHORE_TOKEN=forged).stderr
    old = "e30.eyJ1c2VybmFtZSI6Im1pcmEiLCJleHAiOjF9.x"
    assert "has ended: longshore login" in laptop.does("ls", code=77, LONGSHORE_TOKEN=old).stderr
    said = laptop.does("login", portal.url, "--user", "mira", code=65, LONGSHORE_PASSWORD="not hers").stderr
    assert "password is incorrect" in said.lower()


def test_ctrl_c_leaves_a_job_alone_and_twice_stops_it(laptop: Laptop) -> None:
    name = begin(laptop, "pressed")
    following = laptop.begins("logs", "-f", name)
    assert following.stdout is not None and following.stdout.readline() == "began\n"
    following.send_signal(signal.SIGINT)
    assert following.wait(LIMIT) == 130
    assert laptop.told("show", name)["jobStatus"]["state"] == "RUNNING"
    (laptop.project / "train.sh").write_text(GOES_ON)
    ran = laptop.begins("run", "--name", "pressed-twice", *IMAGE, "--", "sh", "train.sh")
    assert ran.stdout is not None and ran.stdout.readline() == "began\n"
    ran.send_signal(signal.SIGINT)
    assert ran.stderr is not None
    until(lambda: "Ctrl-C again stops the job" in ran.stderr.readline(), what="it says what a second one does")
    ran.send_signal(signal.SIGINT)
    assert ran.wait(LIMIT) == 130
    assert laptop.told("show", "pressed-twice")["jobStatus"]["state"] == "STOPPED"
    laptop.does("stop", name)


def _token(laptop: Laptop) -> str:
    return str(json.loads((laptop.home / "config" / "longshore" / "account.json").read_text())["token"])
