from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from base.core.errors import InvalidConfig, Problem, TooLarge
from jobs.config.spec import INT_MAX, JobSpec, PortSpec, RoleSpec, read_config, read_value, substitute_paths
from tests.helpers import examples

SEEDS = Path(__file__).parent / "seeds"
ROLE: dict[str, Any] = {"name": "w", "command": "c"}
GOOD: dict[str, Any] = {"jobName": "j", "image": "i", "taskRoles": [ROLE]}


def read(**fields: Any) -> JobSpec:
    return read_config(json.dumps({**GOOD, **fields}))


def read_role(**fields: Any) -> RoleSpec:
    return read(taskRoles=[{**ROLE, **fields}]).task_roles[0]


def problems_of(action: Callable[[], object]) -> tuple[Problem, ...]:
    with pytest.raises(InvalidConfig) as caught:
        action()
    return caught.value.problems


def messages_of(**fields: Any) -> list[str]:
    return [problem.message for problem in problems_of(lambda: read(**fields))]


def messages_of_role(**fields: Any) -> list[str]:
    return messages_of(taskRoles=[{**ROLE, **fields}])


# Names


@pytest.mark.parametrize("name", [".", ".."])
def test_names_that_no_address_can_hold_are_refused_where_they_stand(name: str) -> None:
    config = f"""{{
      "jobName": "{name}", "image": "i",
      "taskRoles": [{{"name": "{name}", "command": "c"}}]
    }}"""
    job, role = problems_of(lambda: read_config(config))
    assert (job.line, job.column, job.path) == (2, 18, "/jobName")
    assert (role.line, role.column, role.path) == (3, 30, "/taskRoles/0/name")
    assert job.message == f'jobName is "{name}", which no address can hold: choose another name.'
    assert problems_of(lambda: read_config(json.dumps(GOOD), name_from_url=name))


def test_a_job_that_was_accepted_under_such_a_name_can_be_read() -> None:
    stored = {**GOOD, "jobName": "..", "taskRoles": [{**ROLE, "name": "."}]}
    assert JobSpec.from_json(stored).job_name == ".."


def test_names_with_dots_in_them_are_names() -> None:
    assert read(jobName="...").job_name == "..." and read_role(name=".w").name == ".w"


# Values


def test_it_fills_in_the_documented_defaults() -> None:
    spec = read()
    assert spec == JobSpec(
        job_name="j",
        image="i",
        task_roles=(
            RoleSpec(name="w", command="c", task_number=1, cpu_number=1, memory_mb=100, shm_mb=64, gpu_number=0),
        ),
    )
    assert (spec.auth_file, spec.data_dir, spec.output_dir, spec.code_dir, spec.gpu_type) == ("", "", "", "", "")
    assert (spec.virtual_cluster, spec.retry_count, spec.kill_all_on_completed_task_number) == ("default", 0, None)
    assert (spec.job_envs, spec.extras) == ({}, {})
    role = spec.task_roles[0]
    assert (role.port_list, role.min_failed_task_count, role.min_succeeded_task_count) == ((), 1, None)
    assert read_role(portList=[{"label": "p"}]).port_list == (PortSpec(label="p", begin_at=0, port_number=1),)


def test_the_fields_have_exactly_their_v1_names() -> None:
    spec = read(
        killAllOnCompletedTaskNumber=1,
        taskRoles=[
            {**ROLE, "memoryMB": 200, "shmMB": 128, "portList": [{"label": "p", "beginAt": 5, "portNumber": 2}]}
        ],
    )
    stored: Any = spec.to_json()
    assert list(stored) == [
        "jobName",
        "image",
        "authFile",
        "dataDir",
        "outputDir",
        "codeDir",
        "taskRoles",
        "gpuType",
        "killAllOnCompletedTaskNumber",
        "virtualCluster",
        "retryCount",
        "jobEnvs",
        "extras",
    ]
    (role,) = stored["taskRoles"]
    assert list(role) == [
        "name",
        "taskNumber",
        "cpuNumber",
        "memoryMB",
        "shmMB",
        "gpuNumber",
        "portList",
        "command",
        "minFailedTaskCount",
        "minSucceededTaskCount",
    ]
    assert role["portList"] == [{"label": "p", "beginAt": 5, "portNumber": 2}]


@pytest.mark.parametrize("given_, number", [("2", 2), (" 7 ", 7), ("1e2", 100), (2.0, 2), ("+3", 3), ("4.", 4)])
def test_a_numeric_text_is_a_number(given_: Any, number: int) -> None:
    assert read_role(taskNumber=given_).task_number == number


