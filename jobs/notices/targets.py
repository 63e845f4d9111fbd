"""What of a channel is sealed: where it leads, and what signs what goes there."""

from __future__ import annotations

from base.core import sealed
from jobs.models import NoticeChannel


def opened(channel: NoticeChannel, what: str) -> str:
    """A sealed column. Raises ValueError."""
    text = getattr(channel, what)
    return sealed.opened(text, purpose(channel, what)) if text else ""


def purpose(channel: NoticeChannel, what: str) -> str:
    return f"notices.{what}:{channel.user_id or ''}:{channel.vc}:{channel.name}"
