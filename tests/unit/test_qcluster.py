"""What the threads of the workers do when the database fails beside them."""

from __future__ import annotations

from queue import Queue
from threading import Event
from typing import Any

import pytest
from django.db import OperationalError
from django_q import pusher
from django_q.signing import SignedPackage

from portal.management.commands import qcluster


class Broker:
    """Its first answer is that the database is away."""

    list_key = "longshore"

    def __init__(self, ending: Event) -> None:
        self.ending = ending
        self.asked = 0
        self.acknowledged: list[int] = []

    def _fail_at_first(self) -> None:
        self.asked += 1
        if self.asked == 1:
            raise OperationalError("it is away")

    def dequeue(self) -> list[tuple[int, str]]:
        self._fail_at_first()
        self.ending.set()
        return [(7, SignedPackage.dumps({"func": "time.sleep", "args": (0,)}))]

    def acknowledge(self, id: int) -> None:
        self._fail_at_first()
        self.acknowledged.append(id)


def test_orders_are_taken_again_after_a_fault_and_the_end_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pusher, "sleep", lambda seconds: None)
    orders: Queue[Any] = Queue()
    qcluster._take(orders, Broker(ending := Event()), ending)  # type: ignore[arg-type]
    assert orders.get_nowait()["ack_id"] == 7
    assert orders.get_nowait() == "STOP"


def test_an_order_that_was_done_is_deleted_after_another_could_not_be(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(qcluster, "_SOON", 0)
    results: Queue[Any] = Queue()
    for id in (1, 2):
        results.put({"ack_id": id, "success": True, "func": "time.sleep", "name": "an order"})
    results.put("STOP")
    broker = Broker(Event())
    qcluster._note(results, broker, Event())  # type: ignore[arg-type]
    assert broker.acknowledged == [2]
