"""Carries out the orders of the scheduler: claims the task, starts, stops or collects its container, writes the fact.

django-q2 calls ``run``, which hands each order to a thread and returns: a slow pull delays no other order, and a few
worker processes are enough. When a worker dies nothing is lost: its claim lapses and the scheduler orders again.
Workers never change a state.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, suppress
from datetime import timedelta
from typing import Any

import structlog
from django.conf import settings
from django.db import DatabaseError, close_old_connections
from django.db.models import F, Q
from django.utils import timezone

from clusters.engines import schemes as engines
from clusters.engines.image_names import is_kept
from clusters.engines.runtime import ContainerStatus, FaultReason, Progress, RuntimeFault
from clusters.nodes import kept, refusals
from clusters.nodes import survey as surveying
from clusters.nodes.gone.services import remove_container
from jobs.containers import claims, code_tar, delivery, handing
from jobs.containers import discard as discarding
from jobs.containers import inputs as launching
from jobs.containers import publish as publishing
from jobs.containers.delivery import Delivery, DeliveryFault
from jobs.containers.launch import Launch, request
from jobs.diagnosis import run as diagnosing
from jobs.logs import archive, retention
from jobs.models import Task
from jobs.planning import exits
from jobs.planning.lifecycle import TASK_ENDS, TaskState
from jobs.planning.settle import LEASE
from jobs.planning.world import Kind
from portal.core.errors import is_disk_full
from portal.files.store import open_store
from portal.files.store.base import StoreUnavailable
from portal.wakes import wake

log = structlog.get_logger()

STOP_GRACE = 10  # seconds between TERM and KILL; for an evicted job the setting EVICTION_GRACE
THREADS = 128  # orders carried out at once in one worker process
SWEEP_EVERY = 3600.0  # seconds between two sweeps of the store

_pool: ThreadPoolExecutor | None = None
_swept_at = -SWEEP_EVERY


def run(orders: Sequence[tuple[str, int, str, str]]) -> None:
    """Carry out orders, each (kind, task id, node, container). Returns at once."""
    for order in orders:
        _hands().submit(_in_thread, *order)


def publish(job_ids: Sequence[int]) -> None:
    """Write the files of these jobs into the store, as ordered by jobs.containers.publish. Returns at once."""
    _hands().submit(_files_in_thread, publishing.publish_all, list(job_ids))


def discard(ids: Sequence[int]) -> None:
    """Remove the files of purged jobs from the store, as ordered by jobs.containers.discard. Returns at once."""
    _hands().submit(_files_in_thread, discarding.discard_all, list(ids))


def expire_logs() -> None:
    """Delete the logs that their virtual clusters keep no longer. Returns at once."""
    _hands().submit(_files_in_thread, lambda _: retention.sweep(timezone.now()), [])


def survey(nodes: Sequence[tuple[str, bool]]) -> None:
    """Survey nodes, each (node, thorough), as ordered by clusters/nodes/survey.py. Returns at once."""
    for name, thorough in nodes:
        _hands().submit(_survey_in_thread, name, thorough)


def carry_out(kind: str, task: int, node: str, container: str) -> Sequence[str]:
    """Carry out one order in this thread. An order that was carried out before, or is no longer wanted, does
    nothing. Returns nodes that are to be tried out (jobs/diagnosis/run.py)."""
    try:
        if kind == Kind.REMOVE:
            remove_container(node, container)
        elif kind == Kind.DIAGNOSE:
            return diagnosing.diagnose(container)
        elif kind == Kind.COLLECT:
            return _collect(task)
        else:
            _DO[Kind(kind)](task)
    except Exception:
        log.exception("an order failed and will be given again", kind=kind, task=task, node=node)
    return ()


def _in_thread(kind: str, task: int, node: str, container: str) -> None:
    close_old_connections()
    for doubted in carry_out(kind, task, node, container):
        _survey_in_thread(doubted, thorough=True)
    close_old_connections()


def _files_in_thread(do: Callable[[list[int]], None], ids: list[int]) -> None:
    close_old_connections()
    try:
        do(ids)
    except Exception:
        log.exception("the files of jobs could not be written or removed; it is tried again")
    close_old_connections()


def _survey_in_thread(name: str, thorough: bool) -> None:
    close_old_connections()
    try:
        surveying.survey(name, thorough=thorough)
    except Exception:
        log.exception("a node could not be surveyed; it is tried again", node=name)
    close_old_connections()


def _start(id: int) -> None:
    claim = claims.take(id, Q(state=TaskState.STARTING))
    if claim is None:
        return
    try:
        launch = launching.launch(id, epoch=claim)
        _publish_first(id)
        with _prepare(launch, id, claim) as delivered:
            status = _ensure(launch, delivered, id, claim)
        claims.close(id, claim, container_id=status.id, fault=None)
        _note_gpus(launch, status)
    except RuntimeFault as fault:
        claims.close(id, claim, **_fault(fault))
    except DeliveryFault as fault:
        claims.close(id, claim, fault={"reason": str(fault.reason), "sentence": fault.sentence, "permanent": True})
    except StoreUnavailable as error:
        log.info("a start waits for the file store", task=id)
        claims.close(id, claim, progress=f"waits for the file store: {error.message}"[:120])
    except DatabaseError as error:  # not the start's fault: it is ordered again, and adopts the container it has made
        log.warning("a start lost the database", task=id, reason=str(error))
        close_old_connections()
        claims.close(id, claim)
    except Exception as error:
        if is_disk_full(error):  # of this host: another one may carry it out
            log.warning("a start waits for room on the disk of this host", task=id)
            claims.close(id, claim, progress="waits for room on the disk of a host of the portal")
            return
        log.exception("a start failed", task=id)
        sentence = f"Longshore could not start the container: {type(error).__name__}."
        claims.close(id, claim, fault={"reason": str(FaultReason.REFUSED), "sentence": sentence, "permanent": False})


def _ensure(launch: Launch, delivered: Delivery, id: int, claim: str) -> ContainerStatus:
    """Start the container, and note what the node has refused or shown that it can do."""
    pulled = False

    def note(progress: Progress) -> None:
        nonlocal pulled
        pulled = True
        claims.note(id, claim, progress)

    image = launch.spec.image
    addresses = handing.addresses_of(delivered.tars, launch) if launch.host else ()
    try:
        status = engines.runtime_for(launch.node_name).ensure(
            request(launch, tars=delivered.tars, addresses=addresses, auth=delivered.auth),
            on_progress=note,
            still_wanted=lambda: claims.is_wanted(id, claim),
        )
    except RuntimeFault as fault:
        with _no_worse():
            refusals.refused(launch.node_name, fault, image=image, attempt=launch.app_id)
        raise
    with _no_worse():
        refusals.started(launch.node_name, image=image, pulled=pulled, gpus=bool(launch.gpu_ids))
    return status


def _note_gpus(launch: Launch, status: ContainerStatus) -> None:
    """Write down which GPUs a task has whose cluster chooses them itself. Nothing goes by it: it is for people."""
    if not launch.gpu_ids or not launch.host:
        return
    with _no_worse(), suppress(RuntimeFault):
        if given := engines.runtime_for(launch.node_name).given_gpus(status.name):
            rows = Task.objects.filter(id=launch.task_id, container_id=status.id)
            rows.update(gpus_given=list(given), fact_at=timezone.now())
            wake.notify("pages")


@contextmanager
def _no_worse() -> Iterator[None]:
    """The block's notes are dropped when the database is away: the start goes on without them."""
    try:
        yield
    except DatabaseError:
        log.warning("what a start showed of its node could not be noted")


