"""``longshore`` as its users have it: what they do on their first day, against a portal with a real engine."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import subprocess
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import httpx
import pytest

import client
from tests.acceptance.laptop import GOES_ON, IMAGE, Laptop, begin, laptop_of, stop_all_of
from tests.acceptance.portal import Portal, free_port
from tests.acceptance.wire import Wire
from tests.bed.docker_bed import BedNode
from tests.helpers import LIMIT, until


@pytest.fixture(scope="module")
def portal(shared_portal: Portal, docker_engine: BedNode) -> Iterator[Portal]:
    yield shared_portal
    stop_all_of(shared_portal)
    shared_portal.wait_clean(docker_engine)


@pytest.fixture
def laptop(portal: Portal, tmp_path: Path) -> Laptop:
    return laptop_of(portal, tmp_path)


# --- the first day ---------------------------------------------------------------------------------------------------


def test_a_folder_is_run_followed_and_ends_with_the_job_s_own_code(laptop: Laptop) -> None:
    done = laptop.does("run", *IMAGE, "--", "sh", "train.sh", code=3)
    assert done.stdout == "step 1\nstep 2\nstep 3\nwhat goes in\n"
    assert "\nwarned\n" in done.stderr and "FAILED, exit code 3" in done.stderr
    assert "without 1 that are left out" in done.stderr
    (job,) = [each for each in laptop.told("ls") if each["name"].startswith("project-")][:1]
    assert (job["state"], job["username"], job["appExitCode"]) == ("FAILED", "mira", 255)  # as v1 has it
    assert re.search(rf"^{job['name']} .* 3$", laptop.does("ls").stdout, re.MULTILINE)
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
    assert "one-file" in laptop.does("submit", "job.json", code=73).stderr
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
    for _ in range(2):  # what is there is known
        assert "copied 0 files" in laptop.does("cp", "data/in.txt", "store:/users/mira/sets/").stderr
        laptop.does("cp", "data", "store:/users/mira/data")
    assert "does not exist" in laptop.does("cp", "store:/users/mira/data/data", ".", code=66).stderr
    (laptop.project / "data" / "in.txt").write_text("it was changed\n")
    again = laptop.does("cp", "data/in.txt", "store:/users/mira/sets/", code=73)
    assert "exists already" in again.stderr
    laptop.does("cp", "-f", "data/in.txt", "store:/users/mira/sets/")
    assert "begins with store:" in laptop.does("cp", "data", "back", code=2).stderr
    assert "nowhere does not exist" in laptop.does("cp", "store:/users/mira/nowhere", ".", code=66).stderr


def test_a_job_is_submitted_again_with_more_memory(laptop: Laptop) -> None:
    (laptop.project / "train.sh").write_text("echo done\n")
    laptop.does("run", "--name", "small", *IMAGE, "--", "sh", "train.sh")
    laptop.does("submit", "--again", "small", "--memory", "0.2g", "-f")
    assert laptop.does("logs", "small-2").stdout == "done\n"
    laptop.does("submit", "--again", "small-2", "-f")
    assert [job["name"] for job in laptop.told("ls", "--keyword", "small")] == ["small-3", "small-2", "small"]
    assert "Name a file" in laptop.does("submit", code=2).stderr


def test_it_says_who_used_what_where_a_page_is_and_completes_names(laptop: Laptop, portal: Portal) -> None:
    used = laptop.told("usage", "--from", "1d", "--by", "day")
    assert used["by"] == "day" and "GPU-HOURS" in laptop.does("usage").stdout
    assert laptop.does("open", "--print", "train").stdout == f"{portal.url}/jobs/mira/train\n"
    assert "_longshore_completion" in laptop.does("completion", "bash").stdout
    (laptop.project / "train.sh").write_text("true\n")
    laptop.does("run", "-d", "--name", "by-tab", *IMAGE, "--", "sh", "train.sh")
    asked = {"_LONGSHORE_COMPLETE": "bash_complete", "COMP_WORDS": "longshore show by-", "COMP_CWORD": "2"}
    assert laptop.does(**asked).stdout == "plain,by-tab\n"


def test_the_portal_hands_out_what_a_clean_machine_installs(portal: Portal, laptop: Laptop) -> None:
    answer = httpx.get(f"{portal.url}/clients", follow_redirects=True)
    assert len(answer.content) < 1 << 20
    assert answer.url.path == f"/clients/longshore-{client.VERSION}-py3-none-any.whl"
    assert "Run deep-learning jobs" in laptop.does("--help").stdout
    assert "-cp" in subprocess.run([laptop.bin / "pai-fs", "--help"], capture_output=True, text=True).stdout
    assert httpx.get(f"{portal.url}/clients/longshore-0.0.1-py3-none-any.whl").status_code == 404


def test_the_package_does_the_same(portal: Portal, laptop: Laptop) -> None:
    assert laptop.account.stat().st_mode & 0o777 == 0o600
    portal_of_mira = client.Client(portal.url, laptop.token)
    job = portal_of_mira.run("cat data/in.txt", folder=str(laptop.project), image=IMAGE[1], memory="100m")
    assert [line.text for line in job.logs(follow=True)] == ["what goes in"]
    assert job.wait()["state"] == "SUCCEEDED"
    assert [line.text for line in job.logs()] == ["what goes in"]
    assert job.name in [each.name for each in portal_of_mira.jobs()]
    with pytest.raises(client.ClientError, match="not found"):
        portal_of_mira.job("nobody-has-it").status()
    assert asyncio.run(_on_a_loop(client.AsyncClient(portal.url, laptop.token), job.name)) == ["what goes in"]


async def _on_a_loop(portal: client.AsyncClient, name: str) -> list[str]:
    assert (await portal.job(name).wait())["state"] == "SUCCEEDED"
    assert name in [job.name for job in await portal.jobs()]
    return [line.text async for line in portal.job(name).logs()]


# --- bad luck --------------------------------------------------------------------------------------------------------


def test_each_wrong_address_or_token_is_a_sentence_and_a_code(laptop: Laptop, portal: Portal) -> None:
    away = f"http://127.0.0.1:{free_port()}"
    said = laptop.does("ls", code=69, LONGSHORE_URL=away, LONGSHORE_TOKEN=laptop.token).stderr
    assert said == f"longshore: {away} does not answer (Connection refused).\n"
    assert "You are not signed in" in laptop.does("ls", code=77, LONGSHORE_URL=away).stderr
    assert "is no token" in laptop.does("ls", code=77, LONGSHORE_TOKEN="abc").stderr
    forged = laptop.token[:-3] + "abc"
    (laptop.project / "job.json").write_text("{}")
    assert "was revoked" in laptop.does("submit", "job.json", code=77, LONGSHORE_TOKEN=forged).stderr
    old = "e30.eyJ1c2VybmFtZSI6Im1pcmEiLCJleHAiOjF9.x"
    assert "has ended: longshore login" in laptop.does("ls", code=77, LONGSHORE_TOKEN=old).stderr
    said = laptop.does("login", portal.url, "--user", "mira", code=77, LONGSHORE_PASSWORD="not hers").stderr
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


@pytest.fixture
def wire(portal: Portal) -> Iterator[Wire]:
    host, port = portal.settings["LONGSHORE_BIND"].split(":")
    with closing(Wire((host, int(port)))) as wire:
        yield wire


def test_a_portal_that_goes_away_loses_no_byte_of_a_log_that_is_followed(laptop: Laptop, wire: Wire) -> None:
    script = "echo began; i=0; while [ $i -lt 60 ]; do i=$((i+1)); echo line $i; sleep 0.1; done\n"
    name = begin(laptop, "interrupted", script)
    own = {"LONGSHORE_URL": f"http://{wire.address}", "LONGSHORE_TOKEN": laptop.token}
    following = laptop.begins("logs", "-f", name, **own)
    assert following.stdout is not None and following.stderr is not None
    first = [following.stdout.readline() for _ in range(5)]
    wire.cut()
    assert "does not answer" in following.stderr.readline()
    wire.mend()
    rest, said = following.stdout.read(), following.stderr.read()
    assert following.wait(LIMIT) == 0 and said == "longshore: The portal is back.\n"
    assert "".join(first) + rest == "began\n" + "".join(f"line {number}\n" for number in range(1, 61))


def test_a_copy_that_breaks_off_goes_on_and_ctrl_c_leaves_what_arrived(laptop: Laptop, wire: Wire) -> None:
    content = os.urandom(24 << 20)
    (laptop.project / "large").write_bytes(content)
    own = {"LONGSHORE_URL": f"http://{wire.address}", "LONGSHORE_TOKEN": laptop.token}
    wire.hold(9 << 20)
    copying = laptop.begins("cp", "large", "store:/users/mira/large", **own)
    until(lambda: wire.passed > 8 << 20, what="a third has passed")
    wire.cut()
    wire.let_go()
    assert copying.stderr is not None and "This waits, and goes on where it was." in copying.stderr.readline()
    wire.mend()
    said = copying.communicate(timeout=LIMIT)[1]
    assert "It goes on." in said and "copied 1 file" in said and said.count("\n") == 2
    wire.hold(9 << 20)
    copying = laptop.begins("cp", "store:/users/mira/large", "back", **own)
    until(lambda: list(laptop.project.glob(".back.*")), what="a part of it")
    copying.send_signal(signal.SIGINT)
    said = copying.communicate(timeout=LIMIT)[1]
    assert (copying.returncode, said) == (130, "longshore: Interrupted: the same command again goes on where it was.\n")
    wire.let_go()
    laptop.does("cp", "store:/users/mira/large", "back")
    assert (laptop.project / "back").read_bytes() == content
    assert not list(laptop.project.glob(".back.*"))


def test_a_folder_comes_whole_though_the_portal_goes_away(laptop: Laptop, wire: Wire) -> None:
    for number in range(30):
        (laptop.project / "data" / f"{number}").write_bytes(os.urandom(100_000))
    laptop.does("cp", "data", "store:/users/mira/many")
    own = {"LONGSHORE_URL": f"http://{wire.address}", "LONGSHORE_TOKEN": laptop.token}
    wire.hold(1 << 20)
    copying = laptop.begins("cp", "store:/users/mira/many", "back", **own)
    until(lambda: wire.passed > 1 << 19, what="a part of it is here")
    wire.cut()
    wire.let_go()
    wire.mend()
    assert "copied 31 files" in copying.communicate(timeout=LIMIT)[1]
    for file in (laptop.project / "data").iterdir():
        assert (laptop.project / "back" / file.name).read_bytes() == file.read_bytes()


def test_ctrl_c_before_a_job_is_there_leaves_nothing(laptop: Laptop, portal: Portal, wire: Wire) -> None:
    (laptop.project / "large").write_bytes(os.urandom(24 << 20))
    own = {"LONGSHORE_URL": f"http://{wire.address}", "LONGSHORE_TOKEN": laptop.token}
    wire.hold(9 << 20)
    running = laptop.begins("run", "--name", "never", *IMAGE, "--", "true", **own)
    until(lambda: wire.passed > 8 << 20, what="a third has passed")
    running.send_signal(signal.SIGINT)
    wire.let_go()
    said = running.communicate(timeout=LIMIT)[1]
    assert running.returncode == 130 and "Interrupted: nothing was submitted." in said and "Traceback" not in said
    assert not (portal.home / "store" / "users" / "mira" / "code" / "never").exists()
    laptop.does("show", "never", code=66)


def test_ctrl_c_leaves_one_that_waits_in_the_queue(laptop: Laptop) -> None:
    name = begin(laptop, "in-its-way")
    waiting = laptop.begins("run", "--name", "queued", "--cpus", "8", *IMAGE, "--", "true")
    assert waiting.stderr is not None
    until(lambda: "CPU" in waiting.stderr.readline(), what="it says why it waits")
    waiting.send_signal(signal.SIGINT)
    until(lambda: "Ctrl-C again stops the job" in waiting.stderr.readline(), what="it asks")
    assert laptop.told("show", "queued")["jobStatus"]["state"] == "WAITING"
    waiting.send_signal(signal.SIGINT)
    assert waiting.wait(LIMIT) == 130
    assert laptop.told("show", "queued")["jobStatus"]["state"] == "STOPPED"
    laptop.does("stop", name)


def test_a_token_that_is_revoked_ends_what_follows_a_log(laptop: Laptop, portal: Portal) -> None:
    name = begin(laptop, "followed")
    bea = {"username": "bea", "password": "beas secret"}
    portal.http.put("/user", json={**bea, "admin": True, "modify": False})
    token = httpx.post(f"{portal.url}/api/v1/token", json=bea).json()["token"]
    following = laptop.begins("logs", "-f", f"mira~{name}", LONGSHORE_TOKEN=token)
    assert following.stdout is not None and following.stdout.readline() == "began\n"
    portal.http.put("/user/bea/password", json={"newPassword": "another secret"})
    said = following.communicate(timeout=LIMIT)[1]
    assert (following.returncode, said) == (77, "longshore: Your token was revoked, or has ended: longshore login\n")
    laptop.does("stop", name)


def test_what_does_not_fit_is_a_sentence_and_leaves_nothing(laptop: Laptop, portal: Portal) -> None:
    (laptop.project / "large").write_bytes(bytes(3 << 20))
    quota = portal.http.put(f"{portal.url}/api/v2/user/mira/storequota", json={"storeQuota": "1m"})
    assert quota.status_code == 201
    try:
        said = laptop.does("cp", "large", "store:/users/mira/too-large", code=74).stderr
        assert "cannot be copied, nothing was begun" in said
        (laptop.project / "data" / "more").write_bytes(bytes(3 << 20))
        laptop.does("run", "--name", "too-much", *IMAGE, "--", "true", code=74)
        assert not (portal.home / "store" / "users" / "mira" / "code" / "too-much").exists()
    finally:
        portal.http.put(f"{portal.url}/api/v2/user/mira/storequota", json={"storeQuota": None})
    laptop.does("cp", "large", "store:/users/mira/fits")
    program = ["sh", "-c", 'ulimit -f 1000; exec "$0" cp store:/users/mira/fits here', laptop.program]
    done = subprocess.run(program, env=laptop.environment, cwd=laptop.project, capture_output=True, text=True)
    says = "/here could not be copied, nothing of it was kept. File too large.\n"
    assert done.returncode == 74 and done.stderr.endswith(says) and done.stderr.count("\n") == 1
    assert not list(laptop.project.glob("*here*"))
