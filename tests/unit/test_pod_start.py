"""What becomes of a pod while its start is awaited."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest

from clusters.engines.kubernetes.start import PodStart
from clusters.engines.runtime import LABEL_TASK, ContainerRequest, FaultReason, RuntimeFault

REQUEST = ContainerRequest("longshore-1", "lab/image:1", ("true",), labels={LABEL_TASK: "7"})


class Api:
    """Takes whatever is made, and tells these events of the pod."""

    name = "lab"

    def __init__(self, events: list[dict[str, Any]]) -> None:
        self.events = events

    def here(self, *parts: str) -> str:
        return "/".join(parts)

    def ask(self, method: str, path: str, *_: Any, body: dict[str, Any] | None = None) -> dict[str, Any]:
        made = dict(body or {})
        made["metadata"] = {**made.get("metadata", {}), "uid": "u", "resourceVersion": "1"}
        made.setdefault("spec", {})
        return made

    @contextmanager
    def stream(self, path: str, query: dict[str, Any], silence: float) -> Iterator[Any]:
        pieces = ["".join(json.dumps(one) + "\n" for one in self.events).encode(), b""]
        yield SimpleNamespace(read1=lambda _: pieces.pop(0))


def pod(**meta: str) -> dict[str, Any]:
    return {"metadata": {"name": "p", "uid": "u", "resourceVersion": "2", **meta}, "spec": {}, "status": {}}


@pytest.mark.parametrize(
    "event",
    [{"type": "MODIFIED", "object": pod(deletionTimestamp="now")}, {"type": "DELETED", "object": pod()}],
    ids=["it is asked to go", "it is gone by force"],
)
def test_a_pod_that_somebody_deletes_while_it_starts_is_told_at_once(event: dict[str, Any]) -> None:
    """Its attempt ends and the retry follows. It does not come back in silence once the old pod is gone."""
    api: Any = Api([{"type": "MODIFIED", "object": pod()}, event])
    with pytest.raises(RuntimeFault) as caught:
        PodStart(api, REQUEST, lambda _: None, lambda: True).run()
    assert (caught.value.reason, caught.value.permanent) == (FaultReason.GONE, True)
    assert caught.value.sentence == "Somebody has deleted the pod of the task while it started."
