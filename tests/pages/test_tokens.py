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
    answer = client.post("/account/tokens", {"name": "laptop", "days": "30", "scope": "*", **form})
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
    for _ in range(3):
        tokens.issue(alice, 3600, client="curl from 10.0.0.1")
    tokens.issue(alice, 40 * 86400, "script", scopes="jobs:read files:read")
    tokens.issue(bob, 3600, "bobs")
    used = {"last_used_at": timezone.now() - timedelta(hours=3), "used_from": "10.0.0.7"}
    ApiToken.objects.filter(name="script").update(**used)
    page = browse(alice).get("/account/tokens")
    assert [token.name for token in page.context["rows"]] == ["script"]
    assert [(each["client"], each["number"]) for each in page.context["clients"]] == [("curl from 10.0.0.1", 3)]
    said = page.content.decode()
    for part in ("in 40 d", "in 1 h", "3 h ago", "10.0.0.7", "never", "jobs:read files:read", "curl from 10.0.0.1"):
        assert part in said, part
    assert "bobs" not in said


def test_clients_that_sign_in_come_in_pages_and_are_revoked_together(browse: Browse, alice: User, bob: User) -> None:
    for number in range(21):
        tokens.issue(alice, 3600, client=f"curl from 10.0.0.{number}")
    theirs, others = tokens.issue(alice, 3600, client="robot"), tokens.issue(bob, 3600, client="robot")
    named = tokens.issue(alice, 3600, "laptop")
    first, second = (browse(alice).get(f"/account/tokens?page={page}") for page in (1, 2))
    assert [len(page.context["clients"]) for page in (first, second)] == [20, 2]
    assert (first.context["older"], second.context["older"], second.context["newer"]) == (
        "?page=2#clients",
        "",
        "?page=1#clients",
    )
    asked = browse(alice).get("/account/tokens/clients/revoke?client=robot")
    assert "Revoke the tokens of robot?" in asked.content.decode() and tokens.user_of(theirs) == alice
    browse(alice).post("/account/tokens/clients/revoke", {"client": "robot"})
    assert [tokens.user_of(each) for each in (theirs, others, named)] == [None, bob, alice]


def test_a_token_has_the_scopes_that_were_chosen(browse: Browse, alice: User) -> None:
    form = {"name": "ci", "days": "7", "scope": ["jobs:submit", "jobs:read"]}
    token = browse(alice).post("/account/tokens", form).context["token"]
    assert (ApiToken.objects.get().scopes, tokens.user_of(token)) == ("jobs:read jobs:submit", alice)


@pytest.mark.parametrize(
    "form",
    [
        {"name": " "},
        {"name": "x" * 101},
        {"days": "0"},
        {"days": "9999"},
        {"days": "²"},
        {"scope": []},
        {"scope": "jobs:all"},
    ],
)
def test_it_refuses_a_bad_name_or_time_and_keeps_what_was_typed(
    browse: Browse, alice: User, form: dict[str, str]
) -> None:
    answer = browse(alice).post("/account/tokens", {"name": "laptop", "days": "30", "scope": "*", **form})
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
        tokens.issue(alice, 3600, client=f"client {number}")
    assert count_queries(lambda: client.get("/account/tokens")) == few


@pytest.mark.browser
@pytest.mark.parametrize("script", [True, False])
def test_it_is_made_and_revoked_in_a_browser(tab: Callable[..., Tab], alice: User, script: bool) -> None:
    shown = tab(alice, java_script_enabled=script)
    page = shown.open("/account")
    page.get_by_role("navigation", name="Account").get_by_role("link", name="API tokens").click()
    page.fill("#t-name", "laptop")
    page.get_by_label("jobs:read").check()
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
