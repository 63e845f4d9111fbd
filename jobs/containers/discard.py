"""Removes the files of purged jobs: the logs of their attempts, their configs and keys from the store, with what
``longshore run`` uploaded for them (jobs.containers.code.uploads), and what they used (jobs.metrics) from this host.

Config and keys stay when a newer job has the same name and so the same folder. Files that the user or the job's
programs wrote stay too, and so does everything below ``/Output``.

The transaction that purges a job writes a row of ``Discarded``, which is deleted when the files are gone: a store that
is down only delays the removal. Every step may be done twice.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from threading import Lock

import structlog
from django_q.tasks import async_task

from base.core.errors import LongshoreError
from base.files.store import open_store
from base.files.store.base import PathExists, Store, StoreUnavailable
from jobs.containers.code import uploads
from jobs.containers.code.named import NamedFolders
from jobs.logs.places import attempt_folder, job_folder
from jobs.metrics.places import remove_attempts
from jobs.models import Attempt, Discarded, Job

_AT_ONCE = 200
_CLOCKS = timedelta(seconds=2)  # by which that of the store may be ahead: an upload begins before its job
_discarding = Lock()

log = structlog.get_logger()


def note(job_ids: Sequence[int]) -> None:
    """Write the rows of ``Discarded`` for these jobs. Call it inside the transaction that deletes the jobs, before the
    deletion."""
    attempts: dict[int, list[str]] = {id: [] for id in job_ids}
    for id, app_id in Attempt.objects.filter(job__in=job_ids).order_by("id").values_list("job_id", "app_id"):
        attempts[id].append(app_id)
    jobs = Job.objects.filter(id__in=job_ids).order_by("id").values_list("id", "username", "name", "created_at")
    Discarded.objects.bulk_create(
        Discarded(username=username, name=name, app_ids=attempts[id], at=at) for id, username, name, at in jobs
    )


def order_due() -> None:
    """Order a worker to remove the files that are left."""
    if ids := list(Discarded.objects.order_by("id").values_list("id", flat=True)[:_AT_ONCE]):
        async_task("jobs.containers.tasks.discard", ids)


def discard_all(ids: list[int]) -> None:
    """Remove the files of these rows, as ordered by ``order_due``. Stops at the first failure: the store is down. While
    one is at it another does nothing: what is left is ordered again."""
    if not _discarding.acquire(blocking=False):
        return
    try:
        _discard_all(list(Discarded.objects.filter(id__in=ids).order_by("id")))
    except StoreUnavailable as error:
        log.info("the files of deleted jobs are removed later", reason=error.message)
    finally:
        _discarding.release()


def _discard_all(rows: Sequence[Discarded]) -> None:
    store = open_store()
    named = uploads.listed_among(store, [(row.username, row.name) for row in rows])
    for row in rows:
        try:
            _discard(store, row, named)
        except StoreUnavailable:
            raise
        except LongshoreError as error:
            log.warning("files of a deleted job stay", job=str(row), reason=error.message)
        row.delete()


def _discard(store: Store, row: Discarded, named: NamedFolders) -> None:
    remove_attempts(row.app_ids)
    uploads.remove(store, row.username, row.name, row.at + _CLOCKS, named)
    for app_id in row.app_ids:
        store.delete(attempt_folder(row.username, row.full_name, app_id), recursive=True)
    namesakes = Job.objects.filter(username=row.username, name=row.name)
    if namesakes.exists():
        return  # the folder belongs to the newer job
    folder = job_folder(row.username, row.full_name)
    store.delete(f"{folder}/JobConfig.json")
    store.delete(f"{folder}/ssh", recursive=True)
    for path in (*(f"{folder}/{name}" for name in ("log", "tmp")), folder):
        try:
            store.delete(path)
        except PathExists:
            pass  # the user's own files are in it
    # A job of that name may have been submitted meanwhile, and its files deleted here: they are written once more.
    namesakes.filter(deleted_at=None).update(published_at=None)
