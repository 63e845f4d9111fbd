"""Deletes the rows of deleted jobs of which nothing runs any more, piece by piece: nobody else writes to SQLite while a
piece is deleted. A job of which some rows are gone is as deleted as before, so nobody sees it, and the next pass, which
follows at once, goes on with it.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from jobs.containers import discard
from jobs.models import Event, Job, Task

MOST = 2_000  # rows of tasks and events in one transaction


def purge(ids: Sequence[int], now: datetime) -> None:
    """Delete the next piece of these jobs. Where it is the last one, the jobs go with it, and what is to be done about
    their files is written down."""
    left = MOST
    for model in (Task, Event):
        piece = model._default_manager.filter(job__in=ids).values_list("id", flat=True)[:left]
        left -= model._default_manager.filter(id__in=piece).delete()[0]
        if left <= 0:
            return
    discard.note(ids, now)
    Job.objects.filter(id__in=ids).delete()
