"""Starts the pod of a container, and waits until it runs or will not run.

The pod is made first. It waits for the Secret with its files, which is its start: a worker that dies in between leaves
a pod that has not begun, which the next start adopts.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from itertools import chain

from clusters.engines.kubernetes import spec
from clusters.engines.kubernetes.connect import ClusterApi, Json
from clusters.engines.kubernetes.errors import CONFLICT, Tolerated
from clusters.engines.kubernetes.events import states
from clusters.engines.kubernetes.status import read, trouble, unschedulable, waits_for
from clusters.engines.runtime import (
    LABEL_TASK,
    ContainerRequest,
    ContainerStatus,
    FaultReason,
    Phase,
    Progress,
    RuntimeFault,
    gone,
    guard,
    stranger,
)

PATIENCE = 15.0  # seconds in which a node that should have room may make it
_WINDOW = 5.0  # seconds after which a start that still waits says so


@dataclass(frozen=True)
class PodStart:
    """One start of one container."""

    cluster: ClusterApi
    request: ContainerRequest
    on_progress: Callable[[Progress], None]
    still_wanted: Callable[[], bool]
    patience: float = PATIENCE

    def run(self) -> ContainerStatus:
        guard(self.still_wanted)
        pod = self._made()
        status = read(pod, self.cluster.name)
        if status.phase is not Phase.CREATED:
            return status
        if self.request.auth:
            self._put(spec.pull_secret(self.request, status.id))
        guard(self.still_wanted)
        self._put(spec.files_secret(self.request, status.id))
        started = self._awaited(pod)
        if self.request.auth:
            self.cluster.drop(self.cluster.here("secrets", spec.pull_name(self.request.name)))
        return started

    def _made(self) -> Json:
        """The pod: a new one, or the one of that name that is there."""
        with Tolerated(CONFLICT):
            return self.cluster.ask("POST", self.cluster.here("pods"), body=spec.pod(self.request))
        if (pod := self.cluster.find(self.cluster.here("pods", spec.pod_name(self.request.name)))) is None:
            raise gone(self.request.name)
        return self._checked(pod)

    def _checked(self, pod: Json) -> Json:
        """The pod, unless it is another task's or is being removed."""
        labels = pod["metadata"].get("labels") or {}
        if labels.get(LABEL_TASK) != spec.label(self.request.labels.get(LABEL_TASK, "")):
            raise stranger(self.request.name)
        if "deletionTimestamp" in pod["metadata"] and read(pod, self.cluster.name).phase is Phase.CREATED:
            raise RuntimeFault("An earlier pod of this task is still being removed.", reason=FaultReason.UNREACHABLE)
        return pod

    def _put(self, secret: Json) -> None:
        """Make the Secret. One of that name that belongs to an earlier pod goes with that pod, and is in the way until
        then."""
        path, uid = self.cluster.here("secrets"), secret["metadata"]["ownerReferences"][0]["uid"]
        for _ in range(2):
            with Tolerated(CONFLICT):
                self.cluster.ask("POST", path, body=secret)
                return
            there = self.cluster.here("secrets", secret["metadata"]["name"])
            other = self.cluster.find(there) or {"metadata": {}}
            if uid in {owner.get("uid") for owner in other["metadata"].get("ownerReferences") or ()}:
                return
            self.cluster.drop(there)
        raise RuntimeFault("The files of an earlier container are in the way.", reason=FaultReason.REFUSED)

    def _awaited(self, pod: Json) -> ContainerStatus:
        """The container once it runs or has ended. Raises RuntimeFault when it will do neither, GONE where somebody
        has deleted the pod meanwhile."""
        unplaced_since: float | None = None
        said = time.monotonic()
        with closing(states(self.cluster, pod, min(_WINDOW, self.patience))) as seen:
            for now in chain([pod], seen):
                if (status := read(now, self.cluster.name)).phase is not Phase.CREATED:
                    return status
                if "deletionTimestamp" in now["metadata"]:
                    break
                at = time.monotonic()
                unplaced_since = (unplaced_since or at) if unschedulable(now) else None
                unplaced_for = at - unplaced_since if unplaced_since else 0.0
                if fault := trouble(now, self.request.image, unplaced_for, self.patience):
                    raise fault
                if at - said >= _WINDOW:
                    self.on_progress(Progress(0, 0, waits_for(now)[:120]))
                    said = at
        sentence = "Somebody has deleted the pod of the task while it started."
        raise RuntimeFault(sentence, reason=FaultReason.GONE, permanent=True)
