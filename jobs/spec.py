"""The job config, read: text -> JobSpec, or every problem in it."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, JsonValue
from pydantic.alias_generators import to_camel


class _Spec(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", alias_generator=to_camel, populate_by_name=True)


class PortSpec(_Spec):
    label: str
    begin_at: int = 0  # 0: any free ports
    port_number: int = 1


class RoleSpec(_Spec):
    name: str
    task_number: int = 1
    cpu_number: int = 1
    memory_mb: int = 100
    shm_mb: int = 64
    gpu_number: int = 0
    port_list: tuple[PortSpec, ...] = ()
    command: str
    min_failed_task_count: int | None = 1
    min_succeeded_task_count: int | None = None


class JobSpec(_Spec):
    job_name: str
    image: str
    auth_file: str = ""
    data_dir: str = ""
    output_dir: str = ""
    code_dir: str = ""
    virtual_cluster: str = "default"
    task_roles: tuple[RoleSpec, ...]
    gpu_type: str = ""
    kill_all_on_completed_task_number: int | None = None
    retry_count: int = 0
    job_envs: dict[str, JsonValue] = {}
    extras: dict[str, JsonValue] = {}
