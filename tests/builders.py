"""Rows for tests that need jobs in some state without running them."""

from __future__ import annotations

import itertools
import json
from datetime import datetime, timedelta
from typing import Any

from django.utils import timezone

from clusters.engines.sample_image import SAMPLE_IMAGE
from clusters.models import Allocation, Node, VirtualCluster
from jobs.config.spec import JobSpec
from jobs.models import Attempt, Event, Job, Task
from jobs.planning import exits
from jobs.planning.lifecycle import TASK_LIVE_STATES

_number = itertools.count(1)


def make_config(name: str = "job", *, roles: int = 1, tasks: int = 1, gpus: int = 0, **more: Any) -> dict[str, Any]:
    """A config as a user would send it."""
    role = {"taskNumber": tasks, "cpuNumber": 1, "memoryMB": 1024, "gpuNumber": gpus, "command": "sleep 60"}
    named = [{"name": "worker" if at == 0 else f"role{at}", **role} for at in range(roles)]
    return {"jobName": name, "image": SAMPLE_IMAGE, "taskRoles": named, **more}


def make_node(name: str = "node-1", *, cpus: int = 8, memory_mb: int = 16384, gpus: int = 0, **more: Any) -> Node:
    """A node that takes tasks and has their image; ``gpus`` of type A100."""
    VirtualCluster.objects.get_or_create(name="default", defaults={"capacity": 100, "max_capacity": 100})
    ids = [{"id": str(at), "type": "A100"} for at in range(gpus)]
    values = {
        "endpoint": "unix:///nowhere",
        "address": "10.0.0.1",
        "last_seen_at": timezone.now(),
        "images": [SAMPLE_IMAGE],
        **more,
    }
    return Node.objects.create(name=name, cpus=cpus, memory_mb=memory_mb, gpus=ids, **values)


def make_job(
    username: str = "alice",
    name: str = "",
    *,
    state: str = "WAITING",
    task_state: str = "",
    tasks: int = 1,
    roles: int = 1,
    gpus: int = 0,
    node: Node | None = None,
    age: float = 60.0,
    text: str = "",
    exit: exits.Exit | None = None,
    failed_task: int = 0,
    **more: Any,
) -> Job:
    """A job with its attempt, tasks and events, submitted ``age`` seconds ago. ``task_state`` defaults to what fits
    ``state``; ``exit`` to the fitting end; live tasks of a ``node`` have Allocations; ``more`` are fields of Job."""
    name = name or f"job-{next(_number)}"
    config = make_config(name, roles=roles, tasks=tasks, gpus=gpus, **more.pop("config", {}))
    spec = JobSpec.from_json(config)
    now = timezone.now()
    created = now - timedelta(seconds=age)
    placed = created + timedelta(seconds=age / 4)
    ended = now - timedelta(seconds=age / 4) if state in ("SUCCEEDED", "FAILED", "STOPPED") else None
    job = Job.objects.create(
        username=username,
        name=name,
        vc=more.pop("vc", "default"),
        config=text or json.dumps(config, indent=2),
        spec=spec.to_json(),
        state=state,
        total_tasks=spec.total_tasks,
        total_roles=len(spec.task_roles),
        total_gpus=spec.total_gpus,
        named_gpu_type=spec.gpu_type,
        created_at=created,
        published_at=created,
        queued_at=created,
        started_at=None if state == "WAITING" else placed,
        completed_at=ended,
        changed_at=ended or now,
        **more,
    )
    make_attempt(job, spec, placed, ended, task_state or _TASK_STATES[state], node, exit, failed_task)
    add_event(job, "job.submitted", f"Submitted by {username}.", at=created, actor=username)
    return job


def make_attempt(
    job: Job,
    spec: JobSpec,
    placed: datetime,
    ended: datetime | None,
    task_state: str,
    node: Node | None = None,
    exit: exits.Exit | None = None,
    failed_task: int = 0,
) -> Attempt:
    exit = exit or _end_of(job)
    number = next(_number)
    attempt = Attempt.objects.create(
        job=job,
        number=job.attempt_number,
        app_id=f"application_{number}_{number}",
        created_at=job.created_at,
        launched_at=None if job.state == "WAITING" else placed,
        decided_at=ended,
        completed_at=ended,
        exit_code=exit.code if exit else None,
        exit=_attempt_exit(spec, exit, failed_task) if exit else {},
    )
    tasks = [
        _task(job, attempt, role.name, index, task_state, placed, ended, node, exit if index == failed_task else None)
        for role in spec.task_roles
        for index in range(role.task_number)
    ]
    Task.objects.bulk_create(tasks, batch_size=500)
    if node and task_state in TASK_LIVE_STATES:
        _allocate(attempt, node, spec)
    return attempt


