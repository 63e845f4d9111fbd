"""How many wrong passwords anybody may try: one address at many names, many addresses at one name."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from base.accounts import passwords
from base.models import User
from tests.conftest import PASSWORD
from tests.http import Client

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(passwords, "BY_ADDRESS", 5)
    monkeypatch.setattr(passwords, "BY_USER", 6)


def status(username: str, password: str, address: str) -> int:
    fields = {"username": username, "password": password}
    return Client().post("/api/v1/token", fields, "application/json", REMOTE_ADDR=address).status_code


def guess(*tries: tuple[str, str]) -> list[int]:
    """The answers to a wrong password for each (name, address)."""
    return [status(username, "a wrong one", address) for username, address in tries]


def test_one_address_tries_a_few_names_and_then_waits(alice: User) -> None:
    assert guess(*((f"user{number}", "192.0.2.1") for number in range(5))) == [400] * 5
    assert status("alice", PASSWORD, "192.0.2.1") == 429
    assert status("alice", PASSWORD, "192.0.2.2") == 200, "others go on"


def test_many_addresses_guess_one_password_only_so_often(alice: User) -> None:
    codes = guess(*(("alice", f"192.0.2.{number}") for number in range(8)))
    assert codes == [400] * 6 + [429] * 2


def test_a_user_is_not_locked_out_from_where_they_work(alice: User) -> None:
    assert status("alice", PASSWORD, "198.51.100.7") == 200
    guess(*(("alice", f"192.0.2.{number}") for number in range(8)))
    assert status("alice", PASSWORD, "198.51.100.7") == 200
    assert status("alice", PASSWORD, "198.51.100.8") == 429, "from elsewhere they wait too"


def test_the_doors_open_by_themselves(alice: User, monkeypatch: pytest.MonkeyPatch) -> None:
    guess(*(("alice", f"192.0.2.{number}") for number in range(8)))
    guess(*(("bob", "192.0.2.99") for _ in range(8)))
    later = timezone.now() + passwords.WINDOW + timedelta(seconds=1)
    monkeypatch.setattr(timezone, "now", lambda: later)
    assert status("alice", PASSWORD, "192.0.2.99") == 200


def test_the_page_has_the_same_limits(alice: User, browse: Callable[[Any], Client]) -> None:
    guess(*((f"user{number}", "192.0.2.1") for number in range(5)))
    answer = browse(None).post("/login", {"username": "alice", "password": PASSWORD}, REMOTE_ADDR="192.0.2.1")
    assert (answer.status_code, b"Too many wrong passwords" in answer.content) == (429, True)
