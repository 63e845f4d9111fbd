"""What the user list asks of jobs: who has live ones."""

from __future__ import annotations

from typing import Any

from django.db.models import Count

from jobs import queries


def live_jobs(sender: Any, usernames: tuple[str, ...], **_: Any) -> dict[str, int]:
    """Receiver of portal.signals.work_of."""
    live = queries.visible_jobs().filter(username__in=usernames, state__in=queries.LIVE).order_by()
    return dict(live.values_list("username").annotate(Count("id")))
