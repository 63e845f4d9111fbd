"""API tokens: made, shown once, listed, revoked."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import timedelta

import pytest
from django.test import Client
from django.utils import timezone
from playwright.sync_api import expect

from base.accounts import tokens
from base.models import ApiToken, AuditEvent, User
from tests.pages.conftest import Tab

Browse = Callable[[User | None], Client]
Count = Callable[[Callable[[], object]], int]


def shown_token(client: Client, **form: str) -> str:
    answer = client.post("/account/tokens", {"name": "laptop", "days": "30", **form})
    return str(answer.context["token"])


def test_it_shows_a_new_token_once_and_the_token_works(browse: Browse, alice: User) -> None:
    client = browse(alice)
    token = shown_token(client)
    assert Client().get("/api/v1/jobs", headers={"Authorization": f"Bearer {token}"}).status_code == 200
    assert tokens.user_of(token) == alice
    again = client.get("/account/tokens")
    assert "laptop" in again.content.decode()
    assert token not in again.content.decode()
    assert "no-store" in again.headers["Cache-Control"]
    assert token not in str(list(AuditEvent.objects.values()))


def test_it_lists_those_that_live_with_their_times(browse: Browse, alice: User, bob: User) -> None:
    tokens.issue(alice, 3600)
    tokens.issue(alice, 40 * 86400, "script")
    tokens.issue(bob, 3600, "bobs")
    ApiToken.objects.filter(name="script").update(last_used_at=timezone.now() - timedelta(hours=3))
    page = browse(alice).get("/account/tokens")
    assert [token.name for token in page.context["rows"]] == ["script", ""]
    said = page.content.decode()
    for part in ("in 40 d", "in 1 h", "3 h ago", "never", "a client that signed in"):
        assert part in said, part
    assert "bobs" not in said


@pytest.mark.parametrize("form", [{"name": " "}, {"name": "x" * 101}, {"days": "0"}, {"days": "9999"}, {"days": "²"}])
def test_it_refuses_a_bad_name_or_time_and_keeps_what_was_typed(
    browse: Browse, alice: User, form: dict[str, str]
) -> None:
    answer = browse(alice).post("/account/tokens", {"name": "laptop", "days": "30", **form})
    assert answer.status_code == 400
    assert answer.context["error"]
    assert answer.context["name"] == form.get("name", "laptop")
    assert not ApiToken.objects.exists()


def test_it_revokes_only_after_the_question_and_at_once(browse: Browse, alice: User) -> None:
    client = browse(alice)
    token = shown_token(client)
    url = f"/account/tokens/{ApiToken.objects.get().pk}/revoke"
    assert "Revoke laptop?" in client.get(url).content.decode()
    assert tokens.user_of(token) == alice
    assert client.post(url).headers["Location"] == "/account/tokens"
    assert tokens.user_of(token) is None
    assert client.get(url).status_code == 404
    assert "had ended already" in client.post(url, follow=True).content.decode()


def test_nobody_revokes_the_token_of_another(browse: Browse, alice: User, admin: User) -> None:
    token = tokens.issue(alice, 3600, "mine")
    url = f"/account/tokens/{ApiToken.objects.get().pk}/revoke"
    assert browse(admin).get(url).status_code == 404
    browse(admin).post(url)
    assert browse(None).post(url).headers["Location"].startswith("/login")
    assert tokens.user_of(token) == alice


def test_a_number_that_no_token_has_is_refused_calmly(browse: Browse, alice: User) -> None:
    url = f"/account/tokens/{9**40}/revoke"
    assert browse(alice).get(url).status_code == 404
    assert browse(alice).post(url).status_code == 302


def test_a_guest_signs_in_first(browse: Browse) -> None:
    assert browse(None).get("/account/tokens").headers["Location"] == "/login?next=/account/tokens"


def test_its_queries_do_not_grow(browse: Browse, alice: User, count_queries: Count) -> None:
    client = browse(alice)
    client.get("/account/tokens")
    few = count_queries(lambda: client.get("/account/tokens"))
    for number in range(20):
        tokens.issue(alice, 3600, f"token {number}")
    assert count_queries(lambda: client.get("/account/tokens")) == few


@pytest.mark.browser
@pytest.mark.parametrize("script", [True, False])
def test_it_is_made_and_revoked_in_a_browser(tab: Callable[..., Tab], alice: User, script: bool) -> None:
    shown = tab(alice, java_script_enabled=script)
    page = shown.open("/account")
    page.get_by_role("navigation", name="Account").get_by_role("link", name="API tokens").click()
    page.fill("#t-name", "laptop")
    page.get_by_role("button", name="Make token").click()
    assert re.fullmatch(r"[\w-]+\.[\w-]+\.[\w-]+", page.locator("#token").inner_text())
    copy = page.get_by_role("button", name="Copy the token")
    if script:
        copy.click()
        expect(page.locator("#said")).to_have_text("Copied")
        shown.check("a new token")
    else:
        expect(copy).to_be_hidden()
    page.get_by_role("link", name="Revoke laptop").click()
    page.get_by_role("button", name="Revoke").click()
    expect(page.locator("main")).to_contain_text("The token was revoked.")
    assert ApiToken.objects.get().revoked_at
