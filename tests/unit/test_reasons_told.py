"""A reason that tells more of others' jobs than that they are there has a form without their names."""

from __future__ import annotations

import pytest

from clusters.placement.fit import Blocker
from jobs.access import told
from jobs.planning.queue import sentences
from jobs.planning.queue.scene import Runner
from tests.unit.test_planner import job

THEIRS, MINE = job(1, username="alice", name="secret"), job(2, username="bob", name="own")
REASONS = {
    "reserved": lambda one: sentences.reserved([one]),
    "evicting": lambda one: sentences.evicting([Runner(one, ())]),
    "queue": lambda one: sentences.queue(3, "default", one, False, 0, 0),
}


@pytest.mark.parametrize("kind", REASONS)
def test_it_is_told_without_names_where_jobs_are_private(kind: str, settings: object) -> None:
    both: list[Blocker] = [REASONS[kind](one) for one in (THEIRS, MINE)]  # type: ignore[no-untyped-call]
    assert [each.kind for each in both] == [kind, kind]
    settings.JOB_PRIVACY = "owner"  # type: ignore[attr-defined]
    theirs, mine = told(both, "bob")
    assert "secret" not in theirs.sentence + theirs.have and "alice" not in theirs.sentence + theirs.have
    assert "bob/own" in mine.sentence
    settings.JOB_PRIVACY = "open"  # type: ignore[attr-defined]
    assert "alice/secret" in told(both, "bob")[0].sentence
