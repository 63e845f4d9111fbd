"""Times are in the zone of whoever reads them, and the page says which that is."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

import pytest
from django.test import Client
from django.utils import timezone
from playwright.sync_api import expect

from base.models import User
from jobs.models import Event
from tests.builders import make_job
from tests.pages.conftest import Tab

AT = datetime(2026, 3, 1, 20, 30, tzinfo=UTC)


def event_at(moment: datetime) -> None:
    make_job("alice", "train")
    Event.objects.update(at=moment)


@pytest.mark.parametrize(
    ("zone", "shown", "title", "foot"),
    [
        ("Asia/Kolkata", "2 Mar 02:00:00", "Mon 2 Mar 2026, 02:00:00 (UTC+5:30)", "Asia/Kolkata (UTC+5:30)"),
        ("", "1 Mar 20:30:00", "Sun 1 Mar 2026, 20:30:00 (UTC)", "UTC<"),
        ("../../etc/passwd", "1 Mar 20:30:00", "20:30:00 (UTC)", "UTC<"),
        ("Nowhere/Else", "1 Mar 20:30:00", "20:30:00 (UTC)", "UTC<"),
        ("America", "1 Mar 20:30:00", "20:30:00 (UTC)", "UTC<"),
    ],
)
def test_the_cookie_names_the_zone(
    browse: Callable[[User | None], Client], alice: User, zone: str, shown: str, title: str, foot: str
) -> None:
    event_at(AT)
    client = browse(alice)
    client.cookies["zone"] = zone
    page = client.get("/jobs/alice/train/events").content.decode()
    assert f">{shown}</time>" in page and title in page and f"Times are in {foot}" in page
    assert timezone.get_current_timezone_name() == "UTC"  # the next request of this thread is another's


@pytest.mark.browser
def test_the_first_page_of_a_browser_is_in_its_zone_and_so_is_what_comes_live(
    tab: Callable[..., Tab], alice: User
) -> None:
    from base.wakes import wake

    event_at(AT)
    page = tab(alice, timezone_id="Asia/Tokyo").open("/jobs/alice/train/events")
    expect(page.locator("#job-tab time").first).to_have_text("2 Mar 05:30:00")
    expect(page.locator(".ls-foot")).to_contain_text("Times are in Asia/Tokyo (UTC+9)")
    expect(page.locator("[data-live]")).to_have_text("Live")
    Event.objects.create(job_id=Event.objects.get().job_id, at=AT, kind="job.told", reason="A thing happened.")
    wake.notify("pages")
    expect(page.locator("#job-tab")).to_contain_text("A thing happened.")
    expect(page.locator("#job-tab time").first).to_have_text("2 Mar 05:30:00")
