"""Sends what is due, each channel by itself: at least once, with one id, however often workers are killed.

A worker claims a channel, which lasts for LEASE unless it is renewed, and sends what is due there, the oldest first.
What was sent and not yet noted when it died is sent again by the next one, with the same id. A receiver that does not
answer rests, and with it all that waits for it; others wait for nobody. Each delivery is tried MOST_TRIES times, with
growing pauses, for a day.
"""

from __future__ import annotations

import time
from dataclasses import replace
from datetime import datetime, timedelta
from uuid import uuid4

import structlog
from django.db import transaction
from django.db.models import Q, QuerySet
from django.utils import timezone

from base.core.bulk import first_where
from base.core.values import milliseconds
from jobs.models import Attempt, NoticeChannel, NoticeDelivery, NoticeRow, NoticeTry
from jobs.notices import consent, tell
from jobs.notices.channels.ways import WAYS
from jobs.notices.message import may_be_told, messages
from jobs.notices.post import SendAnswer, SendError
from jobs.notices.targets import opened

log = structlog.get_logger()

LEASE = timedelta(seconds=90)
# Minutes between two tries: twelve within a day.
PAUSES = (1, 2, 5, 15, 30, 60, 120, 240, 300, 300, 300)
MOST_TRIES = len(PAUSES) + 1
A_DAY = timedelta(days=1)
MOST_A_MINUTE = 30  # tries of one user, or one virtual cluster
TURN = 20.0  # seconds after which a channel gives others a turn
_EARLIER = 30  # tries of one delivery that the page of calls tells
FEW, MOST_TOGETHER = 3, 100  # notices that are due at once: more than the first go as one message
_ALONE = ("test", "digest", consent.KIND)
_MINUTE = timedelta(minutes=1)
_AWAITED = timedelta(seconds=45)  # for so long the notice of a failure waits for its diagnosis
_LOOK_AGAIN = timedelta(seconds=3)
_WAITING = NoticeDelivery.State.WAITING


def due(now: datetime) -> list[tuple[int, str, str]]:
    """The channels that have something to send: (id, kind, whose)."""
    if first_where(NoticeDelivery, "state = 'waiting' AND due_at <= %s", now) is None:
        return []  # as nearly always
    free = Q(channel__claimed_until=None) | Q(channel__claimed_until__lte=now)
    awake = Q(channel__rests_until=None) | Q(channel__rests_until__lte=now)
    waiting = NoticeDelivery.objects.filter(free, awake, state=_WAITING, due_at__lte=now).order_by()
    rows = waiting.values_list("channel_id", "channel__kind", "channel__user_id", "channel__vc").distinct()[:1000]
    return [(id, kind, f"{user}" if user else f"vc {vc}") for id, kind, user, vc in rows]


def next_due(now: datetime) -> datetime | None:
    later = first_where(NoticeDelivery, "state = 'waiting' AND due_at > %s ORDER BY due_at", now)
    return later.due_at if later else None


def send_due(channel_id: int) -> int:
    """Send what this channel has to send, unless another worker does. Returns how many were tried."""
    claim, now = uuid4().hex, timezone.now()
    free = NoticeChannel.objects.filter(Q(claimed_until=None) | Q(claimed_until__lte=now), pk=channel_id)
    if not free.update(claim=claim, claimed_until=now + LEASE):
        return 0
    mine = NoticeChannel.objects.filter(pk=channel_id, claim=claim)
    end, tried = time.monotonic() + TURN, 0
    try:
        _gather(channel_id)
        while time.monotonic() < end and mine.update(claimed_until=timezone.now() + LEASE):
            delivery = _next(channel_id)
            if delivery is None or not _send(delivery):
                break
            tried += 1
    finally:
        mine.update(claim="", claimed_until=None)
    return tried


def _gather(channel_id: int) -> None:
    """Let what was held back, and more than FEW that are due at once, go as one message, where the channel's kind does
    that."""
    with transaction.atomic():
        now = timezone.now()
        channel = NoticeChannel.objects.select_for_update().get(pk=channel_id)
        if not WAYS[NoticeChannel.Kind(channel.kind)].gathers:
            return
        due = NoticeDelivery.objects.filter(channel=channel, state=_WAITING, due_at__lte=now, tries=0)
        parts = list(due.exclude(notice__kind__in=_ALONE).select_related("notice__user").order_by("id")[:MOST_TOGETHER])
        if len(parts) <= (1 if any(each.is_held for each in parts) else FEW):
            return
        notice = NoticeRow.objects.create(
            user=channel.user,
            vc=channel.vc,
            key=f"digest:{uuid4().hex}",
            kind="digest",
            at=now,
            read_at=now,
            data={"parts": [each.notice_id for each in parts]},
        )
        whole = NoticeDelivery.objects.create(notice=notice, channel=channel, made_at=now, due_at=now)
        NoticeDelivery.objects.filter(pk__in=[each.pk for each in parts]).update(
            state=NoticeDelivery.State.TOGETHER, within=whole
        )


