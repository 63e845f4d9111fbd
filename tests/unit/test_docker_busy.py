"""What is heard of an engine that is too busy to answer all that it is asked."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Any

import requests

from clusters.engines.docker.connect import takes_connections
from clusters.engines.docker.errors import fault_of
from clusters.engines.docker.runtime import DockerRuntime
from clusters.engines.runtime import Phase


class Busy:
    """An engine that lists its containers, and answers no question about those that it is starting."""

    base_url, api_version, timeout = "http://engine", "1.41", 15.0

    def __init__(self) -> None:
        self.asked: list[str] = []

    def get(self, address: str, **_: Any) -> requests.Response:
        self.asked.append(address)
        raise requests.ReadTimeout("Read timed out.")


def test_a_list_does_not_wait_for_each_container_that_a_busy_engine_is_starting() -> None:
    states = ("running", "exited", "created")
    rows = [{"Id": state, "Names": [f"/{state}"], "State": state, "Labels": {}} for state in states]
    runtime, api = DockerRuntime("unix:///nowhere"), Busy()
    seen = runtime._with_news(api, rows)  # type: ignore[arg-type]
    phases = [seen[state].status.phase for state in states]
    assert phases == [Phase.RUNNING, Phase.CREATED, Phase.CREATED], "how one ended is said by the next list"
    assert len(api.asked) == 1


def test_only_an_engine_that_was_asked_and_whose_host_is_there_is_late(tmp_path: Path) -> None:
    assert fault_of(requests.ReadTimeout("Read timed out."), "unix:///x").late
    assert not fault_of(requests.ConnectTimeout("timed out"), "tcp://x:1").late
    way = tmp_path / "s"
    assert not takes_connections(f"unix://{way}")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(way))
        listener.listen()
        assert takes_connections(f"unix://{way}")
