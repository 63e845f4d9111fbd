"""TensorBoard of a job that has ended: a small job of the user's own serves the event files of its output folder.

It is submitted as any other job, with the user's rights and in their name. It reads the folder from the store with its
own token, and ends when nobody has visited for IDLE seconds.
"""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from django.conf import settings

from base.accounts.viewer import Viewer
from base.core.errors import BadRequest, Conflict, Forbidden, NotFound
from base.files.store.base import BadPath, joined, names_of
from base.files.store.rules import Rights
from base.files.store_actor import KnownAccounts
from base.models import User
from clusters.vcs.rules import DEFAULT_VC
from jobs import queries, services
from jobs.config.spec import JobSpec, substitute_paths
from jobs.models import Job

IDLE = 7_200  # seconds
LONGEST = 7 * 86_400
_LONGEST_FOLDER = 1_000  # characters
_SCRIPT = (Path(__file__).parent / "tensorboard.sh").read_text()


def folder_of(job: Job) -> str:
    """The path of its output folder in the store; empty when that is somewhere else."""
    paths = substitute_paths(JobSpec.from_json(job.spec), fs_uri=settings.DEFAULT_FS_URI, username=job.username)
    return path_of(paths["outputDir"])


def rights_of_jobs(viewer: Viewer) -> Rights:
    """What jobs of theirs can read and write: an admin's reach no further than those of others."""
    return Rights(viewer.username, False, KnownAccounts())


def serve(user: User, job: Job, folder: str = "", image: str = "") -> Job:
    """Submits the job that serves ``folder`` (a path of the store, or an address in it). Raises BadRequest; Forbidden
    for a folder that the user may not read; Conflict for a job that has not ended; and what services.submit raises."""
    path = path_of(folder.strip()) if folder.strip() else folder_of(job)
    if not path or len(path) > _LONGEST_FOLDER or not path.isprintable():
        raise BadRequest("Name a folder of this portal's files, such as /Output/lena/bert.")
    if not rights_of_jobs(user).may_read(path):
        raise Forbidden(f"You may not read {path}, so a job of yours could not show it.")
    if job.state in queries.LIVE:
        raise Conflict(f"Job {job.name} has not ended. TensorBoard is served for jobs that have.")
    name = queries.free_name(user.username, f"{job.name[:200]}-tensorboard")
    asked = config(name, path, image.strip() or settings.TENSORBOARD_IMAGE, job.vc)
    try:
        return services.submit(user, asked)
    except (Forbidden, NotFound):  # the virtual cluster of somebody else's job
        if job.vc == DEFAULT_VC:
            raise
        return services.submit(user, {**asked, "virtualCluster": DEFAULT_VC})


def config(name: str, path: str, image: str, vc: str, idle: int = IDLE) -> dict[str, Any]:
    role = {
        "name": "tensorboard",
        "taskNumber": 1,
        "cpuNumber": 1,
        "memoryMB": 2048,
        "gpuNumber": 0,
        "portList": [{"label": "tensorboard", "beginAt": 0, "portNumber": 1}],
        "command": f"export TB_FOLDER={shlex.quote(path)} TB_IDLE={idle}\n{_SCRIPT}",
    }
    return {
        "jobName": name,
        "image": image,
        "virtualCluster": vc,
        "taskRoles": [role],
        "extras": {"maxRunSeconds": LONGEST, "serves": path},
    }


def path_of(address: str) -> str:
    """The path that an address in this portal's store names, or a path itself, as the store writes it; empty for one of
    another store, and for what is no path."""
    try:
        path = address
        if not address.startswith("/"):
            parts, own = urlsplit(address), urlsplit(settings.DEFAULT_FS_URI)
            path = parts.path if parts.netloc == own.netloc else ""
        return joined(names_of(path))
    except (ValueError, BadPath):
        return ""
