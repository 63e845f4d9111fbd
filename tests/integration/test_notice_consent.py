"""An address of mail gets notices once whoever reads it has agreed, by a link that nobody else sees."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from base.accounts.providers.config import Provider
from base.core.errors import Conflict, NotFound
from base.models import AuditEvent, Identity, User
from jobs.models import NoticeChannel, NoticeRow, RefusedAddress
from jobs.notices import consent, services
from jobs.notices.services import ChannelOwner
from tests.integration.test_notice_mail import TO, Handler, box, parts  # noqa: F401 - a fixture
from tests.notices import deliveries, make_due, send_all, told

pytestmark = pytest.mark.django_db
LINK = re.compile(r"/confirm-address/[0-9a-zA-Z_.:-]+")


@pytest.fixture
def guest() -> Client:
    return Client()


def add(user: User, name: str = "mail", *, address: str = TO, vc: str = "") -> NoticeChannel:
    return services.add_channel(ChannelOwner(user, vc), name, "mail", address)[0]


def link_in(box: Handler) -> str:  # noqa: F811
    """That of the last mail, which is the same in both its parts."""
    found = [LINK.search(part) for part in parts(box.got[-1])]
    assert found[0] is not None and found[1] is not None and found[0][0] == found[1][0]
    return found[0][0]


def test_nothing_but_the_question_is_sent_before_somebody_has_agreed(
    box: Handler,  # noqa: F811
    alice: User,
    guest: Client,
    caplog: pytest.LogCaptureFixture,
) -> None:
    add(alice)
    told(alice, kind="quota")
    assert send_all() == 1 and "alice of Longshore wants notices" in parts(box.got[0])[0]
    link = link_in(box)
    page = guest.get(link)
    assert page.status_code == 200 and "alice" in page.content.decode() and TO in page.content.decode()
    assert page["Cache-Control"].startswith("max-age=0") and "no-store" in page["Cache-Control"]
    for changes_nothing in (guest.get(link), guest.head(link), guest.post(link), guest.post(link, {"answer": "x"})):
        assert NoticeChannel.objects.get().consent == "not confirmed", changes_nothing
    assert "It is confirmed" in guest.post(link, {"answer": "confirm"}).content.decode()
    assert AuditEvent.objects.get(action="notice address confirmed").object == "alice/mail"
    told(alice, kind="quota")
    assert send_all() == 1 and len(box.got) == 2, "and nothing of what came before"
    kept = (
        f"{list(NoticeRow.objects.values())}{[vars(each) for each in deliveries()]}{list(AuditEvent.objects.values())}"
    )
    assert link.removeprefix("/confirm-address/") not in kept + caplog.text


def test_the_form_needs_the_token_of_its_page(box: Handler, alice: User) -> None:  # noqa: F811
    add(alice)
    send_all()
    strict, link = Client(enforce_csrf_checks=True), link_in(box)
    assert strict.post(link, {"answer": "confirm"}).status_code == 403
    page = strict.get(link)
    form = {"answer": "confirm", "csrfmiddlewaretoken": page.context["csrf_token"]}
    assert strict.post(link, form).status_code == 200 and NoticeChannel.objects.get().consent == "confirmed"


def test_who_refuses_gets_nothing_from_this_user_again(
    box: Handler,  # noqa: F811
    alice: User,
    bob: User,
    admin: User,
    guest: Client,
) -> None:
    add(admin)
    add(admin, "other", address="other@example.org")
    add(admin, address=TO.title(), vc="default")
    send_all()
    link = next(LINK.search(parts(each)[0]) for each in box.got if each["To"] == TO)
    assert link is not None
    guest.post(link[0], {"answer": "confirm"})
    told(admin, kind="quota")
    page = guest.post(link[0], {"answer": "refuse"}).content.decode()
    assert "gets nothing" in page and "Confirm" not in page
    assert dict(NoticeChannel.objects.values_list("name", "consent")) == {"mail": "refused", "other": "not confirmed"}
    assert guest.post(link[0], {"answer": "confirm"}).status_code == 409
    sent = len(box.got)
    make_due()
    send_all()
    assert len(box.got) == sent, "neither what waited"
    for again in (
        lambda: services.test_channel(ChannelOwner(admin), "mail"),
        lambda: add(admin, "new", address=TO.upper()),
    ):
        with pytest.raises(Conflict, match="does not want"):
            again()
    add(bob)  # who is somebody else
    assert send_all() == 1 and RefusedAddress.objects.get().user == admin


def test_a_link_is_for_this_address_of_this_channel_and_ends(
    box: Handler,  # noqa: F811
    alice: User,
    guest: Client,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    row = add(alice)
    send_all()
    token = link_in(box).removeprefix("/confirm-address/")
    other = add(alice, "other", address="mallory@example.org")
    for wrong in (token[:-1], token.replace(f"{row.pk}-", f"{other.pk}-", 1), f"{token}x", "x", "1-2.3.4"):
        assert guest.post(f"/confirm-address/{wrong}", {"answer": "confirm"}).status_code == 404, wrong
    services.delete_channel(ChannelOwner(alice), "mail")
    add(alice, address="mallory@example.org")
    assert guest.post(f"/confirm-address/{token}", {"answer": "confirm"}).status_code == 404
    assert set(NoticeChannel.objects.values_list("consent", flat=True)) == {"not confirmed"}
    send_all()
    monkeypatch.setattr(consent, "DAYS", -1)
    assert guest.get(link_in(box)).status_code == 404
    with pytest.raises(NotFound, match="has ended"):
        consent.answer(link_in(box).removeprefix("/confirm-address/"), confirms=False)


def test_few_are_asked_in_a_day(box: Handler, alice: User, bob: User) -> None:  # noqa: F811
    add(alice)
    for _ in range(consent.OF_ADDRESS - 1):
        services.test_channel(ChannelOwner(alice), "mail")
    asked = NoticeRow.objects.filter(kind="confirmation")
    for one_more in (
        lambda: services.test_channel(ChannelOwner(alice), "mail"),
        lambda: add(bob),
        lambda: add(bob, address=TO.upper()),
    ):
        with pytest.raises(Conflict, match="tomorrow"):
            one_more()
    assert asked.count() == consent.OF_ADDRESS and not NoticeChannel.objects.filter(user=bob).exists()
    services.delete_channel(ChannelOwner(alice), "mail")
    for number in range(consent.OF_USER - consent.OF_ADDRESS):
        add(alice, "new", address=f"{number}@example.org")
        services.delete_channel(ChannelOwner(alice), "new")
    with pytest.raises(Conflict, match="tomorrow"):
        add(alice, address="one-more@example.org")
    asked.update(at=timezone.now() - timedelta(days=1, minutes=1))
    add(alice)


def test_the_question_is_not_sent_again_as_a_call(box: Handler, alice: User) -> None:  # noqa: F811
    add(alice)
    send_all()
    with pytest.raises(Conflict, match="another one"):
        services.send_again(ChannelOwner(alice), deliveries()[0].uid)


@pytest.fixture
def lab(settings: Any) -> None:
    named = {"name": "lab", "title": "Lab", "issuer": "https://id.lab", "client_id": "longshore"}
    settings.SIGN_IN = {"lab": Provider.model_validate(named)}


@pytest.mark.parametrize(
    ("email", "begins"),
    [(TO, "confirmed"), (TO.upper(), "confirmed"), ("", "not confirmed"), ("x@y.org", "not confirmed")],
)
def test_an_address_that_a_provider_has_verified_is_confirmed(
    lab: None,
    box: Handler,  # noqa: F811
    alice: User,
    bob: User,
    email: str,
    begins: str,
) -> None:
    now = timezone.now()
    Identity.objects.create(user=alice, provider="lab", issuer="i", subject="1", email=email, seen_at=now)
    assert add(alice).consent == begins
    assert add(bob).consent == "not confirmed", "it is alice's"
    Identity.objects.update(provider="directory")
    assert add(alice, "again").consent == "not confirmed"
