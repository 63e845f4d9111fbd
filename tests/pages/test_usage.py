"""The page of usage: sums, plot and table without JavaScript, in both colours and on a phone."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

from base.models import User
from tests import http
from tests.history import DAY, HOUR, held
from tests.pages.conftest import Tab

NOW = time.time_ns() // 1_000_000


def a_month() -> None:
    for at in range(28):
        for user, vc in (("alice", "default"), ("bob", "nlp"), ("carol", "vision"), ("dan", "b"), ("eve", "c")):
            began = NOW - at * DAY - 3 * HOUR
            outcome = ("SUCCEEDED", "FAILED", "EVICTED")[at % 3]
            held(began, began + (at + 1) * HOUR // 9, username=user, vc=vc, gpus=4, waited=at * 60_000, outcome=outcome)


def page(user: User, address: str) -> str:
    client = http.Browser()
    client.force_login(user)
    answer = client.get(address)
    assert answer.status_code == 200
    return answer.content.decode()


@pytest.mark.django_db
def test_it_names_users_to_admins_and_sums_others_for_users(admin: User, alice: User) -> None:
    held(NOW - 3 * HOUR, NOW - HOUR, username="bob", gpus=2)
    assert "bob" in page(admin, "/usage")
    seen = page(alice, "/usage")
    assert "bob" not in seen
    assert "others in your virtual clusters" in seen


@pytest.mark.django_db
def test_a_range_without_use_says_when_the_last_one_was(admin: User) -> None:
    held(NOW - 50 * DAY - HOUR, NOW - 50 * DAY)
    seen = page(admin, "/usage?by=vc")
    assert "No job ran in this range." in seen
    assert "The last use was on" in seen


@pytest.mark.django_db
def test_jobs_without_gpus_leave_a_sentence_in_place_of_the_plot(admin: User) -> None:
    held(NOW - 3 * HOUR, NOW - HOUR, gpus=0)
    seen = page(admin, "/usage")
    assert "No job used a GPU in these days." in seen and "GPU-hours a day by" not in seen
    held(NOW - 3 * HOUR, NOW - HOUR, gpus=1)
    seen = page(admin, "/usage")
    assert "No job used a GPU in these days." not in seen and "GPU-hours a day by" in seen


@pytest.mark.django_db
def test_a_wrong_range_is_a_page_with_a_sentence(admin: User) -> None:
    client = http.Browser()
    client.force_login(admin)
    answer = client.get("/usage?from=never")
    assert answer.status_code == 400
    assert "from is not a time" in answer.content.decode()


@pytest.mark.django_db
def test_guests_are_sent_to_sign_in(client: http.Client) -> None:
    assert client.get("/usage")["Location"].startswith("/login")


@pytest.mark.django_db
def test_its_queries_do_not_grow(admin: User, count_queries: Callable[[Callable[[], object]], int]) -> None:
    few = count_queries(lambda: page(admin, "/usage"))
    a_month()
    assert count_queries(lambda: page(admin, "/usage")) <= few


@pytest.mark.browser
def test_a_bar_of_the_plot_is_as_high_as_its_hours(tab: Callable[..., Tab], admin: User) -> None:
    midnight = NOW - NOW % DAY
    held(midnight - DAY, midnight - DAY + 8 * HOUR, gpus=1)
    shown: Any = tab(admin, java_script_enabled=False).open("/usage?from=2d&by=vc")
    assert float(shown.locator(".ls-usageplot rect").first.get_attribute("height")) == pytest.approx(189, abs=1)
