from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jobs.config.spec import JobSpec, read_config
from jobs.containers import environment
from jobs.containers.environment import TaskPlace
from tests.helpers import examples
from tests.integration.test_costs import calls_of

CONFIG: dict[str, Any] = {
    "jobName": "mnist-a1",
    "image": "registry.lab/mnist:3",
    "codeDir": "$PAI_DEFAULT_FS_URI/users/$PAI_USER_NAME/mnist",
    "dataDir": "$PAI_DEFAULT_FS_URI/sets/$PAI_JOB_NAME",
    "virtualCluster": "vision",
    "taskRoles": [
        {"name": "ps", "cpuNumber": 2, "memoryMB": 4096, "command": "c", "minFailedTaskCount": None},
        {
            "name": "worker",
            "taskNumber": 2,
            "cpuNumber": 4,
            "memoryMB": 8192,
            "shmMB": 1024,
            "gpuNumber": 1,
            "portList": [{"label": "tb", "portNumber": 2}],
            "command": "c",
            "minSucceededTaskCount": 2,
        },
    ],
}
PLACES = [
    TaskPlace("worker", 1, "10.20.0.7", {"tb": [31002, 31003], "http": [31004], "ssh": [31005]}),
    TaskPlace("ps", 0, "10.20.0.5", {"http": [31001], "ssh": [31006]}),
    TaskPlace("worker", 0, "10.20.0.6", {"tb": [31010, 31011], "http": [31001], "ssh": [31002]}),
]
APP = "application_1552000000000_0042"


def spec(**changes: Any) -> JobSpec:
    return read_config(json.dumps(CONFIG | changes))


def env(job: JobSpec | None = None, me: TaskPlace = PLACES[0]) -> dict[str, str]:
    job = job or spec()
    return environment.build(
        job,
        username="mira",
        app_id=APP,
        container_id="container_e03_1552000000000_0042_01_000004",
        fs_uri="hdfs://10.20.0.1:9000",
        me=me,
        topology=environment.topology_of(job, PLACES),
    )