@pytest.mark.parametrize("given_", ["", "x", "1_0", "0x10", "Infinity", "nan", "٣", "1 2", True, None, [], {}])
def test_anything_else_is_not(given_: Any) -> None:
    (message,) = messages_of_role(taskNumber=given_)
    assert message.endswith("it must be a whole number.")


def test_a_json_text_may_stand_for_an_object_or_an_array() -> None:
    spec = read_value(
        {
            **GOOD,
            "taskRoles": json.dumps([json.dumps({**ROLE, "portList": '[{"label": "p"}]'})]),
            "jobEnvs": '{"a": "1"}',
        }
    )
    assert spec.task_roles[0].port_list[0].label == "p"
    assert spec.job_envs == {"a": "1"}
    assert read_config(json.dumps(json.dumps(GOOD))) == read()


def test_job_envs_and_extras_keep_every_value_as_it_is() -> None:
    free = {"n": None, "t": "5", "b": True, "o": {"x": [1, None]}, "f": 0.5, "big": 2**70, "ü_a": "Größe 😀"}
    assert read(jobEnvs=free, extras=free).job_envs == free
    assert read(jobEnvs=free, extras=free).extras == free


def test_null_is_taken_for_the_two_counts_only() -> None:
    role = read_role(minFailedTaskCount=None, minSucceededTaskCount=None)
    assert (role.min_failed_task_count, role.min_succeeded_task_count) == (None, None)
    for field in ("authFile", "gpuType", "virtualCluster", "retryCount", "killAllOnCompletedTaskNumber", "extras"):
        assert len(messages_of(**{field: None})) == 1
    assert len(messages_of_role(portList=None)) == 1


def test_an_empty_virtual_cluster_is_the_default_one() -> None:
    assert read(virtualCluster="").effective_virtual_cluster == "default"
    assert read(virtualCluster="vision").effective_virtual_cluster == "vision"


def test_it_adds_http_and_ssh_and_lists_fixed_ports_first() -> None:
    role = read_role(portList=[{"label": "a"}, {"label": "ssh", "portNumber": 2}, {"label": "b", "beginAt": 8000}])
    assert [(p.label, p.begin_at, p.port_number) for p in role.all_ports] == [
        ("b", 8000, 1),
        ("a", 0, 1),
        ("ssh", 0, 2),
        ("http", 0, 1),
    ]


def test_it_adds_up_tasks_and_gpus_and_finds_roles() -> None:
    spec = read(taskRoles=[{**ROLE, "taskNumber": 2, "gpuNumber": 4}, {**ROLE, "name": "ps", "taskNumber": 3}])
    assert (spec.total_tasks, spec.total_gpus, spec.role("ps").task_number) == (5, 8, 3)
    with pytest.raises(KeyError):
        spec.role("nobody")


@pytest.mark.parametrize(
    "kill_all, role, after",
    [
        (None, {}, 0),
        (2, {}, 2),
        (0, {}, 0),
        (-1, {}, 0),
        (2, {"minFailedTaskCount": 1}, 2),
        (2, {"minFailedTaskCount": None}, 0),
        (2, {"minSucceededTaskCount": 1}, 0),
    ],
)
def test_kill_all_counts_unless_the_roles_have_counts_of_their_own(
    kill_all: int | None, role: dict[str, Any], after: int
) -> None:
    given_ = {} if kill_all is None else {"killAllOnCompletedTaskNumber": kill_all}
    assert read(**given_, taskRoles=[{**ROLE, **role}]).kill_all_after == after


# Names


def test_the_name_in_the_url_wins_but_both_must_be_names() -> None:
    config = json.dumps(GOOD)
    assert read_config(config, name_from_url="other").job_name == "other"
    assert problems_of(lambda: read_config(config, name_from_url="a b"))[0].path == "/jobName"
    with pytest.raises(InvalidConfig):
        read_config(json.dumps({**GOOD, "jobName": "a b"}), name_from_url="other")


def test_the_full_name_has_at_most_256_characters() -> None:
    config = json.dumps({**GOOD, "jobName": "n" * 252})
    assert read_config(config, username="bob").job_name
    (problem,) = problems_of(lambda: read_config(config, username="anna"))
    assert problem.message == "jobName has 252 characters; the most is 251."
    assert messages_of(jobName="n" * 256) == ["jobName has 256 characters; the most is 255."]


# Problems


