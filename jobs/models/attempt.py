"""The rows of how a job was tried: an attempt, and a task for each of its containers."""

from __future__ import annotations

from functools import reduce
from operator import or_

from django.db import models
from django.db.models import Q
from django.db.models.expressions import RawSQL

from jobs.models.job import Job


def _one_of(*states: str) -> Q:
    """As a chain of OR: for IN, SQLite would sort the states anew for each row that is written, which then takes three
    times as long. What is to be read by such an index says it in the same words and order."""
    return reduce(or_, (Q(state=state) for state in states))


# For SQL about ``jobs_task t``. With parameters in place of the literals SQLite reads no partial index, and as long as
# a query asks for the state alone it reads task_by_job instead of task_live, where all tasks are that ever were.
LIVE = "((t.state = 'STARTING' OR t.state = 'RUNNING' OR t.state = 'STOPPING') AND t.node >= '')"
_LIVE = RawSQL(LIVE.replace("t.", "jobs_task."), (), models.BooleanField())  # noqa: S611 - words of ours alone


class Attempt(models.Model):
    """One try of the whole job. ``exit_code`` is set when its outcome is decided (``decided_at``), ``completed_at``
    when its last container has ended."""

    job = models.ForeignKey(Job, models.CASCADE, related_name="attempts", db_index=False)  # one_attempt_per_number
    number = models.PositiveIntegerField()
    app_id = models.CharField(max_length=64, unique=True)
    created_at = models.DateTimeField()
    launched_at = models.DateTimeField(null=True)
    decided_at = models.DateTimeField(null=True)
    grace = models.PositiveSmallIntegerField(default=10, db_default=10)  # seconds from notice to KILL, once decided
    completed_at = models.DateTimeField(null=True)
    exit_code = models.IntegerField(null=True)
    # {"trigger": text, "role": name, "index": n, "reason": sentence, "exit": {...exits.Exit}, "next": what followed}
    exit = models.JSONField(default=dict)
    diagnosis_due = models.DateTimeField(null=True)  # since then it is to be diagnosed (jobs/diagnosis)
    diagnosis = models.JSONField(null=True)  # why it failed: jobs.diagnosis.evidence.Diagnosis as data
    log_bytes = models.BigIntegerField(default=0, db_default=0)  # that its archived logs take
    log_goes_at = models.DateTimeField(null=True)  # told to its job (jobs/logs/retention.py)
    log_gone_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["job", "number"], name="one_attempt_per_number")]
        indexes = [
            models.Index(
                fields=["job"],
                condition=Q(decided_at__isnull=False, completed_at__isnull=True),
                name="attempt_winding_down",
            ),
            models.Index(
                fields=["diagnosis_due"], condition=Q(diagnosis_due__isnull=False), name="attempt_undiagnosed"
            ),
        ]


class Task(models.Model):
    """One container of one attempt. The scheduler alone changes ``state``, by lifecycle's table. The worker that holds
    the claim writes facts: container_id, fault, progress, collected."""

    attempt = models.ForeignKey(Attempt, models.CASCADE, related_name="tasks", db_index=False)  # one_task_per_index
    job = models.ForeignKey(Job, models.CASCADE, related_name="tasks", db_index=False)  # task_by_job
    role = models.CharField(max_length=255)
    index = models.PositiveIntegerField()
    state = models.CharField(max_length=10, default="WAITING")  # lifecycle.TaskState
    changed_at = models.DateTimeField()  # last change of state
    # placement
    node = models.CharField(max_length=63, blank=True)
    address = models.CharField(max_length=255, blank=True)
    gpu_ids = models.JSONField(default=list)
    gpus_given = models.JSONField(null=True)  # which those are, of a cluster that chooses them itself: ["GPU-5f3c..."]
    ports = models.JSONField(default=dict)  # {"http": [30000], "ssh": [30001]}
    # orders and claims
    ordered_at = models.DateTimeField(null=True)  # when the scheduler last ordered work on it
    claim = models.CharField(max_length=32, blank=True)  # token of the worker that works on it
    claimed_until = models.DateTimeField(null=True)  # the end of the claim's lease, which progress renews
    fact_at = models.DateTimeField(null=True)  # last write by a worker
    progress = models.CharField(max_length=120, blank=True)  # "pulling 3.1 of 8.2 GB"; of a running one world.PAUSED
    fault = models.JSONField(null=True)  # {"reason", "sentence", "permanent"} of a refused start
    container_name = models.CharField(max_length=200, blank=True)
    container_id = models.CharField(max_length=64, blank=True)
    container_started_at = models.DateTimeField(null=True)
    held_at = models.DateTimeField(null=True)  # isDebug: its command failed, and since then the container is kept
    released_at = models.DateTimeField(null=True)  # somebody asked for the end of the kept container
    # Written by workers: the last signal by which it was told that it ends, and when the first one was sent.
    told = models.CharField(max_length=8, blank=True, default="", db_default="")
    told_at = models.DateTimeField(null=True)
    # the end
    exit_code = models.IntegerField(null=True)
    exit = models.JSONField(default=dict)  # exits.Exit as data
    finished_at = models.DateTimeField(null=True)
    collected = models.BooleanField(default=False)  # ended, its log archived and its container removed

    class Meta:
        constraints = [models.UniqueConstraint(fields=["attempt", "role", "index"], name="one_task_per_index")]
        indexes = [
            models.Index(fields=["job", "state"], name="task_by_job"),
            models.Index(
                fields=["id"],
                condition=_one_of("SUCCEEDED", "FAILED", "STOPPED") & Q(collected=False),
                name="task_leftover",
            ),
            # see jobs/scheduling/invariants.py
            models.Index(fields=["id"], condition=_one_of("STARTING", "RUNNING", "STOPPING"), name="task_live"),
        ]

    @classmethod
    def live(cls) -> models.QuerySet[Task]:
        """Those that hold something, in the states TASK_LIVE_STATES."""
        return cls.objects.filter(_LIVE)

    @property
    def label(self) -> str:
        return f"{self.role}-{self.index}"
