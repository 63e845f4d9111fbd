"""Fixtures every ring may use: users, clients, and the marks that skip or fail by what the machine has."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
from collections.abc import Callable, Generator, Iterator
from typing import Any

import pytest
from django.apps import apps
from django.contrib.contenttypes.management import create_contenttypes
from django.core.cache import cache
from django.db import connection, transaction
from django.db.models.signals import post_migrate
from django.test import TransactionTestCase
from hypothesis import HealthCheck, settings

from base.accounts import budget, tokens
from base.core.bulk import one_row
from base.files.store import local_root
from base.models import User
from clusters.engines import schemes
from clusters.models import VirtualCluster
from clusters.nodes import queries as node_queries
from jobs.forecast import recent, scores
from jobs.history import lengths
from jobs.logs.follow import hub
from jobs.waiting import queue
from portal.shared.api import repeated
from tests import fresh
from tests.helpers import examples, in_gate, need
from tests.hosts import Hosts
from tests.http import ApiClient, Browser, Client

# A busy machine is no failure. The gate tries the same few examples each time, so that no change is rejected for an
# example that nobody had met before; whole runs and runs by hand try others each time, and more.
_EXAMPLES: dict[str, Any] = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}
settings.register_profile("longshore", **_EXAMPLES)
settings.register_profile("gate", derandomize=True, max_examples=examples(100), **_EXAMPLES)
settings.load_profile("gate" if in_gate() else "longshore")
# Playwright runs its own event loop; Django would take database calls of such a test for a mistake.
os.environ.setdefault("DJANGO_ALLOW_ASYNC_UNSAFE", "true")
PASSWORD = "correct horse"


def _empty(_: TransactionTestCase) -> None:
    """In place of Django's, which empties every table and then tells all apps that they were migrated: most are empty.
    Keys are checked when it is over, so the order does not matter."""
    tables = [model._meta.db_table for model in apps.get_models(include_auto_created=True)]
    asked = ", ".join(f'EXISTS (SELECT 1 FROM "{table}")' for table in tables)
    with transaction.atomic(), connection.cursor() as cursor:
        for table, is_filled in zip(tables, one_row(f"SELECT {asked}"), strict=True):
            if is_filled:
                cursor.execute(f'DELETE FROM "{table}"')
        # The row that a migration made.
        VirtualCluster.objects.create(name="default", capacity=100, max_capacity=100)


TransactionTestCase._fixture_teardown = _empty  # type: ignore[method-assign]
# Longshore uses neither; Django would write some sixty rows of them into each new database.
post_migrate.disconnect(dispatch_uid="django.contrib.auth.management.create_permissions")
post_migrate.disconnect(create_contenttypes)


def pytest_configure() -> None:
    """Whoever ends a run means the same as Ctrl-C: what tests have started is to be taken down. A shell's ``&`` makes
    its children ignore that, and they theirs."""
    for ending in (signal.SIGINT, signal.SIGTERM):
        signal.signal(ending, signal.default_int_handler)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """From the first test with a browser on, the loop of Playwright runs in this thread. Other tests run loops of
    their own there. And Django has one connection with a loop and another one without, so this is settled before any
    fixture: else a test writes on one while the transaction that is to be rolled back is on the other."""
    loop = asyncio._get_running_loop()
    if loop is None or "browser" in getattr(item, "fixturenames", ()):
        return (yield)
    asyncio._set_running_loop(None)
    try:
        return (yield)
    finally:
        asyncio._set_running_loop(loop)


def pytest_runtest_setup(item: pytest.Item) -> None:
    for part in ("docker", "browser", "postgres", "kubernetes"):
        if item.get_closest_marker(part):
            need(part)


@pytest.fixture(autouse=True)
def _fresh_process_state() -> Iterator[None]:
    fresh.who_lives()
    fresh.the_store()
    shutil.rmtree(local_root(), ignore_errors=True)
    lengths.known_lengths.forget()
    scores.recent_corrections.forget()
    recent.recent_arrivals.forget()
    queue.forget()
    repeated.forget()
    node_queries.forget()
    budget.forget()
    cache.clear()
    hub.close()  # whoever follows a log knows its task by a number, which the next test gives to another one
    yield


@pytest.fixture
def admin(db: None) -> User:
    return User.objects.create_user("admin", PASSWORD, is_admin=True)


@pytest.fixture
def alice(db: None) -> User:
    return User.objects.create_user("alice", PASSWORD)


@pytest.fixture
def bob(db: None) -> User:
    return User.objects.create_user("bob", PASSWORD)


@pytest.fixture
def api(db: None) -> Callable[[User | None], ApiClient]:
    """``api(alice).get("/api/v1/jobs")`` with her bearer token; ``api(None)`` is a guest."""

    def client_of(user: User | None = None) -> ApiClient:
        client = ApiClient()
        if user is not None:
            client.credentials(HTTP_AUTHORIZATION=f"Bearer {tokens.issue(user, 3600)}")
        return client

    return client_of


@pytest.fixture
def client() -> Client:
    """In place of pytest-django's, which checks no form."""
    return Client()


@pytest.fixture
def hosts() -> Iterator[Hosts]:
    """No real engine is reached: only those that the test adds."""
    hosts = Hosts()
    schemes.set_engine_factory(hosts.connect)
    yield hosts
    schemes.set_engine_factory(None)


@pytest.fixture
def browse(db: None) -> Callable[[User | None], Client]:
    """``browse(alice).get("/jobs")`` signed in as on the pages; ``browse(None)`` is a guest."""

    def client_of(user: User | None = None) -> Client:
        client = Browser()
        if user is not None:
            client.force_login(user, backend="django.contrib.auth.backends.ModelBackend")
        return client

    return client_of


if os.environ.get("DATABASE_URL", "").startswith("postgres"):

    @pytest.fixture(scope="session", autouse=True)
    def _no_session_left(django_db_setup: None, django_db_blocker: Any) -> Iterator[None]:
        """Threads that ended with a test may leave their connection; PostgreSQL drops no database in use."""
        yield
        others = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database()"
        with django_db_blocker.unblock(), connection.cursor() as cursor:
            cursor.execute(f"{others} AND pid <> pg_backend_pid()")
