"""Decides who may read and change which job, by LONGSHORE_ANONYMOUS_READ and LONGSHORE_JOB_PRIVACY.

What a guest reads (LONGSHORE_ANONYMOUS_READ):
all    everything, as on v1 clusters
jobs   the job list, details and virtual clusters; config, ssh and logs need a login
none   nothing

What a user reads of others' jobs (LONGSHORE_JOB_PRIVACY):
open   everything, as on v1 clusters
owner  that the job exists: its name, state, owner, nodes and resources. Its config, ssh, logs and details (events, why
       it failed, its image, addresses and ports) are for its owner, auditors and admins; guests do not read them
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from django.conf import settings

from base.accounts.viewer import Viewer, may, may_read_jobs
from base.core.errors import Forbidden, Unauthorized
from base.roles import Permission
from clusters.placement.fit import Blocker
from clusters.vcs.grants import may_use
from clusters.vcs.rules import DEFAULT_VC
from jobs import queries
from jobs.models import Job


def may_read_details(viewer: Viewer, username: str) -> bool:
    """Whether the viewer may read the details of that user's jobs: events, attempts, why they failed, images, addresses
    and ports."""
    return may_read_jobs(viewer) and (
        settings.JOB_PRIVACY == "open" or may(viewer, Permission.READ_JOB, owner=username)
    )


def told(blockers: Iterable[Blocker], username: str) -> list[Blocker]:
    """What keeps a job of that user waiting, in the words for whoever reads it: it is told to its owner, so the others
    whose story these would tell are named where their owner is the same, or jobs are open."""
    is_open = settings.JOB_PRIVACY == "open"
    return [
        each if is_open or {*each.owners} <= {username} else replace(each, sentence=each.otherwise) for each in blockers
    ]


def role_as_read(viewer: Viewer, username: str, role: str) -> str:
    """The name of a role of that user's jobs, for lists of what is held: it is of the config, so others read that it is
    a task. (The job's own page and its detail in the API go by roles, as v1 did.)"""
    return role if may_read_details(viewer, username) else "task"


def reads_details_as(viewer: Viewer) -> str:
    """The same for all viewers who read the same of a list of many users' jobs, for its ETag."""
    if settings.JOB_PRIVACY == "open":
        return ""
    return "*" if may(viewer, Permission.READ_ALL) else viewer.username  # of which no user has the name


def may_read_config(viewer: Viewer, job: Job) -> bool:
    """Whether the viewer may read the config as it was sent (its jobEnvs may hold secrets) and how to log in by ssh."""
    return may_read_logs(viewer, job.username)


def may_read_logs(viewer: Viewer, username: str) -> bool:
    """Whether the viewer may read the logs of that user's jobs."""
    is_known = viewer.is_authenticated or settings.ANONYMOUS_READ == "all"
    return is_known and may_read_details(viewer, username)


def require_details(viewer: Viewer, job: Job) -> None:
    """Raise Unauthorized or Forbidden unless ``may_read_details``."""
    if not may_read_details(viewer, job.username):
        raise _refusal(viewer, job)


def require_config(viewer: Viewer, job: Job) -> None:
    """Raise Unauthorized or Forbidden unless ``may_read_config``."""
    if not may_read_config(viewer, job):
        raise _refusal(viewer, job)


def require_logs(viewer: Viewer, job: Job) -> None:
    """Raise Unauthorized or Forbidden unless ``may_read_logs``."""
    if not may_read_logs(viewer, job.username):
        raise _refusal(viewer, job)


def may_write(viewer: Viewer, job: Job) -> bool:
    """Stop and delete: its owner and admins."""
    return is_insider(viewer, job.username)


def may_stop(viewer: Viewer, username: str, state: str, execution: str) -> bool:
    """Whether to offer it: it is not needed for a job that has ended, or that somebody has stopped."""
    return state in queries.LIVE and execution == Job.Execution.START and is_insider(viewer, username)


def require_write(viewer: Viewer, job: Job, doing: str) -> None:
    """Raise Unauthorized or Forbidden unless ``may_write``. ``doing`` is the v1 verb: execute, remove."""
    if not viewer.is_authenticated:
        raise Unauthorized
    if not may_write(viewer, job):
        raise Forbidden(f"User {viewer.username} is not allowed to {doing} job {job.name}.")


def may_enter(viewer: Viewer, job: Job) -> bool:
    """Open a terminal in its containers: admins, and its owner while they may use its virtual cluster."""
    if not is_insider(viewer, job.username) or viewer.is_admin or job.vc == DEFAULT_VC:
        return is_insider(viewer, job.username)
    return may_use(job.username, job.vc, is_admin=False)


def require_enter(viewer: Viewer, job: Job) -> None:
    """Raise Unauthorized or Forbidden unless ``may_enter``."""
    if not viewer.is_authenticated:
        raise Unauthorized
    if not may_enter(viewer, job):
        lost = viewer.username == job.username
        raise Forbidden(
            f"You may not use virtual cluster {job.vc} any more, so you cannot enter its jobs."
            if lost
            else f"A terminal in job {job.name} is for {job.username} and for admins."
        )


def is_insider(viewer: Viewer, username: str) -> bool:
    """Whether the viewer may do with the jobs of that user what their owner may."""
    return may(viewer, Permission.CHANGE_JOB, owner=username)


def _refusal(viewer: Viewer, job: Job) -> Unauthorized | Forbidden:
    if not viewer.is_authenticated:
        return Unauthorized()
    return Forbidden(f"Of job {job.name} this is for {job.username} and for admins.")
