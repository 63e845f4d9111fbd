"""Everything that a user changes about jobs, for pages and API alike.

A service only writes what the user wants; the scheduler carries it out. Each is one transaction with its Event and its
wake-up. ``check`` changes nothing: it gives the answer of ``submit``, and whether the cluster could run the job.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db import IntegrityError, transaction
from django.utils import timezone

from clusters.models import VirtualCluster
from clusters.nodes.queries import load_idle_nodes
from clusters.placement import blockers
from clusters.placement.fit import Blocker, NodeView, PortDemand
from clusters.vcs.rules import DEFAULT
from jobs import admission, dependencies, queries, secrets
from jobs.access import may_write, require_write
from jobs.attempts import open_attempt
from jobs.config import edit
from jobs.config.demands import demands
from jobs.config.spec import IsGiven, JobSpec, read_config, read_value
from jobs.forecast.outlook import Outlook, outlook
from jobs.models import Event, Job, Sweep, Task
from jobs.planning.lifecycle import JobState, TaskState
from portal.accounts import audit
from portal.core.errors import (
    Conflict,
    ConflictJob,
    Forbidden,
    InvalidConfig,
    NoVirtualCluster,
    Problem,
    Unauthorized,
)
from portal.models import User
from portal.wakes import wake


def submit(
    user: User, config: Any, *, name_from_url: str | None = None, username: str | None = None, legacy: bool = False
) -> Job:
    """Accept a job. ``config`` is its text, which is stored exactly as sent, or an already decoded body (a form).

    ``name_from_url`` wins over the config's jobName. ``username`` is the user in the URL; ``legacy`` marks a job whose
    URL named none, which is then addressed by its name alone. Raises InvalidConfig, TooLarge, ConflictJob,
    NoVirtualCluster, Forbidden: in this order, as v1 does.
    """
    text, spec = read(config, name_from_url, user.username)
    text, spec, values = secrets.split(text, spec)
    admission.require_may_submit(user, spec, username, legacy)
    return _insert(user, text, spec, values, legacy)


def submit_all(user: User, configs: Sequence[tuple[str, JobSpec]], sweep: Sweep) -> None:
    """Accept the jobs of a new sweep, each a text with its spec, in this order: all, or none when it raises. Each may
    wait for those before it. What does not need the transaction is done before it, as others wait for its end. Raises
    what ``submit`` raises."""
    split = [secrets.split(text, spec) for text, spec in configs]
    for spec in {admission.asks(spec): spec for _, spec, _ in split}.values():
        admission.require_rights(user, spec)
    nevers = {asked: _never(spec) for asked, spec in {demands(spec): spec for _, spec, _ in split}.items()}
    jobs = [_new_job(user, text, spec, nevers[demands(spec)]) for text, spec, _ in split]
    try:
        with transaction.atomic():
            sweep.save(force_insert=True)
            for job, (_, spec, values) in zip(jobs, split, strict=True):
                job.sweep = sweep
                _write(job, user, spec, values, f" with sweep {sweep.name}")
            _lock_user(user)
            for vc in sorted({job.vc for job in jobs}):
                _lock_vc(vc)
            _wake()
    except IntegrityError:
        raise ConflictJob(f"A job or a sweep of the name {sweep.name} was submitted just now.") from None


def read(config: Any, name_from_url: str | None = None, username: str = "") -> tuple[str, JobSpec]:
    """The text to store, and its spec. Raises InvalidConfig or TooLarge."""
    if isinstance(config, str):
        return config, read_config(config, name_from_url=name_from_url, username=username, is_given=_given_ports())
    spec = read_value(config, name_from_url=name_from_url, username=username, is_given=_given_ports())
    return json.dumps(config, indent=2, ensure_ascii=False), spec


def _given_ports() -> IsGiven:
    """A function that says whether any node gives out these fixed ports. It reads the nodes at its first call, as few
    configs have fixed ports. Without any node every port is accepted."""
    nodes: list[Sequence[NodeView]] = []

    def is_given(first: int, number: int) -> bool:
        if not nodes:
            nodes.append(load_idle_nodes())
        return not nodes[0] or any(node.gives(PortDemand("", first, number)) for node in nodes[0])

    return is_given


@dataclass(frozen=True, slots=True)
class CheckResult:
    """What a submission would lead to. With ``problems`` it is refused. Without them ``outlook`` says whether and when
    it would start; a job that ``never`` can, submitted all the same, fails at once."""

    problems: tuple[Problem, ...]
    spec: JobSpec | None = None
    outlook: Outlook | None = None
    never: Blocker | None = None

    @property
    def is_valid(self) -> bool:
        return not self.problems

    @property
    def blockers(self) -> Sequence[Blocker]:
        """What keeps it from starting now."""
        return self.outlook.blockers if self.outlook and not self.never else ()

    @property
    def pull(self) -> str:
        """Which image is pulled first, if it starts now."""
        return self.outlook.pull if self.outlook else ""


def check(config: Any, user: User | None = None, *, name_from_url: str | None = None) -> CheckResult:
    """What ``submit`` would answer to this config; with ``user``, also whether they may submit it. Raises TooLarge
    only."""
    try:
        text, spec = read(config, name_from_url, user.username if user else "")
    except InvalidConfig as error:
        return CheckResult(error.problems or (Problem(1, 1, "", error.message),))
    problem = admission.refusal(user, text, spec) if user else None
    awaited = [one.awaited for one in dependencies.find(user.username, spec)] if user and not problem else []
    found = outlook(spec, [one for one in awaited if not one.is_met], user.username if user else "")
    never = found.never or dependencies.in_vain(awaited)
    return CheckResult((problem,) if problem else (), spec, found, never)


def change(actor: User, job: Job, asked: edit.ChangeAsked) -> Job:
    """Submit the job anew with this change of its config, under its owner's next free name, and ask for the end of the
    old one, which goes on waiting when the new one is refused. The new one has the priority of the old one and, in the
    same virtual cluster, its place in the queue. Raises Unauthorized, Forbidden (only the owner may), Conflict when it
    does not wait any more, NotEditable, and what ``submit`` raises."""
    known = {f"/extras/secrets/{name}": value for name, value in secrets.of(job.pk).items()}
    text, spec = read(edit.with_values(changed_config(actor, job, asked), known), username=actor.username)
    text, spec, values = secrets.split(text, spec)
    admission.require_may_submit(actor, spec)
    with transaction.atomic():
        live = queries.visible_jobs().filter(pk=job.pk, state=JobState.WAITING, execution=Job.Execution.START)
        if not live.select_for_update(no_key=True).exists():
            raise Conflict(f"{job.name} does not wait any more, so nothing was changed.")
        new = _insert(actor, text, spec, values, job.is_legacy, job)
        _ask_stop(actor, [job.pk], f"{actor.username} submitted {new.name} in its place.")
    return new


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


def stop(actor: User, job: Job) -> bool:
    """Ask for the job's end. False when it has ended or somebody has asked before. Raises Unauthorized, Forbidden."""
    require_write(actor, job, "execute")
    return bool(_ask_stop(actor, [job.pk]))


