"""What the end of one job does to others of its user: to those that wait for it (``extras.dependsOn``), and to the rest
of its sweep.

A dependency is on a row, not on a name: a later job of the same name does not take the place of one that is deleted.
As a job can only name jobs that are there before it, no circle can come about but that of a job which names itself.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db.models import F, QuerySet

from base.core.bulk import chunks, insert_values, values_with_ids
from base.core.errors import BadRequest
from clusters.placement.fit import Blocker
from jobs.config.extras import After
from jobs.config.spec import JobSpec
from jobs.models import Dependency, Job, Sweep
from jobs.planning.lifecycle import JOB_END_STATES, JobState
from jobs.planning.queue.scene import Awaited
from jobs.queries import LIVE, visible_jobs

_AT_ONCE = 20_000  # names that are looked up together: as many as a sweep can have
BY_SWEEP = "its sweep"  # in place of the user who stopped a job; no user has a blank in their name


class BadDependency(BadRequest):
    """The config names a job that it cannot wait for. ``path`` is where."""

    def __init__(self, at: int, message: str) -> None:
        super().__init__(message)
        self.path = f"/extras/dependsOn/{at}"


@dataclass(frozen=True, slots=True)
class Found:
    """A job that another one is to wait for, and how."""

    job: Job
    condition: str

    @property
    def ended(self) -> str:
        return self.job.state if self.job.state in JOB_END_STATES else ""

    @property
    def awaited(self) -> Awaited:
        return Awaited(self.job.full_name, self.condition, self.job.state, bool(self.ended))


def find(username: str, spec: JobSpec, there: Mapping[str, Job] | None = None) -> list[Found]:
    """The jobs that a job of this user would wait for. ``there`` are those that it may name, by name: what ``named``
    gives, which is asked for them otherwise. No query without ``dependsOn``. Raises BadDependency."""
    wanted = spec.asked.depends_on
    names = [_name(username, spec.job_name, at, want) for at, want in enumerate(wanted)]
    jobs = named(username, [spec]) if there is None else there
    for at, name in enumerate(names):
        if name not in jobs:
            raise BadDependency(at, f"There is no job {name} of {username}; dependsOn names jobs that are there.")
        if name in names[:at]:
            raise BadDependency(at, f"dependsOn names {name} twice.")
    return [Found(jobs[name], want.after) for name, want in zip(names, wanted, strict=True)]


def named(username: str, specs: Iterable[JobSpec], *, lock: bool = False) -> dict[str, Job]:
    """The jobs of this user that these specs name in ``dependsOn``, by name, with as few queries for a sweep as for a
    job. ``lock``: until the transaction ends none of them ends, so that none can end unnoticed."""
    names = sorted({each.job.rpartition("~")[2] for spec in specs for each in spec.asked.depends_on})
    jobs: dict[str, Job] = {}
    for some in chunks(names, _AT_ONCE):
        rows = Job.objects.filter(username=username, name__in=some, deleted_at__isnull=True).order_by("id")
        rows = (rows.select_for_update(no_key=True) if lock else rows).only("username", "name", "state")
        jobs |= {job.name: job for job in rows}
    return jobs


def waits_for(dependencies: Sequence[Found]) -> tuple[int, str]:
    """Say of a new job how many jobs it still waits for, and why it waits in vain."""
    waits = [each.awaited for each in dependencies if not each.awaited.is_met]
    return len(waits), next((other.in_vain for other in waits if other.in_vain), "")


def in_vain(awaited: Iterable[Awaited]) -> Blocker | None:
    """Why a job that waits for these would never start."""
    says = next((other.in_vain for other in awaited if other.in_vain), "")
    return Blocker("dependency", says) if says else None


def store(awaited_by: Iterable[tuple[Job, Iterable[Found]]]) -> None:
    """Save what new jobs wait for."""
    columns = ("job_id", "on_id", "on_name", "condition", "ended")
    rows = [(job.pk, on.job.pk, on.job.name, on.condition, on.ended) for job, awaited in awaited_by for on in awaited]
    insert_values(Dependency, columns, rows)


def unmet(ids: Iterable[int]) -> dict[int, list[Awaited]]:
    """What these waiting jobs still wait for, by job."""
    rows = Dependency.objects.filter(job__in=list(ids)).order_by("id")
    unmet_of: dict[int, list[Awaited]] = {}
    for id, *values in rows.values_list("job_id", "job__username", "on_name", "condition", "on__state", "ended"):
        other = _awaited(*values)
        if not other.is_met:
            unmet_of.setdefault(id, []).append(other)
    return unmet_of


def note_ends(ended: Sequence[tuple[int, str]], now: datetime) -> list[tuple[int, str]]:
    """Tell the jobs that wait for these ones, (id, state) each, and return each of them with the sentence of its Event.
    The rows of those that end are written before, in the same transaction: a submission that finds one locks it, so
    either its dependency is here by now, or it finds the end itself."""
    states = dict(ended)
    told = [
        (id, job, _awaited(username, name, condition, states[on], states[on]))
        for some in chunks(list(states))
        for id, job, username, name, condition, on in values_with_ids(_rows_waiting, some, "on_id")
    ]
    for state in {other.state for _, _, other in told}:
        _update(Dependency, [id for id, _, other in told if other.state == state], ended=state)
    met = Counter(job for _, job, other in told if other.is_met)
    for number in set(met.values()):
        _update(Job, [job for job in met if met[job] == number], awaits=F("awaits") - number, changed_at=now)
    in_vain = {job: other.in_vain for _, job, other in told if other.in_vain}
    for says in set(in_vain.values()):
        _update(Job, [job for job in in_vain if in_vain[job] == says], unmet=says, changed_at=now)
    return [(job, other.says_end) for _, job, other in told]


def _rows_waiting() -> QuerySet[Any, Any]:
    rows = Dependency.objects.filter(ended="", job__state=JobState.WAITING).order_by("id")
    return rows.values_list("id", "job_id", "job__username", "on_name", "condition", "on_id")


def stop_sweeps(failed: Sequence[int], now: datetime) -> list[tuple[int, str]]:
    """Ask for the end of all other jobs of those sweeps of which these jobs, which have just failed, are one too many
    (``extras.sweep.stopAfterFailed``), and return each of them with the sentence of its Event. One query where none
    of them is of such a sweep."""
    if not failed:
        return []
    asked: list[tuple[int, str]] = []
    sweeps = Sweep.objects.filter(jobs__in=failed, stop_after__isnull=False).distinct().order_by("id")
    for sweep in sweeps.only("name", "stop_after"):
        jobs = visible_jobs().filter(sweep=sweep)
        number = jobs.filter(state=JobState.FAILED).count()
        if number >= (sweep.stop_after or 0):
            rest = list(jobs.filter(state__in=LIVE, execution=Job.Execution.START).values_list("id", flat=True))
            _update(Job, rest, execution=Job.Execution.STOP, stopped_by=BY_SWEEP, changed_at=now)
            asked += [(id, f"{number} of the jobs of sweep {sweep.name} have failed.") for id in rest]
    return asked


def _awaited(username: str, name: str, condition: str, state: str | None, ended: str) -> Awaited:
    return Awaited(f"{username}~{name}", condition, ended or state or "", bool(ended))


def _update(model: type[Dependency | Job], ids: list[int], **values: Any) -> None:
    for some in chunks(ids):
        model._default_manager.filter(pk__in=some).update(**values)


def _name(username: str, own: str, at: int, one: After) -> str:
    owner, _, name = one.job.rpartition("~")
    if owner and owner != username:
        raise BadDependency(at, f"{one.job} is a job of {owner}; a job waits only for jobs of its own user.")
    if name == own:
        raise BadDependency(at, f"A job cannot wait for itself: {name} names {name} in dependsOn.")
    return name
