"""A pod is followed by watches; it is asked for only where the API has forgotten what came since."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest

from clusters.engines.kubernetes.connect import ClusterApi
from clusters.engines.kubernetes.errors import refused
from clusters.engines.kubernetes.events import states
from clusters.engines.runtime import RuntimeFault

FORGOTTEN = {"type": "ERROR", "object": {"kind": "Status", "code": 410}}


def pod(version: str, uid: str = "u") -> dict[str, Any]:
    return {"metadata": {"name": "p", "uid": uid, "resourceVersion": version}}


def event(kind: str, version: str) -> dict[str, Any]:
    return {"type": kind, "object": pod(version)}


class Api:
    """Answers each watch with the next of these windows, and each question with the next of the pods."""

    name = "lab"
    find = ClusterApi.find

    def __init__(self, windows: Sequence[Any], pods: Sequence[Any] = ()) -> None:
        self.windows, self.pods = list(windows), list(pods)
        self.after: list[str] = []

    def here(self, *parts: str) -> str:
        return "/".join(parts)

    @contextmanager
    def stream(self, path: str, query: dict[str, Any], silence: float) -> Iterator[Any]:
        self.after.append(query["resourceVersion"])
        window = self.windows.pop(0)
        if isinstance(window, Exception):
            raise window
        lines = "".join(json.dumps(one) + "\n" for one in window).encode()
        pieces = [*filter(None, (lines[:30], lines[30:])), b""]  # as a network cuts it
        yield SimpleNamespace(read1=lambda _: pieces.pop(0))

    def ask(self, method: str, path: str) -> dict[str, Any]:
        found: dict[str, Any] = self.pods.pop(0)
        if isinstance(found, Exception):
            raise found
        return found


def versions(api: Any) -> list[str]:
    return [one["metadata"]["resourceVersion"] for one in states(api, pod("1"), 5)]


def test_each_change_is_seen_and_its_end_ends_it() -> None:
    api = Api([[event("MODIFIED", "2"), event("MODIFIED", "4"), event("DELETED", "5")]])
    assert versions(api) == ["2", "4"]
    assert api.after == ["1"]


def test_a_window_without_news_shows_the_pod_as_it_was_and_the_next_goes_on_behind_it() -> None:
    api = Api([[event("MODIFIED", "2")], [], [event("DELETED", "9")]])
    assert versions(api) == ["2", "2", "2"]
    assert api.after == ["1", "2", "2"]


@pytest.mark.parametrize("forgotten", [[FORGOTTEN], refused(410, "too old resource version", "lab")])
def test_what_the_api_has_forgotten_is_asked_for(forgotten: Any) -> None:
    api = Api([forgotten, [event("DELETED", "9")]], [pod("7")])
    assert versions(api) == ["7"]
    assert api.after == ["1", "7"]


@pytest.mark.parametrize("found", [refused(404, "not found", "lab"), pod("8", uid="of another")])
def test_a_pod_that_went_meanwhile_is_gone(found: Any) -> None:
    assert versions(Api([[FORGOTTEN]], [found])) == []


def test_a_watch_that_is_refused_is_a_fault() -> None:
    with pytest.raises(RuntimeFault, match="forbids"):
        versions(Api([refused(403, "pods is forbidden", "lab")]))
