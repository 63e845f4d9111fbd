"""Turns one placed task into a request for a container: a Launch in, a ContainerRequest out. Pure.

Container names follow from identity: the same Launch always gives the same name, and two tasks never share one. That
holds for a deleted job and the next job of its name, for two portals, and for a database and its restored copy, as the
name depends on the attempt's application id.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from clusters.engines.image_names import canonical
from clusters.engines.runtime import (
    LABEL_APP,
    LABEL_ATTEMPT,
    LABEL_EPOCH,
    LABEL_GPUS,
    LABEL_HOLD,
    LABEL_INSTANCE,
    LABEL_JOB,
    LABEL_PORTS,
    LABEL_TASK,
    ContainerRequest,
)
from jobs.config import web_pages
from jobs.config.spec import JobSpec
from jobs.containers import bootstrap, environment
from jobs.containers.environment import TaskPlace

_NAME_LENGTH = 120
_HASH_LENGTH = 8


@dataclass(frozen=True, slots=True)
class Launch:
    """Everything that the start of one task needs, as plain values.

    ``me`` is where the task runs; ``task_id`` is the id of the task's row; ``pull``, ``network``, ``security`` and
    ``rdma`` mean what they mean in ContainerRequest."""

    spec: JobSpec
    username: str
    instance: str
    attempt_number: int
    app_id: str
    task_id: int
    me: TaskPlace
    node_name: str
    fs_uri: str
    gpu_ids: Sequence[str] = ()
    host: str = ""  # what its engine calls the node, where it has several
    network: Literal["host", "bridge"] = "host"
    pull: Literal["absent", "always"] = "absent"
    pids: int = 4096  # the most processes and threads
    disk_mb: int = 0  # that it may write, where the engine can limit it; 0: as much as there is
    security: Literal["default", "pai"] = "default"
    rdma: bool = False
    epoch: str = ""  # the claim of the worker that starts it
    topology: Mapping[str, str] = field(default_factory=dict)  # environment.topology_of the attempt
    files_url: str = ""  # where containers reach the store by WebHDFS
    files_token: str = ""  # the delegation token for files_url
    hold_seconds: int = 0  # isDebug: how long a container whose command failed is kept
    ssh_key: str = ""  # the job's private key
    ssh_authorized: str = ""  # lines of authorized_keys
    secrets: Mapping[str, str] = field(default_factory=dict)
    last_end: str = ""  # why the attempt before ended, as ends.word_for says it
    last_code: int | None = None
    job_id: int = 0  # of the job's row: the addresses of its web pages have it


def request(
    launch: Launch,
    *,
    tars: tuple[Path, ...] = (),
    addresses: tuple[str, ...] = (),
    auth: tuple[str, str] | None = None,
) -> ContainerRequest:
    """Return the request for the container of one task. The rest means what it means in ContainerRequest. Raises
    KeyError when the spec lacks the role."""
    me, role = launch.me, launch.spec.role(launch.me.role)
    ports = tuple(sorted({port for numbers in me.ports.values() for port in numbers}))
    return ContainerRequest(
        name=name_of(launch.app_id, launch.username, launch.spec.job_name, launch.attempt_number, me.role, me.index),
        image=canonical(launch.spec.image),  # with its tag: an engine takes a bare "ca" for the beginning of an id
        argv=bootstrap.ARGV,
        env=_env(launch),
        labels=_labels(launch, ports),
        grace=launch.spec.asked.grace or 0,
        files=(
            *bootstrap.files(role.command),
            *bootstrap.token_file(launch.files_token),
            *bootstrap.key_files(launch.ssh_key, launch.ssh_authorized),
            *bootstrap.secrets_file(launch.secrets),
        ),
        cpus=float(role.cpu_number),
        memory_mb=role.memory_mb,
        shm_mb=role.shm_mb,
        pids_limit=launch.pids,
        disk_mb=launch.disk_mb,
        security=launch.security,
        rdma=launch.rdma,
        gpu_ids=tuple(launch.gpu_ids),
        host=launch.host,
        network=launch.network,
        ports=ports,
        pull=launch.pull,
        hold_file=bootstrap.HELD if launch.hold_seconds else "",
        tars=tars,
        addresses=addresses,
        auth=auth,
    )


def name_of(app_id: str, username: str, job: str, attempt: int, role: str, index: int) -> str:
    """``longshore-mira-mnist-a1-1-worker-0-5d3c9a1f``: readable, in Docker's alphabet, at most 120 characters.

    The hash makes it unique: ``a-b`` of ``c`` and ``b`` of ``c-a`` read alike, and so does a job submitted again. It
    depends on ``app_id``, which has a millisecond in it, and not on row ids: a database restored from an older copy
    gives those out again."""
    identity = "\0".join(map(str, (app_id, username, job, attempt, role, index)))
    digest = hashlib.sha256(identity.encode("utf-8", "surrogatepass")).hexdigest()[:_HASH_LENGTH]
    readable = f"longshore-{username}-{job}-{attempt}-{role}-{index}"
    return f"{re.sub(r'[^A-Za-z0-9_.-]', '_', readable)[: _NAME_LENGTH - _HASH_LENGTH - 1]}-{digest}"


def container_id(app: str, spec: JobSpec, role: str, index: int) -> str:
    """v1's id of a container: ``container_e03_1552000000000_0042_01_000004``. Tasks are numbered in config order from
    2; number 1 was the application master's in v0.x."""
    before = 0
    for other in spec.task_roles:
        if other.name == role:
            break
        before += other.task_number
    return f"container_e03_{app.removeprefix('application_')}_01_{before + index + 2:06d}"


