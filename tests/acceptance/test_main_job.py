"""The main job through the whole portal on a real engine: what its container is, how it stops, what is kept of it."""

from __future__ import annotations

import json
import os
import signal
import socket
from collections.abc import Iterator
from typing import Any

import pytest

from tests.acceptance.portal import (
    Portal,
    config,
    container_of,
    containers,
    docker,
    free_port,
    inspect,
    was_quick,
)
from tests.bed.docker_bed import Bed, BedNode
from tests.bed.registry import Registry
from tests.helpers import quick, until

pytestmark = pytest.mark.docker
FOREVER = "echo ready; while :; do sleep 1; done"


@pytest.fixture(scope="module")
def portal(shared_portal: Portal, docker_engine: BedNode) -> Iterator[Portal]:
    yield shared_portal
    shared_portal.stop_all()
    shared_portal.wait_clean(docker_engine)


# --- what it is ------------------------------------------------------------------------------------------------------


def test_its_container_has_the_limits_it_asked_for(portal: Portal, docker_engine: BedNode) -> None:
    name = portal.submit(config("limits", FOREVER, cpuNumber=2, memoryMB=128, shmMB=32))
    portal.wait_running(name)
    found = inspect(docker_engine, container_of(docker_engine, name))
    host = found["HostConfig"]
    assert (host["Memory"], host["MemorySwap"]) == (128 << 20, 128 << 20)
    assert (host["CpuPeriod"], host["CpuQuota"]) == (100_000, 200_000)
    assert (host["ShmSize"], host["PidsLimit"]) == (32 << 20, 4096)
    assert (host["Init"], host["Privileged"], host["AutoRemove"]) == (True, False, False)
    assert host["RestartPolicy"]["Name"] in ("", "no")
    assert host["SecurityOpt"] == ["no-new-privileges"] and host["CapDrop"] == ["ALL"]
    log = host["LogConfig"]
    assert (log["Type"], log["Config"]["max-size"]) == ("json-file", "128m") and int(log["Config"]["max-file"]) > 1
    assert host["NetworkMode"] == "host"
    portal.stop(name)
    assert portal.wait_state(name)["state"] == "STOPPED"


def test_its_container_carries_its_identity_as_labels(portal: Portal, docker_engine: BedNode) -> None:
    name = portal.submit(config("labels", FOREVER))
    task = portal.wait_running(name)
    labels = inspect(docker_engine, container_of(docker_engine, name))["Config"]["Labels"]
    assert labels["longshore.instance"] == portal.instance
    assert labels["longshore.job"] == labels["PAI_JOB_NAME"] == "admin~labels"
    assert (labels["longshore.attempt"], labels["PAI_CURRENT_TASK_ROLE_NAME"]) == ("1", "main")
    assert (labels["PAI_USER_NAME"], labels["PAI_JOB_VC_NAME"]) == ("admin", "default")
    assert (labels["PAI_HOSTNAME"], labels["longshore.task"].isdigit()) == ("local", True)
    ports = sorted(int(port) for ports in task["containerPorts"].values() for port in ports.split(","))
    assert labels["longshore.ports"] == ",".join(map(str, ports))
    portal.delete(name)


