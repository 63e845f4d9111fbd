"""The environment variables of a task: every name of any OpenPAI v0.x release, with the values of v0.14 (v1 contract,
2). Pure.

``topology_of`` gives the variables that are the same for all tasks of an attempt. ``build`` adds those of the one task
and, last, the ``jobEnvs`` of the config.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal

from pydantic import JsonValue

from jobs.config.spec import JobSpec, RoleSpec, substitute_paths


@dataclass(frozen=True, slots=True)
class TaskPlace:
    """Where one task runs. ``address`` is the node's, ``ports`` maps a label to its port numbers."""

    role: str
    index: int
    address: str
    ports: Mapping[str, Sequence[int]] = field(default_factory=dict)


def build(
    spec: JobSpec,
    *,
    username: str,
    app_id: str,
    container_id: str,
    fs_uri: str,
    me: TaskPlace,
    topology: Mapping[str, str],
) -> dict[str, str]:
    """All variables of the task ``me`` but PAI_WORK_DIR, which the start script knows in the container. ``topology`` is
    ``topology_of`` its attempt. Raises KeyError for a role that the job does not have."""
    role = spec.role(me.role)
    return {
        **topology,
        **_job(spec, username, app_id, fs_uri),
        **_role(role, spec.task_roles.index(role)),
        **_task(me, container_id),
        **job_envs(spec),
    }


def topology_of(spec: JobSpec, tasks: Sequence[TaskPlace]) -> dict[str, str]:
    """The variables that say where each task runs; the same for every task of an attempt (v1 contract, 2.3)."""
    env: dict[str, str] = {}
    by_role: dict[str, list[TaskPlace]] = {role.name: [] for role in spec.task_roles}
    for place in tasks:
        by_role[place.role].append(place)
    for places in by_role.values():
        places.sort(key=lambda place: place.index)
    hosts = {
        name: ",".join(f"{place.address}:{_first(place, 'http')}" for place in places)
        for name, places in by_role.items()
    }
    for number, role in enumerate(spec.task_roles):
        env[f"PAI_TASK_ROLE_{number}_HOST_LIST"] = hosts[role.name]
    for role in spec.task_roles:  # after the numbers: a role may be called "0", and the newer name wins
        env[f"PAI_TASK_ROLE_{role.name}_HOST_LIST"] = hosts[role.name]
        env |= _role_facts(role)
        for place in by_role[role.name]:
            env[f"PAI_HOST_IP_{role.name}_{place.index}"] = place.address
            for label, numbers in place.ports.items():
                text = ",".join(map(str, numbers))
                env[f"PAI_PORT_LIST_{role.name}_{place.index}_{label}"] = text
                env[f"PAI_{role.name}_{place.index}_{label}_PORT"] = text
    return env


def job_envs(spec: JobSpec) -> dict[str, str]:
    """The ``jobEnvs`` of the config: strings exactly as written, null as an empty text, numbers as v1 wrote them,
    anything else as JSON. Names and characters that no environment can hold are refused earlier, by
    jobs/config/spec.py."""
    return {key: _text(value) for key, value in spec.job_envs.items()}


def _text(value: JsonValue) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, float):
        return _number(value)
    return "" if value is None else json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _number(value: float) -> str:
    """As JavaScript writes it: 10.0 is 10, which a program may read as a whole number, and 0.00001 is no 1e-05."""
    if value and not 1e-6 <= abs(value) < 1e21:
        return repr(value).replace("e-0", "e-")
    return f"{Decimal(repr(value + 0.0)):f}".removesuffix(".0")


