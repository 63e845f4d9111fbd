"""What pages and API show of notices."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Annotated, Any

from django.db.models import Count, Q, QuerySet
from django.utils import timezone
from pydantic import Field

from base.core.errors import BadRequest
from base.core.values import Moment, MomentOrNull, V1Answer, called, local_time, one_of
from base.core.words import count, whole
from base.models import User
from jobs.models import NoticeChannel, NoticeDelivery, NoticeRow, NoticeRule
from jobs.notices import consent, send
from jobs.notices.kinds import KINDS, NoticeKind
from jobs.notices.message import NoticeMessage, messages
from jobs.notices.services import ChannelOwner
from jobs.notices.targets import opened

SIZE, MOST = 50, 200
_HIDDEN = ("digest", "test", consent.KIND)  # what only channels are told
STATES = tuple(NoticeDelivery.State.values)
_Kind = Annotated[str, one_of(*KINDS)]
_ChannelKind = Annotated[str, one_of(*NoticeChannel.Kind.values)]


class NoticeItem(V1Answer):
    """``about`` is a job (user/name), a node or a channel; ``readTime`` is null until somebody has read it."""

    id: int = called("row.pk")
    kind: _Kind = called("row.kind")
    time: Moment = called("row.at")
    about: str = called("row.about")
    title: str = called("message.title")
    lines: list[str] = called("message.lines")
    url: str = called("message.url")
    readTime: MomentOrNull = called("row.read_at")


@dataclass(frozen=True, slots=True)
class NoticeLine:
    """A notice as its user reads it."""

    row: NoticeRow
    message: NoticeMessage


class RuleItem(V1Answer):
    kind: _Kind
    minutes: int = Field(description="Only jobs that ran for so long; for `started`, that waited.")
    gpus: int = Field(description="Only jobs with so many GPUs.")
    digest: bool = called("is_digest")
    on: bool = called("is_on")


class ChannelItem(V1Answer):
    """``target`` is what may be shown of it: of a chat its host alone, as its whole address is a secret. To mail
    whose ``address`` is not confirmed nothing is sent but the question; other kinds need no confirmation."""

    name: str = called("row.name")
    kind: _ChannelKind = called("row.kind")
    target: str
    address: Annotated[str, one_of(*NoticeChannel.Consent.values)] = called("row.consent")
    failingSince: MomentOrNull = called("row.failing_since")
    waiting: int
    rules: list[RuleItem]


@dataclass(frozen=True, slots=True)
class ChannelLine:
    row: NoticeChannel
    waiting: int = 0
    last: NoticeDelivery | None = None

    @property
    def target(self) -> str:
        return shown_target(self.row)

    @property
    def rules(self) -> list[Any]:
        return sorted(self.row.rules.all(), key=lambda rule: list(KINDS).index(rule.kind))


class DeliveryItem(V1Answer):
    """``id`` is what the receiver gets with each try. ``status`` is that of its answer; null: there was none."""

    id: str = called("uid")
    channel: str = called("channel.name")
    kind: _Kind = called("notice.kind")
    about: str = called("notice.about")
    state: Annotated[str, one_of(*STATES)]
    tries: int
    sent: MomentOrNull = called("sent_at")
    due: MomentOrNull = called("due_at", description="When it is tried next; null: it is not.")
    took: int | None = Field(description="Milliseconds.")
    status: int | None
    answer: str


class DeliveryDetail(DeliveryItem):
    body: str = called("sent", description="What was sent last.")
    answerBody: str = called("body", description="What came back, cut.")


def shown_target(channel: NoticeChannel) -> str:
    try:
        target = opened(channel, "target")
    except ValueError:
        return "an address that was sealed with another key"
    if channel.kind == NoticeChannel.Kind.MAIL:
        return target
    shown = target.partition("://")[2]
    return shown if channel.kind == NoticeChannel.Kind.WEBHOOK else f"{shown.partition('/')[0]}/…"


def notice_lines(user: User, before: int, size: int) -> tuple[list[NoticeLine], int | None]:
    """A page of notices, newest first, and the cursor of the next one."""
    rows = NoticeRow.objects.filter(user=user).exclude(kind__in=_HIDDEN).select_related("user").order_by("-id")
    found, older = page_of(rows, before, size)
    return [NoticeLine(row, says) for row, says in zip(found, messages(found), strict=True)], older


def channel_lines(owner: ChannelOwner) -> list[ChannelLine]:
    waiting = Count("deliveries", filter=Q(deliveries__state=NoticeDelivery.State.WAITING))
    rows = NoticeChannel.objects.filter(**owner.of).annotate(waiting=waiting).prefetch_related("rules").order_by("id")
    lines = []
    for row in rows:
        last = NoticeDelivery.objects.filter(channel=row, sent_at__isnull=False).order_by("-sent_at").first()
        lines.append(ChannelLine(row, row.waiting, last))
    return lines


@dataclass(frozen=True, slots=True)
class RuleLine:
    """Rules that say the same of several channels."""

    kind: NoticeKind
    rule: NoticeRule
    channels: list[NoticeChannel]

    @property
    def only(self) -> str:
        """Of which jobs."""
        did = "waited" if self.kind.name == "started" else "ran"
        time = f"only if it {did} {self.rule.minutes:,} min or more" if self.rule.minutes else ""
        size = f"only with {count(self.rule.gpus, 'GPU')} or more" if self.rule.gpus else ""
        return "; ".join(filter(None, (time, size)))


def rule_lines(channels: list[ChannelLine]) -> list[RuleLine]:
    lines: dict[tuple[Any, ...], RuleLine] = {}
    for line in channels:
        for rule in line.rules:
            key = (list(KINDS).index(rule.kind), rule.minutes, rule.gpus, rule.is_digest, rule.is_on)
            lines.setdefault(key, RuleLine(KINDS[rule.kind], rule, [])).channels.append(line.row)
    return [lines[key] for key in sorted(lines)]


def clock_time(minute: int) -> str:
    return f"{minute // 60:02}:{minute % 60:02}"


def next_digest(owner: ChannelOwner) -> list[NoticeMessage]:
    """What waits to be told with others."""
    held = deliveries_of(owner, state=NoticeDelivery.State.WAITING).filter(is_held=True)
    rows = {each.notice_id: each.notice for each in held[:MOST]}
    return messages(rows.values())


def deliveries_of(owner: ChannelOwner, channel: str = "", state: str = "", kind: str = "") -> QuerySet[NoticeDelivery]:
    """Newest first. Raises BadRequest for a state that there is not."""
    if state and state not in STATES:
        raise BadRequest(f"state must be one of {', '.join(STATES)}.")
    rows = NoticeDelivery.objects.filter(**{f"channel__{name}": value for name, value in owner.of.items()})
    asked = {"channel__name": channel, "state": state, "notice__kind": kind}
    given = {name: value.replace("\x00", "") for name, value in asked.items() if value}
    return rows.filter(**given).select_related("channel", "notice__user").order_by("-id")


def delivery_item(row: NoticeDelivery, shape: type[DeliveryItem] = DeliveryItem) -> dict[str, Any]:
    item: dict[str, Any] = shape.of(row)
    return item if row.state == NoticeDelivery.State.WAITING else {**item, "due": None}


@dataclass(frozen=True, slots=True)
class DeliveryLine:
    """A row of the page of calls."""

    row: NoticeDelivery

    @property
    def is_taken(self) -> bool:
        return self.row.state == NoticeDelivery.State.TAKEN

    @property
    def at(self) -> datetime:
        return self.row.sent_at or self.row.made_at

    @property
    def type(self) -> str:
        return KINDS[self.row.notice.kind].type

    @property
    def took(self) -> str:
        return "" if self.row.took is None else f"{self.row.took / 1000:.1f} s"

    @property
    def tries(self) -> str:
        done = self.is_taken or not self.row.tries
        return str(self.row.tries) if done else f"{self.row.tries} of {send.MOST_TRIES}"

    @property
    def says(self) -> str:
        if self.row.state == NoticeDelivery.State.GIVEN_UP:
            return f"given up, {self.row.answer}"
        if self.row.state == NoticeDelivery.State.TOGETHER:
            return "told with others"
        return self.row.answer or "not sent yet"

    @property
    def is_tried_again(self) -> bool:
        return self.row.state == NoticeDelivery.State.WAITING

    @property
    def earlier(self) -> list[tuple[datetime, str]]:
        return [(local_time(at, timezone.get_current_timezone()), says) for at, says in self.row.earlier]


@dataclass(frozen=True, slots=True)
class DeliveryTally:
    """The last 24 h of deliveries. ``bars`` are of each hour: x in percent, and top and height in pixels
    of what was taken and of what was not."""

    number: int
    failed: int
    most: int
    bars: list[tuple[float, float, float, float, float]]

    @property
    def says(self) -> str:
        return f"{count(self.number, 'call')}, {self.failed:,} not taken, at most {self.most:,} an hour"


def tally(owner: ChannelOwner, channel: str, now: datetime) -> DeliveryTally:
    begin = now.replace(minute=0, second=0, microsecond=0) - timedelta(hours=23)
    rows = deliveries_of(owner, channel).filter(sent_at__gte=begin).order_by()
    hours = [[0, 0] for _ in range(24)]
    for at, state in rows.values_list("sent_at", "state")[:20_000]:
        if at is not None and (hour := int((at - begin).total_seconds() // 3600)) < 24:
            hours[hour][state != NoticeDelivery.State.TAKEN] += 1
    most = max((sum(hour) for hour in hours), default=0)
    scale = 45 / max(most, 1)
    bars = [_bar(at, good * scale, bad * scale) for at, (good, bad) in enumerate(hours)]
    return DeliveryTally(sum(map(sum, hours)), sum(bad for _, bad in hours), most, bars)


def _bar(at: int, good: float, bad: float) -> tuple[float, float, float, float, float]:
    return round(0.4 + at * 4.166, 2), round(50 - good, 1), round(good, 1), round(50 - good - bad, 1), round(bad, 1)


def cursor_of(values: Mapping[str, str], name: str = "before") -> int:
    """Raises BadRequest."""
    if (number := whole(values.get(name) or "0")) is None:
        raise BadRequest(f"{name} must be the id of a row.")
    return number


def size_of(values: Mapping[str, str]) -> int:
    """Raises BadRequest."""
    number = whole(values.get("limit") or str(SIZE))
    if number is None or not 1 <= number <= MOST:
        raise BadRequest(f"limit must be a number from 1 to {MOST}.")
    return number


def page_of(rows: QuerySet[Any], before: int, size: int) -> tuple[list[Any], int | None]:
    """Of these, which are newest first, those before the row ``before``, and the cursor of the next page."""
    found = list((rows.filter(pk__lt=before) if before else rows)[: size + 1])
    return found[:size], found[size - 1].pk if len(found) > size else None