def _next(channel_id: int) -> NoticeDelivery | None:
    """The delivery that is due first; None where there is none, or its owner has sent enough for now."""
    now = timezone.now()
    waiting = NoticeDelivery.objects.filter(channel=channel_id, state=_WAITING, due_at__lte=now)
    delivery = waiting.select_related("channel", "notice__user").order_by("due_at", "id").first()
    if delivery is None:
        return None
    channel = delivery.channel
    if channel.rests_until and channel.rests_until > now:
        return None
    if NoticeTry.objects.filter(user=channel.user_id, vc=channel.vc, at__gt=now - _MINUTE).count() >= MOST_A_MINUTE:
        waiting.update(due_at=now + _MINUTE, answer=f"held back: {MOST_A_MINUTE} were sent within a minute")
        return None
    return delivery


def _send(delivery: NoticeDelivery) -> bool:
    """Send one, and note what came of it. False where the channel is to rest."""
    row, channel = delivery.notice, delivery.channel
    if not may_be_told(row):
        return _end(delivery, NoticeDelivery.State.GIVEN_UP, "whom it was for may not be told of it any more")
    agreed = NoticeChannel.Consent.ASKED if row.kind == consent.KIND else NoticeChannel.Consent.CONFIRMED
    if channel.consent != agreed:
        return _end(delivery, NoticeDelivery.State.GIVEN_UP, f"the address is {channel.consent}")
    if _awaits_diagnosis(row):
        return bool(_open(delivery).update(due_at=timezone.now() + _LOOK_AGAIN))
    [message] = messages([row])
    began, way = timezone.now(), WAYS[NoticeChannel.Kind(channel.kind)]
    try:
        target, secret = opened(channel, "target"), opened(channel, "secret")
        delivery.sent = way.shown(message)
        if row.kind == consent.KIND:  # after it was shown: the page of calls has no link
            message = replace(message, path=consent.link(channel, target))
        answer = way.send(target, secret, delivery.uid, message, delivery.sent)
    except SendError as error:
        return _note_failure(delivery, error, began)
    except ValueError as error:  # sealed with another key
        return _note_failure(delivery, SendError(SendAnswer(str(error), status=0), permanent=True), began)
    _note(delivery, answer, began, state=NoticeDelivery.State.TAKEN)
    NoticeChannel.objects.filter(pk=channel.pk).update(failing_since=None, failures=0, rests_until=None)
    return True


def _note_failure(delivery: NoticeDelivery, error: SendError, began: datetime) -> bool:
    now, channel = timezone.now(), delivery.channel
    tries = delivery.tries + 1
    is_over = error.permanent or tries >= MOST_TRIES or now - delivery.made_at >= A_DAY
    pause = max(timedelta(minutes=PAUSES[min(tries, len(PAUSES)) - 1]), timedelta(seconds=error.after))
    state = NoticeDelivery.State.GIVEN_UP if is_over else _WAITING
    with transaction.atomic():
        _note(delivery, error.answer, began, state=state, due_at=now + pause)
        NoticeChannel.objects.filter(pk=channel.pk).update(
            failing_since=channel.failing_since or now,
            failures=channel.failures + 1,
            rests_until=now + pause if error.is_silent or error.after else None,
        )
        if is_over:
            tell.of_channel(channel, error.answer.says, now)
    log.info("a notice was not taken", channel=channel.pk, answer=error.answer.says, tries=tries, given_up=is_over)
    return not (error.is_silent or error.after)


def _note(delivery: NoticeDelivery, answer: SendAnswer, began: datetime, **values: object) -> None:
    earlier = delivery.earlier
    if delivery.sent_at is not None:
        earlier = [*earlier, [milliseconds(delivery.sent_at), delivery.answer]][-_EARLIER:]
    NoticeTry.objects.create(user=delivery.channel.user, vc=delivery.channel.vc, at=began)
    _open(delivery).update(
        tries=delivery.tries + 1,
        sent_at=began,
        took=round(answer.took * 1000),
        status=answer.status,
        answer=answer.says[:300],
        sent=delivery.sent[:20_000],
        body=answer.body,
        earlier=earlier,
        **values,
    )


def _end(delivery: NoticeDelivery, state: NoticeDelivery.State, says: str) -> bool:
    return bool(_open(delivery).update(state=state, answer=says))


def _open(delivery: NoticeDelivery) -> QuerySet[NoticeDelivery]:
    """The row, as long as nobody else has written what came of this try."""
    return NoticeDelivery.objects.filter(pk=delivery.pk, tries=delivery.tries, state=_WAITING)


def _awaits_diagnosis(row: NoticeRow) -> bool:
    """Whether it will soon be known why the attempt failed."""
    if row.kind not in ("failed", "failing") or timezone.now() - row.at > _AWAITED:
        return False
    return Attempt.objects.filter(job=row.job or 0, number=row.attempt or 0, diagnosis_due__isnull=False).exists()