def test_its_command_finds_every_variable_and_its_own_unmangled(portal: Portal, docker_engine: BedNode) -> None:
    envs = {"EMPTY": None, "SPACES": "a   b *", "QUOTES": 'it\'s "so" $HOME `id`', "LINES": "one\ntwo", "FLAG": True}
    command = 'env | sort > /tmp/env\ncat /tmp/env\nprintf \'%s|\' "$SPACES" "$QUOTES" "$LINES" "$EMPTY" >&2'
    name = portal.submit(config("variables", command, shmMB=64, jobEnvs=envs))
    assert portal.wait_state(name)["state"] == "SUCCEEDED"
    assert portal.log(name, stream="stderr") == 'a   b *|it\'s "so" $HOME `id`|one\ntwo||'
    env = dict(line.split("=", 1) for line in portal.log(name).splitlines() if "=" in line)
    task, address = portal.task(name), docker_engine.address
    ports = task["containerPorts"]
    expected = {
        **dict.fromkeys(("PAI_JOB_NAME", "FRAMEWORK_NAME"), "admin~variables"),
        **dict.fromkeys(("PAI_USERNAME", "PAI_USER_NAME", "HADOOP_USER_NAME"), "admin"),
        **dict.fromkeys(("PAI_TASKS_NUM", "PAI_JOB_TASK_COUNT", "PAI_TASK_ROLES_NUM", "PAI_TASK_ROLE_COUNT"), "1"),
        **dict.fromkeys(("PAI_JOB_TASK_ROLE_LIST", "PAI_TASK_ROLE_LIST", "PAI_TASK_ROLE_NAME"), "main"),
        **dict.fromkeys(("PAI_TASK_INDEX", "PAI_TASK_ROLE_INDEX", "PAI_CURRENT_TASK_ROLE_CURRENT_TASK_INDEX"), "0"),
        **dict.fromkeys(("PAI_CURRENT_CONTAINER_IP", "PAI_CONTAINER_HOST_IP", "PAI_HOST_IP_main_0"), address),
        **dict.fromkeys(("PAI_CURRENT_CONTAINER_PORT", "PAI_CONTAINER_HOST_PORT"), ports["http"]),
        **dict.fromkeys(("PAI_PORT_LIST_main_0_ssh", "PAI_CONTAINER_SSH_PORT"), ports["ssh"]),
        **dict.fromkeys(("PAI_TASK_ROLE_0_HOST_LIST", "PAI_TASK_ROLE_main_HOST_LIST"), f"{address}:{ports['http']}"),
        **dict.fromkeys(("PAI_RESOURCE", "PAI_RESOURCE_main"), "0,1,100,64"),
        "PAI_CONTAINER_HOST_PORT_LIST": f"http:{ports['http']};ssh:{ports['ssh']};",
        "PAI_CONTAINER_ID": task["containerId"],
        "APP_ID": portal.job(name)["jobStatus"]["appId"],
        "PAI_JOB_VC_NAME": "default",
        "PAI_WORK_DIR": "/root",
        "FLAG": "true",
    }
    assert {key: env.get(key) for key in expected} == expected


def test_a_command_of_several_lines_runs_as_it_is_written(portal: Portal) -> None:
    command = (
        "set -e\nfor i in 1 2 3; do\n  echo \"line $i\"\ndone\ncat <<'END'\n$HOME stays\nEND\necho oops >&2\n(exit 7)"
    )
    name = portal.submit(config("lines", command))
    status = portal.wait_state(name)
    assert (status["state"], status["appExitMessages"]["runtime"]["originalUserExitCode"]) == ("FAILED", 7)
    assert portal.log(name) == "line 1\nline 2\nline 3\n$HOME stays\n"
    assert portal.log(name, stream="stderr") == "oops\n"


# --- what is kept of it ----------------------------------------------------------------------------------------------


def test_the_log_of_each_attempt_is_kept_before_its_container_goes(portal: Portal, docker_engine: BedNode) -> None:
    command = "echo $APP_ID; i=0; while [ $i -lt 2000 ]; do i=$((i+1)); echo line $i; done; echo last >&2; exit 1"
    name = portal.submit(config("attempts", command, retryCount=2))
    status = portal.wait_state(name, timeout=120)
    assert (status["state"], status["retryDetails"]["user"]) == ("FAILED", 2)
    until(lambda: not _of_job(docker_engine, name), 20, 0.1, what="its containers are gone")
    whole = "".join(f"line {number}\n" for number in range(1, 2001))
    apps = {attempt["attempt"]: attempt["appId"] for attempt in portal.attempts(name)}
    assert sorted(apps) == [1, 2, 3]
    for attempt, app in apps.items():
        assert portal.log(name, attempt=attempt) == f"{app}\n{whole}"
        assert portal.log(name, attempt=attempt, tail=2) == "line 1999\nline 2000\n"
        assert portal.log(name, stream="stderr", attempt=attempt) == "last\n"


def test_its_events_tell_the_whole_story(portal: Portal) -> None:
    name = portal.submit(config("story", "true"))
    portal.wait_state(name)
    kinds = [event["kind"] for event in portal.events(name)]
    assert kinds[0] == "job.submitted" and kinds[-1] == "job.ended"
    assert {"job.placed", "attempt.decided", "task.state"} <= set(kinds)


