"""What a worker process does about notices, in a thread of it: writes those that are new, sends what is due, and
deletes what is old.

Each channel is sent to by a thread of a pool, no owner has more than OF_ONE of them, and mail has threads of its own:
so neither a receiver that hangs nor one user's many delay others.
"""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import structlog
from django.conf import settings
from django.db import close_old_connections
from django.utils import timezone

from base.core.threads import KeptThread
from base.hosts import predecessor
from base.wakes import wake
from jobs.models import NoticeRow, NoticeTry
from jobs.notices import conditions, send, tell

log = structlog.get_logger()

OF_ONE = 2  # channels of one owner that are sent to at once
POSTS, MAILS = 24, 4  # threads
POLL = 5.0  # seconds after which it looks without a wake-up
CLOSE = 1.0  # seconds between two looks, each of which writes while jobs run
PURGE_EVERY = 3600.0
_PURGED_AT_ONCE = 5_000


class NoticeWorker:
    """``step`` is one look, and is what tests call."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._sending: dict[int, str] = {}  # channel -> whose
        self._pools = {"mail": ThreadPoolExecutor(MAILS, "mail"), "": ThreadPoolExecutor(POSTS, "notice")}
        self._listener: wake.Listener | None = None
        self._purge_at = self._look_at = time.monotonic()
        self._ended = threading.Event()
        self._restraint = predecessor.Restraint()  # of two that have the same notices one sends them
        self._thread = KeptThread("notices", self._look, longest=6 * POLL, interrupt=self._ended.set)

    def start(self) -> None:
        self._restraint.learn()
        self._thread.ensure_running()

    def stop(self) -> None:
        self._thread.stop()
        for pool in self._pools.values():
            pool.shutdown(wait=False, cancel_futures=True)

    def step(self) -> None:
        if self._restraint.lasts():
            return
        while tell.of_ledger():
            pass
        if time.monotonic() >= self._look_at:
            self._look_at = time.monotonic() + conditions.EVERY.total_seconds()
            conditions.look()
        for channel, kind, whose in send.due(timezone.now()):
            self._hand(channel, kind, whose)
        if time.monotonic() >= self._purge_at:
            self._purge_at = time.monotonic() + PURGE_EVERY
            purge()

    def _look(self) -> None:
        if self._listener is None:
            self._listener = wake.Listener("pages")
        self.step()
        self._ended.wait(CLOSE)  # whatever comes meanwhile shares the next look
        later, now = send.next_due(timezone.now()), timezone.now()
        self._listener.wait(min(POLL, max(0.0, (later - now).total_seconds())) if later else POLL)

    def _hand(self, channel: int, kind: str, whose: str) -> None:
        with self._lock:
            if channel in self._sending or list(self._sending.values()).count(whose) >= OF_ONE:
                return
            self._sending[channel] = whose
        self._pools["mail" if kind == "mail" else ""].submit(self._send, channel)

    def _send(self, channel: int) -> None:
        close_old_connections()
        try:
            send.send_due(channel)
        except Exception:
            log.exception("notices of a channel were not sent, and are tried again", channel=channel)
        finally:
            with self._lock:
                self._sending.pop(channel, None)
            close_old_connections()


def purge() -> None:
    """Delete notices that are older than LONGSHORE_NOTICE_DAYS, with their deliveries, and what no limit counts."""
    NoticeTry.objects.filter(at__lt=timezone.now() - tell.MINUTE).delete()
    old = timezone.now() - timedelta(days=settings.NOTICE_DAYS)
    while NoticeRow.objects.filter(pk__in=NoticeRow.objects.filter(at__lt=old).values("pk")[:_PURGED_AT_ONCE]).delete()[
        0
    ]:
        pass
