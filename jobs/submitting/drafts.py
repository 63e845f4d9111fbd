"""Keeps what a user types and has not submitted, so that it is there again in another browser or tomorrow.

Each tab has a draft of its own. A tab says of which version the text was that it changes, so what one saved never
takes the place of what another did: it becomes one more draft. Drafts are sealed, as they may hold secrets, and for
their user alone: nobody else reads them, an admin neither.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta

from django.db import transaction
from django.utils import timezone

from base.core import words
from base.core.errors import TooLarge
from base.core.sealed import opened, seal
from base.models import User
from jobs.config import jsonc
from jobs.config.spec import MAX_CONFIG_BYTES
from jobs.models import Draft

MOST = 10  # of a user; the oldest goes when there is one more
KEPT = timedelta(days=90)  # after its last change
_PURPOSE = "jobs.drafts"


def of(user: User) -> list[Draft]:
    """The drafts of a user without their texts, newest first."""
    return list(Draft.objects.filter(user=user).order_by("-changed_at", "-id").defer("sealed")[:MOST])


def open_one(user: User, id: int) -> tuple[Draft, str] | None:
    """The draft and its text; None when it is gone, or somebody else's."""
    draft = Draft.objects.filter(user=user, pk=id).first()
    try:
        return (draft, opened(draft.sealed, _PURPOSE)) if draft else None
    except ValueError:  # the portal has another secret key by now
        return None


def keep(user: User, text: str, id: int = 0, version: str = "") -> Draft | None:
    """Keep the text as this draft. When it is gone, or has another version by now, the text becomes a new draft. An
    empty text deletes the draft of this version. Raises TooLarge."""
    if len(text.encode(errors="surrogatepass")) > MAX_CONFIG_BYTES:
        raise TooLarge("The draft is larger than 100 kB, so it is no job config.")
    text = text.encode(errors="replace").decode()
    mine = Draft.objects.filter(user=user)
    with transaction.atomic():
        User.objects.select_for_update(no_key=True).filter(pk=user.pk).first()  # tabs come one after the other
        draft = mine.filter(pk=id).first()
        if draft is None or draft.version != version:
            draft = Draft(user=user)
        if not text.strip():
            mine.filter(pk=draft.pk).delete()
            return None
        draft.title, draft.sealed, draft.changed_at = title_of(text), seal(text, _PURPOSE), timezone.now()
        draft.save()
        newest = list(mine.order_by("-changed_at", "-id").values_list("id", flat=True)[:MOST])
        mine.exclude(pk__in=newest).delete()
        Draft.objects.filter(changed_at__lt=draft.changed_at - KEPT).delete()
    return draft


def named(fields: Mapping[str, str]) -> tuple[int, str]:
    """The draft that a form is about, and the version of it that the form has seen; 0 for none."""
    return words.whole(fields.get("draft")) or 0, fields.get("version", "")


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
    if not isinstance(name, str):
        return ""
    # Half a pair, "\ud800", is no text.
    return words.visible(name[:255].replace("\0", "").encode(errors="replace").decode())[:255]
