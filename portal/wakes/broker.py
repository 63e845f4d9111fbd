"""django-q2's ORM broker, woken instead of polling: an order is a row, and a worker takes it within milliseconds."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django_q.brokers.orm import ORM
from django_q.conf import Conf
from django_q.models import OrmQ

from portal.core.bulk import insert_values
from portal.hosts import here
from portal.wakes import beats, processes, wake

LOOK_EVERY = 1.0  # seconds between two looks without a wake-up


class Gathering:
    """Takes the orders of ``async_task(..., broker=gathering)``, and writes them with one statement and one wake-up."""

    list_key = Conf.CLUSTER_NAME

    def __init__(self) -> None:
        self._tasks: list[str] = []

    def enqueue(self, task: str) -> int:
        self._tasks.append(task)
        return len(self._tasks)

    def write(self) -> None:
        if self._tasks:
            due = here.now()
            insert_values(OrmQ, ("key", "payload", "lock"), [(self.list_key, task, due) for task in self._tasks])
            wake.notify("workers")


class WakingBroker(ORM):
    def enqueue(self, task: str) -> Any:
        """By the clock of the database: a worker takes what is due by its own time, and the clocks of hosts differ."""
        row = self.get_connection().create(key=self.list_key or Conf.CLUSTER_NAME, payload=task, lock=here.now())
        wake.notify("workers")
        return row.pk

    def dequeue(self) -> Any:
        """Wait for an order. The base class would sleep POLL seconds; that is set to 0."""
        beats.beat("workers")
        processes.show("workers")
        return self._take() or (self._listener().wait(LOOK_EVERY) and self._take()) or None

    def _take(self) -> list[tuple[int, str]]:
        """What the base class does, by the clock of the database."""
        now = here.now()
        rows = self.get_connection()
        due = rows.filter(key=self.list_key, lock__lt=now).order_by("id")[: Conf.BULK]
        until = now + timedelta(seconds=Conf.RETRY)
        return [(row.pk, row.payload) for row in due if rows.filter(id=row.pk, lock=row.lock).update(lock=until)]

    def _listener(self) -> wake.Listener:
        if not hasattr(self, "_wake"):
            self._wake = wake.Listener("workers")
        return self._wake
