"""What gc looks through in a scheduler (jobs/scheduling/garbage.py)."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator

import pytest

from jobs.scheduling import garbage
from jobs.scheduling.garbage import Garbage


class Node:
    def __init__(self) -> None:
        self.itself = self  # so that only gc frees it


MANY = 10_000  # objects, more than other threads of the tests make meanwhile


@pytest.fixture(autouse=True)
def _only_when_it_is_told() -> Iterator[None]:
    thresholds = gc.get_threshold()
    gc.disable()
    yield
    gc.enable()
    gc.set_threshold(*thresholds)
    gc.unfreeze()
    gc.collect()


def test_what_was_frozen_before_the_fork_is_not_looked_at() -> None:
    loaded = weakref.ref(Node())
    gc.freeze()
    seen = weakref.ref(Node())
    Garbage().freeze()
    assert loaded() is not None
    assert seen() is None


def test_what_passes_keep_is_looked_through_once_it_is_much(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(garbage, "LOOK_EVERY", 0.0)
    monkeypatch.setattr(garbage, "MANY_FROZEN", MANY)
    kept = Garbage()
    kept.freeze()
    left = weakref.ref(Node())
    gc.freeze()
    kept.look_if_due()
    assert left() is not None, "a few are left alone"
    many = [Node() for _ in range(MANY)]
    gc.freeze()
    kept.look_if_due()
    assert left() is None
    assert len(many) == MANY
    gc.freeze()
    kept.look_if_due()
    again = weakref.ref(Node())
    gc.freeze()
    kept.look_if_due()
    assert again() is not None, "it counts from the last look"


def test_a_pass_that_keeps_much_leaves_it_to_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(garbage, "MANY_KEPT", 0)
    before = gc.get_freeze_count()
    many = [Node() for _ in range(MANY)]
    Garbage().after_pass()
    assert gc.get_freeze_count() >= before + len(many)
