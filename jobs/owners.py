"""What the user list asks of jobs: who has live ones."""

from __future__ import annotations

from typing import Any

from django.db.models import Count

from jobs import queries

_FEW = 100  # beyond this it is cheaper to count for all, and databases take no list without end


def live_jobs(sender: Any, usernames: tuple[str, ...], **_: Any) -> dict[str, int]:
    """Receiver of portal.core.signals.work_of."""
    live = queries.visible_jobs().filter(state__in=queries.LIVE).order_by()
    if len(usernames) <= _FEW:
        live = live.filter(username__in=usernames)
    return dict(live.values_list("username").annotate(Count("id")))
