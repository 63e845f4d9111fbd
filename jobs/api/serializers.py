"""Turns rows of jobs into answers of the API, in the exact shapes of v1 (v1 contract, 3.6 and 3.7) and our additions.

A key whose value does not exist yet has the value null. Times are milliseconds since 1970.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast
from urllib.parse import quote

from clusters.models import Node
from clusters.placement.fit import Blocker
from jobs import queries
from jobs.api import exit_report, shapes
from jobs.config.spec import JobSpec
from jobs.containers import launch, ssh
from jobs.containers.ssh import Login
from jobs.diagnosis.evidence import from_json
from jobs.models import Attempt, Event, Job, Task
from jobs.planning.lifecycle import JOB_ENDS, TASK_ENDS, JobState, TaskState, v1_state, v1_sub_state, v1_task_state
from portal.web.api.values import milliseconds


def job_path(job: Job) -> str:
    """The path of a job below the API's root."""
    return f"/user/{quote(job.username)}/jobs/{quote(job.name)}"


def log_path(job: Job, role: str, index: int, attempt: int) -> str:
    """The path to which a client appends the name of a log, below the API's root."""
    return f"{job_path(job)}/taskRoles/{quote(role)}/{index}/logs/{attempt}/"


def list_item(row: Mapping[str, Any]) -> shapes.JobItem:
    """One line of the list from a row of ``queries.list_jobs``."""
    state = JobState(row["state"])
    item: shapes.JobItem = {
        "name": row["name"],
        "username": row["username"],
        "state": v1_state(state),
        "subState": v1_sub_state(state),
        "executionType": row["execution"],
        **_retries(row["user_retries"], row["platform_retries"], row["resource_retries"]),
        "createdTime": milliseconds(row["created_at"]),
        "completedTime": milliseconds(row["completed_at"]),
        "appExitCode": row["exit_code"],
        "virtualCluster": row["vc"],
        "totalGpuNumber": row["total_gpus"],
        "totalTaskNumber": row["total_tasks"],
        "totalTaskRoleNumber": row["total_roles"],
        "legacy": True,
    }
    if not row["is_legacy"]:
        del item["legacy"]
    return item


def detail(
    job: Job,
    attempt: Attempt,
    tasks: Iterable[Task],
    *,
    name: str,
    base_url: str,
    waiting_reason: shapes.WaitingReason | None = None,
    may_read_logs: bool = False,
) -> shapes.JobDetail:
    """The job and its current attempt. ``name`` is the name as the client wrote it, ``base_url`` is ``http://host``.

    As in v1 there are no roles and no ``app*`` values until the attempt has been placed.
    """
    hidden = job.state == JobState.WAITING and attempt.launched_at is None
    shown = [] if hidden else list(tasks)
    app = _app(job, attempt, shown, hidden, base_url)
    status: shapes.JobStatus = {
        **_status(job),
        **app,
        "virtualCluster": job.vc,
        "waitingReason": waiting_reason,
        "diagnosis": diagnosis(attempt, may_read_logs=may_read_logs),
    }
    if job.state != JobState.WAITING:
        del status["waitingReason"]
    if status["diagnosis"] is None:
        del status["diagnosis"]
    return {"name": name, "jobStatus": status, "taskRoles": task_roles(job, attempt, shown, base_url)}


def without_story(answer: shapes.JobDetail) -> shapes.JobDetail:
    """The detail for viewers who may not read the job's story (jobs.access). All keys stay."""
    roles: dict[str, shapes.TaskRole] = {
        name: {**role, "taskStatuses": [_without_story(task) for task in role["taskStatuses"]]}
        for name, role in answer["taskRoles"].items()
    }
    status: shapes.JobStatus = {
        **answer["jobStatus"],
        "appExitDiagnostics": None,
        "appExitMessages": None,
        "appExitTriggerMessage": None,
    }
    if "waitingReason" in status:
        status["waitingReason"] = None  # it may say how earlier attempts ended
    status.pop("diagnosis", None)
    return {**answer, "jobStatus": status, "taskRoles": roles}


