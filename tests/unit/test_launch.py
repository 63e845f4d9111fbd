from __future__ import annotations

import json
import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs.config.spec import JobSpec, read_config
from jobs.containers import environment, launch
from jobs.containers.environment import TaskPlace
from jobs.containers.launch import Launch

NAME = re.compile(r"[a-zA-Z0-9][a-zA-Z0-9_.-]+")


def spec(name: str = "mnist-a1") -> JobSpec:
    roles = [
        {"name": "ps", "taskNumber": 2, "command": "ps"},
        {"name": "worker", "taskNumber": 2, "cpuNumber": 4, "memoryMB": 8192, "shmMB": 1024, "gpuNumber": 2,
         "command": "a\nb"},
    ]  # fmt: skip
    return read_config(json.dumps({"jobName": name, "image": "i:1", "virtualCluster": "vision", "taskRoles": roles}))


PLACES = [
    TaskPlace("ps", 0, "10.0.0.1", {"http": [1], "ssh": [2]}),
    TaskPlace("ps", 1, "10.0.0.1", {"http": [3], "ssh": [4]}),
    TaskPlace("worker", 0, "10.0.0.2", {"http": [5], "ssh": [6]}),
    TaskPlace("worker", 1, "10.0.0.3", {"tb": [9, 8], "http": [7], "ssh": [6]}),
]
LAUNCH = Launch(
    spec=spec(),
    username="mira",
    instance="portal-1",
    attempt_number=3,
    app_id="application_1552000000000_0042",
    task_id=77,
    me=PLACES[3],
    node_name="gpu-01",
    fs_uri="hdfs://nn:9000",
    gpu_ids=("0", "2"),
    epoch="e1",
)


def name_of(one: Launch) -> str:
    return launch.name_of(one.app_id, one.username, one.spec.job_name, one.attempt_number, one.me.role, one.me.index)


def test_a_request_asks_for_what_the_role_says() -> None:
    made = launch.request(LAUNCH)
    assert (made.image, made.cpus, made.memory_mb, made.shm_mb) == ("i:1", 4.0, 8192, 1024)
    assert (made.gpu_ids, made.ports, made.network, made.pull) == (("0", "2"), (6, 7, 8, 9), "host", "absent")
    assert made.env["PAI_CURRENT_CONTAINER_IP"] == "10.0.0.3"
    assert made.env["PAI_CONTAINER_ID"] == "container_e03_1552000000000_0042_01_000005"


def test_a_request_has_the_limit_of_processes_that_the_portal_sets() -> None:
    assert launch.request(LAUNCH).pids_limit == 4096
    assert launch.request(replace(LAUNCH, pids=99)).pids_limit == 99


def test_a_request_carries_the_command_as_a_file() -> None:
    made = launch.request(LAUNCH)
    files = {file.path: file for file in made.files}
    assert files["/pai/bootstrap/command.sh"].content == b"a\nb\n"
    assert made.argv == ("/bin/sh", "/pai/bootstrap/start.sh") and made.argv[1] in files


def test_the_labels_tell_whose_it_is_and_what_it_holds() -> None:
    assert launch.request(LAUNCH).labels == {
        "longshore.instance": "portal-1",
        "longshore.job": "mira~mnist-a1",
        "longshore.app": "application_1552000000000_0042",
        "longshore.attempt": "3",
        "longshore.task": "77",
        "longshore.epoch": "e1",
        "longshore.gpus": "0,2",
        "longshore.ports": "6,7,8,9",
        "GPU_ID": "0,2",
        "PAI_HOSTNAME": "gpu-01",
        "PAI_JOB_NAME": "mira~mnist-a1",
        "PAI_JOB_VC_NAME": "vision",
        "PAI_USER_NAME": "mira",
        "PAI_CURRENT_TASK_ROLE_NAME": "worker",
    }


def test_a_task_without_gpus_sees_none() -> None:
    assert launch.request(replace(LAUNCH, gpu_ids=())).env["NVIDIA_VISIBLE_DEVICES"] == "void"
    assert "NVIDIA_VISIBLE_DEVICES" not in launch.request(LAUNCH).env


def test_a_request_has_the_topology_that_all_tasks_share() -> None:
    topology = environment.topology_of(LAUNCH.spec, PLACES)
    assert topology.items() <= launch.request(replace(LAUNCH, topology=topology)).env.items()


def test_a_task_of_no_role_cannot_be_asked_for() -> None:
    with pytest.raises(KeyError):
        launch.request(replace(LAUNCH, me=TaskPlace("chief", 0, "10.0.0.3")))


def test_a_name_can_be_read() -> None:
    name = name_of(LAUNCH)
    assert name.startswith("longshore-mira-mnist-a1-3-worker-1-") and name == launch.request(LAUNCH).name


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (LAUNCH, replace(LAUNCH, app_id="application_1552000000001_0042")),  # the same row ids, after a restore
        (LAUNCH, replace(LAUNCH, attempt_number=4)),
        (replace(LAUNCH, username="a-b", spec=spec("c")), replace(LAUNCH, username="a", spec=spec("b-c"))),
        (replace(LAUNCH, me=TaskPlace("w~1", 0, "a")), replace(LAUNCH, me=TaskPlace("w_1", 0, "a"))),
        (replace(LAUNCH, spec=spec("x" * 200)), replace(LAUNCH, spec=spec("x" * 201))),
    ],
)
def test_two_tasks_never_share_a_name(one: Launch, other: Launch) -> None:
    assert name_of(one) != name_of(other)


@given(st.text(min_size=1), st.text(min_size=1), st.integers(0, 50_000))
def test_every_name_is_one_docker_takes(username: str, role: str, index: int) -> None:
    one = replace(LAUNCH, username=username, me=TaskPlace(role, index, "10.0.0.3"))
    assert NAME.fullmatch(name_of(one)) and len(name_of(one)) <= 120
    assert name_of(one) == name_of(replace(one))


def test_ids_look_like_those_of_v1() -> None:
    ids = [launch.container_id(LAUNCH.app_id, LAUNCH.spec, p.role, p.index)[-6:] for p in PLACES]
    assert ids == ["000002", "000003", "000004", "000005"]


def test_an_image_is_asked_for_with_its_tag() -> None:
    """An engine takes a name of hexadecimal digits alone for the beginning of an image's id."""
    spec = LAUNCH.spec.model_copy(update={"image": "cafe"})
    assert launch.request(replace(LAUNCH, spec=spec)).image == "cafe:latest"
