"""Decides who may open a terminal where. Called in threads."""

from __future__ import annotations

from dataclasses import dataclass

from jobs import access, queries
from jobs.models import Job, Task
from jobs.planning.lifecycle import TaskState
from portal.accounts.viewer import Viewer
from portal.core.errors import Conflict, NotFound


@dataclass(frozen=True, slots=True)
class Place:
    """The container of a running task."""

    job: Job
    attempt: int
    task: Task

    @property
    def label(self) -> str:
        return self.task.label

    @property
    def node(self) -> str:
        return self.task.node

    @property
    def container(self) -> str:
        return self.task.container_name

    @property
    def held(self) -> bool:
        """Its command has failed, and it is kept for debugging."""
        return self.task.held_at is not None


def find(viewer: Viewer, username: str, name: str, role: str, index: int, attempt: int = 0) -> Place:
    """``attempt`` 0 is the current one. Raises NoJob, NotFound, Unauthorized, Forbidden; Conflict when the task does
    not run."""
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
    return Place(job, tried.number, task)


def running(job: Job) -> list[Place]:
    """All tasks of the current attempt that can be entered, in order of the config."""
    tasks = queries.list_tasks(queries.current_attempt(job)).filter(state=TaskState.RUNNING).exclude(container_name="")
    return [Place(job, job.attempt_number, task) for task in tasks]
