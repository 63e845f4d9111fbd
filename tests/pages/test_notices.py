"""The bell, the list of notices, channels with rules, and calls."""

from __future__ import annotations

from collections.abc import Callable
from ipaddress import ip_network
from typing import Any

import pytest
from django.test import Client
from playwright.sync_api import expect

from base.models import User
from jobs.models import NoticeChannel, NoticeRule
from jobs.notices import consent, services
from jobs.notices.services import ChannelOwner
from tests.notices import channel, deliveries, send_all, told
from tests.pages.conftest import PHONE, SCREEN, Tab
from tests.receivers import receiver, says

pytestmark = pytest.mark.django_db

Browse = Callable[[User | None], Client]
NEW = {"name": "hook", "kind": "webhook", "target": "https://hooks.example.org/x"}


def text(client: Client, url: str) -> str:
    return client.get(url).content.decode()


def test_the_bell_counts_what_is_not_read(browse: Browse, alice: User) -> None:
    client = browse(alice)
    assert 'aria-label="Notices"' in text(client, "/account")
    told(alice, 3)
    assert 'aria-label="Notices: 3 not read"' in text(client, "/account")
    page = client.get("/notices")
    assert len(page.context["lines"]) == 3
    client.post("/notices", {"up_to": page.context["up_to"]})
    assert 'aria-label="Notices"' in text(client, "/notices")
    assert "/notices" not in text(browse(None), "/jobs")


def test_it_shows_a_new_secret_once_and_no_address_of_a_chat(browse: Browse, alice: User) -> None:
    client = browse(alice)
    made = client.post("/account/notices", NEW)
    assert made.context["secret"].startswith("whsec_") and made.context["secret"] in made.content.decode()
    page = text(client, "/account/notices")
    assert "hooks.example.org/x" in page and made.context["secret"] not in page


def test_an_address_of_mail_is_asked_for_too(browse: Browse, alice: User) -> None:
    assert 'placeholder="mail@example.org' in text(browse(alice), "/account/notices")


@pytest.mark.parametrize(
    "change", [{"name": ""}, {"kind": "pigeon"}, {"target": "https://127.0.0.1/"}, {"target": "x"}]
)
def test_it_refuses_a_bad_channel_and_keeps_what_was_typed(browse: Browse, alice: User, change: dict[str, str]) -> None:
    answer = browse(alice).post("/account/notices", {**NEW, **change})
    assert answer.status_code == 400 and answer.context["error"]
    assert (change.get("target") or NEW["target"]) in answer.content.decode()
    assert not NoticeChannel.objects.exists()


def test_rules_are_set_and_deleted(browse: Browse, alice: User) -> None:
    client = browse(alice)
    client.post("/account/notices", NEW)
    client.post(
        "/account/notices", {"rule": "started", "channel": "hook", "minutes": "10", "gpus": "", "digest": "yes"}
    )
    rule = NoticeRule.objects.get(kind="started")
    assert (rule.minutes, rule.gpus, rule.is_digest, rule.is_on) == (10, 0, True, True)
    assert "only if it waited 10 min or more" in text(client, "/account/notices")
    for bad in ({"minutes": "x"}, {"gpus": "99999999"}, {"rule": "lost"}, {"channel": "no"}):
        answer = client.post("/account/notices", {"rule": "started", "channel": "hook", **bad})
        assert answer.status_code in (400, 404) and answer.context["error"]
    client.post("/account/notices/rules/delete", {"rule": "started", "channel": "hook"})
    assert not NoticeRule.objects.filter(kind="started").exists()


def test_quiet_hours_are_set_in_the_zone_of_the_user(browse: Browse, alice: User) -> None:
    client = browse(alice)
    hours = {"on": "on", "begin": "21:30", "end": "7:00", "digest": "17:05", "zone": "Asia/Tokyo", "large": "on"}
    assert client.post("/account/notices/hours", hours).status_code == 302
    page = text(client, "/account/notices")
    assert all(f'value="{value}"' in page for value in ("21:30", "07:00", "17:05", "Asia/Tokyo"))
    for bad in ({"begin": "25:00"}, {"end": ""}, {"digest": "x"}, {"zone": "nowhere"}):
        answer = client.post("/account/notices/hours", {**hours, **bad})
        assert answer.status_code == 400, bad


def test_a_channel_is_deleted_after_the_question(browse: Browse, alice: User, bob: User) -> None:
    channel(alice, NEW["target"])
    url = "/account/notices/channels/hook/delete"
    assert browse(bob).get(url).status_code == 404 == browse(bob).post(url).status_code
    assert "Delete channel hook?" in text(browse(alice), url)
    assert browse(alice).post(url).status_code == 302 and not NoticeChannel.objects.exists()


