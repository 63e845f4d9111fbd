"""Gives orders to workers: rows of django-q2's queue, written in the transaction of the state that makes them due."""

from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import datetime, timedelta

from django_q.tasks import async_task

from base.core.bulk import chunks, with_ids
from base.wakes.broker import GatheringBroker
from clusters.models import VirtualCluster
from jobs.models import Attempt, Job, Prediction, Task
from jobs.planning.lifecycle import JobState
from jobs.planning.world import Order, OrderKind

_LATE = timedelta(seconds=35)  # somewhat longer than a diagnosis waits for logs
_LATE_AT_ONCE = 200
_AT_ONCE = 16  # orders in one queue row: few rows for a large gang, and still several workers share it


def ask_for_forecasts() -> None:
    """Order a worker to forecast the starts of waiting jobs (jobs/forecast), where there are any, or where what came of
    an earlier forecast is still to be noted."""
    waiting = Job.objects.filter(state=JobState.WAITING, deleted_at=None)
    if waiting.exists() or Prediction.objects.filter(started=None).exists():
        async_task("jobs.forecast.refresh.order", time.time())


def ask_to_expire_logs() -> None:
    """Order a worker to delete old logs (jobs/logs/retention.py), where any virtual cluster does not keep all."""
    limited = VirtualCluster.objects.exclude(log_days=None, log_gigabytes=None)
    if limited.exists() or Attempt.objects.filter(log_gone_at=None, log_goes_at__isnull=False).exists():
        async_task("jobs.containers.tasks.expire_logs")


def ask_to_clean_up_uploads() -> None:
    """Order a worker to remove what ``longshore run`` uploaded and no job needs (jobs/containers/code/uploads.py)."""
    async_task("jobs.containers.tasks.clean_up_uploads")


def ask_for_diagnoses(now: datetime) -> None:
    """Order the diagnoses that nobody has made in time (jobs/diagnosis): a worker died, or a node is away."""
    late = Attempt.objects.filter(diagnosis_due__isnull=False, diagnosis_due__lt=now - _LATE)
    ids = late.order_by("diagnosis_due").values_list("app_id", flat=True)[:_LATE_AT_ONCE]
    send([Order(OrderKind.DIAGNOSE, container=app_id) for app_id in ids], now)


def send(orders: Sequence[Order], now: datetime, noted: Sequence[Order] = ()) -> None:
    """Write the orders; the caller holds the transaction. One that gets lost is given again by a later pass. Of those
    that are ``noted`` the row says already when it was given."""
    tasks = [order.task for order in orders if order.task]
    for some in chunks(tasks):
        with_ids(Task.objects.all(), some).update(ordered_at=now)
    gathering = GatheringBroker()
    for few in chunks([*noted, *orders], _AT_ONCE):
        rows = [(str(order.kind), order.task, order.node, order.container) for order in few]
        async_task("jobs.containers.tasks.run", rows, broker=gathering)
    gathering.write()
