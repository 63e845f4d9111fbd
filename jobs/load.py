"""One picture of the database for the planner. Query count is constant; what never changes is read once."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

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
_LIVE = (JobState.WAITING, JobState.RUNNING)


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
        jobs = list(Job.objects.filter(Q(state__in=_LIVE) | Q(deleted_at__isnull=False)).order_by("id").values(*_JOB))
        decided = _decided()
        views = self._views([row for row in jobs if row["state"] in _LIVE], decided)
        tasks = _tasks_by_job()
        leftovers = [_task(row) for row in Task.objects.filter(state__in=_ENDS, collected=False).values(*_TASK)]
        return World(
            now=now,
            nodes=self._ledger.nodes(with_held=False),
            observations=observations,
            live=[(job, tasks.get(job.id, [])) for job in views if job.state is JobState.RUNNING],
            waiting=[job for job in views if job.state is JobState.WAITING],
            leftovers=leftovers,
            purgeable=_purgeable([row["id"] for row in jobs if row["state"] not in _LIVE]),
            stopped_vcs=frozenset(
                VirtualCluster.objects.exclude(status=VirtualCluster.Status.RUNNING).values_list("name", flat=True)
            ),
            known=_known(observations, tasks, leftovers),
            lost_after=settings.NODE_LOST_AFTER,
            strangers=strangers,
            random=random.random(),  # noqa: S311 - spreads retries, hides nothing
        )

    def _views(self, rows: list[dict[str, Any]], decided: Mapping[int, Exit]) -> list[JobView]:
        self._read_specs([row["id"] for row in rows])
        return [self._view(row, decided) for row in rows]

    def _read_specs(self, ids: list[int]) -> None:
        self._specs = {id: self._specs[id] for id in ids if id in self._specs}
        missing = [id for id in ids if id not in self._specs]
        for start in range(0, len(missing), 500):
            for id, data in Job.objects.filter(id__in=missing[start : start + 500]).values_list("id", "spec"):
                spec = JobSpec.from_json(data)
                shape = demands(spec)
                self._specs[id] = spec, self._shapes.setdefault(shape, shape)

    def _view(self, row: dict[str, Any], decided: Mapping[int, Exit]) -> JobView:
        spec, shape = self._specs[row["id"]]
        return JobView(
            id=row["id"],
            name=f"{row['username']}/{row['name']}",
            vc=row["vc"],
            state=JobState(row["state"]),
            spec=spec,
            demands=shape,
            attempt_number=row["attempt_number"],
            changed_at=row["changed_at"],
            stopping=row["execution"] == Job.Execution.STOP,
            stopped_by=row["stopped_by"],
            never=row["never"],
            user_retries=row["user_retries"],
            platform_retries=row["platform_retries"],
            resource_retries=row["resource_retries"],
            not_before=row["not_before"],
            parked_until=row["parked_until"],
            deleted=row["deleted_at"] is not None,
            decided=decided.get(row["id"]),
        )


def _decided() -> dict[int, Exit]:
    rows = Attempt.objects.filter(
        job__state=JobState.RUNNING, number=F("job__attempt_number"), decided_at__isnull=False
    ).values_list("job_id", "exit")
    return {job: Exit.from_json(data["exit"]) for job, data in rows}


def _tasks_by_job() -> dict[int, list[TaskView]]:
    current = Attempt.objects.filter(job__state=JobState.RUNNING, number=F("job__attempt_number"))
    found: dict[int, list[TaskView]] = {}
    for row in Task.objects.filter(attempt__in=current.values("id")).order_by("id").values(*_TASK):
        found.setdefault(row["job_id"], []).append(_task(row))
    return found


def _task(row: dict[str, Any]) -> TaskView:
    return TaskView(**{**row, "state": TaskState(row["state"])})


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
