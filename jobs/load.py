"""One picture of the database for the planner. Query count is constant; what never changes is read once."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping
from datetime import datetime

from django.conf import settings
from django.db.models import Exists, F, OuterRef, Q

from clusters.models import VirtualCluster
from clusters.placement import Demand
from clusters.queries import Ledger
from jobs.demands import demands
from jobs.exits import Exit
from jobs.lifecycle import TASK_ENDS, JobState, TaskState
from jobs.models import Attempt, Job, Task
from jobs.spec import JobSpec
from jobs.world import JobView, Observation, TaskView, World

_JOB = (
    "id",
    "username",
    "name",
    "vc",
    "state",
    "attempt_number",
    "changed_at",
    "execution",
    "stopped_by",
    "never",
    "user_retries",
    "platform_retries",
    "resource_retries",
    "not_before",
    "parked_until",
    "deleted_at",
)
_TASK = (
    "id",
    "job_id",
    "role",
    "index",
    "state",
    "changed_at",
    "node",
    "container_name",
    "container_id",
    "ordered_at",
    "claimed_until",
    "fact_at",
    "fault",
    "exit",
    "finished_at",
)
_ENDS = sorted(TASK_ENDS)


class Loader:
    """Keeps what never changes between passes: specs of live jobs, shapes, allocations."""

    def __init__(self) -> None:
        self._specs: dict[int, tuple[JobSpec, tuple[Demand, ...]]] = {}
        self._shapes: dict[tuple[Demand, ...], tuple[Demand, ...]] = {}
        self._ledger = Ledger()

    def world(
        self,
        now: datetime,
        observations: Mapping[str, Observation],
        strangers: Mapping[tuple[str, str], datetime],
    ) -> World:
        jobs = list(
            Job.objects.filter(Q(state__in=[JobState.WAITING, JobState.RUNNING]) | Q(deleted_at__isnull=False))
            .order_by("id")
            .values_list(*_JOB)
        )
        decided = _decided()
        views = self._views([row for row in jobs if row[4] in (JobState.WAITING, JobState.RUNNING)], decided)
        tasks = _tasks_by_job()
        leftovers = [_task(row) for row in Task.objects.filter(state__in=_ENDS, collected=False).values_list(*_TASK)]
        return World(
            now=now,
            nodes=self._ledger.nodes(with_held=False),
            observations=observations,
            live=[(job, tasks.get(job.id, [])) for job in views if job.state is JobState.RUNNING],
            waiting=[job for job in views if job.state is JobState.WAITING],
            leftovers=leftovers,
            purgeable=_purgeable(
                [row[0] for row in jobs if row[15] is not None and row[4] not in ("WAITING", "RUNNING")]
            ),
            stopped_vcs=frozenset(
                VirtualCluster.objects.exclude(status=VirtualCluster.Status.RUNNING).values_list("name", flat=True)
            ),
            known=_known(observations, tasks, leftovers),
            lost_after=settings.NODE_LOST_AFTER,
            strangers=strangers,
            random=random.random(),
        )

    def _views(self, rows: list[tuple[object, ...]], decided: Mapping[int, Exit]) -> list[JobView]:
        self._read_specs([row[0] for row in rows])  # type: ignore[misc]
        return [self._view(row, decided) for row in rows]

    def _read_specs(self, ids: list[int]) -> None:
        self._specs = {id: self._specs[id] for id in ids if id in self._specs}
        missing = [id for id in ids if id not in self._specs]
        for start in range(0, len(missing), 500):
            for id, data in Job.objects.filter(id__in=missing[start : start + 500]).values_list("id", "spec"):
                spec = JobSpec.from_json(data)
                shape = demands(spec)
                self._specs[id] = spec, self._shapes.setdefault(shape, shape)

    def _view(self, row: tuple[object, ...], decided: Mapping[int, Exit]) -> JobView:
        (id, username, name, vc, state, attempt, changed, execution, stopped_by, never) = row[:10]
        (user, platform, resource, not_before, parked_until, deleted_at) = row[10:]
        spec, shape = self._specs[id]  # type: ignore[index]
        return JobView(
            id=id,  # type: ignore[arg-type]
            name=f"{username}/{name}",
            vc=vc,  # type: ignore[arg-type]
            state=JobState(state),  # type: ignore[arg-type]
            spec=spec,
            demands=shape,
            attempt_number=attempt,  # type: ignore[arg-type]
            changed_at=changed,  # type: ignore[arg-type]
            stopping=execution == Job.Execution.STOP,
            stopped_by=stopped_by,  # type: ignore[arg-type]
            never=never,  # type: ignore[arg-type]
            user_retries=user,  # type: ignore[arg-type]
            platform_retries=platform,  # type: ignore[arg-type]
            resource_retries=resource,  # type: ignore[arg-type]
            not_before=not_before,  # type: ignore[arg-type]
            parked_until=parked_until,  # type: ignore[arg-type]
            deleted=deleted_at is not None,
            decided=decided.get(id),  # type: ignore[arg-type, call-overload]
        )


def _decided() -> dict[int, Exit]:
    rows = Attempt.objects.filter(
        job__state=JobState.RUNNING, number=F("job__attempt_number"), decided_at__isnull=False
    ).values_list("job_id", "exit")
    return {job: Exit.from_json(data["exit"]) for job, data in rows}


def _tasks_by_job() -> dict[int, list[TaskView]]:
    current = Attempt.objects.filter(job__state=JobState.RUNNING, number=F("job__attempt_number"))
    found: dict[int, list[TaskView]] = {}
    for row in Task.objects.filter(attempt__in=current.values("id")).order_by("id").values_list(*_TASK):
        found.setdefault(row[1], []).append(_task(row))
    return found


def _task(row: tuple[object, ...]) -> TaskView:
    values = dict(zip(_TASK, row, strict=True))
    values["state"] = TaskState(values["state"])
    return TaskView(**values)  # type: ignore[arg-type]


def _purgeable(ended: list[int]) -> list[int]:
    if not ended:
        return []
    uncollected = Task.objects.filter(job=OuterRef("id"), collected=False).exclude(state=TaskState.WAITING)
    return list(Job.objects.filter(id__in=ended).filter(~Exists(uncollected)).values_list("id", flat=True))


def _known(
    observations: Mapping[str, Observation], tasks: Mapping[int, list[TaskView]], leftovers: Iterable[TaskView]
) -> dict[str, int]:
    """Which of the containers seen belong to a task: those of live jobs and leftovers, and others looked up."""
    known = {task.container_name: task.id for of_job in tasks.values() for task in of_job if task.container_name}
    known |= {task.container_name: task.id for task in leftovers if task.container_name}
    seen = {name for observation in observations.values() for name in observation.containers}
    unknown = sorted(seen - known.keys())
    for start in range(0, len(unknown), 500):
        rows = Task.objects.filter(container_name__in=unknown[start : start + 500]).values_list("container_name", "id")
        known |= dict(rows)
    return known