# --- how it stops ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("key", "command", "within"),
    [("obeys", FOREVER, 8), ("ignores", f"trap '' TERM; {FOREVER}", 18)],
)
def test_a_stop_ends_it_within_the_grace_period(portal: Portal, key: str, command: str, within: float) -> None:
    name = portal.submit(config(key, command, retryCount=-2))
    portal.wait_running(name)
    until(lambda: portal.log(name) == "ready\n", what="its command runs")
    with quick(within, "a stop"):
        portal.stop(name)
        status = portal.wait_state(name)
    assert (status["state"], status["appExitCode"], status["executionType"]) == ("STOPPED", -7351, "STOP")
    assert portal.task(name)["containerExitCode"] == -7400
    assert status["retries"] == 0
    assert portal.log(name) == "ready\n"


def test_a_deleted_one_is_gone_and_its_name_free_at_once(portal: Portal, docker_engine: BedNode) -> None:
    name = portal.submit(config("again", FOREVER))
    portal.wait_running(name)
    old = container_of(docker_engine, name)
    portal.delete(name)
    assert portal.http.get(f"/user/admin/jobs/{name}").status_code == 404
    portal.submit(config("again", "echo another"))
    assert portal.wait_state(name)["state"] == "SUCCEEDED"
    assert portal.log(name) == "another\n"
    until(lambda: old not in containers(docker_engine, portal), 20, 0.1, what="the deleted one's container is gone")
    until(lambda: portal.rows("SELECT count(*) FROM jobs_job WHERE name = 'again'") == [(1,)], 20, what="it is purged")


# --- images ----------------------------------------------------------------------------------------------------------


def test_an_image_that_does_not_exist_is_told_and_not_tried_again(portal: Portal, registry: Registry) -> None:
    image = f"{registry.address}/none/such:1"
    name = portal.submit(config("no-image", retryCount=3) | {"image": image})
    status = portal.wait_state(name)
    assert (status["state"], status["appExitCode"], status["retries"]) == ("FAILED", 255, 0)
    assert image in status["appExitMessages"]["container"]


def test_a_damaged_image_is_the_clusters_fault_and_tried_again(portal: Portal, registry: Registry) -> None:
    image = registry.add("broken/layer")
    name = portal.submit(config("broken-image") | {"image": image})
    until(lambda: portal.job(name)["jobStatus"]["retryDetails"]["platform"], 30, 0.1, what="another try")
    first = portal.attempts(name)[-1]
    assert (first["appExitCode"], image in first["appExitMessages"]["container"]) == (193, True)
    portal.stop(name)
    assert portal.wait_state(name)["state"] == "STOPPED"


def test_a_stop_ends_one_whose_registry_never_answers(portal: Portal, bed: Bed, docker_engine: BedNode) -> None:
    with socket.create_server((f"{bed.network}.1", 5001)) as silent:  # connections are taken and nothing is said
        silent.listen()
        name = portal.submit(config("pulling") | {"image": f"{bed.network}.1:5001/never:1"})
        mine = "SELECT 1 FROM jobs_task t JOIN jobs_job j ON j.id = t.job_id WHERE j.name = 'pulling' AND t.claim != ''"
        until(lambda: portal.rows(mine), 20, what="a worker has it in hand")
        assert portal.state(name) == "RUNNING"
        portal.stop(name)
        status = portal.wait_state(name, timeout=60)
    assert (status["state"], status["appExitCode"]) == ("STOPPED", -7351)
    assert not _of_job(docker_engine, name)


# --- ports -----------------------------------------------------------------------------------------------------------


def test_one_that_wants_a_taken_port_waits_for_it_and_says_so(portal: Portal) -> None:
    ports = [{"label": "web", "beginAt": free_port(), "portNumber": 1}]
    first = portal.submit(config("port-first", FOREVER, portList=ports))
    portal.wait_running(first)
    second = portal.submit(config("port-second", "echo $PAI_CONTAINER_HOST_web_PORT_LIST", portList=ports))
    waits = until(lambda: portal.job(second)["jobStatus"].get("waitingReason"), what="it says why it waits")
    assert "ports" in {blocker["kind"] for blocker in waits["blockers"]}, waits
    assert portal.state(second) == "WAITING"
    portal.stop(first)
    assert portal.wait_state(second)["state"] == "SUCCEEDED"
    assert portal.log(second) == f"{ports[0]['beginAt']}\n"