def test_calls_are_seen_opened_and_sent_again(browse: Browse, alice: User, bob: User, settings: Any) -> None:
    settings.NOTICE_NETWORKS = (ip_network("127.0.0.0/8"),)
    client = browse(alice)
    with receiver(says("502 Bad Gateway", "<h1>no</h1>"), says()) as hook:
        channel(alice, hook.url)
        assert (
            "A test is on its way" in client.post("/account/notices/channels/hook/test", follow=True).content.decode()
        )
        send_all()
        [row] = deliveries()
        page = text(client, f"/account/notices/calls?channel=hook&open={row.uid}")
        for part in ("502 Bad Gateway", "1 of 12", "next try", "&lt;h1&gt;no&lt;/h1&gt;", "test.test", "fails since"):
            assert part in page, part
        again = f"/account/notices/calls/{row.uid}/again"
        assert browse(bob).post(again).status_code == 404
        assert client.post(again, {"next": "//evil.example.org"}).headers["Location"] == "/account/notices/calls"
        send_all()
        assert deliveries()[0].state == "taken"
        told(alice)
        sent = client.post("/account/notices/channels/hook/waiting", follow=True).content.decode()
        assert "1 notice that waits is sent now" in sent
    assert client.get("/account/notices/calls?before=x").status_code == 400


def test_those_of_a_virtual_cluster_are_for_admins(browse: Browse, alice: User, admin: User) -> None:
    assert browse(alice).get("/account/notices?vc=default").status_code == 403
    assert browse(admin).get("/account/notices?vc=none").status_code == 404
    client = browse(admin)
    client.post("/account/notices?vc=default", NEW)
    assert NoticeChannel.objects.get().vc == "default"
    assert "Notices of default" in text(client, "/account/notices/calls?vc=default")
    assert "hooks.example.org/x" not in text(client, "/account/notices")


def test_it_is_accessible_and_fits(tab: Callable[..., Tab], alice: User, settings: Any) -> None:
    settings.NOTICE_NETWORKS = (ip_network("127.0.0.0/8"),)
    shown = tab(alice)
    with receiver(says("502 Bad Gateway", "<h1>no</h1>")) as hook:
        channel(alice, hook.url, name="a-rather-long-name-of-a-channel-of-lena")
        told(alice, 2)
        send_all()
    NoticeRule.objects.filter(kind="failed").update(minutes=10, gpus=8, is_digest=True)
    shown.check_everywhere("/notices", dark=SCREEN)
    shown.check_everywhere("/account/notices", dark=PHONE)
    shown.check_everywhere(f"/account/notices/calls?channel={NoticeChannel.objects.get().name}", dark=SCREEN)
    shown.page.locator("tbody th a").first.click()
    expect(shown.page.get_by_role("heading", name="Answered")).to_be_visible()
    shown.check_here("an open call", dark=PHONE)


def test_whoever_reads_the_mail_confirms_on_a_page_of_its_own_and_may_end_it(
    tab: Callable[..., Tab], alice: User, settings: Any
) -> None:
    settings.MAIL_SERVER = ("127.0.0.1", 1)
    row, _ = services.add_channel(ChannelOwner(alice), "mail", "mail", "somebody.with.a.long.name@mail.example.org")
    shown = tab(alice)
    shown.check_everywhere("/account/notices", dark=SCREEN)
    expect(shown.page.get_by_text("not confirmed")).to_be_visible()
    shown.open("/account/notices").get_by_role("button", name="Ask again").click()
    expect(shown.page.get_by_text("is on its way")).to_be_visible()
    shown.check_everywhere(link := consent.link(row, "somebody.with.a.long.name@mail.example.org"), dark=PHONE)
    shown.page.get_by_role("button", name="Confirm").click()
    expect(shown.page.get_by_text("It is confirmed")).to_be_visible()
    shown.check_here("a confirmed address", dark=SCREEN)
    expect(shown.open("/account/notices").get_by_role("button", name="Send a test")).to_be_visible()
    shown.open(link).get_by_role("button", name="I want none any more").click()
    expect(shown.page.get_by_text("gets nothing from")).to_be_visible()
    shown.open("/account/notices")
    expect(shown.page.get_by_text("refused")).to_be_visible()
    expect(shown.page.get_by_role("button", name="Send a test")).to_have_count(0)