def test_it_tells_every_problem_at_its_place_in_the_order_of_the_text() -> None:
    config = """{
  "retryCount": -3, // far too low
  "image": "i",
  "taskRoles": [
    { "name": "w", "comand": "x", "memoryMB": 50 },
    { "name": "w", "command": "x", "minSucceededTaskCount": 5,
      "portList": [ { "label": "p", "beginAt": 65535, "portNumber": 3 }, { "label": "p" } ] },
    7
  ],
  "image": "again",
  "jobEnvs": { "-": 1, "a=b": 2, "ok": "\\u0000" },
  "gpuType": "two words",
}"""
    found = problems_of(lambda: read_config(config))
    assert found == (
        Problem(1, 1, "/jobName", "jobName is missing."),
        Problem(2, 17, "/retryCount", "retryCount is -3; the least is -2."),
        Problem(5, 5, "/taskRoles/0/command", "command is missing."),
        Problem(5, 20, "/taskRoles/0/comand", "comand is not a known field; perhaps command is meant."),
        Problem(5, 47, "/taskRoles/0/memoryMB", "memoryMB is 50; the least is 100."),
        Problem(6, 15, "/taskRoles/1/name", "There are two roles named w."),
        Problem(
            6,
            61,
            "/taskRoles/1/minSucceededTaskCount",
            "minSucceededTaskCount is 5; the most is the role's taskNumber, 1.",
        ),
        Problem(
            7,
            69,
            "/taskRoles/1/portList/0/portNumber",
            "The ports 65535 to 65537 do not exist: the highest port is 65535.",
        ),
        Problem(7, 85, "/taskRoles/1/portList/1/label", "There are two ports named p."),
        Problem(8, 5, "/taskRoles/2", "taskRoles[2] is 7; it must be an object: { ... }."),
        Problem(10, 3, "/image", "image stands here a second time."),
        Problem(11, 16, "/jobEnvs/-", "- cannot be the name of an environment variable."),
        Problem(11, 24, "/jobEnvs/a=b", "a=b cannot be the name of an environment variable."),
        Problem(11, 40, "/jobEnvs/ok", "This text contains the character NUL."),
        Problem(12, 14, "/gpuType", 'gpuType is "two words"; it must not contain white space.'),
    )


@pytest.mark.parametrize(
    "fields, message",
    [
        ({"jobName": "a~b"}, 'jobName is "a~b"; it may only contain letters, digits, dash, dot and underscore.'),
        ({"jobName": ""}, "jobName must not be empty."),
        ({"image": "a b"}, 'image is "a b"; it must not contain white space.'),
        *(
            ({"image": id}, f'image is "{id}", which is an id that an image has on a node: write the image\'s name.')
            for id in ("sha256:ab", "docker.io/library/sha256:ab", "index.docker.io/sha256:f")
        ),
        ({"image": 5}, "image is 5; it must be a text in double quotes."),
        ({"taskRoles": {}}, "taskRoles is an object; it must be an array: [ ... ]."),
        ({"taskRoles": []}, "taskRoles must not be empty."),
        ({"jobEnvs": []}, "jobEnvs is an array; it must be an object: { ... }."),
        ({"extras": {"-": 1}}, "- cannot be a name here: it needs a letter, a digit, a dot or an underscore."),
        ({"jobEnvs": {"": 1}}, "An empty name cannot be the name of an environment variable."),
        ({"retryCount": None}, "retryCount is null; it must be a whole number."),
        ({"retryCount": 2**60}, "retryCount is too large a number."),
        ({"job_name": "x"}, "job_name is not a known field; perhaps jobName is meant."),
        ({"x\ny": 1}, "'x\\ny' is not a known field."),
    ],
)
def test_it_says_what_is_wrong_in_plain_english(fields: dict[str, Any], message: str) -> None:
    assert messages_of(**fields) == [message]


@pytest.mark.parametrize(
    "fields, message",
    [
        ({"name": "a-b"}, 'name is "a-b"; it may only contain letters, digits, dot, underscore and ~.'),
        ({"command": " \n"}, "command has nothing but white space."),
        ({"taskNumber": 1.5}, "taskNumber is 1.5; it must be a whole number."),
        ({"taskNumber": 0}, "taskNumber is 0; the least is 1."),
        ({"taskNumber": 50_001}, "taskNumber is 50001; the most is 50000."),
        ({"cpuNumber": "0"}, "cpuNumber is 0; the least is 1."),
        ({"gpuNumber": -1}, "gpuNumber is -1; the least is 0."),
        ({"memoryMB": INT_MAX + 1}, f"memoryMB is {INT_MAX + 1}; the most is {INT_MAX}."),
        ({"shmMB": 101}, "shmMB is 101; the most is the role's memoryMB, 100."),
        ({"shmMB": -1}, "shmMB is -1; the least is 0."),
        ({"minFailedTaskCount": 0}, "minFailedTaskCount is 0; the least is 1."),
        ({"portList": [{"label": "p", "beginAt": 65_536}]}, "beginAt is 65536; the most is 65535."),
        ({"portList": [{"label": "p", "portNumber": 0}]}, "portNumber is 0; the least is 1."),
        ({"portList": [{}]}, "label is missing."),
        ({"portList": "x"}, 'portList is "x"; it must be an array: [ ... ].'),
        ({"taskNumber": 50_000, "gpuNumber": 100_000}, "The job asks for 5000000000 GPUs; the most is 2147483647."),
    ],
)
def test_it_says_what_is_wrong_with_a_role(fields: dict[str, Any], message: str) -> None:
    assert messages_of_role(**fields) == [message]