# --- a portal that goes and comes ------------------------------------------------------------------------------------


def test_a_running_one_outlives_the_portal_which_takes_it_up_again(portal: Portal, docker_engine: BedNode) -> None:
    """One runs on past the next start, the other ends while nobody looks; neither loses a line."""
    count = "i=0; while [ ! -e /tmp/go ]; do i=$((i+1)); echo $i; sleep 0.05; done; echo end; exit 3"
    names = [portal.submit(config(key, count)) for key in ("outlives", "ends-meanwhile")]
    for name in names:
        portal.wait_running(name)
    held = [container_of(docker_engine, name) for name in names]
    with quick(10, "the end of the portal"):
        portal.terminate()
    assert all(inspect(docker_engine, one)["State"]["Running"] for one in held)
    docker(docker_engine, "exec", held[1], "touch", "/tmp/go")
    until(lambda: not inspect(docker_engine, held[1])["State"]["Running"], what="it ends on its own")
    portal.start()
    assert portal.wait_state(names[1])["appExitMessages"]["runtime"]["originalUserExitCode"] == 3
    assert portal.state(names[0]) == "RUNNING"
    docker(docker_engine, "exec", held[0], "touch", "/tmp/go")
    assert portal.wait_state(names[0])["retries"] == 0
    for name in names:
        *numbers, last = portal.log(name).splitlines()
        assert numbers == [str(number) for number in range(1, len(numbers) + 1)]
        assert (last, len(portal.attempts(name))) == ("end", 1)


def test_work_goes_on_when_the_workers_are_killed(portal: Portal) -> None:
    """Also a second time, and with an order in hand."""
    for nth in range(2):
        (victim,) = until(lambda: portal.running("workers"), 30, 0.1, what="they run")
        name = portal.submit(config(f"beside-{nth}"))
        os.kill(victim, signal.SIGKILL)
        assert portal.wait_state(name)["state"] == "SUCCEEDED"
        assert portal.wait_state(portal.submit(config(f"after-{nth}")))["state"] == "SUCCEEDED"


def _of_job(node: BedNode, job: str) -> list[Any]:
    listed = docker(node, "ps", "-a", "--format", "{{json .}}", "--filter", f"label=longshore.job=admin~{job}")
    return [json.loads(line) for line in listed.splitlines()]


# --- why it failed ---------------------------------------------------------------------------------------------------

CAUSES = {
    "memory": ("exec tail /dev/zero", "memory"),
    "spelling": ("echo begins; torchrum train.py", "command-missing"),
    "script": ("echo begins; cat /data/none.csv", "file-missing"),
}


def test_it_says_why_it_failed_with_the_lines_that_say_so(portal: Portal) -> None:
    names = {key: portal.submit(config(f"why-{key}", command)) for key, (command, _) in CAUSES.items()}
    found = {key: diagnosed(portal, name) for key, name in names.items()}
    assert {key: one["cause"] for key, one in found.items()} == {key: cause for key, (_, cause) in CAUSES.items()}
    assert {one["certainty"] for one in found.values()} == {"certain"}
    marked = [line["text"] for line in found["script"]["lines"] if line["mark"]]
    assert marked == ["cat: can't open '/data/none.csv': No such file or directory"]


def test_a_retry_waits_for_the_diagnosis_no_longer_than_that_takes(portal: Portal) -> None:
    name = portal.submit(config("why-again", "exit 3", retryCount=1))
    diagnosed(portal, name)
    second, first = portal.attempts(name)
    assert first["diagnosis"]["cause"] == "exit-code"
    paused = second["appLaunchedTime"] - first["appCompletedTime"]
    print(f"the second attempt was placed {paused} ms after the end of the first")
    was_quick(paused / 1000, 2.5, "the pause before the second attempt")


def diagnosed(portal: Portal, name: str) -> Any:
    """What the job's diagnosis says, once it has ended and is diagnosed."""
    portal.wait_state(name)
    return until(lambda: portal.job(name)["jobStatus"].get("diagnosis"), what=f"a diagnosis of {name}")