def _env(launch: Launch) -> dict[str, str]:
    me = launch.me
    env = environment.build(
        launch.spec,
        username=launch.username,
        app_id=launch.app_id,
        container_id=container_id(launch.app_id, launch.spec, me.role, me.index),
        fs_uri=launch.fs_uri,
        me=me,
        topology=launch.topology,
    )
    if not launch.gpu_ids:
        # Images set it to "all": an engine whose default runtime is NVIDIA's would show the container every GPU.
        env["NVIDIA_VISIBLE_DEVICES"] = "void"
    if launch.files_token:
        env |= {"LONGSHORE_WEBHDFS_URL": launch.files_url, "LONGSHORE_WEBHDFS_TOKEN_FILE": bootstrap.TOKEN}
    for page in web_pages.declared(launch.spec.role(me.role), me.index):
        env[f"LONGSHORE_WEB_PATH_{page.label}"] = page.path(launch.instance, launch.job_id)
    for prefix in ("PAI", "LONGSHORE"):
        env[f"{prefix}_ATTEMPT"] = str(launch.attempt_number)
        env[f"{prefix}_LAST_END"] = launch.last_end
        env[f"{prefix}_LAST_EXIT_CODE"] = "" if launch.last_code is None else str(launch.last_code)
    if launch.hold_seconds:
        env[bootstrap.HOLD] = str(launch.hold_seconds)
    return env | bootstrap.ENV


def _labels(launch: Launch, ports: Sequence[int]) -> dict[str, str]:
    full_name = f"{launch.username}~{launch.spec.job_name}"
    gpus = ",".join(launch.gpu_ids)
    return {
        LABEL_INSTANCE: launch.instance,
        LABEL_JOB: full_name,
        LABEL_APP: launch.app_id,
        LABEL_ATTEMPT: str(launch.attempt_number),
        LABEL_TASK: str(launch.task_id),
        LABEL_EPOCH: launch.epoch,
        **({LABEL_HOLD: "1"} if launch.hold_seconds else {}),
        LABEL_GPUS: gpus,
        LABEL_PORTS: ",".join(map(str, ports)),
        # The v1 labels, which monitoring reads (v1 contract, 5.4).
        "GPU_ID": gpus,
        "PAI_HOSTNAME": launch.node_name,
        "PAI_JOB_NAME": full_name,
        "PAI_JOB_VC_NAME": launch.spec.effective_virtual_cluster,
        "PAI_USER_NAME": launch.username,
        "PAI_CURRENT_TASK_ROLE_NAME": launch.me.role,
    }
