"""A file store that is down shows in /healthz and on every page, and takes nobody's time."""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.test import Client

from base.files.store import local_root, marker, open_store
from base.files.store import state as store_state
from base.files.store.base import StoreUnavailable
from base.files.store.hdfs import client as hdfs
from base.files.store.state import try_store
from base.models import LocalFolder, User
from portal import health
from tests.helpers import LIMIT

pytestmark = pytest.mark.django_db
_SENTENCE = "The file store does not answer"
_FIRST_LOOK = health._FIRST_LOOK


@pytest.fixture(autouse=True)
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a busy machine it takes a while to learn that a store works, or that it does not."""
    monkeypatch.setattr(health, "_FIRST_LOOK", LIMIT)


@pytest.fixture
def silent(settings: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A NameNode that takes connections and says nothing, for longer than a test takes."""
    monkeypatch.setattr(health, "_FIRST_LOOK", _FIRST_LOOK)
    monkeypatch.setattr(hdfs, "NAMENODE", (LIMIT, LIMIT))
    monkeypatch.setattr(store_state._watch, "_slow", LIMIT)
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
    assert client.get("/healthz").json()["store"] is None
    client.force_login(admin)
    assert client.get("/account").status_code == 200
    asking = store_state._watch._thread
    assert asking is not None and asking.is_alive(), "who waits for an answer is not here before it comes"


def test_a_store_that_answers_is_no_news(client: Client, admin: User) -> None:
    assert store_state.is_store_up(LIMIT) is True
    client.force_login(admin)
    assert _SENTENCE not in client.get("/account").content.decode()


@pytest.fixture
def guarded(settings: Any, tmp_path: Path) -> Iterator[Path]:
    """A store made by ``manage.py up``, as a process that starts now finds it."""
    settings.HOME, settings.STORE_ID = tmp_path, None
    marker.prepare(local_root())
    yield local_root()
    marker.forget()


def test_a_store_whose_disk_is_not_mounted_is_refused_and_not_made_anew(client: Client, guarded: Path) -> None:
    open_store().write("/users/alice/file", [b"x"])
    away = guarded.rename(guarded.with_name("away"))
    answer = client.get("/healthz").json()
    assert (answer["store"], answer["status"]) == (False, "degraded")
    assert answer["storeReason"].endswith("Is its disk mounted?")
    with pytest.raises(StoreUnavailable, match=f"run: echo [0-9a-f]{{32}} > {guarded}/.longshore-store"):
        marker.prepare(guarded)
    guarded.mkdir()
    with pytest.raises(StoreUnavailable):
        marker.prepare(guarded)
    assert list(guarded.iterdir()) == []
    guarded.rmdir()
    away.rename(guarded)
    marker.prepare(guarded)
    assert open_store().list("/users/alice")


def test_a_store_of_an_older_portal_gets_its_marker_at_the_start(settings: Any, tmp_path: Path) -> None:
    (tmp_path / "store" / "users").mkdir(parents=True)
    marker.prepare(tmp_path / "store")
    marker.prepare(tmp_path / "store")
    assert marker.read(tmp_path / "store") == LocalFolder.objects.get().marker


def test_a_store_that_takes_no_files_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    said: list[str] = []
    try_store(say=said.append)
    (sentence,) = said
    assert sentence.startswith("Files cannot be kept yet. The file store has no room for /")
    assert sentence.endswith(": No space left on device. Jobs run, and their files are written later.")
    assert store_state.is_store_up(LIMIT) is False


def test_the_trial_of_a_write_leaves_nothing(settings: Any, tmp_path: Path) -> None:
    settings.HOME = tmp_path
    assert store_state.is_store_up(LIMIT) is True
    assert open_store().list("/") == []
