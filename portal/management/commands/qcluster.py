"""``manage.py qcluster``: carries out the orders that are rows of django-q2.

What django-q2 does in five processes is done in one here, since each order returns at once, having handed what is long
to a thread (jobs/containers/tasks.py): its pusher takes orders from the broker, its worker calls what they name, its
monitor deletes those that were done. Notices are written and sent by a thread of it too (jobs/notices/run.py). Whoever
kills one kills all, and ``up`` starts them anew.
"""

from __future__ import annotations

import os
import signal
from contextlib import nullcontext
from queue import Queue
from threading import Event, Thread
from types import SimpleNamespace
from typing import Any

import structlog
from django.core.management.base import BaseCommand
from django.db import close_old_connections
from django_q.brokers import Broker, get_broker
from django_q.conf import Conf
from django_q.monitor import monitor
from django_q.pusher import pusher
from django_q.worker import worker

from base.hosts.joining import refuse_other_keys
from base.wakes import processes
from jobs.notices.run import NoticeWorker

_STOP = "STOP"  # what django-q2's worker and monitor end at
_SOON = 1.0  # seconds after which a monitor that met a fault goes on

_log = structlog.get_logger("portal.workers")


class Command(BaseCommand):
    help = "Carry out the orders of the scheduler. Any number may run, on any host."
    requires_system_checks = ()  # `up` has made them

    def handle(self, *args: Any, **options: Any) -> None:
        refuse_other_keys()
        ending = Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: ending.set())
        orders: Queue[Any] = Queue(Conf.QUEUE_LIMIT)
        results: Queue[Any] = Queue()
        broker = get_broker()
        noting = Thread(target=_note, args=(results, broker, ending), name="monitor", daemon=True)
        noting.start()
        Thread(target=_take, args=(orders, broker, ending), name="pusher", daemon=True).start()
        notices = NoticeWorker()
        notices.start()
        timer = SimpleNamespace(value=-1.0, get_lock=nullcontext)  # by which a parent would see how long an order takes
        worker(orders, results, timer, Conf.TIMEOUT)
        if not ending.is_set():
            _log.critical("An order took too long. The workers end and start again.", seconds=Conf.TIMEOUT)
            os._exit(1)  # without waiting for its threads: whatever holds one up may hold up all
        notices.stop()
        results.put(_STOP)
        noting.join(Conf.TIMEOUT)
        processes.forget_process("workers")


def _take(orders: Queue[Any], broker: Broker, ending: Event) -> None:
    """Take orders from the broker until the end. django-q2's pusher returns ten seconds after a fault of the
    database."""
    while not ending.is_set():
        close_old_connections()
        pusher(orders, ending, broker)
    orders.put(_STOP)


def _note(results: Queue[Any], broker: Broker, ending: Event) -> None:
    """Delete the orders that were done. One whose row cannot be deleted now is done once more in RETRY seconds."""
    while True:
        try:
            monitor(results, broker)
            return
        except Exception:
            _log.exception("an order that was done could not be deleted, and will be done again")
            close_old_connections()
            ending.wait(_SOON)
