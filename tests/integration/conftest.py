from __future__ import annotations

import random
from collections.abc import Iterator

import pytest
from django.utils import timezone

from base.core import clock as steady_clock
from base.models import User
from clusters.engines import schemes
from clusters.nodes import probe
from tests.cluster import Clock, Cluster
from tests.helpers import LIMIT


@pytest.fixture(autouse=True)
def _answers_in_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """An engine in memory is asked by a thread, to which a busy machine may give no core for long."""
    monkeypatch.setattr(probe, "DEADLINE", LIMIT)


@pytest.fixture
def cluster(alice: User, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    clock = Clock()
    random.seed(0)  # the pauses of retries are spread by chance: the same in each run
    monkeypatch.setattr(timezone, "now", clock.now)
    monkeypatch.setattr(steady_clock, "monotonic_now", clock.steady)
    yield Cluster(alice, clock)
    schemes.set_engine_factory(None)
