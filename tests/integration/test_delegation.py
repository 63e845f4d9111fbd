"""Tokens for programs that can only open an address: what they allow, and when they end."""

from __future__ import annotations

import jwt
import pytest
from django.conf import settings
from django.utils import timezone

from jobs.models import Attempt, Job
from portal.models import User
from portal.store import delegation
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
