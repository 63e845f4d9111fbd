"""Turns rows of jobs into answers of the API, in the exact shapes of v1 (v1 contract, 3.6 and 3.7) and our additions.

A key whose value does not exist yet has the value null. Times are milliseconds since 1970.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from functools import cache, partial
from typing import Any, cast, get_type_hints
from urllib.parse import quote

from rest_framework.request import Request
from rest_framework.response import Response

from base.accounts.viewer import Viewer
from base.core.errors import Problem
from base.core.values import milliseconds
from clusters.models import Node
from jobs import access, queries
from jobs.config.spec import JobSpec
from jobs.containers import launch, ssh
from jobs.containers.ssh import Login
from jobs.diagnosis.evidence import from_json
from jobs.models import Attempt, Job
from jobs.planning.lifecycle import JOB_END_STATES, TASK_END_STATES, JobState, TaskState, v1_sub_state, v1_task_state
from jobs.queries import TaskRow
from jobs.waiting.reason import BlockerItem, WaitingReason
from jobs.waiting.why import turn_of, waiting_reason
from portal.shared.jobs import exit_report, shapes


def job_path(job: Job) -> str:
    """Return the path of a job below the API's root."""
    return f"/user/{quote(job.username)}/jobs/{quote(job.name)}"


def log_path(job: Job, role: str, index: int | str, attempt: int) -> str:
    """The path to which a client appends the name of a log, below the API's root."""
    return f"{job_path(job)}/taskRoles/{quote(role)}/{index}/logs/{attempt}/"


def list_item(row: Mapping[str, Any], viewer: Viewer) -> shapes.JobItem:
    """One line of the list from a row of ``queries.list_jobs``."""
    return next(list_items([row], viewer))


def list_items(rows: Iterable[Mapping[str, Any]], viewer: Viewer) -> Iterator[shapes.JobItem]:
    """Many lines. Whether the viewer may read a user's details is asked once for each user."""
    may_read = cache(partial(access.may_read_details, viewer))
    return (_list_item(row, may_read=may_read(row["username"])) for row in rows)


def _list_item(row: Mapping[str, Any], *, may_read: bool) -> shapes.JobItem:
    item: shapes.JobItem = {
        "name": row["name"],
        **_status(row),
        "appExitCode": row["exit_code"] if may_read else None,
        "userExitCode": (row.get("exit") or {}).get("raw_code") if may_read else None,
        "virtualCluster": row["vc"],
        "totalGpuNumber": row["total_gpus"],
        "totalTaskNumber": row["total_tasks"],
        "totalTaskRoleNumber": row["total_roles"],
        "legacy": True,
    }
    if not row["is_legacy"]:
        del item["legacy"]
    if "exit" not in row:
        del item["userExitCode"]
    return item


def created(request: Request, job: Job, path: str) -> Response:
    """201 with the job's detail as body, ``path`` as Location, and v1's X-Warning where it is due. As in v1 a job that
    was just accepted has no roles and no ``app*`` values until it has been placed."""
    headers = {"Location": f"{request.scheme}://{request.get_host()}{path}"}
    if job.spec.get("killAllOnCompletedTaskNumber") is not None:
        headers["X-Warning"] = _WARNING
    status: shapes.JobStatus = {
        **_status(vars(job)),
        **_NOT_PLACED,
        **_NOT_TOLD,
        "virtualCluster": job.vc,
        "waitingReason": None,
        "diagnosis": None,
    }
    del status["diagnosis"]
    answer: shapes.JobDetail = {"name": job.name, "jobStatus": status, "taskRoles": {}}
    return Response(answer, status=201, headers=headers)


_WARNING = (
    "killAllOnCompletedTaskNumber has been obsoleted, please use minFailedTaskCount and minSucceededTaskCount instead."
)


