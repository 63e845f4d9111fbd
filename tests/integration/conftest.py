from __future__ import annotations

import random
from collections.abc import Iterator

import pytest
from django.utils import timezone

from base.core import clock as steady_clock
from base.models import User
from clusters.engines import schemes
from tests.cluster import Clock, Cluster


@pytest.fixture
def cluster(alice: User, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    clock = Clock()
    random.seed(0)  # the pauses of retries are spread by chance: the same in each run
    monkeypatch.setattr(timezone, "now", clock.now)
    monkeypatch.setattr(steady_clock, "steady", clock.steady)
    yield Cluster(alice, clock)
    schemes.use(None)
