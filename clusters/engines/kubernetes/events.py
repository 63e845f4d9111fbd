"""Follows pods by watches of the cluster's API, window after window without a gap: ``PodWatch`` all those of Longshore,
``states`` a single one.

The events of all only wake. Where the API has forgotten what came after the last one, that is a wake too, and the watch
begins anew from now. What a cluster tells of a single pod is taken as it is, and need not be asked for.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Generator, Iterator, Mapping
from typing import Any

import urllib3

from base.core.errors import encodable_json
from clusters.engines.kubernetes.connect import ClusterApi, Json
from clusters.engines.kubernetes.errors import EXPIRED, Refused, Tolerated, refused, translated
from clusters.engines.kubernetes.status import read
from clusters.engines.runtime import LABEL_TASK, Phase

LONGEST = 60.0  # seconds of one watch
SILENCE = 15.0  # seconds beyond its window after which a watch counts as broken
News = tuple[str, bool, str]


class PodWatch:
    """The watch of one cluster. One thread follows it; any may call ``listed``."""

    def __init__(self, cluster: ClusterApi) -> None:
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
        """Return False when the watch cannot go on."""
        query = {"labelSelector": LABEL_TASK, "allowWatchBookmarks": "true"}
        with Tolerated(EXPIRED):
            for event in watched(self._cluster, self._cluster.here("pods"), query, self._version, seconds):
                self._version = str(event["object"]["metadata"]["resourceVersion"])
                if event["type"] != "BOOKMARK" and self._is_relevant(str(event["type"]), event["object"]):
                    wake()
            return True
        self._version = ""
        self._known.clear()
        wake()
        return False

    def _is_relevant(self, kind: str, pod: dict[str, Any]) -> bool:
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


def states(cluster: ClusterApi, pod: Json, seconds: float) -> Generator[Json, None, None]:
    """The pod after each change, and as it was whenever another ``seconds`` are over, until it is gone. ``pod`` is what
    is known of it. Raises RuntimeFault."""
    while True:
        try:
            meta = pod["metadata"]
            query = {"fieldSelector": f"metadata.name={meta['name']}"}
            for event in watched(cluster, cluster.here("pods"), query, str(meta["resourceVersion"]), seconds):
                if event["type"] == "DELETED":
                    return
                pod = event["object"]
                yield pod
        except Refused as fault:
            if fault.status != EXPIRED:
                raise
            there = cluster.find(cluster.here("pods", pod["metadata"]["name"]))
            if there is None or there["metadata"]["uid"] != pod["metadata"]["uid"]:
                return
            pod = there
        yield pod


def watched(
    cluster: ClusterApi, path: str, query: Mapping[str, str], version: str, seconds: float
) -> Generator[Json, None, None]:
    """The events of a watch that follows on from ``version`` and is over after ``seconds``. Raises RuntimeFault, and
    Refused with EXPIRED where the API has forgotten what came after that version."""
    window = {"watch": "true", "resourceVersion": version, "timeoutSeconds": str(max(1, math.ceil(seconds)))}
    with translated(cluster.name), cluster.stream(path, {**query, **window}, seconds + SILENCE) as answer:
        for event in events_of(answer):
            if event["type"] == "ERROR":
                raise refused(EXPIRED, "", cluster.name)
            yield event


def events_of(answer: urllib3.HTTPResponse) -> Iterator[dict[str, Any]]:
    """The events of a watch, each as soon as it has come."""
    rest = b""
    while data := answer.read1(64 * 1024):
        *lines, rest = (rest + data).split(b"\n")
        for line in lines:
            if line:
                yield json.loads(encodable_json(line))
