"""Starts the pod of a container, and waits until it runs or will not run.

The pod is made first. It waits for the Secret with its files, which is its start: a worker that dies in between leaves
a pod that has not begun, which the next start adopts.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import closing
from itertools import chain

from clusters.engines.kubernetes import spec
from clusters.engines.kubernetes.connect import Cluster, Json
from clusters.engines.kubernetes.errors import CONFLICT, NOT_FOUND, Refused
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


class Start:
    """One start of one container."""

    def __init__(
        self,
        cluster: Cluster,
        request: ContainerRequest,
        on_progress: Callable[[Progress], None],
        still_wanted: Callable[[], bool],
        patience: float = PATIENCE,
    ) -> None:
        self._cluster, self._request = cluster, request
        self._on_progress, self._still_wanted, self._patience = on_progress, still_wanted, patience
        self._path = cluster.here("pods", spec.pod_name(request.name))

    def run(self) -> ContainerStatus:
        guard(self._still_wanted)
        pod = self._made()
        found = read(pod, self._cluster.name)
        if found.phase is not Phase.CREATED:
            return found
        if self._request.auth:
            self._put(spec.pull_secret(self._request, found.id))
        guard(self._still_wanted)
        self._put(spec.files_secret(self._request, found.id))
        started = self._awaited(pod)
        if self._request.auth:
            self._drop(spec.pull_name(self._request.name))
        return started

    def _made(self) -> Json:
        """The pod: a new one, or the one of that name that is there."""
        try:
            return self._cluster.ask("POST", self._cluster.here("pods"), body=spec.pod(self._request))
        except Refused as fault:
            if fault.status != CONFLICT:
                raise
        try:
            return self._checked(self._cluster.ask("GET", self._path))
        except Refused as fault:
            raise (gone(self._request.name) if fault.status == NOT_FOUND else fault) from None

    def _checked(self, pod: Json) -> Json:
        """The pod, unless it is another task's or is being removed."""
        labels = pod["metadata"].get("labels") or {}
        if labels.get(LABEL_TASK) != spec.label(self._request.labels.get(LABEL_TASK, "")):
            raise stranger(self._request.name)
        if "deletionTimestamp" in pod["metadata"] and read(pod, self._cluster.name).phase is Phase.CREATED:
            raise RuntimeFault("An earlier pod of this task is still being removed.", reason=FaultReason.UNREACHABLE)
        return pod

    def _put(self, secret: Json) -> None:
        """Make the Secret. One of that name that belongs to an earlier pod goes with that pod, and is in the way until
        then."""
        path, uid = self._cluster.here("secrets"), secret["metadata"]["ownerReferences"][0]["uid"]
        for _ in range(2):
            try:
                self._cluster.ask("POST", path, body=secret)
                return
            except Refused as fault:
                if fault.status != CONFLICT:
                    raise
            owners = self._owners(secret["metadata"]["name"])
            if uid in owners:
                return
            self._drop(secret["metadata"]["name"])
        raise RuntimeFault("The files of an earlier container are in the way.", reason=FaultReason.REFUSED)

    def _owners(self, name: str) -> set[str]:
        try:
            found = self._cluster.ask("GET", self._cluster.here("secrets", name))
        except Refused as fault:
            if fault.status == NOT_FOUND:
                return set()
            raise
        return {str(owner.get("uid")) for owner in found["metadata"].get("ownerReferences") or ()}

    def _drop(self, name: str) -> None:
        try:
            self._cluster.ask("DELETE", self._cluster.here("secrets", name))
        except Refused as fault:
            if fault.status != NOT_FOUND:
                raise

    def _awaited(self, pod: Json) -> ContainerStatus:
        """The container once it runs or has ended. Raises RuntimeFault when it will do neither."""
        unplaced_since: float | None = None
        said = time.monotonic()
        with closing(states(self._cluster, pod, min(_WINDOW, self._patience))) as seen:
            for now in chain([pod], seen):
                if (status := read(self._checked(now), self._cluster.name)).phase is not Phase.CREATED:
                    return status
                at = time.monotonic()
                unplaced_since = (unplaced_since or at) if unschedulable(now) else None
                unplaced_for = at - unplaced_since if unplaced_since else 0.0
                if fault := trouble(now, self._request.image, unplaced_for, self._patience):
                    raise fault
                if at - said >= _WINDOW:
                    self._on_progress(Progress(0, 0, waits_for(now)[:120]))
                    said = at
        raise gone(self._request.name)
