"""The rows of what happened (Event), of what was used (Holding), of what was foreseen, and of days that are played
again."""

from __future__ import annotations

from django.db import models
from django.db.models import Q

from jobs.models.job import Job


class Event(models.Model):
    """A row of the ledger: a change of state or a decision, with its reason. Rows are added and never changed."""

    at = models.DateTimeField()
    kind = models.CharField(max_length=40)  # job.submitted, task.state, attempt.decided, node.unreachable ...
    job = models.ForeignKey(Job, models.CASCADE, null=True, related_name="events", db_index=False)  # event_by_job
    attempt = models.PositiveIntegerField(null=True)
    task = models.CharField(max_length=270, blank=True)  # worker-1
    node = models.CharField(max_length=63, blank=True)
    actor = models.CharField(max_length=64, default="scheduler")
    before = models.CharField(max_length=12, blank=True)
    after = models.CharField(max_length=12, blank=True)
    reason = models.TextField(blank=True)  # one plain sentence
    data = models.JSONField(default=dict)

    class Meta:
        indexes = [models.Index(fields=["job", "id"], name="event_by_job")]


class Holding(models.Model):
    """What one task held, from its placement until its room was given back. ``id`` is the task's.

    A row is open (``ended`` is null) exactly while the task has its Allocation: both are written in the same
    transactions. It names what it is about instead of pointing to it, since it outlives the job, the node and the
    virtual cluster. Times are milliseconds since 1970, so that both databases add them up exactly and fast."""

    class Outcome(models.TextChoices):
        SUCCEEDED = "SUCCEEDED"
        FAILED = "FAILED"  # by the job's own fault
        STOPPED = "STOPPED"  # somebody stopped the job
        EVICTED = "EVICTED"  # another job had a right to the room
        LOST = "LOST"  # by the cluster's fault, a lost node for example

    job_id = models.BigIntegerField()
    username = models.CharField(max_length=64)
    job_name = models.CharField(max_length=255)
    vc = models.CharField(max_length=64)
    attempt = models.PositiveIntegerField()
    role = models.CharField(max_length=255)
    index = models.PositiveIntegerField()
    node = models.CharField(max_length=63)
    gpu_ids = models.TextField(blank=True)  # "0,3"
    gpus = models.PositiveIntegerField()
    gpu_type = models.CharField(max_length=64, blank=True)
    cpus = models.PositiveIntegerField()
    memory_mb = models.PositiveIntegerField()
    guest = models.BooleanField(default=False)
    waited = models.BigIntegerField(null=True)  # ms until the attempt was placed; in the row of its first task alone
    began = models.BigIntegerField()
    ended = models.BigIntegerField(null=True)
    outcome = models.CharField(max_length=9, choices=Outcome.choices, blank=True)  # of the task's part of the attempt
    exit_code = models.IntegerField(null=True)
    # What the job asked for beside this, as JSON, in the row of its first task; empty where it asked for nothing else.
    # {"priority", "gpuType", "preemptible", "maxRunSeconds", "nodeLabels", "topology"}, each only where it is given.
    asked = models.TextField(blank=True, default="")

    class Meta:
        # For the rows of a span of time: the second column is compared without reading the row.
        indexes = [models.Index(fields=["ended", "began"], name="holding_by_time")]

    def __str__(self) -> str:
        return f"{self.username}/{self.job_name} {self.role}-{self.index}"


class Prediction(models.Model):
    """A forecast of a start that was shown, and what came true. Times are milliseconds since 1970."""

    job_id = models.BigIntegerField()
    attempt = models.PositiveIntegerField()
    made = models.BigIntegerField()
    p10 = models.BigIntegerField()
    p50 = models.BigIntegerField()
    p90 = models.BigIntegerField()
    guess = models.BigIntegerField(null=True)  # it waits for as long as the last job of its virtual cluster did
    by_limit = models.BigIntegerField(null=True)  # every job runs for as long as it may at most
    started = models.BigIntegerField(null=True)
    vc = models.CharField(max_length=64, blank=True, default="", db_default="")
    played = models.JSONField(null=True)  # [p10, p50, p90] without what is known of earlier errors

    class Meta:
        indexes = [
            models.Index(fields=["job_id", "attempt"], condition=Q(started=None), name="prediction_open"),
            models.Index(fields=["made"], name="prediction_by_age"),
        ]

    def __str__(self) -> str:
        return f"job {self.job_id}, attempt {self.attempt}"


class Replay(models.Model):
    """A past day that a worker plays again for an admin (jobs/replay). Times are milliseconds since 1970."""

    username = models.CharField(max_length=64)
    asked = models.JSONField()  # {"from", "to", "policy", "nodes", "changes"}
    made = models.BigIntegerField()
    beat = models.BigIntegerField(null=True)  # when the worker that plays it last wrote its progress
    progress = models.PositiveSmallIntegerField(default=0)  # percent
    result = models.JSONField(null=True)  # jobs.replay.outcome.ReplayResult
    error = models.TextField(blank=True)  # a sentence: why there is none

    def __str__(self) -> str:
        return f"{self.asked} for {self.username}"
