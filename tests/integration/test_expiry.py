"""What is removed in the end, and what is not yet."""

from __future__ import annotations

from datetime import timedelta
from types import SimpleNamespace
from typing import Any
from uuid import uuid4

import pytest
from django.contrib.sessions.models import Session
from django.utils import timezone
from django_q.models import Failure, Success

from base.accounts import expiry
from base.models import ApiToken, User
from jobs.scheduling import loop
from jobs.scheduling.loop import Scheduler

pytestmark = pytest.mark.django_db


def token(user: User, *, expires: int, revoked: int | None = None) -> ApiToken:
    """Times in days from now."""
    now = timezone.now()
    ended = None if revoked is None else now + timedelta(days=revoked)
    return ApiToken.objects.create(
        user=user, id_hash=uuid4().hex, expires_at=now + timedelta(days=expires), revoked_at=ended
    )


def test_tokens_go_a_month_after_they_ended(alice: User) -> None:
    kept = [token(alice, expires=1), token(alice, expires=-29), token(alice, expires=90, revoked=-29)]
    for gone in ({"expires": -31}, {"expires": 90, "revoked": -31}):
        token(alice, **gone)
    assert expiry.clean_up(timezone.now()) == 2
    assert list(ApiToken.objects.order_by("pk")) == kept
    assert expiry.clean_up(timezone.now()) == 0, "twice is once"


def test_sessions_go_when_they_have_expired() -> None:
    now = timezone.now()
    for name, hours in (("old", -1), ("new", 1)):
        Session.objects.create(session_key=name, session_data="", expire_date=now + timedelta(hours=hours))
    expiry.clean_up(now)
    assert [session.session_key for session in Session.objects.all()] == ["new"]


def test_the_scheduler_does_it_once_a_day(django_assert_num_queries: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop, "time", SimpleNamespace(monotonic=lambda: 1000.0))  # nothing is due a second time
    scheduler = Scheduler()
    assert scheduler.lease.try_take()
    Session.objects.create(session_key="old", session_data="", expire_date=timezone.now() - timedelta(hours=1))
    scheduler._do_routine()
    assert not Session.objects.exists()
    with django_assert_num_queries(0):
        scheduler._do_routine()


def test_notes_of_failed_orders_go_after_a_month() -> None:
    now = timezone.now()
    for name, days in (("old", 31), ("new", 1)):
        at = now - timedelta(days=days)
        Failure.objects.create(id=name, name=name, func="f", started=at, stopped=at, success=False)
    Success.objects.create(
        id="done", name="done", func="f", started=now - timedelta(days=99), stopped=now, success=True
    )
    expiry.clean_up(now)
    assert set(Failure.objects.values_list("id", flat=True)) == {"new"}
    assert Success.objects.count() == 1
