"""``manage.py qcluster`` alone: real processes, rows and signals."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.acceptance.portal import ROOT, environment, prepared, processes_of
from tests.helpers import LIMIT, until

ORDER = """
import sys, json, django; django.setup()
from django_q.tasks import async_task
for order in json.loads(sys.argv[1]):
    async_task(*order)
"""
LEFT = """
import django; django.setup()
from django_q.models import Failure, OrmQ
print(OrmQ.objects.count(), Failure.objects.count())
"""
HURRIED = """
import django; django.setup()
from django.core.management import call_command
from django_q.conf import Conf
Conf.TIMEOUT = 1
call_command("qcluster")
"""


class Workers:
    """On a database of their own."""

    def __init__(self, home: Path) -> None:
        shutil.copytree(prepared(), home, dirs_exist_ok=True)
        self.home = home
        self.said = home / "said.txt"
        own = {"LONGSHORE_HOME": str(home), "DJANGO_SETTINGS_MODULE": "portal.settings"}
        self.environment = {**environment(own), "PYTHONUNBUFFERED": "1"}
        self.environment.pop("DATABASE_URL", None)
        self.process: subprocess.Popen[bytes] | None = None

    def start(self, *command: str) -> subprocess.Popen[bytes]:
        with self.said.open("ab") as said:
            self.process = subprocess.Popen(
                [sys.executable, *(command or ("manage.py", "qcluster"))],
                cwd=ROOT,
                env=self.environment,
                stdout=said,
                stderr=subprocess.STDOUT,
            )
        return self.process

    def order(self, *orders: tuple[object, ...]) -> None:
        self._ask(ORDER, json.dumps(orders))

    def left(self) -> tuple[int, int]:
        """The orders not done yet, and those that failed."""
        orders, failures = self._ask(LEFT).split()
        return int(orders), int(failures)

    def _ask(self, script: str, *arguments: str) -> str:
        command = [sys.executable, "-c", script, *arguments]
        return subprocess.run(
            command, cwd=ROOT, env=self.environment, check=True, capture_output=True, text=True
        ).stdout


@pytest.fixture
def workers(tmp_path: Path) -> Iterator[Workers]:
    workers = Workers(tmp_path)
    yield workers
    if workers.process is not None and workers.process.poll() is None:
        workers.process.kill()
        workers.process.wait(LIMIT)


def test_one_process_carries_out_orders_and_ends_when_it_is_told(workers: Workers) -> None:
    workers.order(("jobs.containers.tasks.expire_logs",), ("jobs.containers.tasks.nothing_of_that_name",))
    process = workers.start()
    until(lambda: workers.left() == (0, 1), 30, what="one done, one failed, and no row left")
    workers.order(("jobs.containers.tasks.publish", []))
    until(lambda: workers.left() == (0, 1), 30, what="one that came later is done")
    assert list(processes_of(workers.home)) == [process.pid]
    process.send_signal(signal.SIGTERM)
    assert process.wait(LIMIT) == 0


def test_orders_of_a_killed_one_are_there_for_the_next(workers: Workers) -> None:
    process = workers.start()
    os.kill(process.pid, signal.SIGSTOP)
    workers.order(("jobs.containers.tasks.publish", []), ("jobs.containers.tasks.publish", []))
    process.kill()
    process.wait(LIMIT)
    assert workers.left() == (2, 0)
    workers.start()
    until(lambda: workers.left() == (0, 0), 30, what="done by the next")


def test_an_order_that_does_not_return_ends_the_process(workers: Workers) -> None:
    workers.order(("time.sleep", 600))
    process = workers.start("-c", HURRIED)
    assert process.wait(LIMIT) == 1
    assert "An order took too long. The workers end and start again." in workers.said.read_text()
