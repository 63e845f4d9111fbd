"""Writes notices: of the ledger, read by a cursor, and of what others find out. Each is written once, with a delivery
for every channel that it goes to.

Whoever writes any holds the row of the cursor until the end of the transaction, so that two workers take turns.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from django.db import connection, transaction
from django.db.models import Max, Q
from django.utils import timezone

from base.core.bulk import one_row
from base.core.values import zone_of
from base.models import User
from base.wakes import wake
from jobs.models import Event, Job, NoticeChannel, NoticeCursor, NoticeDelivery, NoticeRow, QuietHours
from jobs.notices.hours import Hours
from jobs.notices.kinds import ENDS, EVENTS, KINDS, kind_of

AT_ONCE = 500  # Events in a transaction
MINUTE = timedelta(minutes=1)
_NOTHING_NEW = """SELECT EXISTS (SELECT 1 FROM jobs_noticecursor c
    WHERE c.told = c.seen AND NOT EXISTS (SELECT 1 FROM jobs_event e WHERE e.id > c.seen))"""
_JOB = (
    *("id", "username", "name", "vc", "total_gpus", "queued_at", "started_at", "completed_at", "stopped_by"),
    "spec__extras__notify",
)


@dataclass(frozen=True, slots=True)
class About:
    """What rules ask of a notice. ``minutes`` for which its job ran, or waited; ``notify`` is what the job itself
    says."""

    vc: str = ""
    minutes: float = 0
    gpus: int = 0
    notify: Sequence[str] | None = None


@contextmanager
def cursor() -> Iterator[NoticeCursor]:
    """The row, in a transaction that has it for itself. The first one begins at the end of the ledger."""
    with transaction.atomic():
        row = NoticeCursor.objects.select_for_update().first()
        if row is None:
            last = Event.objects.aggregate(last=Max("id"))["last"] or 0
            row = NoticeCursor.objects.create(pk=1, told=last, seen=last, looked_at=timezone.now())
        yield row


def of_ledger() -> bool:
    """Write the notices of Events that are new. True where there may be more."""
    if one_row(_NOTHING_NEW)[0]:
        return False
    with cursor() as row:
        oldest, next_ = _transactions()
        if oldest >= row.horizon:
            row.told = row.seen
        last = Event.objects.aggregate(last=Max("id"))["last"] or 0
        events = list(Event.objects.filter(pk__gt=row.told, kind__in=EVENTS).order_by("pk")[:AT_ONCE])
        is_more = len(events) == AT_ONCE
        row.seen, row.horizon = max(row.told, events[-1].pk if is_more else last), next_
        row.told = row.told if next_ else row.seen
        row.save(update_fields=["told", "seen", "horizon"])
        _tell_of(events)
    return is_more


def _transactions() -> tuple[int, int]:
    """The oldest transaction that still runs, and the next one that begins. SQLite has one writer at a time."""
    if connection.vendor != "postgresql":
        return 0, 0
    snapshot = (
        "SELECT pg_snapshot_xmin(s)::text::bigint, pg_snapshot_xmax(s)::text::bigint FROM pg_current_snapshot() s"
    )
    oldest, next_ = one_row(snapshot)
    return oldest, next_


def _tell_of(events: Sequence[Event]) -> None:
    ids = {event.job_id for event in events if event.job_id}
    jobs = {row["id"]: row for row in Job.objects.filter(pk__in=ids).values(*_JOB)}
    users = {
        user.username: user for user in User.objects.filter(username__in={job["username"] for job in jobs.values()})
    }
    told: list[tuple[NoticeRow, About]] = []
    for event in events:
        job, kind = jobs.get(event.job_id or 0), kind_of(event.kind, event.after)
        if job is None or (kind == "stopped" and job["stopped_by"] == job["username"]):
            continue
        about = _about(job, kind)
        for whose in ({"user": users.get(job["username"])}, {"vc": job["vc"]}):
            if whose.get("user") or whose.get("vc"):
                told.append((_row(event, job, kind, whose), about))
    write(told)


def _row(event: Event, job: Mapping[str, Any], kind: str, whose: Mapping[str, Any]) -> NoticeRow:
    return NoticeRow(
        **whose,
        key=f"event:{event.pk}",
        kind=kind,
        at=event.at,
        event=event.pk,
        job=job["id"],
        attempt=event.attempt,
        about=f"{job['username']}/{job['name']}",
        data={"vc": job["vc"]},
    )


def _about(job: Mapping[str, Any], kind: str) -> About:
    """A job that starts waited, one that ended ran."""
    begin, end = job["queued_at"], job["started_at"]
    if kind != "started":
        begin, end = job["started_at"] or job["queued_at"], job["completed_at"]
    minutes = (end - begin).total_seconds() / 60 if begin and end else 0
    asked = job["spec__extras__notify"]  # which was free storage in older releases
    notify = [each for each in asked if isinstance(each, str)] if isinstance(asked, list) else None
    return About(job["vc"], minutes, job["total_gpus"], notify)


def write(told: Iterable[tuple[NoticeRow, About]]) -> None:
    """Write those that are not there yet, and a delivery for each channel that they go to. Call it with the cursor."""
    found = list(told)
    keys = {row.key for row, _ in found}
    there = set(NoticeRow.objects.filter(key__in=keys).values_list("user_id", "vc", "key"))
    found = [(row, about) for row, about in found if (row.user_id, row.vc, row.key) not in there]
    channels = _channels_of([row for row, _ in found])
    ways = [(row, about, _ways(row, about, channels.get((row.user_id, row.vc), ()))) for row, about in found]
    # Nobody reads the notices of a virtual cluster on a page: those that go nowhere are none.
    ways = [(row, about, to) for row, about, to in ways if row.user_id or to]
    NoticeRow.objects.bulk_create([row for row, _, _ in ways])
    _deliver(ways)
    if ways:
        wake.notify("pages")


def _channels_of(rows: Sequence[NoticeRow]) -> dict[tuple[int | None, str], list[NoticeChannel]]:
    """By the user, or the virtual cluster, whose they are."""
    users, vcs = {row.user_id for row in rows if row.user_id}, {row.vc for row in rows if row.vc}
    found: dict[tuple[int | None, str], list[NoticeChannel]] = {}
    agreed = NoticeChannel.objects.filter(consent=NoticeChannel.Consent.CONFIRMED)
    for channel in agreed.filter(Q(user__in=users) | Q(user=None, vc__in=vcs)).prefetch_related("rules"):
        found.setdefault((channel.user_id, channel.vc), []).append(channel)
    return found


def _ways(row: NoticeRow, about: About, channels: Sequence[NoticeChannel]) -> list[tuple[NoticeChannel, bool]]:
    """Where it goes, each with whether it waits for a digest. What a job says itself goes before the rules of its
    owner: channels by name, and kinds; without kinds they are those of its end."""
    if row.user_id and about.notify is not None and KINDS[row.kind].about == "job":
        kinds = set(about.notify) & set(KINDS)
        names = set(about.notify) - kinds
        if not about.notify or row.kind not in (kinds or ENDS.values()):
            return []
        return [(channel, False) for channel in channels if not names or channel.name in names]
    return [
        (channel, rule.is_digest)
        for channel in channels
        for rule in channel.rules.all()
        if rule.is_on and rule.kind == row.kind and about.minutes >= rule.minutes and about.gpus >= rule.gpus
    ]


def _deliver(told: Sequence[tuple[NoticeRow, About, Sequence[tuple[NoticeChannel, bool]]]]) -> None:
    now = timezone.now()
    quiet = {row.pk: row for row in QuietHours.objects.filter(pk__in={row.user_id for row, _, _ in told})}
    deliveries = []
    for row, about, to in told:
        hours = quiet.get(row.user_id or 0)
        for channel, is_digest in to:
            at = _due(row, about, hours, now, is_digest=is_digest)
            is_held = at > now
            deliveries.append(NoticeDelivery(notice=row, channel=channel, made_at=now, due_at=at, is_held=is_held))
    NoticeDelivery.objects.bulk_create(deliveries)


def _due(row: NoticeRow, about: About, quiet: QuietHours | None, now: datetime, *, is_digest: bool) -> datetime:
    if quiet is None:
        quiet = QuietHours(is_on=False)
    hours = hours_of(quiet)
    if is_digest:
        return hours.next_digest(now)
    if row.kind == "failed" and quiet.but_gpus and about.gpus >= quiet.but_gpus:
        return now
    return hours.after_quiet(now)


def hours_of(row: QuietHours) -> Hours:
    return Hours(row.begin, row.end, row.digest, zone_of(row.zone) or UTC, row.is_on, row.weekends)


def at_once(notice: NoticeRow, channel: NoticeChannel) -> NoticeDelivery:
    """Write a notice that goes there alone and now, also while the channel rests. Call it with the cursor."""
    notice.save(force_insert=True)
    NoticeChannel.objects.filter(pk=channel.pk).update(rests_until=None)
    wake.notify("pages")
    return NoticeDelivery.objects.create(notice=notice, channel=channel, made_at=notice.at, due_at=notice.at)


def maker(channel: NoticeChannel) -> User | None:
    """Whose channel it is; of one of a virtual cluster, the admin who made it."""
    return channel.user or User.objects.filter(username=channel.made_by).first()


def of_channel(channel: NoticeChannel, answer: str, now: datetime) -> None:
    """Tell its owner, once a day, that something was given up there: on their page, and by their mail."""
    user = maker(channel)
    if user is None:
        return
    says = f"{channel.name} did not take a notice, which is not sent again: {answer}."[:1000]
    row = NoticeRow(
        user=user, key=f"channel:{channel.pk}:{now.date()}", kind="unreachable", at=now, about=channel.name, says=says
    )
    row.data = {"title": f"Channel {channel.name} does not work", "path": "/account/notices/calls"}
    with cursor():
        if NoticeRow.objects.filter(user=user, key=row.key).exists():
            return
        row.save()
        confirmed = NoticeChannel.objects.filter(user=user, consent=NoticeChannel.Consent.CONFIRMED)
        mails = confirmed.filter(kind=NoticeChannel.Kind.MAIL).exclude(pk=channel.pk)
        _deliver([(row, About(), [(mail, False) for mail in mails])])
