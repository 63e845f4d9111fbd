"""django-q2's ORM broker, woken instead of polling: an order is a row, and a worker takes it within milliseconds."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.db import connection, transaction
from django_q.brokers.orm import ORM
from django_q.conf import Conf
from django_q.models import OrmQ

from base.core.bulk import all_rows, insert_values, update_where
from base.hosts import this_host
from base.wakes import processes, wake

_DUE = "SELECT * FROM django_q_ormq WHERE key = %s AND lock < %s ORDER BY id LIMIT %s"
_FREE = "id = %s AND lock < %s"
LOOK_EVERY = 4.0  # seconds between two looks without a wake-up


class GatheringBroker:
    """Takes the orders of ``async_task(..., broker=gathering)``, and writes them with one statement and one wake-up."""

    list_key = Conf.CLUSTER_NAME

    def __init__(self) -> None:
        self._tasks: list[str] = []

    def enqueue(self, task: str) -> int:
        self._tasks.append(task)
        return len(self._tasks)

    def write(self) -> None:
        if self._tasks:
            due = this_host.database_now()
            insert_values(OrmQ, ("key", "payload", "lock"), [(self.list_key, task, due) for task in self._tasks])
            wake.notify("workers")


class WakingBroker(ORM):
    def enqueue(self, task: str) -> Any:
        """Write the order, due by the clock of the database: a worker takes what is due by its own time, and the clocks
        of hosts differ."""
        row = self.get_connection().create(
            key=self.list_key or Conf.CLUSTER_NAME, payload=task, lock=this_host.database_now()
        )
        wake.notify("workers")
        return row.pk

    def dequeue(self) -> Any:
        """Wait for an order. The base class would sleep POLL seconds; that is set to 0."""
        if processes.is_due("workers"):
            with transaction.atomic():
                processes.record_process("workers")
                processes.record_heartbeat("workers")  # at last: it is due again where the other could not be written
        return self._take() or (self._listener().wait(LOOK_EVERY) and self._take()) or None

    def delete(self, task_id: Any) -> None:
        self.get_connection()  # which opens a new one where the last has broken
        with connection.cursor() as cursor:
            cursor.execute("DELETE FROM django_q_ormq WHERE id = %s", [task_id])

    def _take(self) -> list[tuple[int, str]]:
        """What the base class does, by the clock of the database. Nothing is written where nothing is due."""
        self.get_connection()
        now = this_host.database_now()
        due = all_rows(OrmQ, _DUE, self.list_key, now, Conf.BULK)
        until = {"lock": now + timedelta(seconds=Conf.RETRY)}
        return [(row.pk, row.payload) for row in due if update_where(OrmQ, until, _FREE, row.pk, now)]

    def _listener(self) -> wake.Listener:
        if not hasattr(self, "_wake"):
            self._wake = wake.Listener("workers")
        return self._wake
