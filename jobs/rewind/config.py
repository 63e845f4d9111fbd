"""The config of a job that opens a failed task again: the same role, of which it is one task that only waits. Pure."""

from __future__ import annotations

from typing import Any

from clusters.placement.fit import OWN_LABEL
from jobs.config.spec import JobSpec

_WAITS = """echo "The files of {label} are as they were when it failed. Nothing runs; open the terminal."
exec sleep {seconds}"""


def config_of(
    spec: JobSpec,
    role_name: str,
    label: str,
    *,
    name: str,
    image: str,
    node: str,
    seconds: int,
    secrets: dict[str, str],
) -> dict[str, Any]:
    """It asks for what the task had: resources, virtual cluster, variables, profile. Its ports are any that are free,
    and what a start would do once more (code, retries, isDebug, dependencies) is left out."""
    role = spec.role(role_name)
    extras: dict[str, Any] = {"nodeLabels": {OWN_LABEL: node}}
    if spec.asked.profile:
        extras["profile"] = spec.asked.profile
    if secrets:
        extras["secrets"] = secrets
    return {
        "jobName": name,
        "image": image,
        "virtualCluster": spec.effective_virtual_cluster,
        "gpuType": spec.gpu_type,
        "dataDir": spec.data_dir,
        "outputDir": spec.output_dir,
        "jobEnvs": {key: value for key, value in spec.job_envs.items() if key != "isDebug"},
        "taskRoles": [
            {
                "name": role.name,
                "taskNumber": 1,
                "cpuNumber": role.cpu_number,
                "memoryMB": role.memory_mb,
                "shmMB": role.shm_mb,
                "gpuNumber": role.gpu_number,
                "portList": [{"label": port.label, "portNumber": port.port_number} for port in role.port_list],
                "command": _WAITS.format(label=label, seconds=seconds),
            }
        ],
        "extras": extras,
    }
