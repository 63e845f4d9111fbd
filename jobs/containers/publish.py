"""Writes a job's config, keys and output folder into the store (v1 contract, 1.7).

A worker tries it right before the job's first start; the start goes on whether it worked or not. What failed because
the store was down is written later by the scheduler's order. Every file may be written twice.
"""

from __future__ import annotations

import json
from datetime import timedelta
from threading import Lock

import structlog
from django.conf import settings
from django.utils import timezone
from django_q.tasks import async_task

from base.core.bulk import first_where, update_where
from base.core.errors import LongshoreError
from base.files.store import open_store, rules
from base.files.store.base import StoreUnavailable
from jobs.config import jsonc
from jobs.config.spec import JobSpec, substitute_paths
from jobs.containers import sshkeys
from jobs.logs.places import as_file_name, job_folder
from jobs.models import Job

ORDER_AFTER = timedelta(seconds=10)  # a start publishes its job itself
_AT_ONCE = 200

log = structlog.get_logger()
_locks = [Lock() for _ in range(64)]


def publish_job(job_id: int) -> bool:
    """Write the files of one job; False when the store is down. The tasks of a gang start together: one of them writes,
    the others wait for it."""
    with _locks[job_id % len(_locks)]:
        return _publish(job_id)


def publish_all(job_ids: list[int]) -> None:
    """Write the files of these jobs, as ordered by ``order_due``. Stops at the first failure: the store is down."""
    for job_id in job_ids:
        if not publish_job(job_id):
            return


def order_due() -> None:
    """Order a worker to write the files that are missing. Of jobs that never started nobody reads any."""
    due = Job.objects.filter(published_at=None, deleted_at=None, started_at__lt=timezone.now() - ORDER_AFTER)
    if ids := list(due.order_by("started_at").values_list("id", flat=True)[:_AT_ONCE]):
        async_task("jobs.containers.tasks.publish", ids)


def key_path(username: str, full_name: str) -> str:
    """The path of the private key; the public key is beside it and ends with ``.pub``."""
    return f"{job_folder(username, full_name)}/ssh/keyFiles/{as_file_name(full_name)}"


def _publish(job_id: int) -> bool:
    job = first_where(Job, "id = %s AND published_at IS NULL AND deleted_at IS NULL", job_id)
    if job is None:
        return True
    try:
        _write(job)
    except StoreUnavailable as error:
        log.info("the files of a job are written later", job=str(job), reason=error.message)
        return False
    except LongshoreError as error:  # it would fail each time, so it is not tried again and holds up no other job
        log.warning("the files of a job cannot be written", job=str(job), reason=error.message)
    update_where(Job, {"published_at": timezone.now()}, "id = %s", job_id)
    return True


def _write(job: Job) -> None:
    store, owner = open_store(), job.username
    for root in ("/Container", "/Output"):
        store.mkdirs(root, mode=0o777)
    folder = job_folder(owner, job.full_name)
    for name in ("log", "tmp"):
        store.mkdirs(f"{folder}/{name}", owner=owner)
    # For programs that read plain JSON: as v1 wrote it, without the comments that were sent.
    config = json.dumps(jsonc.parse(job.config).value, indent=2, ensure_ascii=False)
    store.write(f"{folder}/JobConfig.json", [config.encode()], owner=owner)
    pair = sshkeys.key_of(job.pk, job.full_name)
    private = key_path(owner, job.full_name)
    store.write(private, [pair.private.encode()], owner=owner, mode=0o600)
    store.write(f"{private}.pub", [f"{pair.public}\n".encode()], owner=owner)
    spec = JobSpec.from_json(job.spec)
    if not spec.output_dir:
        paths = substitute_paths(spec, fs_uri=settings.DEFAULT_FS_URI, username=owner)
        store.mkdirs(rules.path_of(paths["outputDir"]), owner=owner)