def start(actor: User, job: Job) -> bool:
    """v1's START, which has no effect here and returns False: a job that was asked to stop does stop, and an ended job
    is cloned to run again. Raises Unauthorized, Forbidden."""
    require_write(actor, job, "execute")
    return False


@dataclass(frozen=True, slots=True)
class StoppedMany:
    stopped: int
    refused: tuple[str, ...]  # full names of jobs the actor may not stop


def stop_many(actor: User, jobs: Sequence[Job]) -> StoppedMany:
    """Ask for the end of all these jobs that the actor may stop, in one transaction."""
    allowed = [job.pk for job in jobs if may_write(actor, job)]
    refused = tuple(job.full_name for job in jobs if not may_write(actor, job))
    return StoppedMany(len(_ask_stop(actor, allowed)), refused)


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
            Event.objects.create(job=job, at=now, kind="job.released", actor=actor.username, reason=reason)
            wake.notify("scheduler")
            wake.notify("pages")
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
        audit.record(actor.username, "job.deleted", f"{job.username}/{job.name}")
        _wake()
    return True


def _insert(
    user: User, text: str, spec: JobSpec, values: Mapping[str, str], legacy: bool, instead_of: Job | None = None
) -> Job:
    job = _new_job(user, text, spec, _never(spec), legacy)
    if instead_of is not None:
        _take_over_place(job, instead_of)
    try:
        with transaction.atomic():
            _write(job, user, spec, values, f" in place of {instead_of.name}" if instead_of else "")
            _lock_user(user)
            _lock_vc(job.vc)
            _wake()
    except IntegrityError:
        admission.require_free_name(user.username, spec.job_name, legacy)  # somebody else was faster with this name
        raise
    return job