def test_the_tasks_of_all_roles_together_are_bounded() -> None:
    roles = [{**ROLE, "name": f"r{i}", "taskNumber": 50_000} for i in range(11)]
    assert messages_of(taskRoles=roles) == ["The job asks for 550000 tasks; the most is 100000."]


def test_a_decoded_body_has_paths_but_no_lines() -> None:
    read_value({**GOOD, "extras": {"x": "é" * 30_000}})
    (problem,) = problems_of(lambda: read_value({**GOOD, "retryCount": "-3"}))
    assert problem == Problem(0, 0, "/retryCount", "retryCount is -3; the least is -2.")


@pytest.mark.parametrize("value", [object(), {"a": object()}, {(1, 2): 3}, {"a": float("nan")}, b"x", {"a": "\ud800"}])
def test_a_body_that_is_not_json_at_all_is_refused_plainly(value: object) -> None:
    with pytest.raises(InvalidConfig) as caught:
        read_value(value)
    assert caught.value.code == "InvalidParametersError"


def test_a_bottomless_body_is_refused_plainly() -> None:
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    with pytest.raises(InvalidConfig):
        read_value(deep)
    deep.append(deep)
    with pytest.raises(InvalidConfig):
        read_value({"extras": {"x": deep}})


# Paths


@pytest.mark.parametrize(
    "path, filled",
    [
        ("$PAI_DEFAULT_FS_URI/a", "hdfs://nn:9000/a"),
        ("$PAI_DEFAULT_FS_URI/$PAI_DEFAULT_FS_URI", "hdfs://nn:9000/$PAI_DEFAULT_FS_URI"),
        ("/$PAI_JOB_NAME/$PAI_JOB_NAME.x", "/j/j.x"),
        ("/$PAI_USER_NAME/$PAI_USERNAME", "/mira/mira"),
        ("/$PAI_JOB_NAMEX/$PAI_USERNAME_", "/$PAI_JOB_NAMEX/$PAI_USERNAME_"),
        ("/${PAI_JOB_NAME}", "/${PAI_JOB_NAME}"),
        ("", ""),
    ],
)
def test_it_fills_names_into_the_four_paths(path: str, filled: str) -> None:
    spec = read(authFile=path, dataDir=path, codeDir=path, outputDir=path or "/out")
    paths = substitute_paths(spec, fs_uri="hdfs://nn:9000", username="mira")
    assert paths == {"authFile": filled, "dataDir": filled, "outputDir": filled or "/out", "codeDir": filled}


def test_it_makes_up_an_output_folder() -> None:
    paths = substitute_paths(read(), fs_uri="hdfs://nn:9000", username="mira")
    assert paths["outputDir"] == "hdfs://nn:9000/Output/mira/j"


# The documents the format is known from


@pytest.mark.parametrize(
    "seed, name, tasks, gpus, kill_all",
    [
        ("000", "tensorflow-distributed-example", 4, 8, 2),
        ("001", "tensorflow-distributed-jobguid", 4, 8, 2),
        ("002", "your_job_name", 1, 0, 0),
        ("003", "tensorflow-cifar10", 1, 1, 0),
        ("004", "tensorflow-distributed-jobguid", 4, 8, 0),
    ],
)
def test_it_reads_the_example_of_every_generation(seed: str, name: str, tasks: int, gpus: int, kill_all: int) -> None:
    spec = read_config((SEEDS / f"{seed}.jsonc").read_text())
    assert (spec.job_name, spec.total_tasks, spec.total_gpus, spec.kill_all_after) == (name, tasks, gpus, kill_all)
    assert all(role.command and "//" not in role.name for role in spec.task_roles)