def _publish_first(id: int) -> None:
    """Write the job's files before its command may look for them. The start goes on even when that fails."""
    unpublished = Task.objects.filter(id=id, job__published_at=None).values_list("job_id", flat=True).first()
    if unpublished is not None:
        publishing.publish(unpublished)


def _prepare(launch: Launch, id: int, claim: str) -> AbstractContextManager[Delivery]:
    """The files that the start needs. Their progress is written once a second at most; that renews the claim, or gives
    up a start that is no longer wanted."""
    noted_at = 0.0

    def note(text: str) -> None:
        nonlocal noted_at
        if time.monotonic() - noted_at >= 1:
            noted_at = time.monotonic()
            claims.note(id, claim, Progress(0, 0, text))

    return delivery.prepare(launch.spec, launch.username, launch.app_id, note)


def _fault(fault: RuntimeFault) -> dict[str, Any]:
    """The fact to write about a fault. An engine that does not answer is no fault of the task: the start is ordered
    again until it answers or the node counts as lost."""
    if fault.reason in (FaultReason.UNREACHABLE, FaultReason.WITHDRAWN):
        return {"progress": fault.sentence[:120] if fault.reason is FaultReason.UNREACHABLE else ""}
    log.info("start refused", reason=str(fault.reason))
    return {"fault": {"reason": str(fault.reason), "sentence": fault.sentence, "permanent": fault.permanent}}


