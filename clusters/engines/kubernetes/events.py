"""Follows the pods of Longshore by one watch of the cluster's API, window after window without a gap.

Events only wake. Where the API has forgotten what came after the last one, that is a wake too, and the watch begins
anew from now.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Iterator
from typing import Any

import urllib3

from clusters.engines.kubernetes.connect import Cluster
from clusters.engines.kubernetes.errors import EXPIRED, FOREIGN, Refused, unreachable
from clusters.engines.kubernetes.status import read
from clusters.engines.runtime import LABEL_TASK

LONGEST = 60.0  # seconds of one watch
SILENCE = 15.0  # seconds beyond its window after which a watch counts as broken
News = tuple[str, bool, str]


class Watch:
    """The watch of one cluster. One thread follows it; any may call ``listed``."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._version = ""  # the resourceVersion that the next watch begins after
        self._known: dict[str, News] = {}  # by uid: what the last event said that anybody acts on

    def listed(self, version: str) -> None:
        """A list was taken at this resourceVersion: the first watch begins there."""
        self._version = self._version or version

    def follow(self, timeout: float, wake: Callable[[], None]) -> bool:
        """As ContainerRuntime.wait_event."""
        until = time.monotonic() + timeout
        while (left := until - time.monotonic()) > 0:
            if not self._version:
                _, self._version = self._cluster.listed(self._cluster.here("pods"), {"labelSelector": LABEL_TASK})
            if not self._window(min(left, LONGEST), wake):
                return False
        return True

    def _window(self, seconds: float, wake: Callable[[], None]) -> bool:
        asked: dict[str, str | int] = {
            "watch": "true",
            "labelSelector": LABEL_TASK,
            "resourceVersion": self._version,
            "allowWatchBookmarks": "true",
            "timeoutSeconds": math.ceil(seconds),
        }
        try:
            with self._cluster.stream(self._cluster.here("pods"), asked, seconds + SILENCE) as answer:
                return all(self._take(event, wake) for event in _events(answer))
        except Refused as fault:
            if fault.status != EXPIRED:
                raise
            return self._begin_anew(wake)
        except FOREIGN as error:
            raise unreachable(error, self._cluster.name) from error

    def _take(self, event: dict[str, Any], wake: Callable[[], None]) -> bool:
        """False when the watch cannot go on."""
        kind, pod = event.get("type"), event.get("object") or {}
        if kind == "ERROR":
            return self._begin_anew(wake)
        self._version = str(pod["metadata"]["resourceVersion"])
        if kind != "BOOKMARK" and self._is_news(str(kind), pod):
            wake()
        return True

    def _begin_anew(self, wake: Callable[[], None]) -> bool:
        self._version = ""
        self._known.clear()
        wake()
        return False

    def _is_news(self, kind: str, pod: dict[str, Any]) -> bool:
        """Most events of a pod change nothing that anybody acts on."""
        status = read(pod, self._cluster.name)
        if kind == "DELETED":
            self._known.pop(status.id, None)
            return True
        before = self._known.get(status.id)
        now = self._known[status.id] = (str(status.phase), status.held, status.node)
        return before != now


def _events(answer: urllib3.HTTPResponse) -> Iterator[dict[str, Any]]:
    rest = b""
    while data := answer.read1(64 * 1024):
        *lines, rest = (rest + data).split(b"\n")
        for line in lines:
            if line:
                yield json.loads(line)
