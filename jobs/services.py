"""Everything that a user changes about jobs, for pages and API alike.

A service only writes what the user wants; the scheduler carries it out. Each is one transaction with its Event and its
wake-up."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db import IntegrityError, connection, transaction
from django.utils import timezone

from base.accounts import audit, budget
from base.core.bulk import insert_all, insert_row, one_row
from base.core.errors import Conflict, ConflictJob, Forbidden, NoVirtualCluster, Unauthorized
from base.models import User
from base.wakes import wake
from clusters.models import VirtualCluster
from clusters.nodes.queries import load_idle_nodes
from clusters.placement.never import never_fit
from clusters.vcs.grants import most_priority
from clusters.vcs.rules import DEFAULT_VC
from jobs import admission, dependencies, queries, secrets
from jobs.access import may_write, require_write
from jobs.attempts import note_saved, open_attempt
from jobs.config import edit
from jobs.config.demands import shapes
from jobs.config.spec import JobSpec
from jobs.models import Event, Job, Sweep, Task
from jobs.planning.lifecycle import TASK_LIVE_STATES, JobState, TaskState
from jobs.reading import read


def submit(
    user: User, config: Any, *, name_from_url: str | None = None, username: str | None = None, legacy: bool = False
) -> Job:
    """Accept a job. ``config`` is its text, which is stored exactly as sent, or an already decoded body (a form).

    ``name_from_url`` wins over the config's jobName. ``username`` is the user in the URL; ``legacy`` marks a job whose
    URL named none, which is then addressed by its name alone. Raises InvalidConfig, TooLarge, ConflictJob,
    NoVirtualCluster, Forbidden: in this order, as v1 does. And TooManyRequests, where it is large and its user has had
    much read or written (base/accounts/budget.py).
    """
    with budget.reading(user.username, config):
        text, spec = read(config, name_from_url, user.username)
    text, spec, values = secrets.split(text, spec)
    admission.require_may_submit(user, spec, username, legacy)
    with budget.writing(user.username, spec.total_tasks):
        return _insert(user, text, spec, values, legacy)


def submit_all(user: User, configs: Sequence[tuple[str, JobSpec]], sweep: Sweep) -> None:
    """Accept the jobs of a new sweep, each a text with its spec, in this order: all, or none when it raises. Each may
    wait for those before it. What does not need the transaction is done before it, as others wait for its end. Raises
    what ``submit`` raises."""
    split = [secrets.split(text, spec) for text, spec in configs]
    for spec in {admission.asks(spec): spec for _, spec, _ in split}.values():
        admission.require_rights(user, spec)
    tasks = sum(spec.total_tasks for _, spec, _ in split)
    admission.require_few_tasks(user, tasks)
    nevers = {asked: _never(spec) for asked, spec in {shapes(spec): spec for _, spec, _ in split}.items()}
    jobs = [_new_job(user, text, spec, nevers[shapes(spec)]) for text, spec, _ in split]
    try:
        with transaction.atomic():
            sweep.save(force_insert=True)
            for job in jobs:
                job.sweep = sweep
            new = [(job, spec, values) for job, (_, spec, values) in zip(jobs, split, strict=True)]
            _write_all(user, new, f" with sweep {sweep.name}", tasks)
    except IntegrityError:
        raise ConflictJob(f"A job or a sweep of the name {sweep.name} was submitted just now.") from None


def change(actor: User, job: Job, asked: edit.ChangeAsked) -> Job:
    """Submit the job anew with this change of its config, under its owner's next free name, and ask for the end of the
    old one, which goes on waiting when the new one is refused. The new one has the priority of the old one and, in the
    same virtual cluster, its place in the queue; in another one its priority is no higher than the user may set it
    there. Raises Unauthorized, Forbidden (only the owner may), Conflict when it does not wait any more, NotEditable,
    and what ``submit`` raises."""
    with budget.reading(actor.username, job.config):
        text, spec = read(_with_secrets(actor, job, asked), username=actor.username)
    text, spec, values = secrets.split(text, spec)
    admission.require_may_submit(actor, spec, instead_of=job)
    with budget.writing(actor.username, spec.total_tasks), transaction.atomic():
        live = queries.visible_jobs().filter(pk=job.pk, state=JobState.WAITING, execution=Job.Execution.START)
        if (old := live.select_for_update(no_key=True).first()) is None:
            raise Conflict(f"{job.name} does not wait any more, so nothing was changed.")
        new = _insert(actor, text, spec, values, old.is_legacy, old)
        _ask_stop(actor, [old.pk], f"{actor.username} submitted {new.name} in its place.")
    return new


def again(actor: User, job: Job, asked: edit.ChangeAsked) -> Job:
    """Submit an ended job anew with this change of its config, under its owner's next free name. Raises Unauthorized,
    Forbidden (only the owner may), Conflict when it has not ended, NotEditable, and what ``submit`` raises."""
    if job.state in queries.LIVE:
        raise Conflict(f"{job.name} has not ended, so nothing was submitted.")
    return submit(actor, _with_secrets(actor, job, asked))


def _with_secrets(actor: User, job: Job, asked: edit.ChangeAsked) -> str:
    known = {f"/extras/secrets/{name}": value for name, value in secrets.of(job.pk).items()}
    return edit.with_values(changed_config(actor, job, asked), known)


def changed_config(actor: User, job: Job, asked: edit.ChangeAsked) -> str:
    """The config that ``change`` submits. Raises Unauthorized, Forbidden, NotEditable."""
    if not actor.is_authenticated:
        raise Unauthorized
    if actor.username != job.username:
        raise Forbidden(f"Only {job.username} may submit job {job.name} again.")
    values = {
        **edit.changes_of(JobSpec.from_json(job.spec), asked),
        "/jobName": queries.free_name(job.username, job.name),
    }
    return edit.with_values(job.config, values)


def stop(actor: User, job: Job, *, now: bool = False) -> bool:
    """Ask for the job's end. Who asks for ``now``, or again once it has been told, leaves it no grace. False when it
    has ended or that was asked before. Raises Unauthorized, Forbidden."""
    require_write(actor, job, "execute")
    with transaction.atomic():
        asked = bool(_ask_stop(actor, [job.pk]))
        told = Task.objects.filter(job=job, state=TaskState.STOPPING, told_at__isnull=False)
        if now or (not asked and told.exists()):
            return _cut_short(actor, job) or asked
        return asked


def _cut_short(actor: User, job: Job) -> bool:
    moment = timezone.now()
    live = queries.visible_jobs().filter(pk=job.pk, state=JobState.RUNNING, stops_now=False)
    if not live.update(stops_now=True, changed_at=moment):
        return False
    _record([job.pk], moment, "job.stop_now", actor.username, f"{actor.username} asked for it to end at once.")
    _wake()
    return True


def saved(actor: User, job: Job) -> None:
    """Note that the job has saved what it has done so far. Raises Unauthorized, Forbidden, Conflict."""
    require_write(actor, job, "execute")
    if job.state != JobState.RUNNING:
        raise Conflict(f"{job.name} does not run, so nothing of it can be saved.")
    note_saved(Task.objects.filter(job=job, state__in=TASK_LIVE_STATES).values_list("id", flat=True))


def start(actor: User, job: Job) -> bool:
    """v1's START, which has no effect here and returns False: a job that was asked to stop does stop, and an ended job
    is cloned to run again. Raises Unauthorized, Forbidden."""
    require_write(actor, job, "execute")
    return False


@dataclass(frozen=True, slots=True)
class StoppedMany:
    stopped: tuple[str, ...]  # full names of jobs that were asked to end now
    refused: tuple[str, ...]  # full names of jobs the actor may not stop


def stop_many(actor: User, jobs: Sequence[Job]) -> StoppedMany:
    """Ask for the end of all these jobs that the actor may stop, in one transaction."""
    allowed = [job.pk for job in jobs if may_write(actor, job)]
    refused = tuple(job.full_name for job in jobs if not may_write(actor, job))
    asked = {*_ask_stop(actor, allowed)}
    return StoppedMany(tuple(job.full_name for job in jobs if job.pk in asked), refused)


def release(actor: User, job: Job) -> int:
    """Ask for the end of all tasks that are kept for debugging; returns how many there were. Raises Unauthorized,
    Forbidden."""
    require_write(actor, job, "execute")
    now = timezone.now()
    with transaction.atomic():
        ids = [task.pk for task in queries.held_tasks(job)]
        released = Task.objects.filter(pk__in=ids, state=TaskState.RUNNING, released_at__isnull=True).update(
            released_at=now
        )
        if released:
            reason = f"{actor.username} released what was kept for debugging."
            _record([job.pk], now, "job.released", actor.username, reason)
            budget.wrote(actor.username, released)
            _wake()
    return released


def delete(actor: User, job: Job) -> bool:
    """Hide the job at once and free its name. The scheduler ends its containers and then purges it. False when it was
    deleted already. Raises Unauthorized, Forbidden."""
    require_write(actor, job, "remove")
    now = timezone.now()
    with transaction.atomic():
        gone = {"deleted_at": now, "execution": Job.Execution.STOP, "stopped_by": actor.username, "changed_at": now}
        if not queries.visible_jobs().filter(pk=job.pk).update(**gone):
            return False
        _record([job.pk], now, "job.deleted", actor.username, f"Deleted by {actor.username}.")
        audit.record(actor.username, "job deleted", str(job))
        budget.wrote(actor.username, job.total_tasks * job.attempt_number)
        _wake()
    return True


def _insert(
    user: User, text: str, spec: JobSpec, values: Mapping[str, str], legacy: bool, instead_of: Job | None = None
) -> Job:
    more = spec.total_tasks - (instead_of.total_tasks if instead_of else 0)
    if more > budget.FEW:  # that of few is asked once they are written, as it has to be anyway
        admission.require_few_tasks(user, more)
    job = _new_job(user, text, spec, _never(spec), legacy)
    if instead_of is not None:
        _take_over_place(user, job, spec, instead_of)
    try:
        with transaction.atomic():
            _write_all(user, [(job, spec, values)], f" in place of {instead_of.name}" if instead_of else "", more)
    except IntegrityError:
        admission.require_free_name(user.username, spec.job_name, legacy)  # somebody else was faster with this name
        raise
    return job


def _never(spec: JobSpec) -> str:
    """Return why no node could ever run it; empty where one could."""
    never = never_fit(load_idle_nodes(), shapes(spec))
    return never.sentence if never else ""


def _new_job(user: User, text: str, spec: JobSpec, never: str, legacy: bool = False) -> Job:
    now = timezone.now()
    return Job(
        username=user.username,
        name=spec.job_name,
        vc=spec.effective_virtual_cluster,
        config=text,
        spec=spec.to_json(),
        is_legacy=legacy,
        total_tasks=spec.total_tasks,
        total_roles=len(spec.task_roles),
        total_gpus=spec.total_gpus,
        gpu_type=spec.gpu_type,
        never=never,
        priority=spec.asked.priority,
        created_at=now,
        queued_at=now,
        changed_at=now,
    )


def _write_all(user: User, new: Sequence[tuple[Job, JobSpec, Mapping[str, str]]], why: str, more: int) -> None:
    """Write new jobs, by which their user has so many tasks ``more``. Call it at the end of a transaction, as others
    wait for the locks."""
    there = dependencies.named(user.username, [spec for _, spec, _ in new], lock=True)
    awaited_by = []
    for job, spec, values in new:
        awaited_by.append((job, dependencies.find(user.username, spec, there)))
        job.awaits, job.unmet = dependencies.waits_for(awaited_by[-1][1])
        _write(job, user, values, why)
        there[job.name] = job  # those behind it may name it
    dependencies.store(awaited_by)
    _lock_user(user)
    admission.require_few_tasks(user, more, written=sum(job.total_tasks for job, _, _ in new))
    for vc in sorted({job.vc for job, _, _ in new}):
        _lock_vc(vc)
    _wake()


def _write(job: Job, user: User, values: Mapping[str, str], why: str) -> None:
    insert_row(job)
    secrets.store(job, values)
    open_attempt(job, 1, job.created_at)
    _record([job.pk], job.created_at, "job.submitted", user.username, f"Submitted by {user.username}{why}.")
    asks = {"virtualCluster": job.vc, "tasks": job.total_tasks, "gpus": job.total_gpus}
    audit.record(user.username, "job submitted", str(job), data=asks)


def _take_over_place(user: User, job: Job, spec: JobSpec, other: Job) -> None:
    """A job that asks for more than the other one did is the last: else a small job would hold a place for a large
    one. How often that one was evicted goes with it."""
    job.priority = other.priority
    if job.vc != other.vc:
        job.priority = min(job.priority, most_priority(user.username, job.vc, is_admin=user.is_admin))
        return
    job.evictions, job.guest_evictions = other.evictions, other.guest_evictions
    if spec.asks_no_more_than(JobSpec.from_json(other.spec)):
        job.queue_time, job.place_of = other.queue_time or other.created_at, other.place_of


def _lock_user(user: User) -> None:
    """Lock the user's row until the transaction ends: an admin who deletes the user waits, and then sees this job.
    Raises Unauthorized when the user was just deleted or disabled."""
    lock = " FOR NO KEY UPDATE" if connection.features.has_select_for_update else ""
    if not one_row(f"SELECT 1 FROM portal_user WHERE id = %s AND is_active{lock}", user.pk):  # noqa: S608
        raise Unauthorized


def _lock_vc(vc: str) -> None:
    """Lock the row of the virtual cluster until the transaction ends: an admin who deletes it waits, and then sees this
    job. Raises NoVirtualCluster when it was just deleted."""
    if vc == DEFAULT_VC:
        return
    if not VirtualCluster.objects.select_for_update(no_key=True).filter(name=vc).exists():
        raise NoVirtualCluster(f"Virtual cluster {vc} is not found.")


def _ask_stop(actor: User, ids: list[int], why: str = "") -> list[int]:
    """Ask for the end of those jobs that are live and not stopping yet; returns their ids."""
    now = timezone.now()
    with transaction.atomic():
        live = queries.visible_jobs().filter(pk__in=ids, state__in=queries.LIVE, execution=Job.Execution.START)
        rows = live.select_for_update().order_by("id").values_list("id", "username", "name", "total_tasks")
        found = {id: (f"{username}/{name}", tasks) for id, username, name, tasks in rows}
        changed = list(found)
        if changed:
            stopped = {"execution": Job.Execution.STOP, "stopped_by": actor.username, "changed_at": now}
            Job.objects.filter(pk__in=changed).update(**stopped)
            why = why or f"{actor.username} asked for it to stop."
            _record(changed, now, "job.stop_asked", actor.username, why)
            audit.record(actor.username, "job stopped", [name for name, _ in found.values()])
            budget.wrote(actor.username, *(tasks for _, tasks in found.values()))
            _wake()
    return changed


def _record(job_ids: list[int], at: datetime, kind: str, actor: str, reason: str) -> None:
    said = {"at": at, "kind": kind, "actor": actor, "reason": reason}
    insert_all(Event, [{"job_id": pk, **said} for pk in job_ids])


def _wake() -> None:
    wake.notify("scheduler", "pages")
