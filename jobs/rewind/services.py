"""Which failed tasks of a job were kept, and opening one of them again.

That is a job of its own, submitted as any other: it waits for its turn, its resources and GPUs count in the virtual
cluster, and the same rights hold. It runs on the node that has the image.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.conf import settings
from django.db import transaction
from django.utils import timezone

from base.core.errors import NotFound
from base.models import User
from clusters.models import KeptImage
from clusters.placement.fit import OWN_LABEL
from jobs import access, queries, secrets, services
from jobs.config.spec import JobSpec
from jobs.models import Event, Job, Task
from jobs.planning.lifecycle import TaskState

_WAITS = """echo "The files of {label} are as they were when it failed. Nothing runs; open the terminal."
exec sleep {seconds}"""


@dataclass(frozen=True, slots=True)
class Snapshot:
    task: Task
    attempt: int
    image: KeptImage

    @property
    def label(self) -> str:
        return self.task.label

    @property
    def until(self) -> datetime:
        return self.image.until


def snapshots_of(job: Job) -> Sequence[Snapshot]:
    """The failed tasks of a job that can be opened again, those of the newest attempt first."""
    failed = Task.objects.select_related("attempt").filter(job=job, state=TaskState.FAILED).order_by("-attempt", "id")
    tasks = {task.pk: task for task in failed[:1000]}
    images = KeptImage.objects.select_related("node").filter(
        owner__in=list(tasks), size__gte=0, until__gt=timezone.now()
    )
    image_of = {image.owner: image for image in images}
    return [Snapshot(task, task.attempt.number, image_of[pk]) for pk, task in tasks.items() if pk in image_of]


def reopen(actor: User, job: Job, label: str = "", attempt: int = 0) -> Job:
    """Submit the job that opens this failed task, or the first that was kept; it belongs to ``actor``. Raises
    Unauthorized, Forbidden, NotFound when nothing of it is kept any more, and what ``services.submit`` raises."""
    access.require_enter(actor, job)
    fitting = (each for each in snapshots_of(job) if label in ("", each.label) and attempt in (0, each.attempt))
    if (snapshot := next(fitting, None)) is None:
        raise NotFound(f"Of {label or 'the tasks'} of job {job.name} nothing is kept, or not any more.")
    name = queries.free_name(actor.username, f"{job.name[:230]}-rewind-1")
    config = _config(name, JobSpec.from_json(job.spec), snapshot, secrets.of(job.pk))
    with transaction.atomic():
        opened = services.submit(actor, config)
        reason = f"{actor.username} opened {snapshot.label} of attempt {snapshot.attempt} again, as job {opened.name}."
        Event.objects.create(
            job=job, at=timezone.now(), kind="task.reopened", task=snapshot.label, actor=actor.username, reason=reason
        )
    return opened


def _config(name: str, spec: JobSpec, snapshot: Snapshot, values: dict[str, str]) -> dict[str, Any]:
    """The config of a job with the same role, of which it is one task that only waits. ``values``: of the secrets.

    It asks for what the task had: resources, virtual cluster, variables, profile. Its ports are any that are free, and
    what a start would do once more (code, retries, isDebug, dependencies) is left out."""
    role = spec.role(snapshot.task.role)
    extras: dict[str, Any] = {"nodeLabels": {OWN_LABEL: snapshot.image.node.name}}
    if spec.asked.profile:
        extras["profile"] = spec.asked.profile
    if values:
        extras["secrets"] = values
    return {
        "jobName": name,
        "image": snapshot.image.image,
        "virtualCluster": spec.effective_virtual_cluster,
        "gpuType": spec.gpu_type,
        "dataDir": spec.data_dir,
        "outputDir": spec.output_dir,
        "jobEnvs": {key: value for key, value in spec.job_envs.items() if key != "isDebug"},
        "taskRoles": [
            {
                "name": role.name,
                "taskNumber": 1,
                "cpuNumber": role.cpu_number,
                "memoryMB": role.memory_mb,
                "shmMB": role.shm_mb,
                "gpuNumber": role.gpu_number,
                "portList": [{"label": port.label, "portNumber": port.port_number} for port in role.port_list],
                "command": _WAITS.format(label=snapshot.label, seconds=settings.REWIND_OPEN),
            }
        ],
        "extras": extras,
    }
