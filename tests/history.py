"""Rows of Holding for tests that need a past."""

from __future__ import annotations

import itertools
from typing import Any

from django.utils import timezone

from base.core.values import milliseconds
from jobs.models import Holding

HOUR = 3_600_000
DAY = 24 * HOUR
_number = itertools.count(1)


def held(began: int, ended: int | None, **more: Any) -> Holding:
    """One task that held a GPU and two cores; without an end it still does. ``more`` are fields of Holding."""
    number = next(_number)
    values = {
        "id": number,
        "job_id": 10**6 + number,  # of no job that a test has
        "username": "alice",
        "job_name": f"job-{number}",
        "vc": "default",
        "attempt": 1,
        "role": "worker",
        "index": 0,
        "node": "gpu-01",
        "gpu_ids": "0",
        "gpus": 1,
        "gpu_type": "A100",
        "cpus": 2,
        "memory_mb": 1024,
        "waited": 0,
        "outcome": "" if ended is None else "SUCCEEDED",
        **more,
    }
    return Holding.objects.create(began=began, ended=ended, **values)


def a_past(lengths: int = 20) -> None:
    """Jobs of an hour, more or less."""
    now = milliseconds(timezone.now())
    for at in range(lengths):
        began = now - (at + 2) * HOUR
        held(began, began + HOUR + (at - lengths // 2) * 60_000, id=10**6 + at, gpus=2, job_name=f"train-{at}")
