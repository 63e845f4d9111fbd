"""What hangs on the clock in the answers of the portal, and is not what the tests of the API are about."""

from __future__ import annotations

import math

import pytest

from base.wakes import processes
from clusters.nodes import gpus, probe, survey
from jobs.forecast import scores
from jobs.history import lengths
from jobs.logs import read
from jobs.logs.together import sources
from jobs.metrics import rates
from portal.logs import api as logs_api
from portal.logs import views as logs_views
from tests.helpers import LIMIT


@pytest.fixture(autouse=True)
def _unhurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """A busy machine sends as many statements as an idle one: what is looked up now and then does not get old during a
    test. And an engine in memory is asked by a thread, to which it may give no core for long."""
    monkeypatch.setattr(processes.seen, "seconds", math.inf)
    for remembered in (lengths.known_lengths, scores.recent_corrections):
        monkeypatch.setattr(remembered, "seconds", math.inf)
    for module, limit in ((probe, "DEADLINE"), (survey, "PATIENCE"), (gpus, "PATIENCE")):
        monkeypatch.setattr(module, limit, LIMIT)


@pytest.fixture
def measures_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was measured when a test began is how it is now, however long the test takes."""
    monkeypatch.setattr(rates, "FRESH", LIMIT)


@pytest.fixture
def patient_logs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Logs are copied by threads, and are waited for until they are there. For tests whose threads find the rows: those
    with real transactions."""
    for module, limit in ((read, "PATIENCE"), (read, "_LONGEST"), (sources, "_GLANCE")):
        monkeypatch.setattr(module, limit, LIMIT)
    for module, limit in ((logs_api, "_SECONDS"), (logs_views, "_SEARCH_SECONDS")):
        monkeypatch.setattr(module, limit, LIMIT)
