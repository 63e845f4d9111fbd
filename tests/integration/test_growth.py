"""What `make bench ARGS=growth` asks is answered anew, or its exponents would be those of a memory."""

from __future__ import annotations

import pytest

from benchmarks.growth import ask
from jobs import queries
from jobs.models import Job
from jobs.waiting import queue
from tests.builders import make_job, make_node


def test_nothing_is_answered_of_what_is_remembered_for_some_seconds(db: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queries, "VERY_MANY", 1)
    monkeypatch.setattr(queue, "MANY", 0)
    make_node()
    make_job()
    make_job(state="FAILED")
    seen, counted = queue.recent_queue(), queries.count_by_state()
    Job.objects.filter(state="FAILED").update(state="SUCCEEDED")
    assert queue.recent_queue() is seen and queries.count_by_state() == counted
    ask._change()
    assert queue.recent_queue() is not seen and queries.count_by_state() == {**counted, "FAILED": 0, "SUCCEEDED": 1}
