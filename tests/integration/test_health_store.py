"""A file store that is down shows in /healthz and on every page, and takes nobody's time."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from typing import Any

import pytest
from django.test import Client

from portal import health
from portal.models import User

pytestmark = pytest.mark.django_db
_SENTENCE = "The file store does not answer"


@pytest.fixture
def silent(settings: Any) -> Iterator[None]:
    """A NameNode that takes connections and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        settings.STORE_URL = f"webhdfs://127.0.0.1:{server.getsockname()[1]}"
        yield


def test_a_store_that_refuses_is_told(client: Client, admin: User, settings: Any) -> None:
    settings.STORE_URL = "webhdfs://127.0.0.1:9"
    answer = client.get("/healthz")
    assert (answer.status_code, answer.json()["status"], answer.json()["store"]) == (200, "degraded", False)
    client.force_login(admin)
    assert _SENTENCE in client.get("/account").content.decode()


def test_a_silent_store_holds_up_no_page(client: Client, admin: User, silent: None) -> None:
    began = time.monotonic()
    assert client.get("/healthz").json()["store"] is None
    client.force_login(admin)
    assert client.get("/account").status_code == 200
    assert time.monotonic() - began < 5


def test_a_store_that_answers_is_no_news(client: Client, admin: User) -> None:
    assert health.is_store_up(10) is True
    client.force_login(admin)
    assert _SENTENCE not in client.get("/account").content.decode()