def _without_story(task: shapes.TaskStatus) -> shapes.TaskStatus:
    return {**task, "containerIp": None, "containerLog": None, "exitReason": None, "containerPorts": {}}


def task_roles(job: Job, attempt: Attempt, tasks: Iterable[Task], base_url: str) -> dict[str, shapes.TaskRole]:
    """The roles of an attempt with their tasks; ``tasks`` are in config order."""
    spec = JobSpec.from_json(job.spec)
    tasks = list(tasks)
    bits = _gpu_bits(tasks)
    roles: dict[str, shapes.TaskRole] = {}
    for task in tasks:
        role = roles.setdefault(task.role, {"taskRoleStatus": {"name": task.role}, "taskStatuses": []})
        role["taskStatuses"].append(_task(job, attempt, spec, task, bits, base_url))
    return roles


def diagnosis(attempt: Attempt, *, may_read_logs: bool) -> shapes.Diagnosis | None:
    """Why the attempt failed; None where no rule knows, and while it is not diagnosed."""
    found = from_json(attempt.diagnosis) if attempt.diagnosis else None
    if found is None or not found.rule:
        return None
    item: shapes.Diagnosis = {
        "cause": found.cause,
        "name": found.name,
        "whose": found.whose,
        "certainty": found.certainty,
        "rule": found.rule,
        "task": found.task,
        "node": found.node,
        "followed": list(found.followed),
        "suspects": list(found.suspects),
        "actions": [{"label": one["label"], "change": one["change"]} for one in found.actions],
    }
    if may_read_logs:
        item["says"], item["advice"] = found.says, found.advice
        item["lines"] = [cast(shapes.ProofLine, line) for line in found.lines]
    return item


def attempt_item(job: Job, attempt: Attempt, *, may_read_logs: bool) -> shapes.AttemptItem:
    """One attempt of the list; ``next`` says what followed it."""
    end = attempt.exit or {}
    item: shapes.AttemptItem = {
        "attempt": attempt.number,
        "isCurrent": attempt.number == job.attempt_number,
        "appId": attempt.app_id,
        "createdTime": milliseconds(attempt.created_at),
        "appLaunchedTime": milliseconds(attempt.launched_at),
        "appDecidedTime": milliseconds(attempt.decided_at),
        "appCompletedTime": milliseconds(attempt.completed_at),
        **exit_report.report(attempt.exit_code, end, _trigger_container(job, attempt)),
        "next": end.get("next"),
        "diagnosis": diagnosis(attempt, may_read_logs=may_read_logs),
    }
    if item["diagnosis"] is None:
        del item["diagnosis"]
    return item


def event_item(event: Event) -> shapes.EventItem:
    return {
        "id": event.pk,
        "time": milliseconds(event.at),
        "kind": event.kind,
        "attempt": event.attempt,
        "task": event.task or None,
        "node": event.node or None,
        "actor": event.actor,
        "from": event.before or None,
        "to": event.after or None,
        "reason": event.reason,
        "data": event.data,
    }


def blocker_item(blocker: Blocker) -> shapes.Blocker:
    item: shapes.Blocker = {"kind": blocker.kind, "sentence": blocker.sentence}
    if blocker.need:
        item["need"] = blocker.need
    if blocker.have:
        item["have"] = blocker.have
    if blocker.node:
        item["node"] = blocker.node
    if blocker.until:
        item["until"] = blocker.until
    if blocker.job:
        item["job"] = blocker.job
    return item


def _retries(user: int, platform: int, resource: int) -> shapes.Retries:
    return {
        "retries": user + platform + resource,
        "retryDetails": {"user": user, "platform": platform, "resource": resource},
    }


