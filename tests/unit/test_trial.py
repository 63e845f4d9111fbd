"""A slow engine is no node that cannot reach the portal."""

from __future__ import annotations

from typing import Any

import pytest

from clusters.nodes import trial


class _Slow:
    """An engine whose clock goes on by ``seconds`` with each start."""

    def __init__(self, seconds: float) -> None:
        self.now, self.seconds = 0.0, seconds

    def ensure(self, request: object) -> None:
        self.now += self.seconds

    def remove(self, name: str) -> None:
        pass


@pytest.mark.parametrize(("seconds", "patience"), [(0.5, 8.0), (10.0, 50.0)])
def test_a_container_may_take_some_times_as_long_as_its_start_took(
    monkeypatch: pytest.MonkeyPatch, settings: Any, seconds: float, patience: float
) -> None:
    settings.INSTANCE = "i"
    engine: Any = _Slow(seconds)
    monkeypatch.setattr(trial.time, "monotonic", lambda: engine.now)
    with trial._container(trial._Plain("n1"), engine, "portal", ("true",)) as one:
        assert one.patience == patience
