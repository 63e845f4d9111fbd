"""One picture of the database for the planner. The number of queries is constant, and only rows that have changed since
the last picture are read (jobs/stamps.py tells which)."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from django.conf import settings
from django.db.models import Exists, OuterRef

from clusters.models import VirtualCluster
from clusters.placement import Demand
from clusters.queries import Ledger
from clusters.runtime import LABEL_TASK
from jobs import stamps
from jobs.demands import demands
from jobs.exits import Exit
from jobs.lifecycle import JobState, TaskState
from jobs.models import Attempt, Job, Task
from jobs.spec import JobSpec
from jobs.stamps import Stamp
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
_LIVE = (JobState.WAITING, JobState.RUNNING)
_CHUNK = 500  # rows asked for by id at once


@dataclass(frozen=True, slots=True)
class _Picture:
    """What a World says of jobs and tasks."""

    live: list[tuple[JobView, list[TaskView]]]
    waiting: list[JobView]
    leftovers: list[TaskView]
    ended: list[int]  # deleted jobs that have ended
    known: dict[str, int]  # container name -> task


class Loader:
    """Keeps what it has read: jobs with their specs and shapes, tasks, nodes and allocations."""

    def __init__(self) -> None:
        self.ledger = Ledger()
        self._specs: dict[int, tuple[JobSpec, tuple[Demand, ...]]] = {}
        self._shapes: dict[tuple[Demand, ...], tuple[Demand, ...]] = {}
        self._jobs: dict[int, tuple[Stamp, JobView]] = {}
        self._tasks: dict[int, tuple[Stamp, TaskView]] = {}
        self._seen: tuple[object, ...] = ()
        self._picture = _Picture([], [], [], [], {})

    def world(
        self,
        now: datetime,
        observations: Mapping[str, Observation],
        strangers: Mapping[tuple[str, str], datetime],
    ) -> World:
        jobs, tasks, leftovers, decided = stamps.of_jobs(), stamps.of_tasks(), stamps.of_leftovers(), _decided()
        if (seen := (jobs, tasks, leftovers, decided)) != self._seen:
            self._picture, self._seen = self._read(jobs, tasks, leftovers, decided), seen
        return World(
            now=now,
            nodes=self.ledger.nodes(with_held=False),
            observations=observations,
            live=self._picture.live,
            waiting=self._picture.waiting,
            leftovers=self._picture.leftovers,
            purgeable=_purgeable(self._picture.ended),
            stopped_vcs=frozenset(
                VirtualCluster.objects.exclude(status=VirtualCluster.Status.RUNNING).values_list("name", flat=True)
            ),
            known=_known(observations, self._picture.known),
            lost_after=settings.NODE_LOST_AFTER,
            strangers=strangers,
            random=random.random(),  # noqa: S311 - spreads retries, hides nothing
        )

    def _read(
        self, jobs: list[Stamp], tasks: list[Stamp], leftovers: list[Stamp], decided: Mapping[int, Exit]
    ) -> _Picture:
        of_jobs, of_tasks, of_leftovers = map(stamps.by_id, (jobs, tasks, leftovers))
        living = {id: stamp for id, stamp in of_jobs.items() if stamps.second(stamp) in _LIVE}
        views = self._read_jobs(living)
        views = [replace(view, decided=decided[view.id]) if view.id in decided else view for view in views]
        self._read_tasks({**of_tasks, **of_leftovers})
        by_job: dict[int, list[TaskView]] = {}
        for id, stamp in sorted(of_tasks.items()):
            if id in self._tasks:
                by_job.setdefault(int(stamps.second(stamp)), []).append(self._tasks[id][1])
        return _Picture(
            live=[(job, by_job.get(job.id, [])) for job in views if job.state is JobState.RUNNING],
            waiting=[job for job in views if job.state is JobState.WAITING],
            leftovers=[self._tasks[id][1] for id in of_leftovers if id in self._tasks],
            ended=[id for id in of_jobs if id not in living],
            known={task.container_name: task.id for _, task in self._tasks.values() if task.container_name},
        )

    def _read_jobs(self, found: Mapping[int, Stamp]) -> list[JobView]:
        """In their order. One that is gone by the time it is read is left out."""
        self._jobs = {id: self._jobs[id] for id in found if id in self._jobs}
        changed = [id for id, stamp in found.items() if id not in self._jobs or self._jobs[id][0] != stamp]
        self._read_specs(list(found))
        for some in _chunks(changed):
            for row in Job.objects.filter(id__in=some).values(*_JOB):
                self._jobs[row["id"]] = found[row["id"]], self._view(row)
        return [self._jobs[id][1] for id in found if id in self._jobs]

    def _read_tasks(self, found: Mapping[int, Stamp]) -> None:
        self._tasks = {id: self._tasks[id] for id in found if id in self._tasks}
        changed = [id for id, stamp in found.items() if id not in self._tasks or self._tasks[id][0] != stamp]
        for some in _chunks(changed):
            for row in Task.objects.filter(id__in=some).values(*_TASK):
                self._tasks[row["id"]] = found[row["id"]], _task(row)

    def _read_specs(self, ids: list[int]) -> None:
        self._specs = {id: self._specs[id] for id in ids if id in self._specs}
        missing = [id for id in ids if id not in self._specs]
        for some in _chunks(missing):
            for id, data in Job.objects.filter(id__in=some).values_list("id", "spec"):
                spec = JobSpec.from_json(data)
                shape = demands(spec)
                self._specs[id] = spec, self._shapes.setdefault(shape, shape)

    def _view(self, row: dict[str, Any]) -> JobView:
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
        )


def _decided() -> dict[int, Exit]:
    """How attempts ended of which something still runs."""
    rows = Attempt.objects.filter(decided_at__isnull=False, completed_at__isnull=True).values_list("job_id", "exit")
    return {job: Exit.from_json(data["exit"]) for job, data in rows}


def _task(row: dict[str, Any]) -> TaskView:
    return TaskView(**{**row, "state": TaskState(row["state"])})


def _purgeable(ended: list[int]) -> list[int]:
    if not ended:
        return []
    uncollected = Task.objects.filter(job=OuterRef("id"), collected=False).exclude(state=TaskState.WAITING)
    return list(Job.objects.filter(id__in=ended).filter(~Exists(uncollected)).values_list("id", flat=True))


def _known(observations: Mapping[str, Observation], known: Mapping[str, int]) -> Mapping[str, int]:
    """Which of the containers seen belong to a task: those already known, and others, which say so themselves, looked
    up."""
    said = {
        int(label): name
        for observation in observations.values()
        for name, container in observation.containers.items()
        if name not in known and (label := container.labels.get(LABEL_TASK, "")).isdecimal() and len(label) < 19
    }
    found: dict[str, int] = {}
    for some in _chunks(sorted(said)):
        rows = Task.objects.filter(id__in=some).values_list("id", "container_name")
        found |= {name: id for id, name in rows if name == said[id]}
    return {**known, **found} if found else known


def _chunks(ids: list[int]) -> Iterator[list[int]]:
    return (ids[start : start + _CHUNK] for start in range(0, len(ids), _CHUNK))
