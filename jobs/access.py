"""Who may read and change which job. The only file that knows LONGSHORE_ANONYMOUS_READ.

all    anybody reads everything, as v1 clusters did
jobs   anybody reads the job list, details and virtual clusters; config, ssh and logs need a login
none   everything needs a login
"""

from __future__ import annotations

from typing import Protocol

from django.conf import settings

from jobs.models import Job
from portal.errors import Forbidden, Unauthorized


class Viewer(Protocol):
    """A ``portal.models.User`` or Django's ``AnonymousUser``."""

    @property
    def is_authenticated(self) -> bool: ...


def may_read_jobs(viewer: Viewer) -> bool:
    """The job list, details, attempts, events and virtual clusters."""
    return viewer.is_authenticated or settings.ANONYMOUS_READ != "none"


def may_read_config(viewer: Viewer, job: Job) -> bool:
    """The config as it was sent (it may hold secrets in jobEnvs) and the ssh keys."""
    return viewer.is_authenticated or settings.ANONYMOUS_READ == "all"


def may_read_logs(viewer: Viewer, job: Job) -> bool:
    return viewer.is_authenticated or settings.ANONYMOUS_READ == "all"


def may_write(viewer: Viewer, job: Job) -> bool:
    """Stop and delete: its owner and admins."""
    if not viewer.is_authenticated:
        return False
    return getattr(viewer, "username", "") == job.username or bool(getattr(viewer, "is_admin", False))


def require_write(viewer: Viewer, job: Job, doing: str) -> None:
    """Raise Unauthorized or Forbidden unless ``may_write``. ``doing`` is the v1 verb: execute, remove."""
    if not viewer.is_authenticated:
        raise Unauthorized
    if not may_write(viewer, job):
        name = getattr(viewer, "username", "")
        raise Forbidden(f"User {name} is not allowed to {doing} job {job.name}.")
