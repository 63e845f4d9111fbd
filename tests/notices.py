"""Channels, rules and notices for tests."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.utils import timezone

from base.models import User
from jobs.models import NoticeChannel, NoticeDelivery, NoticeRow, NoticeRule
from jobs.notices import consent, send, services, tell
from jobs.notices.kinds import RULED
from jobs.notices.services import ChannelOwner
from jobs.notices.tell import About


def channel(user: User, target: str, *, name: str = "hook", kind: str = "webhook", vc: str = "") -> NoticeChannel:
    """One that gets everything; mail of which the address is confirmed."""
    owner = ChannelOwner(user, vc)
    row, _ = services.add_channel(owner, name, kind, target)
    NoticeRow.objects.filter(kind=consent.KIND).delete()
    NoticeChannel.objects.update(consent=NoticeChannel.Consent.CONFIRMED)
    row.refresh_from_db()
    NoticeRule.objects.filter(channel=row).delete()
    NoticeRule.objects.bulk_create([NoticeRule(channel=row, kind=each) for each in RULED])
    return row


def told(user: User, number: int = 1, *, kind: str = "idle", **values: Any) -> list[NoticeRow]:
    """New notices of a user that no job stands behind."""
    now, first = timezone.now(), NoticeRow.objects.count()
    rows = [
        NoticeRow(
            user=user, key=f"{kind}:{first + at}", kind=kind, at=now, about="alice/train", says="It is so.", **values
        )
        for at in range(number)
    ]
    with tell.cursor():
        tell.write([(row, About()) for row in rows])
    return rows


def send_all() -> int:
    """What is due now, channel by channel, in this thread. Returns how many were tried."""
    return sum(send.send_due(id) for id, _, _ in send.due(timezone.now()))


def make_due(seconds: float = 0) -> None:
    """Let the next tries be due."""
    NoticeDelivery.objects.filter(state="waiting").update(due_at=timezone.now() - timedelta(seconds=seconds))
    NoticeChannel.objects.update(rests_until=None)


def deliveries(**filters: Any) -> list[NoticeDelivery]:
    return list(NoticeDelivery.objects.filter(**filters).order_by("id"))
