"""Whether whoever reads an address of mail wants notices there. One mail asks them, by a link that only it has: neither
the page of calls nor a log shows it. Until they confirm, nothing else is sent; who refuses hears nothing more from that
user, by no channel of theirs."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from hashlib import sha256

from django.conf import settings
from django.core.signing import BadSignature, TimestampSigner
from django.db.models import Q
from django.utils import timezone

from base.accounts import audit
from base.core.errors import Conflict, NotFound
from base.models import Identity, User
from jobs.models import NoticeChannel, NoticeDelivery, NoticeRow, RefusedAddress
from jobs.notices import tell
from jobs.notices.targets import opened

KIND = "confirmation"
DAYS = 3  # for which the link opens
OF_USER, OF_ADDRESS = 10, 3  # mails that ask, in a day: by one user, and to one address whoever asks
PATH = "/confirm-address/"
_A_DAY = timedelta(days=1)
_Consent = NoticeChannel.Consent


@dataclass(frozen=True, slots=True)
class AskedFor:
    """What a link is about. ``maker`` is the user who made the channel."""

    channel: NoticeChannel
    address: str
    maker: User


def first(user: User, address: str) -> NoticeChannel.Consent:
    """How a new channel of mail begins. Raises Conflict where that address wants nothing from this user."""
    identities = Identity.objects.filter(user=user).exclude(email="").values_list("provider", "email")
    for provider, email in identities:
        if email.lower() == address.lower() and getattr(settings.SIGN_IN.get(provider), "kind", "LDAP") != "LDAP":
            return _Consent.CONFIRMED
    if RefusedAddress.objects.filter(user=user, digest=_digest(address)).exists():
        raise Conflict("Whoever reads this address does not want notices from you.")
    return _Consent.ASKED


def ask(user: User, channel: NoticeChannel) -> NoticeDelivery:
    """Let the mail that asks go out. Call it with the cursor. Raises Conflict where enough were sent."""
    now, key = timezone.now(), f"{KIND}:{_digest(opened(channel, 'target'))}:"
    lately = NoticeRow.objects.filter(kind=KIND, at__gt=now - _A_DAY)
    if lately.filter(user=user).count() >= OF_USER or lately.filter(key__startswith=key).count() >= OF_ADDRESS:
        raise Conflict("Enough mails that ask for a confirmation were sent today. Try it tomorrow.")
    notice = NoticeRow(user=user, key=f"{key}{now.timestamp()}", kind=KIND, at=now, read_at=now, about=channel.name)
    notice.says = (
        f"{user.username} of Longshore wants notices sent to this address. To agree, open the link and confirm. "
        f"If you did not ask for this, say so there, or leave it: nothing else comes. The link ends after {DAYS} days."
    )
    notice.data = {"title": "Confirm that notices of Longshore may come here", "path": f"{PATH}…"}
    return tell.at_once(notice, channel)


def link(channel: NoticeChannel, address: str) -> str:
    """The address on the portal at which whoever reads this mail confirms or refuses."""
    return f"{PATH}{_signer().sign(f'{channel.pk}-{_digest(address)}')}"


def asked_for(token: str) -> AskedFor:
    """Raises NotFound for a link that was changed, has ended, or whose channel is gone."""
    try:
        id, _, digest = _signer().unsign(token, max_age=timedelta(days=DAYS)).partition("-")
        channel = NoticeChannel.objects.select_related("user").get(pk=int(id))
        address, maker = opened(channel, "target"), tell.maker(channel)
        if maker is not None and digest == _digest(address):
            return AskedFor(channel, address, maker)
    except (BadSignature, ValueError, NoticeChannel.DoesNotExist):
        pass
    raise NotFound("This link has ended, or what it was for is gone. You need not do anything.")


def answer(token: str, *, confirms: bool) -> None:
    """Confirm, or refuse for good. Raises NotFound, Conflict."""
    with tell.cursor():
        asked = asked_for(token)
        if not confirms:
            _refuse(asked)
        elif asked.channel.consent == _Consent.REFUSED:
            raise Conflict("You have refused notices from this user.")
        else:
            NoticeChannel.objects.filter(pk=asked.channel.pk).update(consent=_Consent.CONFIRMED)
        action = "notice address confirmed" if confirms else "notice address refused"
        audit.record("reader of the mail", action, f"{asked.channel.vc or asked.maker.username}/{asked.channel.name}")


def _refuse(asked: AskedFor) -> None:
    user, digest = asked.maker, _digest(asked.address)
    RefusedAddress.objects.get_or_create(user=user, digest=digest, defaults={"at": timezone.now()})
    theirs = NoticeChannel.objects.filter(Q(user=user) | Q(user=None, made_by=user.username), kind="mail")
    same = [each.pk for each in theirs.select_related("user") if _is_for(each, digest)]
    NoticeChannel.objects.filter(pk__in=same).update(consent=_Consent.REFUSED)


def _is_for(channel: NoticeChannel, digest: str) -> bool:
    try:
        return _digest(opened(channel, "target")) == digest
    except ValueError:  # sealed with another key, so nothing is sent there
        return False


def _digest(address: str) -> str:
    return sha256(address.lower().encode()).hexdigest()


def _signer() -> TimestampSigner:
    return TimestampSigner(salt="longshore.notice-address", sep=".")
