"""The rows of what people write before they submit it, and of sweeps, which they submit as one."""

from __future__ import annotations

from django.db import models
from django.db.models import Q

from base.models import User


class Sweep(models.Model):
    """Jobs that were submitted as one, each with other values of the same parameters (jobs/submitting/sweeps.py)."""

    username = models.CharField(max_length=64)
    name = models.CharField(max_length=255)  # the jobName of the config; its jobs are name-01, name-02 ...
    config = models.TextField()  # as sent, without the values of secrets
    parameters = models.JSONField()  # ["lr", "seed"]
    stop_after = models.PositiveIntegerField(null=True)  # when so many of its jobs have failed, the others are stopped
    created_at = models.DateTimeField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["username", "name"], name="one_sweep_per_name")]

    def __str__(self) -> str:
        return f"{self.username}/{self.name}"


class Draft(models.Model):
    """A config that somebody types and has not submitted. It is sealed, as it may hold secrets."""

    user = models.ForeignKey(User, models.CASCADE, related_name="+")
    title = models.CharField(max_length=255, blank=True)  # its job name, if it has one
    sealed = models.TextField()
    changed_at = models.DateTimeField()

    def __str__(self) -> str:
        return f"{self.title} of {self.user_id}"

    @property
    def version(self) -> str:
        return self.changed_at.isoformat()


class Template(models.Model):
    """A config that people start from: all who may use the virtual cluster ``vc``, or its user alone without one."""

    user = models.ForeignKey(User, models.SET_NULL, null=True, related_name="+")
    vc = models.CharField(max_length=64, blank=True)
    name = models.CharField(max_length=80)
    config = models.TextField()  # without the values of secrets
    used = models.PositiveIntegerField(default=0)
    changed_at = models.DateTimeField()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["user", "name"], condition=Q(vc=""), name="one_template_per_name"),
            models.UniqueConstraint(fields=["vc", "name"], condition=~Q(vc=""), name="one_template_per_vc_and_name"),
        ]

    def __str__(self) -> str:
        return self.name
