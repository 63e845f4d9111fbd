"""What whoever asks is told while the database is restarted, full or frozen: at once, and what to do."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import psycopg
import pytest
import uvicorn
from django.db import DatabaseError, InterfaceError, InternalError, OperationalError, connection, transaction
from django.test import Client

from base.database import configure
from base.models import User
from base.serving import bridge
from base.serving.bridge import Bridge
from portal.shared.api.answers import is_database_away
from portal.webhdfs import app as files
from tests.helpers import LIMIT, until

TRY_AGAIN = "The database cannot be read or written now."


def away(*_: object) -> None:
    raise OperationalError("the connection is closed")


@pytest.mark.django_db
@pytest.mark.parametrize("path", ["/", "/jobs", "/account", "/login"])
def test_a_page_says_so_also_to_who_is_signed_in(client: Client, admin: User, path: str) -> None:
    """The page about it cannot ask the database who reads it."""
    client.force_login(admin)
    with connection.execute_wrapper(away):
        answer = client.get(path)
    assert (answer.status_code, TRY_AGAIN in answer.content.decode()) == (503, True)


@pytest.mark.django_db
def test_the_api_says_that_it_is_worth_trying_again(client: Client) -> None:
    with connection.execute_wrapper(away):
        answer = client.get("/api/v1/jobs")
    assert (answer.status_code, answer.json()["code"]) == (503, "DatabaseUnavailableError")


@pytest.mark.parametrize("error", [OperationalError, InterfaceError])
def test_clients_of_the_file_gateway_try_again(error: type[Exception], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "close_old_connections", lambda: None)

    def act() -> Any:
        raise error("the connection is closed")

    answer = files._answer({"method": "PUT", "path": "/webhdfs/v1/x"}, act)
    assert isinstance(answer.body, bytes)
    assert (answer.status, json.loads(answer.body)["RemoteException"]["exception"]) == (503, "RetriableException")


@pytest.mark.skipif(connection.vendor != "postgresql", reason="SQLite ends no transaction by itself")
@pytest.mark.django_db(transaction=True)
def test_a_transaction_that_stood_still_too_long_is_the_database_s_trouble() -> None:
    """As on a machine that is overrun: the request is worth trying again. A mistake of our own is another thing."""
    connection.ensure_connection()
    with psycopg.connect(connection.connection.info.dsn, autocommit=True) as other:

        def is_ended(pid: int) -> bool:
            return other.execute("SELECT 1 FROM pg_stat_activity WHERE pid = %s", [pid]).fetchone() is None

        # The server's last word may be lost with the connection that it closes: then only that it is closed is known.
        away = (InternalError, OperationalError)
        with pytest.raises(away) as ended, transaction.atomic(), connection.cursor() as cursor:
            cursor.execute("SET LOCAL idle_in_transaction_session_timeout = 1")
            pid = connection.connection.info.backend_pid
            until(lambda: is_ended(pid), what="the server ends it")
            cursor.execute("SELECT 1")
    assert is_database_away(ended.value)
    with pytest.raises(InternalError) as mistaken, transaction.atomic(), connection.cursor() as cursor:
        with pytest.raises(DatabaseError):
            cursor.execute("SELECT nothing")
        cursor.execute("SELECT 1")
    assert not is_database_away(mistaken.value)


@pytest.fixture
def silent(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], httpx.Response]]:
    """Asks the health of a portal whose database takes questions and never answers."""
    monkeypatch.setattr(bridge, "SILENT", 0.2)
    thawed = threading.Event()

    def wsgi(environ: dict[str, Any], start: Any) -> Any:
        thawed.wait(LIMIT)
        start("200 OK", [("Content-Type", "application/json")])
        return [b"{}"]

    server = uvicorn.Server(uvicorn.Config(Bridge(wsgi, lambda _: 0), port=0, lifespan="off", log_level="error"))
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        until(lambda: server.started, what="the server listens")
        host, port = server.servers[0].sockets[0].getsockname()[:2]
        yield lambda: httpx.get(f"http://{host}:{port}/healthz", timeout=LIMIT)
    finally:
        thawed.set()
        server.should_exit = True
        thread.join(LIMIT)


def test_a_frozen_database_is_told_however_often_it_is_asked(silent: Callable[[], httpx.Response]) -> None:
    for _ in range(4):  # more than threads that could wait for it
        answer = silent()
        assert (answer.status_code, answer.json()) == (503, {"status": "down", "database": False})


def test_a_host_of_the_database_that_is_gone_is_not_waited_for_by_the_hour() -> None:
    """Of the operating system's own limits the shortest is a quarter of an hour."""
    options = configure("postgres://longshore@database.example/longshore?keepalives_idle=30")["OPTIONS"]
    assert options["connect_timeout"] <= 30
    assert options["tcp_user_timeout"] <= 60_000
    assert int(options["keepalives_idle"]) == 30, "what the address says goes first"