def job_answer(
    viewer: Viewer, base_url: str, job: Job, attempt: Attempt, name: str, *, explain: bool = True
) -> shapes.JobDetail:
    """The v1 job detail: the job and its current attempt, without the job's details where the viewer may not read it.
    ``name`` is repeated as the client wrote it. ``explain``: say why it waits."""
    tasks = queries.list_tasks(attempt)
    waits = job.state == JobState.WAITING
    is_placed = not waits or attempt.launched_at is not None
    may_read = access.may_read_details(viewer, job.username)
    starting = starting_reason(tasks) if job.state == JobState.RUNNING else None
    reason = waiting_reason(job, turn_of(job)) if waits and explain and may_read else starting
    status: shapes.JobStatus = {
        **_status(vars(job)),
        **(_app(job, attempt, tasks, base_url) if is_placed else _NOT_PLACED),
        **_end_notice(job, attempt, may_read=may_read),
        "virtualCluster": job.vc,
        "waitingReason": reason if may_read else None,  # it may say how earlier attempts ended
        "diagnosis": diagnosis(attempt, may_read_logs=access.may_read_logs(viewer, job.username)),
    }
    if not waits and starting is None:
        del status["waitingReason"]
    if status["diagnosis"] is None or not may_read:
        del status["diagnosis"]
    roles = task_roles(job, attempt, tasks, base_url) if is_placed else {}
    if not may_read:
        status = {**status, **exit_report.NOT_ENDED}
        for role in roles.values():
            role["taskStatuses"] = [{**task, **_HIDDEN} for task in role["taskStatuses"]]
    return {"name": name, "jobStatus": status, "taskRoles": roles}


_NOT_TOLD: shapes.EndNotice = {}


def _end_notice(job: Job, attempt: Attempt, *, may_read: bool) -> shapes.EndNotice:
    notice: shapes.EndNotice = {}
    if job.state == JobState.RUNNING and (saved := milliseconds(job.saved_at)) is not None:
        notice["savedTime"] = saved
    if job.state == JobState.RUNNING and attempt.decided_at and may_read:
        notice["endReason"] = attempt.exit.get("reason", "")
    return notice


def starting_reason(tasks: Sequence[TaskRow]) -> WaitingReason | None:
    """What a placed job waits for before anything of it runs, such as a file store that is away; None else."""
    busy = [task for task in tasks if task.progress]
    if not busy or any(task.state != TaskState.STARTING for task in tasks):
        return None
    blockers: list[BlockerItem] = [
        {"kind": "start", "sentence": f"{task.label}: {task.progress}", "node": task.node} for task in busy[:5]
    ]
    return {"summary": blockers[0]["sentence"], "blockers": blockers, "ahead": []}


_HIDDEN: shapes.HiddenOfTask = {  # from viewers who may not read the job's details (jobs.access)
    "containerPorts": {},
    "containerIp": None,
    "containerLog": None,
    "containerExitCode": None,
    "exitReason": None,
    "note": None,
    "heldUntil": None,  # only what failed is kept
    "toldTime": None,
    "endsBy": None,
}


def task_roles(job: Job, attempt: Attempt, tasks: Sequence[TaskRow], base_url: str) -> dict[str, shapes.TaskRole]:
    """The roles of an attempt with their tasks; ``tasks`` are in config order."""
    spec = JobSpec.from_json(job.spec)
    bits = _gpu_bits(tasks)
    roles: dict[str, shapes.TaskRole] = {}
    logs: dict[str, list[str]] = {}  # of each role, what is before and after the index
    for task in tasks:
        if task.role not in roles:
            roles[task.role] = {"taskRoleStatus": {"name": task.role}, "taskStatuses": []}
            logs[task.role] = f"{base_url}/api/v1{log_path(job, task.role, '~~', attempt.number)}".rsplit("~~", 1)
        before, after = logs[task.role]
        log = f"{before}{task.index}{after}"
        roles[task.role]["taskStatuses"].append(_task(job, attempt, spec, task, bits, log))
    return roles


_OF_DIAGNOSIS = tuple(get_type_hints(shapes.AttemptDiagnosis))


def diagnosis(attempt: Attempt, *, may_read_logs: bool) -> shapes.AttemptDiagnosis | None:
    """Why the attempt failed; None where no rule knows, and while it is not diagnosed."""
    known = from_json(attempt.diagnosis)
    if known is None:
        return None
    told = known.as_read(may_read_logs=may_read_logs)
    hidden = () if may_read_logs else ("says", "lines")
    return cast(shapes.AttemptDiagnosis, {name: getattr(told, name) for name in _OF_DIAGNOSIS if name not in hidden})


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