def _never(spec: JobSpec) -> str:
    """Why no node could ever run it; empty where one could."""
    never = blockers.never_fits(load_idle_nodes(), demands(spec))
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
        never=never,
        priority=spec.asked.priority,
        created_at=now,
        queued_at=now,
        changed_at=now,
    )


def _write(job: Job, user: User, spec: JobSpec, values: Mapping[str, str], why: str) -> None:
    """Write the rows of a new job. Call it inside a transaction, and lock user and virtual cluster before its end."""
    awaited = dependencies.find(user.username, spec, lock=True)
    job.awaits, job.unmet = dependencies.waits_for(awaited)
    job.save(force_insert=True)
    dependencies.store(job, awaited)
    secrets.store(job, values)
    open_attempt(job, 1, job.created_at)
    _record([job.pk], job.created_at, "job.submitted", user.username, f"Submitted by {user.username}{why}.")


def _take_over_place(job: Job, other: Job) -> None:
    job.priority = other.priority
    if job.vc == other.vc:
        job.queue_time = other.queue_time or other.created_at


def _lock_user(user: User) -> None:
    """Lock the user's row until the transaction ends: an admin who deletes the user waits, and then sees this job.
    Raises Unauthorized when the user was just deleted or disabled."""
    if not User.objects.select_for_update(no_key=True).filter(pk=user.pk, is_active=True).exists():
        raise Unauthorized


def _lock_vc(vc: str) -> None:
    """Lock the row of the virtual cluster until the transaction ends: an admin who deletes it waits, and then sees this
    job. Raises NoVirtualCluster when it was just deleted."""
    if vc == DEFAULT:
        return
    if not VirtualCluster.objects.select_for_update(no_key=True).filter(name=vc).exists():
        raise NoVirtualCluster(f"Virtual cluster {vc} is not found.")


def _ask_stop(actor: User, ids: list[int], why: str = "") -> list[int]:
    """Ask for the end of those jobs that are live and not stopping yet; returns their ids."""
    now = timezone.now()
    with transaction.atomic():
        live = queries.visible_jobs().filter(pk__in=ids, state__in=queries.LIVE, execution=Job.Execution.START)
        changed = list(live.select_for_update().order_by("id").values_list("id", flat=True))
        if changed:
            stopped = {"execution": Job.Execution.STOP, "stopped_by": actor.username, "changed_at": now}
            Job.objects.filter(pk__in=changed).update(**stopped)
            why = why or f"{actor.username} asked for it to stop."
            _record(changed, now, "job.stop_asked", actor.username, why)
            _wake()
    return changed


def _record(job_ids: list[int], at: datetime, kind: str, actor: str, reason: str) -> None:
    Event.objects.bulk_create(Event(job_id=pk, at=at, kind=kind, actor=actor, reason=reason) for pk in job_ids)


def _wake() -> None:
    wake.notify("scheduler")
    wake.notify("pages")
