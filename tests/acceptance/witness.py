"""A real engine as witness of what ran on it and when, by its own events."""

from __future__ import annotations

import json
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol

from clusters.engines.runtime import LABEL_INSTANCE
from tests.acceptance.portal import Json
from tests.bed.docker_bed import BedNode
from tests.helpers import LIMIT


class Instance(Protocol):
    @property
    def instance(self) -> str:
        """What its containers are labelled with."""


@contextmanager
def witness(node: BedNode, portal: Instance) -> Iterator[Callable[[], list[Json]]]:
    """Listens to the engine from now on; call it for the events so far."""
    filters = ["--filter", "type=container", "--filter", f"label={LABEL_INSTANCE}={portal.instance}"]
    command = ["docker", "-H", node.unix, "events", "--since", str(int(time.time()) - 1), "--format", "{{json .}}"]
    listener = subprocess.Popen([*command, *filters], stdout=subprocess.PIPE, stdin=subprocess.DEVNULL)
    heard: list[Json] = []

    def listen() -> None:
        assert listener.stdout is not None
        for line in listener.stdout:
            heard.append(json.loads(line))

    thread = threading.Thread(target=listen, daemon=True)
    thread.start()
    try:
        yield lambda: list(heard)
    finally:
        listener.kill()
        listener.wait(LIMIT)
        thread.join(LIMIT)


def times(events: list[Json], action: str) -> dict[str, list[int]]:
    """Nanoseconds by container name."""
    found: dict[str, list[int]] = {}
    for event in events:
        if event["Action"] == action:
            found.setdefault(event["Actor"]["Attributes"]["name"], []).append(event["timeNano"])
    return found