def _job(spec: JobSpec, username: str, app_id: str, fs_uri: str) -> dict[str, str]:
    full_name = f"{username}~{spec.job_name}"
    total = str(spec.total_tasks)
    roles = str(len(spec.task_roles))
    role_list = ",".join(role.name for role in spec.task_roles)
    paths = substitute_paths(spec, fs_uri=fs_uri, username=username)
    return {
        "PAI_JOB_NAME": full_name,
        "FRAMEWORK_NAME": full_name,
        "PAI_USERNAME": username,
        "PAI_USER_NAME": username,
        "HADOOP_USER_NAME": username,
        "PAI_DEFAULT_FS_URI": fs_uri,
        "PAI_JOB_VC_NAME": spec.effective_virtual_cluster,
        "PAI_DATA_DIR": paths["dataDir"],
        "PAI_OUTPUT_DIR": paths["outputDir"],
        "PAI_CODE_DIR": paths["codeDir"],
        "PAI_TASKS_NUM": total,
        "PAI_JOB_TASK_COUNT": total,
        "PAI_TASK_ROLES_NUM": roles,
        "PAI_JOB_TASK_ROLE_COUNT": roles,
        "PAI_TASK_ROLE_COUNT": roles,
        "PAI_JOB_TASK_ROLE_LIST": role_list,
        "PAI_TASK_ROLE_LIST": role_list,
        "PAI_KILL_ALL_ON_COMPLETED_TASK_NUM": str(spec.kill_all_on_completed_task_number or 0),
        "APP_ID": app_id,
    }


def _role(role: RoleSpec, number: int) -> dict[str, str]:
    """The variables about the task's own role (v1 contract, 2.2)."""
    tasks, cpus, gpus = str(role.task_number), str(role.cpu_number), str(role.gpu_number)
    memory = str(role.memory_mb)
    return {
        "PAI_TASK_ROLE_NAME": role.name,
        "PAI_CURRENT_TASK_ROLE_NAME": role.name,
        "PAI_TASK_ROLE_NO": str(number),
        "PAI_TASK_ROLE_NUM": tasks,
        "PAI_CURRENT_TASK_ROLE_TASK_COUNT": tasks,
        "PAI_TASK_CPU_NUM": cpus,
        "PAI_CURRENT_TASK_ROLE_CPU_COUNT": cpus,
        "PAI_TASK_MEM_MB": memory,
        "PAI_CURRENT_TASK_ROLE_MEM_MB": memory,
        "PAI_TASK_GPU_NUM": gpus,
        "PAI_CURRENT_TASK_ROLE_GPU_COUNT": gpus,
        "PAI_CURRENT_TASK_ROLE_SHM_MB": str(role.shm_mb),
        "PAI_CURRENT_TASK_ROLE_MIN_FAILED_TASK_COUNT": _count(role.min_failed_task_count),
        "PAI_CURRENT_TASK_ROLE_MIN_SUCCEEDED_TASK_COUNT": _count(role.min_succeeded_task_count),
        "PAI_RESOURCE": _resource(role),
    }


def _role_facts(role: RoleSpec) -> dict[str, str]:
    """The variables about any role, which every task gets."""
    return {
        f"PAI_TASK_ROLE_TASK_COUNT_{role.name}": str(role.task_number),
        f"PAI_RESOURCE_{role.name}": _resource(role),
        f"PAI_MIN_FAILED_TASK_COUNT_{role.name}": _count(role.min_failed_task_count),
        f"PAI_MIN_SUCCEEDED_TASK_COUNT_{role.name}": _count(role.min_succeeded_task_count),
    }


def _task(me: TaskPlace, container_id: str) -> dict[str, str]:
    index, http = str(me.index), _first(me, "http")
    lists = {label: ",".join(map(str, numbers)) for label, numbers in me.ports.items()}
    return {
        "PAI_TASK_INDEX": index,
        "PAI_TASK_ROLE_INDEX": index,
        "PAI_CURRENT_TASK_ROLE_CURRENT_TASK_INDEX": index,
        "PAI_CONTAINER_ID": container_id,
        "PAI_CURRENT_CONTAINER_IP": me.address,
        "PAI_CONTAINER_HOST_IP": me.address,
        "PAI_CURRENT_CONTAINER_PORT": http,
        "PAI_CONTAINER_HOST_PORT": http,
        "PAI_CONTAINER_SSH_PORT": _first(me, "ssh"),
        "PAI_CONTAINER_HOST_PORT_LIST": "".join(f"{label}:{text};" for label, text in lists.items()),
        **{f"PAI_CONTAINER_HOST_{label}_PORT_LIST": text for label, text in lists.items()},
    }


def _first(place: TaskPlace, label: str) -> str:
    ports = place.ports.get(label)
    return str(ports[0]) if ports else ""


def _count(value: int | None) -> str:
    return "" if value is None else str(value)


def _resource(role: RoleSpec) -> str:
    return f"{role.gpu_number},{role.cpu_number},{role.memory_mb},{role.shm_mb}"