def _status(row: Mapping[str, Any]) -> shapes.JobSummary:
    """What lists and details share, from a row of ``queries.list_jobs`` or a job's ``vars``."""
    state = row["state"]
    user, platform, resource = row["user_retries"], row["platform_retries"], row["resource_retries"]
    return {
        "username": row["username"],
        "state": state,
        "subState": _sub_state(state),
        "executionType": row["execution"],
        "retries": user + platform + resource,
        "retryDetails": {"user": user, "platform": platform, "resource": resource},
        "createdTime": milliseconds(row["created_at"]),
        "completedTime": milliseconds(row["completed_at"]),
    }


@cache
def _sub_state(state: str) -> str:
    return v1_sub_state(JobState(state))


_NOT_YET = ("appId", "appProgress", "appTrackingUrl", "appLaunchedTime", "appCompletedTime")
_NOT_PLACED = cast(shapes.App, {**dict.fromkeys(_NOT_YET), **exit_report.NOT_ENDED})


def _app(job: Job, attempt: Attempt, tasks: Sequence[TaskRow], base_url: str) -> shapes.App:
    return {
        "appId": attempt.app_id,
        "appProgress": _progress(job, tasks),
        "appTrackingUrl": f"{base_url}/jobs/{quote(job.username)}/{quote(job.name)}",
        "appLaunchedTime": milliseconds(attempt.launched_at),
        "appCompletedTime": milliseconds(attempt.completed_at),
        **exit_report.report(job.exit_code, attempt.exit or {}, _trigger_container(job, attempt)),
    }


def _progress(job: Job, tasks: Sequence[TaskRow]) -> float:
    if JobState(job.state) in JOB_END_STATES:
        return 1.0
    ended = sum(task.state in TASK_END_STATES for task in tasks)
    return round(ended / max(1, len(tasks)), 4)


def _trigger_container(job: Job, attempt: Attempt) -> str | None:
    end = attempt.exit or {}
    if not end.get("role") or end.get("index") is None:
        return None
    return launch.container_id(attempt.app_id, JobSpec.from_json(job.spec), end["role"], end["index"])


def _task(
    job: Job, attempt: Attempt, spec: JobSpec, task: TaskRow, bits: Mapping[tuple[str, str], int], log: str
) -> shapes.TaskStatus:
    placed = bool(task.node)
    return {
        "taskIndex": task.index,
        "taskState": v1_task_state(TaskState(task.state)),
        "containerId": launch.container_id(attempt.app_id, spec, task.role, task.index) if placed else None,
        "containerIp": task.address or None,
        "containerPorts": {label: ",".join(map(str, ports)) for label, ports in task.ports.items()},
        "containerGpus": sum(1 << bits[task.node, gpu] for gpu in set(task.gpu_ids)) if placed else None,
        "containerLog": log if placed else None,
        "containerExitCode": task.exit_code,
        "nodeName": task.node or None,
        "exitReason": (task.exit or {}).get("sentence"),
        "note": task.progress or None,
        "heldUntil": milliseconds(queries.held_until(task)),
        "toldTime": milliseconds(task.told_at),
        "endsBy": milliseconds(queries.killed_at(job, attempt, task)),
    }


def _gpu_bits(tasks: Iterable[TaskRow]) -> dict[tuple[str, str], int]:
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
        "containers": [{"id": login.id, "sshIp": login.address, "sshPort": str(login.port)} for login in logins],
        "keyPair": {
            "folderPath": ssh.key_folder(job),
            "publicKeyFileName": f"{name}.pub",
            "privateKeyFileName": name,
            "privateKeyDirectDownloadLink": key_link,
        },
    }


def problem_items(problems: Iterable[Problem]) -> list[Any]:
    """Problems with line, column and path, and the mend of those that have one."""
    return [{name: value for name, value in asdict(each).items() if value or name != "mend"} for each in problems]
