"""POST /api/v1/token, and what its tokens open."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import timedelta
from typing import Any
from urllib.parse import urlencode

import jwt
import pytest
from django.conf import settings
from django.test import RequestFactory
from django.utils import timezone
from rest_framework.test import APIClient, APIRequestFactory

from base.accounts import tokens
from base.core.errors import Forbidden, Unauthorized
from base.models import ApiToken, AuditEvent, User
from portal.shared.api.auth import BearerAuthentication
from portal.shared.viewer import admin_of, user_of
from portal.sign_in import api as sign_in
from portal.sign_in.passwords import change_password
from tests.conftest import PASSWORD
from tests.http import Browser, Client

pytestmark = pytest.mark.django_db


def ask(data: Any, client: Client | None = None) -> Any:
    return (client or Client()).post("/api/v1/token", json.dumps(data), content_type="application/json")


def whoami(header: str | None) -> User:
    """The user behind an Authorization header, through the class that every API view uses."""
    request: Any = APIRequestFactory().get("/", **({"HTTP_AUTHORIZATION": header} if header is not None else {}))
    request.user, _ = BearerAuthentication().authenticate(request) or (None, None)
    return user_of(request)


def test_it_answers_with_a_token_that_carries_v1s_claims(alice: User) -> None:
    answer = ask({"username": "alice", "password": PASSWORD, "expiration": 3600})
    assert answer.status_code == 200
    body = answer.json()
    claims = jwt.decode(body.pop("token"), settings.TOKEN_KEY, algorithms=["HS256"])
    assert body == {"user": "alice", "admin": False, "hasGitHubPAT": False}
    assert (claims["username"], claims["admin"], claims["exp"] - claims["iat"]) == ("alice", False, 3600)


def test_it_takes_a_form_and_gives_a_day_by_default(admin: User) -> None:
    form = urlencode({"username": "admin", "password": PASSWORD})
    answer = Client().post("/rest-server/api/v1/token/", form, content_type="application/x-www-form-urlencoded")
    assert answer.json()["admin"] is True
    claims = jwt.decode(answer.json()["token"], settings.TOKEN_KEY, algorithms=["HS256"])
    assert claims["exp"] - claims["iat"] == 86_400


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({}, 'child "username" fails because ["username" is required]'),
        ([], '"value" must be an object'),
        ({"username": 5}, 'child "username" fails because ["username" must be a string]'),
        ({"username": "", "password": "x"}, 'child "username" fails because ["username" is not allowed to be empty]'),
        (
            {"username": "a b"},
            'child "username" fails because ["username" with value "a b" fails to match the required pattern: '
            "/^[\\w.-]+$/]",
        ),
        ({"username": "alice"}, 'child "password" fails because ["password" is required]'),
        (
            {"username": "alice", "password": "short"},
            'child "password" fails because ["password" length must be at least 6 characters long]',
        ),
        ({"expiration": 59}, 'child "expiration" fails because ["expiration" must be larger than or equal to 60]'),
        (
            {"expiration": 604_801},
            'child "expiration" fails because ["expiration" must be less than or equal to 604800]',
        ),
        ({"expiration": 60.5}, 'child "expiration" fails because ["expiration" must be an integer]'),
        ({"expiration": "soon"}, 'child "expiration" fails because ["expiration" must be a number]'),
        ({"expiration": True}, 'child "expiration" fails because ["expiration" must be a number]'),
        ({"expiration": 3600, "foo": 1}, '"foo" is not allowed'),
    ],
)
def test_it_refuses_in_v1s_words(data: Any, message: str) -> None:
    if isinstance(data, dict) and ({"expiration", "foo"} & set(data)):
        data = {"username": "alice", "password": PASSWORD, **data}
    answer = ask(data)
    assert answer.status_code == 400
    assert answer.json() == {"code": "InvalidParametersError", "message": message}


def test_it_says_which_of_name_and_password_is_wrong(alice: User) -> None:
    assert ask({"username": "mira", "password": PASSWORD}).json() == {
        "code": "NoUserError",
        "message": "User mira is not found.",
    }
    answer = ask({"username": "alice", "password": "not this"})
    assert answer.status_code == 400
    assert answer.json() == {"code": "IncorrectPasswordError", "message": "Password is incorrect."}
    assert list(AuditEvent.objects.values_list("actor", "action")) == [
        ("mira", "login failed"),
        ("alice", "login failed"),
    ]


def test_it_answers_text_that_is_not_json_without_a_code() -> None:
    answer = Client().post("/api/v1/token", "{nope", content_type="application/json")
    assert answer.status_code == 400
    assert "code" not in answer.json()


@pytest.mark.parametrize("scheme", ["Bearer", "bearer", "BEARER"])
def test_the_scheme_may_be_written_in_any_case(alice: User, scheme: str) -> None:
    assert whoami(f"{scheme} {tokens.issue(alice, 3600)}") == alice


@pytest.mark.parametrize("header", [None, "", "Bearer", "Bearer x", "Bearer x.y.z", "Basic YTpi", "Bearer \x00"])
def test_a_missing_or_bad_token_makes_a_guest(db: None, header: str | None) -> None:
    with pytest.raises(Unauthorized, match=r"^Guest is not allowed to do this operation\.$"):
        whoami(header)


def test_a_token_signed_with_another_key_or_none_is_refused(alice: User) -> None:
    claims = jwt.decode(tokens.issue(alice, 3600), settings.TOKEN_KEY, algorithms=["HS256"])
    for forged in (jwt.encode(claims, "k" * 32, algorithm="HS256"), jwt.encode(claims, None, algorithm="none")):
        with pytest.raises(Unauthorized):
            whoami(f"Bearer {forged}")


def test_a_token_ends_when_it_expires_is_revoked_or_its_user_is_disabled_or_gone(bob: User) -> None:
    expired, revoked, live = (f"Bearer {tokens.issue(bob, 3600)}" for _ in range(3))
    first, second, _ = ApiToken.objects.order_by("pk")
    ApiToken.objects.filter(pk=first.pk).update(expires_at=timezone.now() - timedelta(seconds=1))
    ApiToken.objects.filter(pk=second.pk).update(revoked_at=timezone.now())
    for header in (expired, revoked):
        with pytest.raises(Unauthorized):
            whoami(header)
    assert whoami(live) == bob
    User.objects.filter(pk=bob.pk).update(is_active=False)
    with pytest.raises(Unauthorized):
        whoami(live)
    bob.delete()
    with pytest.raises(Unauthorized):
        whoami(live)


def test_the_role_is_the_users_of_now_not_the_tokens(admin: User) -> None:
    token = tokens.issue(admin, 3600)
    User.objects.filter(pk=admin.pk).update(is_admin=False)
    request: Any = RequestFactory().get("/")
    request.user = tokens.user_of(token)
    with pytest.raises(Forbidden):
        admin_of(request)


def test_it_notes_the_last_use_at_most_once_a_minute(
    alice: User, django_assert_num_queries: Callable[[int], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tokens, "_TOUCH_EVERY", timedelta(hours=1))  # less than that passes between the two
    token = tokens.issue(alice, 3600)
    tokens.user_of(token)
    assert ApiToken.objects.get().last_used_at is not None
    with django_assert_num_queries(1):
        tokens.user_of(token)


def test_a_new_password_ends_all_tokens(alice: User, rf: RequestFactory) -> None:
    token = tokens.issue(alice, 3600)
    change_password(rf.post("/account"), alice, PASSWORD, "a better horse")
    assert tokens.user_of(token) is None


def test_it_locks_out_after_repeated_failures_without_hashing(alice: User, monkeypatch: pytest.MonkeyPatch) -> None:
    answers = [ask({"username": "alice", "password": "not this"}) for _ in range(8)]
    assert [answer.status_code for answer in answers] == [400] * 7 + [429]
    assert answers[-1].json()["code"] == "TooManyAttemptsError"
    hashed: list[str] = []
    monkeypatch.setattr(User, "check_password", lambda self, raw: bool(hashed.append(raw)))
    answer = ask({"username": "alice", "password": PASSWORD})
    assert (answer.status_code, hashed) == (429, [])
    assert answer.json() == {
        "code": "TooManyAttemptsError",
        "message": "Too many wrong passwords. Try again in a few minutes.",
    }
    assert Browser().post("/login", {"username": "alice", "password": PASSWORD}).status_code == 429


def test_the_error_of_the_unexpected_tells_nothing_of_our_inside(
    alice: User, api: Callable[[User | None], APIClient], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sign_in, "make_token", lambda *args: 1 / 0)
    answer = api(None).post("/api/v1/token", {"username": "alice", "password": PASSWORD}, format="json")
    assert answer.status_code == 500
    assert answer.json()["code"] == "UnknownError"
    assert "division" not in answer.content.decode()
