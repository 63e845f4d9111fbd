"""What people change about their notices: channels, rules, quiet hours, what they have read; for pages and API."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

from django.db import transaction
from django.utils import timezone

from base.accounts import audit
from base.accounts.viewer import Viewer
from base.core import sealed, words
from base.core.bulk import one_row
from base.core.errors import BadRequest, Conflict, Forbidden, NotFound
from base.core.values import zone_of
from base.models import User
from base.wakes import wake
from clusters.models import VirtualCluster
from clusters.vcs.rules import DEFAULT_VC
from jobs.models import NoticeChannel, NoticeDelivery, NoticeRow, NoticeRule, QuietHours
from jobs.notices import consent, tell
from jobs.notices.channels import webhook
from jobs.notices.channels.ways import WAYS
from jobs.notices.kinds import KINDS, OF_JOBS, RULED
from jobs.notices.targets import purpose

MOST_CHANNELS = 10
LONGEST_NAME = 40
MOST_COUNTED = 1_000
FIRST_KINDS = ("failed", "failing", "evicted", "idle", "quota")  # that a new channel is told of
_TESTS_A_MINUTE = 6


@dataclass(frozen=True, slots=True)
class ChannelOwner:
    """A user, or a virtual cluster, whose channels its admins set."""

    user: User
    vc: str = ""

    @property
    def of(self) -> dict[str, Any]:
        return {"user": None, "vc": self.vc} if self.vc else {"user": self.user}

    @property
    def kinds(self) -> tuple[str, ...]:
        """That there may be rules for."""
        if self.vc:
            return OF_JOBS
        return tuple(name for name in RULED if self.user.is_admin or not KINDS[name].for_admins)


def owner(user: User, vc: str = "") -> ChannelOwner:
    """Whose notices the user asks about. Raises Forbidden, NotFound."""
    if not vc:
        return ChannelOwner(user)
    if not user.is_admin:
        raise Forbidden(f"The notices of virtual cluster {vc} are set by admins.")
    if vc != DEFAULT_VC and not VirtualCluster.objects.filter(name=vc).exists():
        raise NotFound(f"There is no virtual cluster {words.visible(vc[:64])}.")
    return ChannelOwner(user, vc)


def channel_of(owner: ChannelOwner, name: str) -> NoticeChannel:
    found = NoticeChannel.objects.filter(**owner.of, name=name).first()
    if found is None:
        raise NotFound("There is no such channel.")
    return found


def add_channel(owner: ChannelOwner, name: str, kind: str, target: str) -> tuple[NoticeChannel, str]:
    """Make a channel, with rules for what most want to know. Returns it and the secret that signs its notices, which
    nothing shows again. Raises BadRequest, Conflict."""
    name, target = name.strip(), _checked(kind, target)
    if not name or len(name) > LONGEST_NAME or not name.isprintable() or words.unseen(name) or name in KINDS:
        raise BadRequest(
            f"Give the channel a name of 1 to {LONGEST_NAME} characters that is not the word for a kind of notice."
        )
    if "/" in name or name in (".", ".."):  # nothing could delete it
        raise BadRequest("The name of a channel is a part of its address: choose one without a slash that is no dot.")
    secret = webhook.new_secret() if kind == NoticeChannel.Kind.WEBHOOK else ""
    with tell.cursor():  # lets two calls take turns, so that the limits hold
        mine = NoticeChannel.objects.filter(**owner.of)
        if mine.filter(name=name).exists():
            raise Conflict(f"There is a channel {name} already.")
        if mine.count() >= MOST_CHANNELS:
            raise BadRequest(f"There are {MOST_CHANNELS} channels, which is the most. Delete one first.")
        row = NoticeChannel(**owner.of, name=name, kind=kind, made_by=owner.user.username, created_at=timezone.now())
        row.target = sealed.seal(target, purpose(row, "target"))
        row.secret = sealed.seal(secret, purpose(row, "secret")) if secret else ""
        if kind == NoticeChannel.Kind.MAIL:
            row.consent = consent.first(owner.user, target)
        row.save(force_insert=True)
        if row.consent == NoticeChannel.Consent.ASKED:
            consent.ask(owner.user, row)
        first = [name for name in FIRST_KINDS if name in owner.kinds]
        NoticeRule.objects.bulk_create([NoticeRule(channel=row, kind=each) for each in first])
        _record(owner, "notice channel made", row)
    return row, secret


def delete_channel(owner: ChannelOwner, name: str) -> None:
    """With its rules, and what still waits for it."""
    with transaction.atomic():
        row = channel_of(owner, name)
        row.delete()
        _record(owner, "notice channel deleted", row)


def test_channel(owner: ChannelOwner, name: str) -> NoticeDelivery:
    """Send a test there at once, also while the channel rests; while its address is not confirmed, the mail that asks
    for that. Raises Conflict where it is refused, or enough were sent."""
    now = timezone.now()
    says = f"{owner.user.username} asked for it. If you read this, notices of Longshore arrive here."
    with tell.cursor():
        row = channel_of(owner, name)
        if row.consent == NoticeChannel.Consent.REFUSED:
            raise Conflict("Whoever reads this address does not want notices from you.")
        if row.consent == NoticeChannel.Consent.ASKED:
            return consent.ask(owner.user, row)
        lately = NoticeRow.objects.filter(**owner.of, kind="test", at__gt=now - tell.MINUTE)
        if lately.count() >= _TESTS_A_MINUTE:
            raise Conflict(f"{_TESTS_A_MINUTE} tests were sent within a minute. Wait for a moment.")
        notice = NoticeRow(**owner.of, key=f"test:{now.timestamp()}", kind="test", at=now, about=row.name, says=says)
        notice.data, notice.read_at = {"title": f"A test of channel {row.name}"}, now
        return tell.at_once(notice, row)


def send_again(owner: ChannelOwner, uid: str) -> None:
    """Send a delivery that ended, or that waits, once more and now, with the id that it has. Raises NotFound, Conflict
    for a mail that asks for a confirmation, of which ``test_channel`` sends another one."""
    now = timezone.now()
    with transaction.atomic():
        rows = NoticeDelivery.objects.filter(uid=uid, **{f"channel__{name}": value for name, value in owner.of.items()})
        row = rows.select_related("notice").select_for_update(of=("self",)).first()
        if row is None:
            raise NotFound("There is no such delivery.")
        if row.notice.kind == consent.KIND:
            raise Conflict("A mail that asks for a confirmation is not sent again. Ask for another one at its channel.")
        NoticeDelivery.objects.filter(pk=row.pk).update(
            state=NoticeDelivery.State.WAITING, due_at=now, made_at=now, within=None, is_held=False
        )
        NoticeChannel.objects.filter(pk=row.channel_id).update(rests_until=None)
        wake.notify("pages")


def send_waiting(owner: ChannelOwner, name: str) -> int:
    """Send what waits for that channel now. Returns how many deliveries there are."""
    row, now = channel_of(owner, name), timezone.now()
    with transaction.atomic():
        waiting = NoticeDelivery.objects.filter(channel=row, state=NoticeDelivery.State.WAITING)
        number = waiting.update(due_at=now)
        NoticeChannel.objects.filter(pk=row.pk).update(rests_until=None)
        wake.notify("pages")
    return number


def set_rule(owner: ChannelOwner, channel: str, kind: str, values: Mapping[str, Any]) -> NoticeRule:
    """Make or change the rule by which notices of that kind go to that channel. Raises NotFound, BadRequest."""
    if kind not in owner.kinds:
        raise BadRequest(f"kind must be one of {', '.join(owner.kinds)}.")
    with transaction.atomic():
        row = channel_of(owner, channel)
        rule, _ = NoticeRule.objects.update_or_create(channel=row, kind=kind, defaults=dict(values))
        _record(owner, "notice rule set", row, kind=kind, **values)
    return rule


def delete_rule(owner: ChannelOwner, channel: str, kind: str) -> None:
    with transaction.atomic():
        row = channel_of(owner, channel)
        if not row.rules.filter(kind=kind).delete()[0]:
            raise NotFound("There is no such rule.")
        _record(owner, "notice rule deleted", row, kind=kind)


def mark_read(user: User, up_to: int) -> int:
    """Mark the notices up to the one with this id as read. Returns how many were not."""
    unread = NoticeRow.objects.filter(user=user, pk__lte=up_to, read_at=None)
    return unread.update(read_at=timezone.now())


def set_hours(user: User, values: Mapping[str, Any]) -> QuietHours:
    """Raises BadRequest for a zone that there is not."""
    if "zone" in values and zone_of(values["zone"]) is None:
        raise BadRequest("timeZone must be the name of a time zone, such as Europe/Berlin.")
    with transaction.atomic():
        row, _ = QuietHours.objects.update_or_create(user=user, defaults=dict(values))
        audit.record(user.username, "quiet hours set", user.username, dict(values))
    return row


def count_unread(viewer: Viewer) -> int:
    """How many notices they have not read, MOST_COUNTED at most."""
    if not viewer.is_authenticated:
        return 0
    query = f"SELECT {UNREAD} FROM portal_user u WHERE u.id = %s"  # noqa: S608
    return int(one_row(query, cast(User, viewer).pk)[0])


# The number at the bell, of the user ``u``: each page reads it with the user's row.
UNREAD = f"""(SELECT count(*) FROM (
    SELECT 1 FROM jobs_noticerow WHERE user_id = u.id AND read_at IS NULL LIMIT {MOST_COUNTED}
) AS unread)"""  # noqa: S608


def hours(user: User) -> QuietHours:
    return QuietHours.objects.filter(user=user).first() or QuietHours(user=user)


def _checked(kind: str, target: str) -> str:
    if kind not in NoticeChannel.Kind.values:
        raise BadRequest(f"kind must be one of {', '.join(NoticeChannel.Kind.values)}.")
    return WAYS[NoticeChannel.Kind(kind)].check(target)


def _record(owner: ChannelOwner, action: str, row: NoticeChannel, **data: object) -> None:
    target = f"{owner.vc or owner.user.username}/{row.name}"
    audit.record(owner.user.username, action, target, {"kind": row.kind, **data})
