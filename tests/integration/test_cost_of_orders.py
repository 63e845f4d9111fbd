"""What a worker does for one order costs little: statements, and calls of functions, which no load changes."""

from __future__ import annotations

import cProfile
import pstats
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from jobs.containers import tasks
from tests.cluster import Cluster

pytestmark = pytest.mark.django_db
# Statements and calls. What is imported, and found out once in a process, is not counted.
START = 20, 16_000
COLLECT = 8, 7_000
MORE = 1 if connection.vendor == "postgresql" else 0  # statements: the time is the database's there


def test_an_order_costs_few_statements_and_calls(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster.add_node()
    cluster.submit(jobName="first")
    cluster.settle()
    costs: dict[str, tuple[int, int]] = {}
    carry_out = tasks.carry_out

    def counted(kind: str, *rest: Any) -> Any:
        profile = cProfile.Profile()
        with CaptureQueriesContext(connection) as asked:
            done = profile.runcall(carry_out, kind, *rest)
        costs[kind] = len(asked), pstats.Stats(profile).total_calls  # type: ignore[attr-defined]
        return done

    monkeypatch.setattr(tasks, "carry_out", counted)
    job = cluster.submit(jobName="second")
    cluster.settle()
    cluster.finish(job)
    cluster.settle()
    for kind, (statements, calls) in {"start": START, "collect": COLLECT}.items():
        assert costs[kind][0] <= statements + MORE
        assert costs[kind][1] <= calls
