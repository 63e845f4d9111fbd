"""Keeps what a user types and has not submitted, so that it is there again in another browser or tomorrow.

Drafts are sealed, as they may hold secrets, and for their user alone: nobody else reads them, an admin neither.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db import transaction
from django.utils import timezone

from jobs.config import jsonc
from jobs.config.spec import MAX_CONFIG_BYTES
from jobs.models import Draft
from portal.core.errors import NotFound, TooLarge
from portal.core.sealed import opened, seal
from portal.models import User

MOST = 10  # of a user; the oldest goes when there is one more
_PURPOSE = "jobs.drafts"


@dataclass(frozen=True, slots=True)
class Listed:
    """A draft in the list."""

    id: int
    title: str
    changed_at: datetime


def of(user: User) -> list[Listed]:
    """The drafts of a user, newest first."""
    rows = Draft.objects.filter(user=user).order_by("-changed_at", "-id")
    return [Listed(*row) for row in rows.values_list("id", "title", "changed_at")[:MOST]]


def text_of(user: User, id: int) -> str:
    """Raises NotFound, also for a draft of somebody else."""
    draft = Draft.objects.filter(user=user, pk=id).first()
    try:
        if draft is not None:
            return opened(draft.sealed, _PURPOSE)
    except ValueError:  # the portal has another secret key by now
        pass
    raise NotFound("This draft is not there any more.")


def keep(user: User, text: str, id: int | None = None) -> Listed | None:
    """Keep the text as this draft, or as a new one when it is gone or none is named; an empty text deletes it. Raises
    TooLarge."""
    if len(text.encode(errors="surrogatepass")) > MAX_CONFIG_BYTES:
        raise TooLarge("The draft is larger than 100 kB, so it is no job config.")
    mine = Draft.objects.filter(user=user)
    if not text.strip():
        mine.filter(pk=id or 0).delete()
        return None
    text = text.encode(errors="replace").decode()
    title, now = title_of(text), timezone.now()
    kept: dict[str, Any] = {"title": title, "sealed": seal(text, _PURPOSE), "changed_at": now}
    with transaction.atomic():
        if id is None or not mine.filter(pk=id).update(**kept):
            User.objects.select_for_update(no_key=True).filter(pk=user.pk).first()  # two tabs count one after the other
            id = Draft.objects.create(user=user, **kept).pk
            newest = list(mine.order_by("-changed_at", "-id").values_list("id", flat=True)[:MOST])
            mine.exclude(pk__in=newest).delete()
    return Listed(id, title, now)


def delete(user: User, id: int) -> None:
    """Already gone is success."""
    Draft.objects.filter(user=user, pk=id).delete()


def title_of(text: str) -> str:
    """The job name in a text, right or wrong, for lists; empty without one."""
    try:
        value = jsonc.parse(text).value
    except jsonc.NotJson:
        return ""
    name = value.get("jobName") if isinstance(value, dict) else None
    return name[:255].replace("\0", "") if isinstance(name, str) else ""
