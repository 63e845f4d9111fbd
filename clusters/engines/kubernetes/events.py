"""Follows pods by watches of the cluster's API, window after window without a gap: ``Watch`` all those of Longshore,
``states`` a single one.

The events of all only wake. Where the API has forgotten what came after the last one, that is a wake too, and the watch
begins anew from now. What a cluster tells of a single pod is taken as it is, and need not be asked for.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Generator, Iterator
from typing import Any

import urllib3

from clusters.engines.kubernetes.connect import Cluster, Json
from clusters.engines.kubernetes.errors import EXPIRED, FOREIGN, NOT_FOUND, Refused, refused, unreachable
from clusters.engines.kubernetes.status import read
from clusters.engines.runtime import LABEL_TASK, Phase

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
                return all(self._take(event, wake) for event in events_of(answer))
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
        """Most events of a pod change nothing that anybody acts on: that it was made, and that it goes after its
        end."""
        status = read(pod, self._cluster.name)
        if kind == "DELETED":
            self._known.pop(status.id, None)
            return status.phase is not Phase.EXITED
        now = (str(status.phase), status.held, status.node)
        before = self._known.get(status.id, (str(Phase.CREATED), False, status.node))
        self._known[status.id] = now
        return before != now


def states(cluster: Cluster, pod: Json, seconds: float) -> Generator[Json, None, None]:
    """The pod after each change, and as it was whenever another ``seconds`` are over, until it is gone. ``pod`` is what
    is known of it. Raises RuntimeFault."""
    while True:
        try:
            for event in _news_of(cluster, pod, seconds):
                if event["type"] == "DELETED":
                    return
                pod = event["object"]
                yield pod
        except Refused as fault:
            if fault.status != EXPIRED:
                raise
            if (found := _asked(cluster, pod)) is None:
                return
            pod = found
        yield pod


def _news_of(cluster: Cluster, pod: Json, seconds: float) -> Iterator[Json]:
    meta = pod["metadata"]
    asked: dict[str, str | int] = {
        "watch": "true",
        "fieldSelector": f"metadata.name={meta['name']}",
        "resourceVersion": str(meta["resourceVersion"]),
        "timeoutSeconds": max(1, math.ceil(seconds)),
    }
    try:
        with cluster.stream(cluster.here("pods"), asked, seconds + SILENCE) as answer:
            for event in events_of(answer):
                if event["type"] == "ERROR":
                    raise refused(EXPIRED, "", cluster.name)
                yield event
    except FOREIGN as error:
        raise unreachable(error, cluster.name) from error


def _asked(cluster: Cluster, pod: Json) -> Json | None:
    """The pod as it is now; None when it is gone, also when another one has its name."""
    try:
        found = cluster.ask("GET", cluster.here("pods", pod["metadata"]["name"]))
    except Refused as fault:
        if fault.status == NOT_FOUND:
            return None
        raise
    return found if found["metadata"]["uid"] == pod["metadata"]["uid"] else None


def events_of(answer: urllib3.HTTPResponse) -> Iterator[dict[str, Any]]:
    """The events of a watch, each as soon as it has come."""
    rest = b""
    while data := answer.read1(64 * 1024):
        *lines, rest = (rest + data).split(b"\n")
        for line in lines:
            if line:
                yield json.loads(line)
