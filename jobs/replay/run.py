"""Lets workers play past days again, and keeps what came of it as rows.

An admin asks, a worker plays: in a thread of its own that leaves room for its orders, one day after the other. How far
it is stands in the row of Replay, so that any process can show it. A worker that dies leaves a row whose beat is old,
and the next worker that is asked begins it anew.
"""

from __future__ import annotations

import threading
import time

import structlog
from django.db import connections
from django.db.models import Q
from django.utils import timezone
from django_q.tasks import async_task

from jobs.history.holdings import milliseconds
from jobs.history.window import Window
from jobs.models import Replay
from jobs.replay.asked import Asked
from jobs.replay.play import play, require_possible
from portal.accounts.viewer import Viewer, require_admin
from portal.core.errors import LongshoreError, NotFound
from portal.wakes import wake

LIMIT = 300.0  # seconds that a replay may take; what was played until then counts
KEPT = 50  # replays, the newest
STALE = 60_000  # milliseconds without a beat after which a replay counts as left
_BREATH = 0.001  # seconds left to other threads of the worker after each step
_BEAT = 1.0

log = structlog.get_logger()
_busy = threading.Lock()


def ask(admin: Viewer, asked: Asked) -> Replay:
    """Let a worker play it. Raises Forbidden for others than admins, and BadRequest where the window is too full or a
    change cannot be."""
    user = require_admin(admin)
    require_possible(asked)
    row = Replay.objects.create(
        username=user.username,
        made=milliseconds(timezone.now()),
        asked={
            "from": asked.window.begin,
            "to": asked.window.end,
            "policy": asked.policy,
            "nodes": asked.nodes,
            "changes": list(asked.changes),
        },
    )
    newest = Replay.objects.order_by("-id").values_list("id", flat=True)[:KEPT]
    Replay.objects.exclude(id__in=list(newest)).delete()
    async_task("jobs.replay.run.in_worker")
    return row


def find(admin: Viewer, id: int) -> Replay:
    """Raises Forbidden, NotFound."""
    require_admin(admin)
    row = Replay.objects.filter(id=id).first()
    if row is None:
        raise NotFound("There is no such replay; the newest ones are kept.")
    return row


def newest(admin: Viewer) -> list[Replay]:
    require_admin(admin)
    return list(Replay.objects.defer("result").order_by("-id")[:KEPT])


def in_worker() -> None:
    """For django-q: plays in a thread and returns at once."""
    threading.Thread(target=_in_thread, name="replay", daemon=True).start()


def play_next() -> bool:
    """Play the oldest replay that nobody plays; False when there is none."""
    now = milliseconds(timezone.now())
    left = Q(beat=None) | Q(beat__lt=now - STALE)
    waiting = Replay.objects.filter(left, result__isnull=True, error="").order_by("id")
    row = waiting.first()
    if row is None:
        return False
    if Replay.objects.filter(left, id=row.pk, result__isnull=True, error="").update(beat=now):
        _play_row(row)
    return True


def _in_thread() -> None:
    if not _busy.acquire(blocking=False):
        return  # whoever plays looks for the next one afterwards
    try:
        while play_next():
            pass
    except Exception:
        log.exception("no day was played again")
    finally:
        _busy.release()
        connections.close_all()  # of this thread, which ends


def _play_row(row: Replay) -> None:
    try:
        result = play(_asked_of(row), _Beat(row))
        Replay.objects.filter(id=row.pk).update(result=result, progress=100)
    except LongshoreError as error:
        Replay.objects.filter(id=row.pk).update(error=error.message)
    except Exception:
        log.exception("a day could not be played again", replay=row.pk)
        Replay.objects.filter(id=row.pk).update(error="Something went wrong here; the log of the workers says what.")
    wake.notify("pages")


def _asked_of(row: Replay) -> Asked:
    data = row.asked
    span = Window(data["from"], data["to"], milliseconds(timezone.now()), timezone.get_current_timezone())
    return Asked(span, data["policy"], data["nodes"], tuple(data["changes"]))


class _Beat:
    """Writes the progress once a second, and ends what takes too long."""

    def __init__(self, row: Replay) -> None:
        self._row, self._written = row, 0.0
        self._end = time.monotonic() + LIMIT

    def __call__(self, part: float) -> bool:
        time.sleep(_BREATH)
        now = time.monotonic()
        if now - self._written >= _BEAT:
            self._written = now
            values = {"progress": min(99, int(100 * part)), "beat": milliseconds(timezone.now())}
            Replay.objects.filter(id=self._row.pk).update(**values)
            wake.notify("pages")
        return now > self._end
