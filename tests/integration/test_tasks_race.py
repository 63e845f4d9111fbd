"""Jobs of one user that are submitted in the same moment count each other's tasks. What matters is PostgreSQL, where
writers do not take turns (the lane of that name runs this there too)."""

from __future__ import annotations

import json
import threading
from functools import partial
from typing import Any

import pytest

from base.core.errors import Forbidden
from base.models import User
from jobs import services
from jobs.models import Job
from tests.builders import make_config
from tests.helpers import LIMIT
from tests.integration.test_vc_race import Together

pytestmark = pytest.mark.django_db(transaction=True)
ROUNDS = 8


def test_they_never_have_more_than_a_user_may(alice: User, settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    settings.USER_TASKS = 10
    look = services.load_idle_nodes
    configs = [make_config(name, tasks=8) for name in ("one", "other")]
    for _ in range(ROUNDS):
        barrier = threading.Barrier(2, timeout=LIMIT)

        def look_and_wait(barrier: threading.Barrier = barrier) -> Any:
            """The last thing before a job is written: there was room for its tasks."""
            found = look()
            barrier.wait()
            return found

        monkeypatch.setattr(services, "load_idle_nodes", look_and_wait)
        together = Together(*(partial(services.submit, alice, json.dumps(config)) for config in configs))
        assert sorted(together.outcomes) == [Forbidden.__name__, "done"]
        assert [job.total_tasks for job in Job.objects.all()] == [8]
        Job.objects.all().delete()


def test_a_job_in_the_place_of_another_does_not_count_both(alice: User, settings: Any) -> None:
    settings.USER_TASKS = 10
    job = services.submit(alice, json.dumps(make_config("wide", tasks=8)))
    new = services.change(alice, job, {"taskNumber": {"worker": 7}})
    assert new.total_tasks == 7
