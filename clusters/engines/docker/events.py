"""Waits for events of the engine: hints that something about our containers, or its images, has changed. The list is
the truth.

One stream has both, so nothing is asked of an engine twice. Images have no labels of ours, so that the label of
containers is looked at here and not by the engine's filter.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from datetime import datetime

import requests
from docker import APIClient
from urllib3.exceptions import ReadTimeoutError

from clusters.engines.docker.connect import ask
from clusters.engines.docker.errors import FOREIGN, translated
from clusters.engines.docker.ways import QUICK
from clusters.engines.runtime import LABEL_TASK

_OF_CONTAINERS = ["start", "die", "destroy", "health_status", "pause", "unpause"]
_OF_IMAGES = ["pull", "import", "load", "tag", "untag", "delete"]  # a build ends with a tag
FILTERS = json.dumps({"type": ["container", "image"], "event": [*_OF_CONTAINERS, *_OF_IMAGES]})
Call = Callable[[], None]


class EventWindows:
    """Watches in windows without gaps: at the start of a window the engine replays what happened since the last one.
    The first window begins where the first list was taken."""

    def __init__(self) -> None:
        self._from = ""  # seconds.nanoseconds by the engine's clock

    def listed(self, at: datetime | None) -> None:
        """Remember when a list was taken, by the engine's clock."""
        if not self._from and at is not None:
            self._from = f"{int(at.timestamp())}.000000000"

    def watch(self, api: APIClient, endpoint: str, timeout: float, wake: Call, images: Call) -> bool:
        deadline = time.monotonic() + timeout
        with translated(endpoint):
            since = {"since": self._from} if self._from else {}
            # The timeout is that of the answer's head; then each read gets what is left.
            response = ask(api, "/events", {"filters": FILTERS, **since}, stream=True, timeout=QUICK)
        with response:
            return self._read(response, deadline, wake, images)

    def _read(self, response: requests.Response, deadline: float, wake: Call, images: Call) -> bool:
        connection, stream, rest = response.raw.connection.sock, response.raw.stream(), b""
        while (left := deadline - time.monotonic()) > 0:
            try:
                connection.settimeout(left)
                data = next(stream, None)
            except ReadTimeoutError:
                return True
            except FOREIGN:
                return False
            if data is None:
                return False
            *lines, rest = (rest + data).split(b"\n")
            for line in filter(None, lines):
                event = json.loads(line)
                self._from = _just_after(int(event["timeNano"]))
                if event.get("Type") == "image":
                    images()
                elif LABEL_TASK in event["Actor"].get("Attributes", {}):
                    wake()
        return True


def _just_after(nanoseconds: int) -> str:
    seconds, rest = divmod(nanoseconds + 1, 10**9)
    return f"{seconds}.{rest:09d}"
