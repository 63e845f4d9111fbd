"""The rows of notices: who is told what (NoticeRow), by which ways (NoticeChannel, NoticeRule, QuietHours), and what
became of each try to tell it (NoticeDelivery)."""

from __future__ import annotations

from uuid import uuid4

from django.db import models
from django.db.models import Q

from base.models import User


def new_uid() -> str:
    return uuid4().hex


class NoticeCursor(models.Model):
    """How far the ledger was read for notices: one row. Two transactions may commit in another order than that of
    their ids, so what was ``seen`` counts as ``told`` only once all have ended that ran then (``horizon``)."""

    told = models.BigIntegerField(default=0)  # id of an Event: this one and all before it need not be read again
    seen = models.BigIntegerField(default=0)  # the last one that was read
    horizon = models.BigIntegerField(default=0)  # the first transaction of PostgreSQL that began after that
    looked_at = models.DateTimeField()  # when it was last looked for what no Event tells (jobs/notices/conditions.py)


class NoticeRow(models.Model):
    """What one user is told, or a virtual cluster as a whole (``vc``): a line of their page. ``key`` names what it is
    about, so that nobody is told twice."""

    user = models.ForeignKey(User, models.CASCADE, null=True, related_name="+")
    vc = models.CharField(max_length=64, blank=True)
    key = models.CharField(max_length=200)
    kind = models.CharField(max_length=20)  # jobs.notices.kinds
    at = models.DateTimeField(db_index=True)
    event = models.BigIntegerField(null=True)  # id of the Event that it was made of
    job = models.BigIntegerField(null=True)  # id; it may be purged by now
    attempt = models.PositiveIntegerField(null=True)
    about = models.CharField(max_length=330, blank=True)  # alice/train, gpu-03 ...
    says = models.CharField(max_length=1000, blank=True)  # where there is no Event that says it
    data = models.JSONField(default=dict)
    read_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["user", "key"], condition=Q(user__isnull=False), name="one_notice_per_user"
            ),
            models.UniqueConstraint(fields=["vc", "key"], condition=Q(user__isnull=True), name="one_notice_per_vc"),
        ]
        indexes = [
            models.Index(fields=["user", "-id"], name="notice_by_user"),
            models.Index(fields=["user"], condition=Q(read_at__isnull=True), name="notice_unread"),
        ]

    def __str__(self) -> str:
        return f"{self.kind} {self.about}"


class NoticeChannel(models.Model):
    """A way by which notices leave the page: of a user, or of a virtual cluster. ``target`` and ``secret`` are sealed,
    as an address of a chat is a secret. Whoever holds the claim sends; all else waits for its end. Mail goes to it with
    the ``consent`` of whoever reads that address."""

    class Kind(models.TextChoices):
        MAIL = "mail", "Mail"
        SLACK = "slack", "Chat like Slack"
        TEAMS = "teams", "Chat like Teams"
        WEBHOOK = "webhook", "Webhook"

    class Consent(models.TextChoices):
        CONFIRMED = "confirmed"
        ASKED = "not confirmed"
        REFUSED = "refused"

    user = models.ForeignKey(User, models.CASCADE, null=True, related_name="+")
    vc = models.CharField(max_length=64, blank=True)
    name = models.CharField(max_length=40)
    kind = models.CharField(max_length=8, choices=Kind.choices)
    target = models.TextField()
    secret = models.TextField(blank=True)
    consent = models.CharField(
        max_length=13, choices=Consent.choices, default=Consent.CONFIRMED, db_default=Consent.CONFIRMED
    )
    made_by = models.CharField(max_length=64)
    created_at = models.DateTimeField()
    # While it fails: since when, how often in a row, and until when it rests.
    failing_since = models.DateTimeField(null=True)
    failures = models.PositiveIntegerField(default=0)
    rests_until = models.DateTimeField(null=True)
    claim = models.CharField(max_length=32, blank=True)
    claimed_until = models.DateTimeField(null=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["user", "name"], condition=Q(user__isnull=False), name="one_channel_per_user"
            ),
            models.UniqueConstraint(fields=["vc", "name"], condition=Q(user__isnull=True), name="one_channel_per_vc"),
        ]

    def __str__(self) -> str:
        return f"{self.name} of {self.vc or self.user_id}"


