"""Carries out the orders of the scheduler: claims the task, starts, stops or collects its container, writes the fact.

django-q2 calls ``run``, which hands each order to a thread and returns: a slow pull delays no other order, and one
worker process is enough. When a worker dies nothing is lost: its claim lapses and the scheduler orders again.
Workers never change a state.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import partial
from typing import Any

import structlog
from django.db import DatabaseError, close_old_connections
from django.utils import timezone

from base.core.bulk import first_where, one_row
from base.core.errors import is_disk_full
from base.files.store import open_store
from base.files.store.base import StoreUnavailable
from base.wakes import wake
from clusters.engines import schemes
from clusters.engines.image_names import is_snapshot
from clusters.engines.runtime import ContainerStatus, FaultReason, Progress, RuntimeFault
from clusters.nodes import refusals, snapshots
from clusters.nodes import survey as surveying  # ``survey`` here is the order, whose address workers know
from clusters.nodes.gone import remove_container
from jobs.attempts import note_saved
from jobs.config.spec import JobSpec
from jobs.containers import claims, delivery
from jobs.containers.code import code_tar, uploads
from jobs.containers.delivery import Delivery, DeliveryFault
from jobs.containers.discard import discard_all
from jobs.containers.inputs import launch_of
from jobs.containers.launch import Launch, request
from jobs.containers.publish import publish_all, publish_job
from jobs.diagnosis.run import diagnose, diagnose_task
from jobs.logs import archive, retention
from jobs.models import Attempt, Job, Task
from jobs.planning import exits
from jobs.planning.ends import STOP_GRACE, TERM, Step, ending_of, notice_of
from jobs.planning.lifecycle import TASK_END_STATES, TaskState
from jobs.planning.world import OrderKind

log = structlog.get_logger()

SAVED_GRACE = 2  # seconds between TERM and KILL of a task that has saved since it was told that it ends
THREADS = 128  # orders carried out at once in one worker process
CLEAN_EVERY = 3600.0  # seconds between two times that the store is cleaned

# What a task must be for an order to be carried out, as SQL.
_STARTS = f"state = '{TaskState.STARTING}'"
_STOPS = f"state = '{TaskState.STOPPING}'"
# One kept for debugging: it is RUNNING until it has ended as its command did.
_IS_RELEASED = f"state = '{TaskState.RUNNING}' AND released_at IS NOT NULL"
_LEFT_OVER = f"state IN ({', '.join(repr(str(state)) for state in sorted(TASK_END_STATES))}) AND NOT collected"
_UNPUBLISHED = """
    SELECT j.id FROM jobs_task t JOIN jobs_job j ON j.id = t.job_id WHERE t.id = %s AND j.published_at IS NULL"""

_pool = ThreadPoolExecutor(THREADS, thread_name_prefix="order")
_cleaned_at = -CLEAN_EVERY


def run(orders: Sequence[tuple[str, int, str, str]]) -> None:
    """Carry out orders, each (kind, task id, node, container). Returns at once."""
    for order in orders:
        _hand("an order was not carried out", _in_thread, *order)


def publish(job_ids: Sequence[int]) -> None:
    """Write the files of these jobs into the store, as ordered by jobs.containers.publish. Returns at once."""
    _hand("files could not be written", publish_all, list(job_ids))


def discard(ids: Sequence[int]) -> None:
    """Remove the files of purged jobs from the store, as ordered by jobs.containers.discard. Returns at once."""
    _hand("files could not be removed", discard_all, list(ids))


def expire_logs() -> None:
    """Delete the logs that their virtual clusters keep no longer. Returns at once."""
    _hand("logs could not be removed", retention.clean_up, timezone.now())


def clean_up_uploads() -> None:
    """Remove what ``longshore run`` uploaded and no job needs. Returns at once."""
    _hand("what was uploaded could not be removed", uploads.clean_up)


def survey(nodes: Sequence[tuple[str, bool]]) -> None:
    """Survey nodes, each (node, thorough), as ordered by clusters/nodes/survey.py. Returns at once."""
    for name, thorough in nodes:
        _hand("a node could not be surveyed", partial(surveying.survey, thorough=thorough), name)


def carry_out(kind: str, task: int, node: str, container: str) -> Sequence[str]:
    """Carry out one order in this thread. An order that was carried out before, or is no longer wanted, does
    nothing. Returns nodes that are to be tried out (jobs/diagnosis/run.py)."""
    try:
        match OrderKind(kind):
            case OrderKind.START:
                _start(task)
            case OrderKind.STOP:
                _end(task, container)
            case OrderKind.RELEASE:
                _release(task)
            case OrderKind.REMOVE:
                remove_container(node, container)
            case OrderKind.COLLECT:
                return _collect(task)
            case OrderKind.DIAGNOSE:
                return diagnose(container)
    except Exception:
        log.exception("an order failed and will be given again", kind=kind, task=task, node=node)
    return ()


def _in_thread(kind: str, task: int, node: str, container: str) -> None:
    for doubted in carry_out(kind, task, node, container):
        surveying.survey(doubted, thorough=True)


def _hand(what: str, do: Callable[..., object], *values: object) -> None:
    """Let a thread do it. What fails is told, and ordered or tried again."""

    def work() -> None:
        close_old_connections()
        try:
            do(*values)
        except Exception:
            log.exception(f"{what}; it is tried again", values=values)
        close_old_connections()

    _pool.submit(work)


def _start(id: int) -> None:
    claim = claims.take(id, _STARTS)
    if claim is None:
        return
    try:
        launch = launch_of(id, epoch=claim)
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
    addresses = delivery.addresses_of(delivered.tars, launch) if launch.host else ()
    try:
        status = schemes.runtime_for(launch.node_name).ensure(
            request(launch, tars=delivered.tars, addresses=addresses, auth=delivered.auth),
            on_progress=note,
            still_wanted=lambda: claims.is_wanted(id, claim),
        )
    except RuntimeFault as fault:
        with _no_worse():
            fault = refusals.refused(launch.node_name, fault, image=image, attempt=launch.app_id, gpus=launch.gpu_ids)
        raise fault from None
    with _no_worse():
        refusals.started(launch.node_name, image=image, pulled=pulled, gpus=launch.gpu_ids)
    return status


def _note_gpus(launch: Launch, status: ContainerStatus) -> None:
    """Write down which GPUs a task has whose cluster chooses them itself. Nothing goes by it: it is for people."""
    if not launch.gpu_ids or not launch.host:
        return
    with _no_worse(), suppress(RuntimeFault):
        if ids := schemes.runtime_for(launch.node_name).given_gpus(status.name):
            rows = Task.objects.filter(id=launch.task_id, container_id=status.id)
            rows.update(gpus_given=list(ids), fact_at=timezone.now())
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
    if unpublished := one_row(_UNPUBLISHED, id):
        publish_job(*unpublished)


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
    """Return the fact to write about a fault. An engine that does not answer is no fault of the task: the start is
    ordered again until it answers or the node counts as lost."""
    if fault.reason in (FaultReason.UNREACHABLE, FaultReason.WITHDRAWN):
        return {"progress": fault.sentence[:120] if fault.reason is FaultReason.UNREACHABLE else ""}
    log.info("start refused", reason=str(fault.reason))
    return {"fault": {"reason": str(fault.reason), "sentence": fault.sentence, "permanent": fault.permanent}}


def _end(id: int, step: str) -> None:
    """Carry out one step of the end of a container (jobs/planning/ends.py). A step that is not known comes from a
    scheduler of the release before, which gave one order for all of it."""
    claim = claims.take(id, _STOPS)
    if claim is None:
        return
    facts: dict[str, Any] = {}
    try:
        task = Task.objects.select_related("job", "attempt").get(id=id)
        asked = JobSpec.from_json(task.job.spec).asked
        ending = ending_of(asked, task.attempt.grace)
        runtime = schemes.runtime_for(task.node)
        if task.told_at is not None and step not in (Step.LOOK, Step.TERM):
            runtime.stop(task.container_name, 0)
            return
        signal = ending.signal if task.told_at is None else TERM if step == Step.TERM else ""
        reason = str(task.attempt.exit.get("reason", ""))
        has_saved = runtime.tell(task.container_name, signal, notice_of(ending, task.attempt.exit_code, reason))
        facts = {"told": signal or task.told, "told_at": task.told_at or timezone.now()}
        if has_saved:
            note_saved([id])
            runtime.stop(task.container_name, SAVED_GRACE)
    finally:
        claims.close(id, claim, **facts)


def _release(id: int) -> None:
    claim = claims.take(id, _IS_RELEASED)
    if claim is None:
        return
    task = Task.objects.only("node", "container_name").get(id=id)
    try:
        schemes.runtime_for(task.node).stop(task.container_name, STOP_GRACE)
    finally:
        claims.close(id, claim)


def _collect(id: int) -> Sequence[str]:
    """Archive the log, then remove the container. When the engine or the store cannot be reached it is ordered again
    later."""
    claim = claims.take(id, _LEFT_OVER, claims.COLLECT_LEASE)
    if claim is None:
        return ()
    task = _with_job(id)
    if task is None:
        return ()
    done = False
    try:
        archive.archive(task, claims.renewing(id, claim))
        if task.state == TaskState.FAILED and not is_snapshot(str(task.job.spec.get("image", ""))):
            whose = task.job.username
            snapshots.keep(task.node, task.container_name, username=whose, owner=task.pk, worth=_own_failures)
        schemes.runtime_for(task.node).remove(task.container_name, task.container_id)
        done = True
        code_tar.clean_up()
        _sweep_store()
    except RuntimeFault as fault:
        if fault.reason is not FaultReason.GONE:
            log.info("not collected yet", task=id, node=task.node, reason=str(fault.reason))
        done = fault.reason is FaultReason.GONE
    finally:
        claims.close(id, claim, collected=done)
    return diagnose_task(id) if done else ()


def _own_failures(ids: Sequence[int]) -> set[int]:
    """The tasks that failed by themselves, not by a fault of the cluster."""
    rows = Task.objects.filter(pk__in=ids).values_list("pk", "exit")
    return {id for id, kept in rows if kept and exits.Exit.from_json({"code": 0, **kept}).blame == "your job"}


def _with_job(id: int) -> Task | None:
    """The task with its job and its attempt; None when they were purged meanwhile."""
    task = first_where(Task, "id = %s", id)
    job = first_where(Job, "id = %s", task.job_id) if task else None
    attempt = first_where(Attempt, "id = %s", task.attempt_id) if task else None
    if task is None or job is None or attempt is None:
        return None
    task.job, task.attempt = job, attempt
    return task


def _sweep_store() -> None:
    """Delete what killed writers left in the store, every CLEAN_EVERY seconds."""
    global _cleaned_at
    if time.monotonic() - _cleaned_at >= CLEAN_EVERY:
        _cleaned_at = time.monotonic()
        with suppress(StoreUnavailable):
            open_store().clean_up()