def fail_again(job: Job, exit: exits.Exit, times: int, *, next_in: float = 200.0) -> None:
    """As if the first ``times`` attempts of a waiting job ended with ``exit``: it waits for the next, in seconds."""
    now = timezone.now()
    spec = JobSpec.from_json(job.spec)
    for number in range(1, times + 1):
        ended = {"exit_code": exit.code, "exit": _attempt_exit(spec, exit, 0), "completed_at": now}
        Attempt.objects.filter(job=job, number=number).update(launched_at=now - timedelta(seconds=9), **ended)
        job.attempt_number = number + 1
        make_attempt(job, spec, now, None, "WAITING")
    job.platform_retries, job.queued_at, job.not_before = times, now, now + timedelta(seconds=next_in)
    job.save()


def add_event(job: Job, kind: str, reason: str, *, at: datetime | None = None, **more: Any) -> Event:
    return Event.objects.create(job=job, kind=kind, reason=reason, at=at or timezone.now(), attempt=1, **more)


_TASK_STATES = {
    "WAITING": "WAITING",
    "RUNNING": "RUNNING",
    "SUCCEEDED": "SUCCEEDED",
    "FAILED": "STOPPED",
    "STOPPED": "STOPPED",
}


def _end_of(job: Job) -> exits.Exit | None:
    if job.state == "SUCCEEDED":
        return exits.exit_for(0)
    if job.state == "STOPPED":
        return exits.job_stopped(job.stopped_by)
    return exits.exit_for(255, "worker-0 ended with exit code 3.") if job.state == "FAILED" else None


def _attempt_exit(spec: JobSpec, exit: exits.Exit, failed_task: int) -> dict[str, Any]:
    failed = exit.code not in (0, exits.JOB_STOPPED)
    return {
        "trigger": "",
        "role": spec.task_roles[0].name if failed else "",
        "index": failed_task if failed else None,
        "reason": exit.sentence,
        "exit": exit.to_json(),
        "next": "Not tried again: retryCount is 0." if failed else "",
    }


def _task(
    job: Job,
    attempt: Attempt,
    role: str,
    index: int,
    state: str,
    placed: datetime,
    ended: datetime | None,
    node: Node | None,
    exit: exits.Exit | None,
) -> Task:
    started = placed + timedelta(seconds=1) if state not in ("WAITING", "STARTING") else None
    is_bad = exit is not None and exit.code > 0
    codes = {"SUCCEEDED": 0, "STOPPED": exits.TASK_STOPPED}
    code = exit.code if exit is not None and is_bad else codes.get(state)
    return Task(
        job=job,
        attempt=attempt,
        role=role,
        index=index,
        state="FAILED" if is_bad else state,
        changed_at=ended or placed,
        node=node.name if node and started else "",
        address=node.address if node and started else "",
        ports={"http": [30000 + 2 * index], "ssh": [30001 + 2 * index]} if node and started else {},
        container_name=f"longshore-{job.username}-{job.name}-{attempt.number}-{role}-{index}" if started else "",
        container_started_at=started,
        exit_code=code if ended else None,
        exit=exit.to_json() if exit is not None and is_bad else {},
        finished_at=ended,
        collected=ended is not None,
    )


def _allocate(attempt: Attempt, node: Node, spec: JobSpec) -> None:
    gpus = iter(str(gpu["id"]) for gpu in node.gpus)
    for task in attempt.tasks.order_by("id"):
        role = spec.role(task.role)
        task.gpu_ids = [gpu for _, gpu in zip(range(role.gpu_number), gpus, strict=False)]
        task.save(update_fields=["gpu_ids"])
        Allocation.objects.create(
            owner=str(task.pk),
            node=node,
            vc=attempt.job.vc,
            cpus=role.cpu_number,
            memory_mb=role.memory_mb,
            gpu_ids=task.gpu_ids,
            ports=sorted(port for ports in task.ports.values() for port in ports),
        )
