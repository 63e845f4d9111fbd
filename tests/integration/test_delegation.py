"""Tokens for programs that can only open an address: what they allow, and when they end."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import jwt
import pytest
from django.conf import settings
from django.test import Client
from django.utils import timezone

from base.accounts import services as accounts
from base.accounts import tokens
from base.core.errors import Conflict
from base.files.store import delegation
from base.models import ApiToken, User
from clusters.users import services as users
from jobs.models import Attempt, Job
from tests.submitting import submitted

pytestmark = pytest.mark.django_db


@pytest.fixture
def mira() -> User:
    return User.objects.create_user("mira", "a long secret")


def test_a_token_stands_for_its_user_until_it_expires(mira: User) -> None:
    found = delegation.read(delegation.issue("mira", seconds=60))
    assert found is not None and found.user == mira and found.allows("OPEN", "/any/where")
    assert delegation.read(delegation.issue("mira", seconds=-1)) is None


def test_a_token_for_one_thing_allows_nothing_else(mira: User) -> None:
    found = delegation.read(delegation.issue("mira", seconds=60, path="/a/key", ops=["OPEN"]))
    assert found is not None and found.allows("open", "/a/key")
    assert not found.allows("DELETE", "/a/key") and not found.allows("OPEN", "/a/key/more")


def test_a_token_dies_with_its_user(mira: User) -> None:
    token = delegation.issue("mira", seconds=60)
    User.objects.filter(pk=mira.pk).update(is_active=False)
    assert delegation.read(token) is None
    mira.delete()
    User.objects.create_user("mira", "another person")
    assert delegation.read(token) is None


def changed_password(user: User) -> None:
    users.update_user(user, user.username, password="a longer secret")


def disabled_and_enabled_again(user: User) -> None:
    root = User.objects.create_user("root", "a long secret", is_admin=True)
    for active in (False, True):
        users.set_active(root, user.username, active)


@pytest.mark.parametrize("ended", [changed_password, disabled_and_enabled_again])
def test_a_new_password_and_a_disabled_account_end_every_token(mira: User, ended: Callable[[User], None]) -> None:
    signed = delegation.issue("mira", seconds=3600, path="/a/key", ops=["OPEN"])
    granted = delegation.grant(mira)
    assert delegation.read(signed) and delegation.read(granted)
    ended(mira)
    assert delegation.read(signed) is None and delegation.read(granted) is None


def test_a_session_does_not_come_back_with_its_user(mira: User, browse: Callable[[User], Client]) -> None:
    client = browse(mira)
    assert client.get("/account").status_code == 200
    disabled_and_enabled_again(mira)
    assert client.get("/account").status_code == 302


def test_a_token_is_renewed_for_seven_days_and_no_longer(mira: User, monkeypatch: pytest.MonkeyPatch) -> None:
    token, began = delegation.grant(mira), timezone.now()
    for hours in range(23, 168, 23):
        monkeypatch.setattr(timezone, "now", lambda hours=hours: began + timedelta(hours=hours))
        assert delegation.renew(token, mira) is not None, f"after {hours} hours"
    last = delegation.renew(token, mira)
    assert last is not None and last - began < timedelta(days=7, minutes=1)
    monkeypatch.setattr(timezone, "now", lambda: began + timedelta(days=7, minutes=1))
    assert delegation.read(token) is None and delegation.renew(token, mira) is None


def test_a_token_that_nobody_renews_holds_for_a_day(mira: User, monkeypatch: pytest.MonkeyPatch) -> None:
    token, late = delegation.grant(mira), timezone.now() + timedelta(days=1, minutes=1)
    monkeypatch.setattr(timezone, "now", lambda: late)
    assert delegation.read(token) is None and delegation.renew(token, mira) is None


def test_a_token_is_cancelled_by_its_user_alone(mira: User) -> None:
    token, other = delegation.grant(mira), User.objects.create_user("other", "a long secret")
    assert not delegation.cancel(token, other) and delegation.renew(token, other) is None
    assert delegation.cancel(token, mira)
    assert delegation.read(token) is None and not delegation.cancel(token, mira)


def asked_by(user: User, **options: str) -> tuple[ApiToken, str]:
    """An API token of the user, and the token that was asked for with it."""
    asker = tokens.user_of(tokens.issue(user, 3600, **options))
    assert asker is not None
    return ApiToken.objects.get(client="", revoked_at=None), delegation.grant(asker)


def revoked_by_itself(row: ApiToken) -> None:
    assert accounts.revoke_token(row.user, row.pk)


def of_its_client(row: ApiToken) -> None:
    assert accounts.revoke_sign_ins(row.user, row.client) == 1


@pytest.mark.parametrize("revoke", [revoked_by_itself, of_its_client, ApiToken.delete])
def test_a_token_ends_with_the_api_token_that_asked_for_it(mira: User, revoke: Callable[[ApiToken], object]) -> None:
    other, (parent, token) = delegation.grant(mira), asked_by(mira)
    assert accounts.live_tokens(mira).count() == 3
    revoke(parent)
    assert delegation.read(token) is None and delegation.renew(token, mira) is None
    assert not delegation.cancel(token, mira)
    assert delegation.read(other) and accounts.live_tokens(mira).count() == 1, "one of a session has no parent"


def test_a_token_holds_no_longer_than_the_api_token_that_asked_for_it(
    mira: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    parent, token = asked_by(mira)
    assert delegation.renew(token, mira) == parent.expires_at
    monkeypatch.setattr(timezone, "now", lambda: parent.expires_at)
    assert delegation.read(token) is None and delegation.renew(token, mira) is None


def ended_by_time(token: str, user: User) -> None:
    user.tokens.update(expires_at=timezone.now())


@pytest.mark.parametrize("end", [delegation.cancel, ended_by_time])
def test_a_user_has_so_many_tokens_and_those_that_have_ended_do_not_count(
    mira: User, end: Callable[[str, User], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delegation, "MOST", 2)
    first, _ = delegation.grant(mira), delegation.grant(mira)
    with pytest.raises(Conflict, match="Cancel some with CANCELDELEGATIONTOKEN, or revoke all of WebHDFS"):
        delegation.grant(mira)
    assert delegation.grant(User.objects.create_user("other", "a long secret")) and delegation.read(first)
    end(first, mira)
    assert delegation.read(delegation.grant(mira))
    assert not mira.tokens.exclude(tokens.not_ended(timezone.now())).exists(), "their rows go"


def test_a_token_of_files_signs_nobody_in(mira: User) -> None:
    assert tokens.user_of(delegation.grant(mira)) is None


def test_nothing_that_was_not_made_for_this_is_taken(mira: User) -> None:
    login = jwt.encode({"sub": "mira", "exp": 2**31}, settings.TOKEN_KEY, algorithm="HS256")
    forged = jwt.encode({"sub": "mira", "exp": 2**31, "aud": "webhdfs"}, "x" * 32, algorithm="HS256")
    endless = jwt.encode({"sub": "mira", "aud": "webhdfs"}, settings.TOKEN_KEY, algorithm="HS256")
    assert [delegation.read(token) for token in (login, forged, endless, "", "a.b.c")] == [None] * 5


def token_of(job: Job) -> str:
    return delegation.issue_for_attempt(job.username, job.attempts.latest("number").app_id)


def test_a_job_s_token_holds_while_the_job_lives(mira: User) -> None:
    job = submitted(mira, "train")
    token = token_of(job)
    assert (found := delegation.read(token)) is not None and found.user == mira
    Job.objects.filter(pk=job.pk).update(state="SUCCEEDED", completed_at=timezone.now())
    assert delegation.read(token) is None


def test_a_job_s_token_ends_with_its_attempt_and_is_not_good_for_the_next_job_of_that_name(mira: User) -> None:
    job = submitted(mira, "train")
    first = token_of(job)
    Attempt.objects.filter(job=job).update(completed_at=timezone.now())
    assert delegation.read(first) is None, "the job waits for its next attempt"
    Job.objects.filter(pk=job.pk).update(deleted_at=timezone.now(), state="STOPPED")
    again = submitted(mira, "train")
    assert delegation.read(first) is None and delegation.read(token_of(again)) is not None


def test_a_token_of_the_first_release_that_names_a_job_only_opens_nothing(mira: User) -> None:
    job = submitted(mira, "train")
    claims = {"sub": "mira", "uid": mira.pk, "aud": "webhdfs", "job": job.full_name}
    assert delegation.read(jwt.encode(claims, settings.TOKEN_KEY, algorithm="HS256")) is None


def test_a_job_s_token_makes_nobody_an_admin(mira: User) -> None:
    User.objects.filter(pk=mira.pk).update(is_admin=True)
    found = delegation.read(token_of(submitted(mira, "train")))
    assert found is not None and found.user.is_admin and not found.is_admin
    login = delegation.read(delegation.issue("mira", seconds=60))
    assert login is not None and login.is_admin
