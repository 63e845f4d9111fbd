"""When ``manage.py up`` says that everything runs, and what it says when something does not."""

from __future__ import annotations

import io
import json
from types import SimpleNamespace

import pytest

from portal import supervisor
from portal.supervisor import ReadinessWatch


@pytest.fixture
def said(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    lines: list[str] = []
    monkeypatch.setattr(supervisor, "say", lambda name, line: lines.append(line))
    return lines


def ready_after(seconds: float, ages: dict[str, float | None], monkeypatch: pytest.MonkeyPatch) -> ReadinessWatch:
    monkeypatch.setattr(supervisor, "time", SimpleNamespace(monotonic=lambda: 1000.0))
    found = ReadinessWatch("127.0.0.1", "80", "1", None)
    answer = json.dumps({"secondsSinceSeen": ages}).encode()
    monkeypatch.setattr(supervisor.urllib.request, "urlopen", lambda *_, **__: io.BytesIO(answer))
    found.since -= seconds
    found.look()
    found.look()
    return found


def test_it_is_ready_when_all_were_heard_of(said: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    assert not ready_after(0, {"scheduler": 1.0, "workers": 3.0}, monkeypatch).pending
    assert said == ["Longshore 1 is ready: http://127.0.0.1:80"]


@pytest.mark.parametrize("age", [None, 4000.0])
def test_processes_that_cannot_write_a_beat_are_named_and_never_called_ready(
    age: float | None, said: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As those of an old release do on the database of a newer one, where other beats are old."""
    assert ready_after(1, {"scheduler": age, "workers": 3.0}, monkeypatch).pending and not said
    assert ready_after(60, {"scheduler": age, "workers": 3.0}, monkeypatch).pending
    assert said == ["http://127.0.0.1:80 answers and is not ready: it has not heard of scheduler"]
