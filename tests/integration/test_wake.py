"""Wake-ups between threads and processes, on whichever database the tests run on."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from django.db import OperationalError, connection, transaction

from base.models import Heartbeat, Process
from base.wakes import broker as broker_module
from base.wakes import processes, wake
from base.wakes.broker import WakingBroker
from tests.helpers import LIMIT, quick, until

pytestmark = pytest.mark.django_db(transaction=True)
ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def listener() -> Iterator[wake.Listener]:
    one = wake.Listener("scheduler")
    one.wait(0.01)  # on PostgreSQL it begins to listen here
    yield one
    one.close()


def test_it_wakes_who_waits_and_only_for_its_topic(listener: wake.Listener) -> None:
    wake.notify("workers")
    assert not listener.wait(0.05)
    wake.notify("scheduler")
    assert listener.wait(LIMIT)


def test_several_wake_ups_count_as_one(listener: wake.Listener) -> None:
    if connection.vendor == "postgresql":
        with transaction.atomic():
            wake.notify("scheduler")
            wake.notify("scheduler")
    else:
        for _ in range(2000):  # far more than a socket buffers
            wake.notify("scheduler")
    assert listener.wait(LIMIT)
    assert not listener.wait(0.05)


def test_it_waits_for_the_commit_and_is_silent_after_a_rollback(listener: wake.Listener) -> None:
    with transaction.atomic():
        wake.notify("scheduler")
        assert not listener.wait(0.05)
    assert listener.wait(LIMIT)
    with pytest.raises(ZeroDivisionError), transaction.atomic():
        wake.notify("scheduler")
        _ = 1 / 0
    assert not listener.wait(0.05)


def test_it_wakes_every_listener_in_milliseconds(listener: wake.Listener) -> None:
    other = wake.Listener("scheduler")
    other.wait(0.01)
    woken: list[bool] = []
    threads = [threading.Thread(target=lambda one=one: woken.append(one.wait(LIMIT))) for one in (listener, other)]
    for thread in threads:
        thread.start()
    with quick(1.0, "both are woken"):
        wake.notify("scheduler")
        for thread in threads:
            thread.join(2 * LIMIT)
    other.close()
    assert woken == [True, True]


@pytest.mark.skipif(connection.vendor != "sqlite", reason="sockets are for one host; PostgreSQL carries its own")
def test_it_reaches_another_process_and_forgets_one_that_died(tmp_path: Path) -> None:
    waiter = (
        "import os, django; os.environ['DJANGO_SETTINGS_MODULE'] = 'tests.settings'\n"
        "import tests.settings; from django.conf import settings; django.setup()\n"
        "import sys, pathlib; settings.HOME = pathlib.Path(sys.argv[1])\n"
        "from base.wakes.wake import Listener; one = Listener('pages'); print('listening', flush=True)\n"
        f"print(one.wait({LIMIT}), flush=True)\n"
    )
    from django.conf import settings

    process = subprocess.Popen(
        [sys.executable, "-c", waiter, str(settings.HOME)], cwd=ROOT, stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "listening\n"
        wake.notify("pages")
        assert process.stdout.readline() == "True\n"
        process.wait(LIMIT)  # it ended without closing: its socket is left behind
        assert list((settings.HOME / "run" / "wake").glob("pages.*"))
        wake.notify("pages")
        assert not list((settings.HOME / "run" / "wake").glob("pages.*"))
    finally:
        process.kill()
        process.wait(LIMIT)


def test_an_order_reaches_a_waiting_worker_at_once_and_is_gone_when_rolled_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(broker_module, "LOOK_EVERY", 3600.0)
    broker = WakingBroker(list_key="longshore")
    broker._listener().wait(0.01)  # on PostgreSQL it begins to listen here
    taken: list[list[str]] = []
    worker = threading.Thread(target=lambda: _take(broker, taken), daemon=True)
    worker.start()
    with pytest.raises(ZeroDivisionError), transaction.atomic():
        WakingBroker(list_key="longshore").enqueue("lost")
        _ = 1 / 0
    WakingBroker(list_key="longshore").enqueue("order")
    until(lambda: taken, what="the order, long before the slow look")
    worker.join(LIMIT)
    assert taken == [["order"]]


def test_a_sign_of_life_that_could_not_be_written_is_due_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else the workers would be thought dead when the next one fails too, or is a little late."""
    monkeypatch.setattr(broker_module, "LOOK_EVERY", 0.0)
    monkeypatch.setattr(processes, "_last", {})
    monkeypatch.setattr(processes, "_shown", {})
    broker, record = WakingBroker(list_key="longshore"), processes.record_process

    def away(name: processes.Name) -> None:
        monkeypatch.setattr(processes, "record_process", record)
        raise OperationalError("it is away")

    monkeypatch.setattr(processes, "record_process", away)
    with pytest.raises(OperationalError):
        broker.dequeue()
    assert not Heartbeat.objects.exists()
    broker.dequeue()
    assert Heartbeat.objects.get().name == "workers" and Process.objects.get().name == "workers"


def _take(broker: WakingBroker, taken: list[list[str]]) -> None:
    try:
        while not taken:
            if orders := broker.dequeue():
                taken.append([payload for _, payload in orders])
    finally:
        connection.close()


@pytest.mark.skipif(connection.vendor != "sqlite", reason="sockets are for one host; PostgreSQL carries its own")
def test_what_else_is_there_stays(settings: Any) -> None:
    """In a folder with a short path, where sockets lie beside other files of the portal."""
    with TemporaryDirectory(prefix="ls-", dir="/tmp") as folder:
        settings.HOME = Path(folder)
        others = [settings.HOME / "run" / name for name in ("scheduler.lock", "scheduler.pid")]
        others[0].parent.mkdir()
        for path in others:
            path.touch()
        listener = wake.Listener("scheduler")
        wake.notify("scheduler")
        assert listener.wait(LIMIT)
        assert all(path.exists() for path in others)
        assert len(list(settings.HOME.rglob("scheduler.*"))) == 3, "the socket is where it was looked for"
        listener.close()
