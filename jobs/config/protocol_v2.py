"""Writes a v1 job in the form of protocol version 2, as v0.14 showed it (v1 contract, 3.10). Pure.

The protocol has no fields for folders, environment and fixed ports: these keep their v1 names.
"""

from __future__ import annotations

from typing import Any

from jobs.config.spec import JobSpec, RoleSpec

_IMAGE = "default"  # the name under which the roles find the one image of a v1 job
_FOLDERS = (("data", "data_dir"), ("output", "output_dir"), ("script", "code_dir"))


def of_v1(spec: JobSpec, username: str) -> dict[str, Any]:
    """The job in protocol version 2; ``username`` is that of its owner."""
    named = [(kind, getattr(spec, field)) for kind, field in _FOLDERS if getattr(spec, field)]
    image = {"protocolVersion": 2, "name": _IMAGE, "type": "dockerimage", "uri": spec.image}
    folders = [{"protocolVersion": 2, "name": _IMAGE, "type": kind, "uri": uri} for kind, uri in named]
    return {
        "protocolVersion": 2,
        "name": spec.job_name,
        "type": "job",
        "contributor": username,
        "prerequisites": [image, *folders],
        "parameters": dict(spec.job_envs),
        "taskRoles": {role.name: _role(role, [kind for kind, _ in named]) for role in spec.task_roles},
        "jobRetryCount": spec.retry_count,
        "defaults": {"virtualCluster": spec.effective_virtual_cluster},
        "extras": {**({"gpuType": spec.gpu_type} if spec.gpu_type else {}), **spec.extras},
    }


def _role(role: RoleSpec, folders: list[str]) -> dict[str, Any]:
    return {
        "instances": role.task_number,
        "completion": {
            "minFailedInstances": role.min_failed_task_count,
            "minSucceededInstances": role.min_succeeded_task_count,
        },
        "dockerImage": _IMAGE,
        **dict.fromkeys(folders, _IMAGE),
        "extraContainerOptions": {"shmMB": role.shm_mb},
        "resourcePerInstance": {
            "cpu": role.cpu_number,
            "memoryMB": role.memory_mb,
            "gpu": role.gpu_number,
            "ports": {port.label: port.port_number for port in role.port_list},
        },
        "commands": role.command.splitlines(),
    }