def _stop(id: int) -> None:
    _end_container(id, Q(state=TaskState.STOPPING))


def _release(id: int) -> None:
    """End a container that is kept for debugging. The task stays RUNNING until the container has ended with the exit
    code of its command."""
    _end_container(id, Q(state=TaskState.RUNNING, released_at__isnull=False))


def _end_container(id: int, wanted: Q) -> None:
    claim = claims.take(id, wanted, LEASE + timedelta(seconds=settings.EVICTION_GRACE))
    if claim is None:
        return
    rows = Task.objects.only("node", "container_name").annotate(decided=F("attempt__exit_code"))
    task = rows.get(id=id)
    grace = settings.EVICTION_GRACE if task.decided == exits.PREEMPTED else STOP_GRACE
    try:
        engines.runtime_for(task.node).stop(task.container_name, grace)
    finally:
        claims.close(id, claim)


def _collect(id: int) -> Sequence[str]:
    """Archive the log, then remove the container. When the engine or the store cannot be reached it is ordered again
    later."""
    claim = claims.take(id, Q(state__in=sorted(TASK_ENDS), collected=False), claims.COLLECT_LEASE)
    if claim is None:
        return ()
    task = Task.objects.select_related("job", "attempt").get(id=id)
    done = False
    try:
        archive.archive(task, claims.renewing(id, claim))
        if task.state == TaskState.FAILED and not is_kept(str(task.job.spec.get("image", ""))):
            kept.keep(task.node, task.container_name, username=task.job.username, owner=task.pk)
        engines.runtime_for(task.node).remove(task.container_name)
        done = True
        code_tar.sweep()
        _sweep_store()
    except RuntimeFault as fault:
        if fault.reason is not FaultReason.GONE:
            log.info("not collected yet", task=id, node=task.node, reason=str(fault.reason))
        done = fault.reason is FaultReason.GONE
    finally:
        claims.close(id, claim, collected=done)
    return diagnosing.of_task(id) if done else ()


def _sweep_store() -> None:
    """Delete what killed writers left in the store, every SWEEP_EVERY seconds."""
    global _swept_at
    if time.monotonic() - _swept_at >= SWEEP_EVERY:
        _swept_at = time.monotonic()
        with suppress(StoreUnavailable):
            open_store().sweep()


_DO: dict[Kind, Callable[[int], None]] = {
    Kind.START: _start,
    Kind.STOP: _stop,
    Kind.RELEASE: _release,
}


def _hands() -> ThreadPoolExecutor:
    global _pool
    if _pool is None:
        _pool = ThreadPoolExecutor(THREADS, thread_name_prefix="order")
    return _pool
