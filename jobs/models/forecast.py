"""The rows of what was foreseen, and of days that are played again."""

from __future__ import annotations

from django.db import models
from django.db.models import Q


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
