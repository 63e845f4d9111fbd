"""Drafts of the submit page: each tab has its own, and what one saves never takes the place of what another did."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from django.contrib.sessions.models import Session
from django.test import Client
from playwright.sync_api import Page, expect

from base.models import User
from jobs.config.samples import SAMPLES
from jobs.models import Draft, Job
from jobs.submitting import drafts
from tests.builders import make_node
from tests.helpers import until
from tests.pages.conftest import Tab, sign_in
from tests.pages.test_submit import sent, typed

Browse = Callable[[User | None], Client]


def job(name: str) -> str:
    return SAMPLES[0].config.replace("hello-world", name)


def kept(page: Page, text: str) -> None:
    typed(page, text)
    expect(page.locator("#kept")).to_contain_text("Draft saved")


def texts(user: User) -> list[str]:
    """Of their drafts, newest first."""
    found = [drafts.open_one(user, each.id) for each in drafts.of(user)]
    return [each[1] for each in found if each]


@pytest.fixture
def pages(tab: Callable[..., Tab], alice: User) -> tuple[Page, Page]:
    """Two tabs with New job."""
    make_node()
    shown = tab(alice)
    first, second = shown.open("/submit"), shown.page.context.new_page()
    second.goto(f"{shown.site}/submit")
    return first, second


def test_half_a_character_in_the_name_is_kept_and_listed_without_it(browse: Browse, alice: User) -> None:
    answer = browse(alice).post("/submit/drafts", {"config": '{"jobName": "\\ud800x"}'})
    assert answer.status_code == 200 and [each.title for each in drafts.of(alice)] == ["?x"]


@pytest.mark.browser
def test_two_tabs_have_two_drafts_and_each_its_own_after_a_reload(pages: tuple[Page, Page], alice: User) -> None:
    first, second = pages
    kept(first, job("one"))
    kept(second, job("two"))
    assert texts(alice) == [job("two"), job("one")]
    for page, name in ((first, "one"), (second, "two")):
        page.reload()
        expect(page.locator("#job-name")).to_have_value(name)
    typed(first, job("one-more"))
    expect(first.locator("#kept")).to_have_text("Draft saved")
    assert texts(alice) == [job("one-more"), job("two")]


@pytest.mark.browser
def test_what_is_submitted_after_the_session_ended_comes_back_over_the_sign_in(
    pages: tuple[Page, Page], alice: User, bob: User
) -> None:
    page, _ = pages
    for user, comes_back in ((alice, True), (bob, False)):
        typed(page, job("late"))
        Session.objects.all().delete()
        page.click("#submit")
        page.wait_for_url("**/login**")
        sign_in(page, user)
        expect(page.locator(".ls-top a[href='/account']")).to_have_attribute("aria-label", re.compile(user.username))
        name = expect(page.locator("#job-name"))
        name.to_have_value("late") if comes_back else name.not_to_have_value("late")
    assert not Job.objects.exists()


@pytest.mark.browser
def test_what_is_submitted_while_the_portal_is_away_comes_back_by_the_button_back(pages: tuple[Page, Page]) -> None:
    page, _ = pages
    page.goto(f"{page.url}?template=hello-world")
    page.route("**/submit*/**", lambda route: route.abort())  # its drafts too
    page.route("**/submit", lambda route: route.abort() if route.request.method == "POST" else route.continue_())
    typed(page, job("late"))
    page.click("#submit")
    page.wait_for_url("chrome-error:**")
    page.unroute_all()
    page.go_back()
    expect(page.locator("#job-name")).to_have_value("late")
    page.click("#submit")
    expect(page.locator("h1")).to_have_text("late")
    assert Job.objects.get().name == "late"


@pytest.mark.browser
def test_a_submitted_draft_goes_and_that_of_the_other_tab_stays(pages: tuple[Page, Page], alice: User) -> None:
    first, second = pages
    kept(first, job("one"))
    kept(second, job("two"))
    first.click("#submit")
    expect(first.locator("h1")).to_have_text("one")
    assert texts(alice) == [job("two")]
    first.go_back()
    expect(first.locator(".ls-note.ls-waiting")).to_contain_text("This draft is not there any more")
    expect(first.locator("#drafts li")).to_have_count(1)


@pytest.mark.browser
def test_what_is_typed_is_kept_after_a_sign_in_in_another_tab(pages: tuple[Page, Page], alice: User, bob: User) -> None:
    first, second = pages
    kept(first, job("one"))
    for user, told in ((bob, "Draft not saved, trying again: the portal answered 403"), (alice, "Draft saved")):
        second.context.clear_cookies(name="longshore")
        second.goto(second.url.split("/submit")[0] + "/login?next=/submit")
        sign_in(second, user)
        second.wait_for_url("**/submit")
        typed(first, job(f"beside-{user.username}"))
        expect(first.locator("#kept")).to_have_text(told)
    until(lambda: texts(alice) == [job("beside-alice")])
    assert texts(bob) == []
    first.click("#submit")
    expect(first.locator("h1")).to_have_text("beside-alice")


def test_a_form_of_another_sign_in_is_refused_with_one_reason(alice: User) -> None:
    client = Client(enforce_csrf_checks=True)
    client.force_login(alice, backend="django.contrib.auth.backends.ModelBackend")
    page = client.post("/submit", {"config": job("one")}).content.decode()
    assert "This form has expired." in page and "Nothing was changed." in page and "right to do this" not in page


@pytest.mark.browser
def test_what_one_tab_saved_stays_when_another_saves_the_same_draft(pages: tuple[Page, Page], alice: User) -> None:
    first, second = pages
    kept(first, job("one"))
    second.goto(first.url)
    kept(second, job("two"))
    typed(first, job("three"))
    expect(first.locator("#kept")).to_contain_text("Draft saved as a new one: the other was changed")
    assert texts(alice) == [job("three"), job("two")]
    second.click("#submit")
    expect(second.locator("h1")).to_have_text("two")
    assert texts(alice) == [job("three")]


@pytest.mark.browser
def test_a_submit_waits_for_the_save_that_is_on_its_way(pages: tuple[Page, Page], alice: User) -> None:
    page = pages[0]
    kept(page, job("one"))
    waiting = []
    page.route("**/submit/drafts", lambda route: waiting.append(route))
    with page.expect_request("**/submit/drafts"):
        typed(page, job("two"))
    page.click("#submit")
    assert not Job.objects.exists()
    waiting[0].continue_()
    expect(page.locator("h1")).to_have_text("two")
    assert texts(alice) == []


@pytest.mark.browser
def test_new_job_offers_what_was_typed_and_takes_none_over(tab: Callable[..., Tab], alice: User, bob: User) -> None:
    make_node()
    for name in ("older", "newer"):
        drafts.keep(alice, job(name))
    secret = job("typed").replace("{", '{"extras": {"secrets": {"KEY": "opensesame"}},', 1)
    shown = tab(alice)
    page = shown.open("/submit")
    assert sent(page) == ""
    expect(page.locator("#drafts li b")).to_have_text(["newer", "older"])
    expect(page.locator("#drafts time")).to_have_count(2)
    kept(page, secret)
    assert not any("opensesame" in draft.sealed for draft in Draft.objects.all()) and drafts.of(bob) == []
    page.get_by_role("button", name="Discard draft newer").click()
    expect(page.locator("#drafts li b")).to_have_text(["older"])
    assert sent(page) == secret and texts(alice) == [secret, job("older")]
    shown.open("/submit")
    expect(page.locator("#drafts li b")).to_have_text(["typed", "older"])
    page.get_by_role("link", name="typed").click()
    expect(page.locator("#job-name")).to_have_value("typed")
    assert sent(page) == secret
    shown.check("a draft that is back")
    page.get_by_role("button", name="Discard the draft").click()
    expect(page.locator("#drafts li b")).to_have_text(["older"])
    assert sent(page) == ""


@pytest.mark.browser
def test_a_sample_takes_no_draft_over(pages: tuple[Page, Page], alice: User) -> None:
    page = pages[0]
    kept(page, job("one"))
    page.get_by_role("link", name=SAMPLES[2].title).click()
    expect(page.locator("#job-name")).to_have_value(SAMPLES[2].key)
    page.fill("#job-name", "of-a-sample")
    expect(page.locator("#kept")).to_have_text("Draft saved")
    assert [each.title for each in drafts.of(alice)] == ["of-a-sample", "one"]
    page.reload()
    expect(page.locator("#job-name")).to_have_value("of-a-sample")


def test_a_draft_is_its_users_alone_and_the_oldest_goes(browse: Browse, alice: User, bob: User) -> None:
    client = browse(alice)
    ids = [client.post("/submit/drafts", {"config": f"draft {at}"}).json()["id"] for at in range(drafts.MOST + 1)]
    assert [each.id for each in drafts.of(alice)] == ids[:0:-1]
    newest = drafts.of(alice)[0]
    named = {"draft": str(newest.id), "version": newest.version}
    assert "not there any more" in browse(bob).get(f"/submit?draft={newest.id}").content.decode()
    browse(bob).post(f"/submit/drafts/{newest.id}/delete")
    taken = browse(bob).post("/submit/drafts", {"config": "mine", **named}).json()["id"]
    assert taken != newest.id and texts(alice)[0] == f"draft {drafts.MOST}"
    assert client.post("/submit/drafts", {"config": " ", **named, "version": "x"}).json() == {"id": 0}
    assert len(drafts.of(alice)) == drafts.MOST
    assert client.post("/submit/drafts", {"config": " ", **named}).json() == {"id": 0}
    assert len(drafts.of(alice)) == drafts.MOST - 1
    assert client.post("/submit/drafts", {"config": "x" * 200_000}).status_code == 413
    assert browse(None).post("/submit/drafts", {"config": "x"}).status_code == 302


def test_old_drafts_go(alice: User, bob: User) -> None:
    drafts.keep(bob, job("old"))
    old = Draft.objects.get()
    Draft.objects.update(changed_at=old.changed_at - drafts.KEPT)
    drafts.keep(alice, job("new"))
    assert [draft.title for draft in Draft.objects.all()] == ["new"]
