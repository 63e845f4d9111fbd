from __future__ import annotations

from collections.abc import Iterator

import pytest
from django.utils import timezone

from clusters.engines import schemes as engines
from portal.core import clock as steady_clock
from portal.models import User
from tests.cluster import Clock, Cluster


@pytest.fixture
def cluster(alice: User, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    clock = Clock()
    monkeypatch.setattr(timezone, "now", clock.now)
    monkeypatch.setattr(steady_clock, "steady", clock.steady)
    yield Cluster(alice, clock)
    engines.use(None)
