from __future__ import annotations

from collections.abc import Iterator

import pytest

from clusters import engines
from portal.models import User
from tests.cluster import Cluster


@pytest.fixture
def cluster(alice: User) -> Iterator[Cluster]:
    yield Cluster(alice)
    engines.use(None)
