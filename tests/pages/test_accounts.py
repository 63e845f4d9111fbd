"""Sign in, sign out and change of password, as a browser sends them."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django.test import Client

from base.models import AuditEvent, User
from tests.conftest import PASSWORD

pytestmark = pytest.mark.django_db
Browse = Callable[[User | None], Client]


@pytest.mark.parametrize(
    ("target", "goes_to"),
    [
        ("/jobs?state=FAILED", "/jobs?state=FAILED"),
        ("https://elsewhere.example/", "/"),
        ("//elsewhere", "/"),
        ("foo", "/"),
        ("", "/"),
    ],
)
def test_it_signs_in_and_goes_on_only_to_own_pages(client: Client, alice: User, target: str, goes_to: str) -> None:
    answer = client.post("/login", {"username": "alice", "password": PASSWORD, "next": target})
    assert (answer.status_code, answer.headers["Location"]) == (302, goes_to)
    assert client.get("/account").status_code == 200
    assert AuditEvent.objects.get().action == "login"
    assert client.get("/login", {"next": target}).headers["Location"] == goes_to
    assert client.post("/theme", {"theme": "dark", "next": target}).headers["Location"] == goes_to


def test_it_does_not_say_whether_name_or_password_is_wrong(client: Client, alice: User) -> None:
    pages = [
        client.post("/login", {"username": name, "password": "not this"})
        for name in ("alice", "nobody", "x" * 300, "a\0b")
    ]
    assert {page.status_code for page in pages} == {400}
    assert {page.context["error"] for page in pages} == {"User name or password is wrong."}


def test_it_keeps_the_session_a_week_only_when_asked(client: Client, alice: User) -> None:
    client.post("/login", {"username": "alice", "password": PASSWORD})
    assert client.session.get_expire_at_browser_close()
    client.post("/login", {"username": "alice", "password": PASSWORD, "remember": "on"})
    assert client.session.get_expiry_age() == 7 * 86400


def test_it_refuses_forms_without_a_csrf_token(alice: User) -> None:
    answer = Client(enforce_csrf_checks=True).post("/login", {"username": "alice", "password": PASSWORD})
    assert answer.status_code == 403
    assert b"expired" in answer.content


def test_the_account_page_asks_to_sign_in_first(client: Client) -> None:
    assert client.get("/account").headers["Location"] == "/login?next=/account"


def test_signing_out_needs_a_post_and_ends_the_session(browse: Browse, alice: User) -> None:
    client = browse(alice)
    assert client.get("/logout").status_code == 405
    assert client.post("/logout").headers["Location"] == "/login"
    assert client.get("/account").status_code == 302
    assert AuditEvent.objects.get().action == "logout"


def test_a_new_password_keeps_this_session_and_ends_the_others(browse: Browse, alice: User) -> None:
    here, elsewhere = browse(alice), browse(alice)
    form = {"old_password": PASSWORD, "new_password": "a better horse", "again": "a better horse"}
    assert here.post("/account", form).status_code == 302
    assert here.get("/account").status_code == 200
    assert elsewhere.get("/account").status_code == 302
    alice.refresh_from_db()
    assert alice.check_password("a better horse")


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"old_password": "not this"}, "Password is incorrect."),
        ({"again": "other"}, "The two new passwords differ."),
        ({"new_password": "short", "again": "short"}, "at least 6 characters"),
    ],
)
def test_it_says_why_a_password_was_not_changed(
    browse: Browse, alice: User, change: dict[str, str], error: str
) -> None:
    form = {"old_password": PASSWORD, "new_password": "a better horse", "again": "a better horse", **change}
    answer = browse(alice).post("/account", form)
    assert answer.status_code == 400
    assert error in answer.context["error"]
    alice.refresh_from_db()
    assert alice.check_password(PASSWORD)


def test_every_answer_carries_the_security_headers(client: Client) -> None:
    for path in ("/login", "/api/v1/nothing", "/nothing"):
        headers = client.get(path).headers
        assert headers["Content-Security-Policy"].startswith("default-src 'self'; img-src 'self' data:")
        assert (headers["X-Content-Type-Options"], headers["Referrer-Policy"]) == ("nosniff", "same-origin")