def test_it_keeps_addresses_and_quotes_of_commands() -> None:
    command = read_config((SEEDS / "002.jsonc").read_text()).task_roles[0].command
    assert command.startswith(
        'if [ ! -d "/root/img/" ]; then mkdir /root/img; fi && hdfs dfs -get hdfs://10.151.40.234'
    )


def test_dots_left_in_an_example_are_pointed_at() -> None:
    (problem,) = problems_of(lambda: read_config((SEEDS / "002-as-printed.txt").read_text()))
    assert (problem.line, problem.column) == (4, 9)
    assert problem.message == "A key in double quotes must stand here."


# Properties

NAMES = st.from_regex(r"(?!\.{1,2}\Z)[A-Za-z0-9._~]{1,12}", fullmatch=True)
FREE = st.dictionaries(
    st.from_regex(r"[A-Za-z_]\w{0,9}", fullmatch=True), st.none() | st.integers() | st.text('aé/*"', max_size=9)
)
PORTS = st.fixed_dictionaries(
    {"label": NAMES}, optional={"beginAt": st.integers(0, 60_000), "portNumber": st.integers(1, 33)}
)
ROLES: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {"name": NAMES, "command": st.text(min_size=1, max_size=30).map(lambda s: "x" + s.replace("\x00", ""))},
    optional={
        "taskNumber": st.integers(1, 50),
        "cpuNumber": st.integers(1, 64),
        "memoryMB": st.integers(100, 10**6),
        "shmMB": st.integers(0, 100),
        "gpuNumber": st.integers(0, 16),
        "portList": st.lists(PORTS, max_size=3, unique_by=lambda port: port["label"]),
        "minFailedTaskCount": st.none() | st.just(1),
        "minSucceededTaskCount": st.none() | st.just(1),
    },
)
CONFIGS: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {
        "jobName": st.from_regex(r"(?!\.{1,2}\Z)[A-Za-z0-9\-._]{1,20}", fullmatch=True),
        "image": st.from_regex(r"[a-z0-9/:.]{1,20}", fullmatch=True),
        "taskRoles": st.lists(ROLES, min_size=1, max_size=3, unique_by=lambda role: role["name"]),
    },
    optional={
        "dataDir": st.just("hdfs://nn/x"),
        "virtualCluster": st.sampled_from(["", "v"]),
        "retryCount": st.integers(-2, 99),
        "killAllOnCompletedTaskNumber": st.integers(-3, 9),
        "jobEnvs": FREE,
        "extras": FREE,
    },
)
ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
KEYS = st.sampled_from([*JobSpec(**{**GOOD, "taskRoles": [ROLE]}).to_json(), "killAllOnCompletedTaskNumber", "foo"])


@settings(max_examples=examples(40))
@given(CONFIGS)
def test_a_valid_config_round_trips(config: dict[str, Any]) -> None:
    spec = read_config(json.dumps(config, indent=1))
    stored = json.loads(json.dumps(spec.to_json()))
    assert JobSpec.from_json(stored) == spec
    assert read_config(json.dumps(stored)) == spec
    assert {key: stored[key] for key in config if key not in ("taskRoles",)} == {
        key: value for key, value in config.items() if key not in ("taskRoles",)
    }
    for given_, kept in zip(config["taskRoles"], stored["taskRoles"], strict=True):
        assert {key: kept[key] for key in given_ if key != "portList"} == {
            key: value for key, value in given_.items() if key != "portList"
        }


@given(st.text() | st.text(st.sampled_from('{}[]",:/*\\ \n1e-.anul'), max_size=40))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        read_config(text)
    except (InvalidConfig, TooLarge) as refused:
        assert refused.message.encode()


@settings(max_examples=examples(60))
@given(CONFIGS, KEYS, ANYTHING, st.sampled_from(["job", "role", "port"]))
def test_any_value_anywhere_is_read_or_refused_with_its_place(
    config: dict[str, Any], key: str, value: Any, level: str
) -> None:
    role = config["taskRoles"][0]
    target = {"job": config, "role": role, "port": (role.get("portList") or [role])[0]}[level]
    target[key] = value
    text = json.dumps(config)
    ways: list[Callable[[], JobSpec]] = [lambda: read_config(text), lambda: read_value(config)]
    for read_ in ways:
        try:
            spec = read_()
        except (InvalidConfig, TooLarge) as refused:
            assert refused.message.encode()
            if isinstance(refused, InvalidConfig):
                assert refused.problems
                assert all(problem.message.encode() for problem in refused.problems)
        else:
            assert JobSpec.from_json(spec.to_json()) == spec
