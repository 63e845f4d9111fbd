"""Decides who may open a terminal where. Called in threads."""

from __future__ import annotations

from base.accounts.viewer import Viewer
from base.core.errors import Conflict, NotFound
from base.core.words import whole
from jobs import access, queries
from jobs.models import Job, Task
from jobs.planning.lifecycle import TaskState


def find(viewer: Viewer, username: str, name: str, role: str, index: int, attempt: int = 0) -> Task:
    """The task that they enter, with its job and attempt; ``attempt`` 0 is the current one. Raises NoJob, NotFound,
    Unauthorized, Forbidden; Conflict when the task does not run."""
    job = queries.get_job(username, name)
    access.require_enter(viewer, job)
    tried = queries.get_attempt(job, attempt or job.attempt_number)
    task = Task.objects.filter(attempt=tried, role=role, index=index).first() if "\x00" not in role else None
    if task is None:
        raise NotFound(f"Job {job.name} has no task {role}-{index} in attempt {tried.number}.")
    if task.state != TaskState.RUNNING or not task.container_name:
        newer = f" The job goes on with attempt {job.attempt_number}: load the page again to enter that."
        is_old = tried.number < job.attempt_number
        raise Conflict(f"{task.label} does not run, so nobody can enter it.{newer if is_old else ''}")
    task.job, task.attempt = job, tried
    return task


def attempt_in(text: str | None) -> int:
    """The attempt that an address names; 0 where it names none. Raises NotFound for what cannot be one."""
    number = whole(text, 15) if text else 0
    if number is None:
        raise NotFound("The job has no such attempt: its attempts are numbered from 1.")
    return number


def running(job: Job) -> list[Task]:
    """All tasks of the current attempt that can be entered, in order of the config, with their job and attempt."""
    attempt = queries.current_attempt(job)
    rows = Task.objects.filter(attempt=attempt, state=TaskState.RUNNING).exclude(container_name="")
    tasks = list(rows.order_by("id"))
    for task in tasks:
        task.job, task.attempt = job, attempt
    return tasks
