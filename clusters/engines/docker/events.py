"""Waits for events of the engine: hints that something about our containers has changed. The list is the truth."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from email.utils import parsedate_to_datetime

import requests
from docker import APIClient
from urllib3.exceptions import ReadTimeoutError

from clusters.engines.docker.connect import CONNECT, QUICK, checked, url
from clusters.engines.docker.errors import FOREIGN, translated
from clusters.engines.runtime import LABEL_TASK

FILTERS = json.dumps(
    {"type": ["container"], "label": [LABEL_TASK], "event": ["start", "die", "destroy", "health_status"]}
)


class EventWindows:
    """Watches in windows without gaps: at the start of a window the engine replays what happened since the last one.
    The first window begins where the first list was taken."""

    def __init__(self) -> None:
        self._from = ""  # seconds.nanoseconds by the engine's clock

    def listed(self, response: requests.Response) -> None:
        """Remember when a list was taken: its Date header is the engine's clock, to the second."""
        if not self._from and "Date" in response.headers:
            self._from = f"{int(parsedate_to_datetime(response.headers['Date']).timestamp())}.000000000"

    def watch(self, api: APIClient, endpoint: str, timeout: float, wake: Callable[[], None]) -> bool:
        deadline = time.monotonic() + timeout
        with translated(endpoint):
            response = checked(
                api.get(
                    url(api, "/events"),
                    params={"filters": FILTERS, **({"since": self._from} if self._from else {})},
                    stream=True,
                    timeout=(CONNECT, QUICK),  # of the answer's head; then each read gets what is left
                )
            )
        with response:
            return self._read(response, deadline, wake)

    def _read(self, response: requests.Response, deadline: float, wake: Callable[[], None]) -> bool:
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
                self._from = _just_after(int(json.loads(line)["timeNano"]))
                wake()
        return True


def _just_after(nanoseconds: int) -> str:
    seconds, rest = divmod(nanoseconds + 1, 10**9)
    return f"{seconds}.{rest:09d}"
