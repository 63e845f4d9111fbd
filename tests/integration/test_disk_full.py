"""A full disk of a host of the portal is a sentence for whoever meets it, never a failure without a reason."""

from __future__ import annotations

import asyncio
import errno
import json
import os
from typing import Any

import pytest
from django.db import connection
from django.test import Client

from base.accounts import tokens
from base.core.errors import DiskFull
from base.models import User
from base.serving import bodies
from jobs.models import Job
from portal.webhdfs import app as files

SAYS = "The disk of this host of the portal is full."


def full(*_: Any, **__: Any) -> Any:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.mark.django_db
def test_a_page_says_so(client: Client, admin: User, monkeypatch: pytest.MonkeyPatch) -> None:
    client.force_login(admin)
    monkeypatch.setattr("portal.hosts.hosts.hosts", full)
    answer = client.get("/hosts")
    assert (answer.status_code, SAYS in answer.content.decode()) == (503, True)


@pytest.mark.django_db
def test_the_api_says_that_it_is_worth_trying_again(client: Client) -> None:
    with connection.execute_wrapper(full):
        answer = client.get("/api/v1/jobs")
    assert (answer.status_code, answer.json()["code"]) == (503, "DiskFullError")


def test_clients_of_the_file_gateway_try_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "close_old_connections", lambda: None)
    answer = files._answer({"method": "PUT", "path": "/webhdfs/v1/x"}, full)
    assert isinstance(answer.body, bytes)
    assert (answer.status, json.loads(answer.body)["RemoteException"]["exception"]) == (503, "RetriableException")


def test_a_body_that_finds_no_room_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.TemporaryFile", full)

    async def receive() -> Any:
        return {"type": "http.request", "body": b"x" * (bodies.SIGNED_IN + 1), "more_body": True}

    async def limit() -> int:
        return 10 * bodies.SIGNED_IN

    with pytest.raises(DiskFull):
        asyncio.run(bodies.read({"headers": [(b"transfer-encoding", b"chunked")]}, receive, limit))


@pytest.mark.django_db
@pytest.mark.skipif(connection.vendor != "sqlite", reason="only SQLite's disk can be made full for one test")
def test_a_full_disk_of_the_database_is_told_as_that(client: Client, alice: User) -> None:
    """By the real database, which may have no page more."""
    role = {"name": "main", "command": "x" * 60_000}
    config = {"jobName": "a", "image": "i", "taskRoles": [role]}
    token = {"Authorization": f"Bearer {tokens.issue(alice, 3600)}"}
    with connection.cursor() as cursor:
        pages = cursor.execute("PRAGMA page_count").fetchone()[0]
        cursor.execute(f"PRAGMA max_page_count = {pages + 1}")
    try:
        answer = client.post("/api/v1/jobs", json.dumps(config), content_type="application/json", headers=token)
    finally:
        with connection.cursor() as cursor:
            cursor.execute("PRAGMA max_page_count = 1073741823")
    assert answer.status_code == 503
    assert answer.json()["message"].startswith("The disk of the database is full. Try again once an admin")
    assert not Job.objects.exists()