class RefusedAddress(models.Model):
    """Whoever reads an address of mail wants no notices from this user: by its digest, as it is not theirs to keep."""

    user = models.ForeignKey(User, models.CASCADE, related_name="+", db_index=False)
    digest = models.CharField(max_length=64)
    at = models.DateTimeField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["user", "digest"], name="one_refusal_per_address")]


class NoticeRule(models.Model):
    """Notices of this kind go to that channel, if the job ran or waited for ``minutes`` and has ``gpus``."""

    channel = models.ForeignKey(NoticeChannel, models.CASCADE, related_name="rules")
    kind = models.CharField(max_length=20)
    minutes = models.PositiveIntegerField(default=0)
    gpus = models.PositiveIntegerField(default=0)
    is_digest = models.BooleanField(default=False)
    is_on = models.BooleanField(default=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["channel", "kind"], name="one_rule_per_kind")]


class QuietHours(models.Model):
    """When a user's notices are held back, and when what waits for a digest is sent. Minutes since midnight."""

    user = models.OneToOneField(User, models.CASCADE, primary_key=True, related_name="+")
    is_on = models.BooleanField(default=False)
    begin = models.PositiveSmallIntegerField(default=22 * 60)
    end = models.PositiveSmallIntegerField(default=7 * 60 + 30)
    weekends = models.BooleanField(default=False)  # all of Saturday and Sunday too
    but_gpus = models.PositiveIntegerField(default=8)  # failures of jobs with so many GPUs come all the same; 0: none
    digest = models.PositiveSmallIntegerField(default=18 * 60)
    zone = models.CharField(max_length=64, default="UTC")


class NoticeDelivery(models.Model):
    """A notice on its way by one channel. ``uid`` is the id by which a receiver knows it again, at each try."""

    class State(models.TextChoices):
        WAITING = "waiting"  # for ``due_at``: the first try or the next one
        TAKEN = "taken"  # the receiver has it
        GIVEN_UP = "given up"
        TOGETHER = "together"  # it is told by the delivery ``within``, with others

    uid = models.CharField(max_length=32, unique=True, default=new_uid)
    notice = models.ForeignKey(NoticeRow, models.CASCADE, related_name="deliveries")
    channel = models.ForeignKey(NoticeChannel, models.CASCADE, related_name="deliveries")
    state = models.CharField(max_length=8, choices=State.choices, default=State.WAITING)
    is_held = models.BooleanField(default=False)  # back until ``due_at``, to be told with others
    made_at = models.DateTimeField()
    due_at = models.DateTimeField()
    tries = models.PositiveSmallIntegerField(default=0)
    within = models.ForeignKey("self", models.SET_NULL, null=True, related_name="parts")
    # The last try.
    sent_at = models.DateTimeField(null=True)
    took = models.PositiveIntegerField(null=True)  # ms
    status = models.PositiveSmallIntegerField(null=True)  # of HTTP, or the code of SMTP; null: no answer
    answer = models.CharField(max_length=300, blank=True)  # in a few words
    sent = models.TextField(blank=True)  # what was sent, without secrets
    body = models.TextField(blank=True)  # what came back
    earlier = models.JSONField(default=list)  # [[ms, answer]] of the tries before it

    class Meta:
        constraints = [models.UniqueConstraint(fields=["notice", "channel"], name="one_delivery_per_channel")]
        indexes = [
            models.Index(fields=["due_at"], condition=Q(state="waiting"), name="delivery_due"),
            models.Index(fields=["channel", "-id"], name="delivery_by_channel"),
        ]

    def __str__(self) -> str:
        return self.uid


class NoticeTry(models.Model):
    """That something was sent for a user, or a virtual cluster, for the limit of a minute. It outlives the channel."""

    user = models.ForeignKey(User, models.CASCADE, null=True, related_name="+", db_index=False)
    vc = models.CharField(max_length=64, blank=True)
    at = models.DateTimeField(db_index=True)