EXPECTED = {
    # the job
    "PAI_JOB_NAME": "mira~mnist-a1",
    "PAI_USERNAME": "mira",
    "PAI_USER_NAME": "mira",
    "PAI_DEFAULT_FS_URI": "hdfs://10.20.0.1:9000",
    "PAI_JOB_VC_NAME": "vision",
    "PAI_DATA_DIR": "hdfs://10.20.0.1:9000/sets/mnist-a1",
    "PAI_OUTPUT_DIR": "hdfs://10.20.0.1:9000/Output/mira/mnist-a1",
    "PAI_CODE_DIR": "hdfs://10.20.0.1:9000/users/mira/mnist",
    "PAI_TASKS_NUM": "3",
    "PAI_JOB_TASK_COUNT": "3",
    "PAI_TASK_ROLES_NUM": "2",
    "PAI_JOB_TASK_ROLE_COUNT": "2",
    "PAI_TASK_ROLE_COUNT": "2",
    "PAI_JOB_TASK_ROLE_LIST": "ps,worker",
    "PAI_TASK_ROLE_LIST": "ps,worker",
    "PAI_KILL_ALL_ON_COMPLETED_TASK_NUM": "0",
    "APP_ID": APP,
    "FRAMEWORK_NAME": "mira~mnist-a1",
    "HADOOP_USER_NAME": "mira",
    # the role and the task
    "PAI_TASK_ROLE_NAME": "worker",
    "PAI_CURRENT_TASK_ROLE_NAME": "worker",
    "PAI_TASK_ROLE_NO": "1",
    "PAI_TASK_ROLE_NUM": "2",
    "PAI_CURRENT_TASK_ROLE_TASK_COUNT": "2",
    "PAI_TASK_CPU_NUM": "4",
    "PAI_CURRENT_TASK_ROLE_CPU_COUNT": "4",
    "PAI_TASK_MEM_MB": "8192",
    "PAI_CURRENT_TASK_ROLE_MEM_MB": "8192",
    "PAI_TASK_GPU_NUM": "1",
    "PAI_CURRENT_TASK_ROLE_GPU_COUNT": "1",
    "PAI_CURRENT_TASK_ROLE_SHM_MB": "1024",
    "PAI_CURRENT_TASK_ROLE_MIN_FAILED_TASK_COUNT": "1",
    "PAI_CURRENT_TASK_ROLE_MIN_SUCCEEDED_TASK_COUNT": "2",
    "PAI_RESOURCE": "1,4,8192,1024",
    "PAI_RESOURCE_ps": "0,2,4096,64",
    "PAI_RESOURCE_worker": "1,4,8192,1024",
    "PAI_MIN_FAILED_TASK_COUNT_ps": "",
    "PAI_MIN_FAILED_TASK_COUNT_worker": "1",
    "PAI_MIN_SUCCEEDED_TASK_COUNT_ps": "",
    "PAI_MIN_SUCCEEDED_TASK_COUNT_worker": "2",
    "PAI_TASK_ROLE_INDEX": "1",
    "PAI_CURRENT_TASK_ROLE_CURRENT_TASK_INDEX": "1",
    "PAI_TASK_INDEX": "1",
    "PAI_CONTAINER_ID": "container_e03_1552000000000_0042_01_000004",
    "PAI_CURRENT_CONTAINER_IP": "10.20.0.7",
    "PAI_CONTAINER_HOST_IP": "10.20.0.7",
    "PAI_CURRENT_CONTAINER_PORT": "31004",
    "PAI_CONTAINER_HOST_PORT": "31004",
    "PAI_CONTAINER_SSH_PORT": "31005",
    "PAI_CONTAINER_HOST_PORT_LIST": "tb:31002,31003;http:31004;ssh:31005;",
    "PAI_CONTAINER_HOST_tb_PORT_LIST": "31002,31003",
    "PAI_CONTAINER_HOST_http_PORT_LIST": "31004",
    "PAI_CONTAINER_HOST_ssh_PORT_LIST": "31005",
    # the topology
    "PAI_TASK_ROLE_0_HOST_LIST": "10.20.0.5:31001",
    "PAI_TASK_ROLE_1_HOST_LIST": "10.20.0.6:31001,10.20.0.7:31004",
    "PAI_TASK_ROLE_ps_HOST_LIST": "10.20.0.5:31001",
    "PAI_TASK_ROLE_worker_HOST_LIST": "10.20.0.6:31001,10.20.0.7:31004",
    "PAI_TASK_ROLE_TASK_COUNT_ps": "1",
    "PAI_TASK_ROLE_TASK_COUNT_worker": "2",
    "PAI_HOST_IP_ps_0": "10.20.0.5",
    "PAI_HOST_IP_worker_0": "10.20.0.6",
    "PAI_HOST_IP_worker_1": "10.20.0.7",
    "PAI_PORT_LIST_ps_0_http": "31001",
    "PAI_PORT_LIST_ps_0_ssh": "31006",
    "PAI_PORT_LIST_worker_0_tb": "31010,31011",
    "PAI_PORT_LIST_worker_0_http": "31001",
    "PAI_PORT_LIST_worker_0_ssh": "31002",
    "PAI_PORT_LIST_worker_1_tb": "31002,31003",
    "PAI_PORT_LIST_worker_1_http": "31004",
    "PAI_PORT_LIST_worker_1_ssh": "31005",
    "PAI_ps_0_http_PORT": "31001",
    "PAI_ps_0_ssh_PORT": "31006",
    "PAI_worker_0_tb_PORT": "31010,31011",
    "PAI_worker_0_http_PORT": "31001",
    "PAI_worker_0_ssh_PORT": "31002",
    "PAI_worker_1_tb_PORT": "31002,31003",
    "PAI_worker_1_http_PORT": "31004",
    "PAI_worker_1_ssh_PORT": "31005",
}


def test_a_task_sees_every_name_of_every_release_and_nothing_else() -> None:
    assert env() == EXPECTED


def test_every_task_sees_the_same_topology() -> None:
    shared = environment.topology_of(spec(), PLACES)
    for me in PLACES:
        assert shared.items() <= env(me=me).items()


