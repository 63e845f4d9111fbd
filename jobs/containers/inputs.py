"""Builds a Launch from the row of a task. The parts that all tasks of an attempt share are read once."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from django.conf import settings

from base.core.bulk import all_values, first_row, first_where
from base.files.store import delegation
from base.models import UserKey
from clusters.models import VirtualCluster
from jobs import secrets
from jobs.config.spec import JobSpec
from jobs.containers import environment, sshkeys
from jobs.containers.environment import TaskPlace
from jobs.containers.launch import Launch
from jobs.models import Job, Task
from jobs.planning import ends

_PLACED = """
    SELECT t.*, a.app_id, n.host, n.network FROM jobs_task t
    JOIN jobs_attempt a ON a.id = t.attempt_id JOIN clusters_node n ON n.name = t.node WHERE t.id = %s"""
_JOB = """
    SELECT j.*, a.number, u.id AS user_id, b.exit_code AS last_code FROM jobs_attempt a
    JOIN jobs_job j ON j.id = a.job_id LEFT JOIN jobs_attempt b ON b.job_id = j.id AND b.number = a.number - 1
    LEFT JOIN portal_user u ON u.username = j.username WHERE a.id = %s"""

_PLACES = 'SELECT role, "index", address, ports FROM jobs_task WHERE attempt_id = %s ORDER BY id'
_OWN_KEYS = "SELECT text FROM portal_userkey WHERE user_id = %s ORDER BY id"


def launch_of(task_id: int, *, epoch: str) -> Launch:
    """The Launch of a task; ``epoch`` is the claim under which it starts. Raises Task.DoesNotExist when it or its node
    is gone."""
    task: Any = first_row(Task, _PLACED, task_id)
    if task is None:
        raise Task.DoesNotExist
    shared = _shared(task.attempt_id, task.app_id)
    return Launch(
        **shared,
        instance=settings.INSTANCE,
        task_id=task.pk,
        me=TaskPlace(task.role, task.index, task.address, task.ports),
        node_name=task.node,
        fs_uri=settings.DEFAULT_FS_URI,
        gpu_ids=task.gpu_ids,
        host=task.host,
        network="bridge" if task.network == "bridge" else "host",
        pull="always" if settings.PULL_POLICY == "always" else "absent",
        pids=settings.TASK_PIDS,
        disk_mb=settings.TASK_DISK_MB,
        epoch=epoch,
        files_url=f"{settings.PUBLIC_URL}/webhdfs/v1",
        hold_seconds=settings.DEBUG_HOLD if shared["spec"].is_debug else 0,
    )


@lru_cache(maxsize=32)
def _shared(attempt_id: int, app_id: str) -> dict[str, Any]:
    """The fields of a Launch that all tasks of a placed attempt share. They can be cached: the placement of an attempt
    never changes."""
    job: Any = first_row(Job, _JOB, attempt_id)
    spec = JobSpec.from_json(job.spec)
    places = tuple(all_values(Task, TaskPlace, _PLACES, attempt_id))
    pair = sshkeys.key_of(job.pk, job.full_name)
    vc = first_where(VirtualCluster, "name = %s", spec.effective_virtual_cluster) or VirtualCluster()
    own = all_values(UserKey, str, _OWN_KEYS, job.user_id or 0)
    has_profile = spec.asked.profile != "default" and vc.profile == VirtualCluster.Profile.PAI
    return {
        "spec": spec,
        "username": job.username,
        "attempt_number": job.number,
        "app_id": app_id,
        "security": "pai" if has_profile else "default",
        "rdma": vc.rdma and spec.wants_rdma,
        "topology": environment.topology_of(spec, places),
        "files_token": delegation.issue_for_attempt(job.username, app_id),
        "ssh_key": pair.private,
        "ssh_authorized": "".join(f"{line}\n" for line in (pair.public, *own)),
        "secrets": secrets.of(job.pk),
        "job_id": job.pk,
        "last_end": ends.word_for(job.last_code),
        "last_code": job.last_code,
    }
