"""Builds a Launch from the row of a task. The parts that all tasks of an attempt share are read once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from django.conf import settings

from clusters.models import Node, VirtualCluster
from jobs import secrets
from jobs.config.spec import JobSpec
from jobs.containers import environment, sshkeys
from jobs.containers.environment import TaskPlace
from jobs.containers.launch import Launch
from jobs.models import Attempt, Task
from portal.files.store import delegation
from portal.models import UserKey


@dataclass(frozen=True, slots=True)
class _Shared:
    """The parts of a Launch that all tasks of a placed attempt share. They can be cached: the placement of an attempt
    never changes."""

    spec: JobSpec
    username: str
    number: int
    app_id: str
    places: tuple[TaskPlace, ...]
    topology: Mapping[str, str]
    files_token: str
    profile: str
    rdma: bool
    ssh_key: str
    ssh_authorized: str
    secrets: Mapping[str, str]


def launch(task_id: int, *, epoch: str) -> Launch:
    """The Launch of a task; ``epoch`` is the claim under which it starts. Raises Task.DoesNotExist or
    Node.DoesNotExist when either is gone."""
    task = Task.objects.select_related("attempt").get(id=task_id)
    node = Node.objects.only("name", "host", "network").get(name=task.node)
    shared = _shared(task.attempt_id, task.attempt.app_id)
    return Launch(
        spec=shared.spec,
        username=shared.username,
        instance=settings.INSTANCE,
        attempt_number=shared.number,
        app_id=shared.app_id,
        task_id=task.pk,
        role=task.role,
        index=task.index,
        node_name=node.name,
        places=shared.places,
        fs_uri=settings.DEFAULT_FS_URI,
        gpu_ids=task.gpu_ids,
        host=node.host,
        network="bridge" if node.network == "bridge" else "host",
        pull="always" if settings.PULL_POLICY == "always" else "absent",
        pids=settings.TASK_PIDS,
        security="pai" if shared.profile == VirtualCluster.Profile.PAI else "default",
        rdma=shared.rdma,
        epoch=epoch,
        shared=shared.topology,
        files_url=f"{settings.PUBLIC_URL}/webhdfs/v1",
        files_token=shared.files_token,
        hold_seconds=settings.DEBUG_HOLD if shared.spec.is_debug else 0,
        ssh_key=shared.ssh_key,
        ssh_authorized=shared.ssh_authorized,
        secrets=shared.secrets,
        job_id=task.job_id,
    )


@lru_cache(maxsize=32)
def _shared(attempt_id: int, app_id: str) -> _Shared:
    attempt = Attempt.objects.select_related("job").get(id=attempt_id)
    spec = JobSpec.from_json(attempt.job.spec)
    rows = Task.objects.filter(attempt=attempt_id).order_by("id").values_list("role", "index", "address", "ports")
    places = tuple(TaskPlace(role, index, address, ports) for role, index, address, ports in rows)
    topology = environment.topology(spec, places)
    job = attempt.job
    pair = sshkeys.key_of(job.pk, job.full_name)
    vc = VirtualCluster.objects.filter(name=spec.effective_virtual_cluster).first() or VirtualCluster()
    own = UserKey.objects.filter(user__username=job.username).order_by("id").values_list("text", flat=True)
    return _Shared(
        spec=spec,
        username=job.username,
        number=attempt.number,
        app_id=app_id,
        places=places,
        topology=topology,
        files_token=delegation.issue_for_attempt(job.username, app_id),
        profile="default" if spec.asked.profile == "default" else vc.profile,
        rdma=vc.rdma and spec.wants_rdma,
        ssh_key=pair.private,
        ssh_authorized="".join(f"{line}\n" for line in (pair.public, *own)),
        secrets=secrets.of(job.pk),
    )