def test_the_old_completion_count_is_handed_on() -> None:
    assert env(spec(killAllOnCompletedTaskNumber=2))["PAI_KILL_ALL_ON_COMPLETED_TASK_NUM"] == "2"


def test_a_role_without_an_http_port_still_gets_its_variables() -> None:
    assert env(me=TaskPlace("ps", 0, "10.0.0.1"))["PAI_CURRENT_CONTAINER_PORT"] == ""


def test_a_role_may_be_called_like_a_number() -> None:
    roles = [{"name": "1", "command": "c"}, {"name": "0", "command": "c"}]
    job = spec(taskRoles=roles)
    places = [TaskPlace("1", 0, "a", {"http": [1]}), TaskPlace("0", 0, "b", {"http": [2]})]
    shared = environment.topology_of(job, places)
    assert (shared["PAI_TASK_ROLE_0_HOST_LIST"], shared["PAI_TASK_ROLE_1_HOST_LIST"]) == ("b:2", "a:1")


def test_names_with_dots_are_set_although_shells_cannot_read_them() -> None:
    job = spec(taskRoles=[{"name": "my.role", "command": "c"}])
    assert environment.topology_of(job, [TaskPlace("my.role", 0, "a")])["PAI_HOST_IP_my.role_0"] == "a"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("a  b * $HOME 'x' \"y\"\nz", "a  b * $HOME 'x' \"y\"\nz"),
        ("", ""),
        (None, ""),
        (True, "true"),
        (False, "false"),
        (1, "1"),
        (0.5, "0.5"),
        (10.0, "10"),
        (-0.0, "0"),
        (0.00001, "0.00001"),
        (-2.5e-8, "-2.5e-8"),
        (1e20, "100000000000000000000"),
        (1.5e21, "1.5e+21"),
        ({"a": [1, None], "ü": "x y"}, '{"a":[1,null],"ü":"x y"}'),
        ([], "[]"),
    ],
)
def test_the_jobs_own_variables_arrive_exactly(value: object, text: str) -> None:
    assert env(spec(jobEnvs={"lr": value}))["lr"] == text


def test_the_jobs_own_variables_win() -> None:
    seen = env(spec(jobEnvs={"PAI_USERNAME": "x", "PAI_WORK_DIR": "/y"}))
    assert (seen["PAI_USERNAME"], seen["PAI_WORK_DIR"]) == ("x", "/y")


@settings(max_examples=examples(30))
@given(st.dictionaries(st.from_regex(r"\A[A-Za-z_]\w{0,5}\Z"), st.text(st.characters(exclude_categories=["Cs"]))))
def test_any_text_a_job_sets_arrives_unchanged(values: dict[str, str]) -> None:
    values = {key: text.replace("\0", "") for key, text in values.items() if key.isascii()}
    assert environment.job_envs(spec(jobEnvs=values)) == values


def test_a_thousand_tasks_are_described_fast() -> None:
    def described(number: int) -> tuple[int, int, dict[str, str]]:
        """How many calls it takes to say where so many tasks run, and to describe one of them; and what is said."""
        job = spec(taskRoles=[{"name": "w", "taskNumber": number, "command": "c"}])
        ports = {"http": [30000], "ssh": [30001]}
        places = [TaskPlace("w", i, f"10.0.{i // 250}.{i % 250}", ports) for i in range(number)]
        of_all, shared = calls_of(lambda: environment.topology_of(job, places))
        of_one, _ = calls_of(
            lambda: environment.build(
                job, username="u", app_id=APP, container_id="c", fs_uri="f", me=places[0], topology=shared
            )
        )
        return of_all, of_one, shared

    described(10)  # what is made once and kept
    of_few, one_of_few, _ = described(10)
    of_many, one_of_many, shared = described(1000)
    assert of_many < 200 * of_few, "each task is looked at a few times, not once for each other task"
    assert one_of_many < 2 * one_of_few, "what is the same for all is not made again for each"
    assert len(shared["PAI_TASK_ROLE_w_HOST_LIST"].split(",")) == 1000
