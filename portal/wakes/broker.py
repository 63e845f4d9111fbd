"""django-q2's ORM broker, woken instead of polling: an order is a row, and a worker takes it within milliseconds."""

from __future__ import annotations

from typing import Any

from django_q.brokers.orm import ORM

from portal.wakes import beats, wake

LOOK_EVERY = 1.0  # seconds between two looks without a wake-up


class WakingBroker(ORM):
    def enqueue(self, task: str) -> Any:
        key = super().enqueue(task)
        wake.notify("workers")
        return key

    def dequeue(self) -> Any:
        """Wait for an order. The base class would sleep POLL seconds; that is set to 0."""
        beats.beat("workers")
        return super().dequeue() or (self._listener().wait(LOOK_EVERY) and super().dequeue()) or None

    def _listener(self) -> wake.Listener:
        if not hasattr(self, "_wake"):
            self._wake = wake.Listener("workers")
        return self._wake
