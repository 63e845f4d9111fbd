"""Who told a container of Docker to end: the engine, or a process of its own."""

from __future__ import annotations

import io
import json
import tarfile
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import requests

from clusters.engines import runtime
from clusters.engines.docker.own_exit import with_own_exit
from clusters.engines.runtime import ContainerStatus, Phase

BEGAN = datetime(2026, 11, 26, 12, tzinfo=UTC)


class Engine:
    """It has the file of one ended container, and the events that it remembers."""

    base_url, api_version, timeout = "http://engine", "1.41", 15.0

    def __init__(self, written: str, *events: str) -> None:
        self.written, self.events = f"{written} told".encode(), events
        self.asked: list[dict[str, Any]] = []

    def get(self, address: str, params: dict[str, Any], **_: Any) -> requests.Response:
        answer = requests.Response()
        answer.status_code = 200
        if address.endswith("/events"):
            self.asked.append(params)
            answer.raw = io.BytesIO("".join(json.dumps({"Action": event}) + "\n" for event in self.events).encode())
        else:
            answer.raw = io.BytesIO()
            with tarfile.open(fileobj=answer.raw, mode="w") as tar:
                entry = tarfile.TarInfo("exit-code")
                entry.size = len(self.written)
                tar.addfile(entry, io.BytesIO(self.written))
            answer.raw.seek(0)
        return answer


def read(engine: Engine, heard_since: datetime | None) -> int | None:
    ended = BEGAN + timedelta(minutes=5)
    status = ContainerStatus("c1", "t", Phase.EXITED, {}, runtime.TOLD_TO_END, started_at=BEGAN, finished_at=ended)
    return with_own_exit(engine, status, heard_since).exit_code  # type: ignore[arg-type]


@pytest.mark.parametrize("code", ["0", "7"])
def test_one_that_the_engine_told_was_ended_from_outside(code: str) -> None:
    engine = Engine(code, "kill")
    assert read(engine, BEGAN) == 143
    assert json.loads(engine.asked[0]["filters"]) == {"type": ["container"], "container": ["c1"], "event": ["kill"]}


@pytest.mark.parametrize("code", ["0", "7"])
def test_one_that_told_itself_ends_with_its_own_code(code: str) -> None:
    assert read(Engine(code), BEGAN) == int(code)


@pytest.mark.parametrize("heard_since", [None, BEGAN + timedelta(seconds=1)])
def test_an_engine_that_was_away_has_forgotten_whom_it_told(heard_since: datetime | None) -> None:
    engine = Engine("0")
    assert read(engine, heard_since) == 143 and not engine.asked
