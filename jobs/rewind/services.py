"""Which failed tasks of a job were kept, and opening one of them again.

That is a job of its own, submitted as any other: it waits for its turn, its resources and GPUs count in the virtual
cluster, and the same rights hold. It runs on the node that has the image.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from django.conf import settings
from django.db import transaction
from django.utils import timezone

from clusters.models import KeptImage
from jobs import access, queries, secrets, services
from jobs.config.spec import JobSpec
from jobs.models import Event, Job, Task
from jobs.planning.lifecycle import TaskState
from jobs.rewind.config import config_of
from portal.core.errors import NotFound
from portal.models import User


@dataclass(frozen=True, slots=True)
class Kept:
    task: Task
    attempt: int
    image: KeptImage

    @property
    def label(self) -> str:
        return self.task.label

    @property
    def until(self) -> datetime:
        return self.image.until


def kept_of(job: Job) -> Sequence[Kept]:
    """The failed tasks of a job that can be opened again, those of the newest attempt first."""
    failed = Task.objects.select_related("attempt").filter(job=job, state=TaskState.FAILED).order_by("-attempt", "id")
    tasks = {task.pk: task for task in failed[:1000]}
    images = KeptImage.objects.select_related("node").filter(owner__in=list(tasks), until__gt=timezone.now())
    found = {image.owner: image for image in images}
    return [Kept(task, task.attempt.number, found[pk]) for pk, task in tasks.items() if pk in found]


def reopen(actor: User, job: Job, label: str = "", attempt: int = 0) -> Job:
    """Submit the job that opens this failed task, or the first that was kept; it belongs to ``actor``. Raises
    Unauthorized, Forbidden, NotFound when nothing of it is kept any more, and what ``services.submit`` raises."""
    access.require_enter(actor, job)
    fitting = [one for one in kept_of(job) if label in ("", one.label) and attempt in (0, one.attempt)]
    if not fitting:
        raise NotFound(f"Of {label or 'the tasks'} of job {job.name} nothing is kept, or not any more.")
    kept = fitting[0]
    config = config_of(
        JobSpec.from_json(job.spec),
        kept.task.role,
        kept.label,
        name=queries.free_name(actor.username, f"{job.name[:230]}-rewind-1"),
        image=kept.image.image,
        node=kept.image.node.name,
        seconds=settings.REWIND_OPEN,
        secrets=secrets.of(job.pk),
    )
    with transaction.atomic():
        made = services.submit(actor, config)
        reason = f"{actor.username} opened {kept.label} of attempt {kept.attempt} again, as job {made.name}."
        Event.objects.create(
            job=job, at=timezone.now(), kind="task.reopened", task=kept.label, actor=actor.username, reason=reason
        )
    return made