def _status(job: Job) -> shapes.JobState:
    state = JobState(job.state)
    return {
        "username": job.username,
        "state": v1_state(state),
        "subState": v1_sub_state(state),
        "executionType": job.execution,
        **_retries(job.user_retries, job.platform_retries, job.resource_retries),
        "createdTime": milliseconds(job.created_at),
        "completedTime": milliseconds(job.completed_at),
    }


def _app(job: Job, attempt: Attempt, tasks: list[Task], hidden: bool, base_url: str) -> shapes.App:
    if hidden:
        return {
            "appId": None,
            "appProgress": None,
            "appTrackingUrl": None,
            "appLaunchedTime": None,
            "appCompletedTime": None,
            **exit_report.NOT_ENDED,
        }
    return {
        "appId": attempt.app_id,
        "appProgress": _progress(job, tasks),
        "appTrackingUrl": f"{base_url}/jobs/{quote(job.username)}/{quote(job.name)}",
        "appLaunchedTime": milliseconds(attempt.launched_at),
        "appCompletedTime": milliseconds(attempt.completed_at),
        **exit_report.report(job.exit_code, attempt.exit or {}, _trigger_container(job, attempt)),
    }


def _progress(job: Job, tasks: list[Task]) -> float:
    if JobState(job.state) in JOB_ENDS:
        return 1.0
    ended = sum(TaskState(task.state) in TASK_ENDS for task in tasks)
    return round(ended / max(1, len(tasks)), 4)


def _trigger_container(job: Job, attempt: Attempt) -> str | None:
    end = attempt.exit or {}
    if not end.get("role") or end.get("index") is None:
        return None
    return launch.container_id(attempt.app_id, JobSpec.from_json(job.spec), end["role"], end["index"])


def _task(
    job: Job, attempt: Attempt, spec: JobSpec, task: Task, bits: Mapping[tuple[str, str], int], base_url: str
) -> shapes.TaskStatus:
    placed = bool(task.node)
    logs = f"{base_url}/api/v1{log_path(job, task.role, task.index, attempt.number)}"
    return {
        "taskIndex": task.index,
        "taskState": v1_task_state(TaskState(task.state)),
        "containerId": launch.container_id(attempt.app_id, spec, task.role, task.index) if placed else None,
        "containerIp": task.address or None,
        "containerPorts": {label: ",".join(map(str, ports)) for label, ports in task.ports.items()},
        "containerGpus": sum(1 << bits[task.node, gpu] for gpu in set(task.gpu_ids)) if placed else None,
        "containerLog": logs if placed else None,
        "containerExitCode": task.exit_code,
        "nodeName": task.node or None,
        "exitReason": (task.exit or {}).get("sentence"),
        "heldUntil": milliseconds(queries.held_until(task)),
    }


def _gpu_bits(tasks: Iterable[Task]) -> dict[tuple[str, str], int]:
    """{(node, gpu id): bit} for v1's bit masks. An id that is a number is the bit; any other id has the position of its
    GPU on the node."""
    used = {(task.node, gpu) for task in tasks for gpu in task.gpu_ids}
    bits = {key: int(key[1]) for key in used if key[1].isdecimal() and len(key[1]) <= 3}
    named = used - bits.keys()
    if named:
        nodes = Node.objects.filter(name__in={node for node, _ in named}).values_list("name", "gpus")
        places = {(name, gpu["id"]): place for name, gpus in nodes for place, gpu in enumerate(gpus)}
        bits |= {key: places.get(key, 0) for key in named}
    return bits


def ssh_info(job: Job, logins: Sequence[Login], key_link: str) -> shapes.SshInfo:
    """How to log in to the job's containers (v1 contract, 3.9). ``key_link`` is the address of the private key."""
    name = job.full_name
    return {
        "containers": [{"id": one.id, "sshIp": one.address, "sshPort": str(one.port)} for one in logins],
        "keyPair": {
            "folderPath": ssh.key_folder(job),
            "publicKeyFileName": f"{name}.pub",
            "privateKeyFileName": name,
            "privateKeyDirectDownloadLink": key_link,
        },
    }
