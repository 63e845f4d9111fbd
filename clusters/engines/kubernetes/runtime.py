"""A Kubernetes cluster behind the eight operations of ``clusters.engines.runtime``.

One endpoint stands for all nodes of the cluster; a container is a pod in one namespace. The parts of this room:
connect (the way to the API), kubeconfig, spec and scripts (a ContainerRequest as a pod), start, status (what a cluster
says of a pod), events, logs, execs, errors (what goes wrong).

Nothing is deleted by force here. A pod whose node is silent stays until the node says that it is gone, or an admin
says so of the node (Inventoried.forget).
"""

from __future__ import annotations

import builtins
import re
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import IO

from clusters.engines.kubernetes import execs, scripts, spec
from clusters.engines.kubernetes.connect import READ, ClusterApi, Json
from clusters.engines.kubernetes.errors import NOT_FOUND, Refused
from clusters.engines.kubernetes.events import PodWatch, states
from clusters.engines.kubernetes.hosts import quantity
from clusters.engines.kubernetes.logs import Lines, pod_log, since_second
from clusters.engines.kubernetes.start import PATIENCE, PodStart
from clusters.engines.kubernetes.status import has_ended, is_gone, read
from clusters.engines.runtime import (
    HAS_SAVED,
    LABEL_TASK,
    TELLING,
    ContainerRequest,
    ContainerStatus,
    DiskUse,
    EngineInfo,
    FaultReason,
    LogChunk,
    Phase,
    Progress,
    RuntimeFault,
    Stream,
    gone,
    stranger,
    telling,
)

DIAL = 3.0  # seconds
LEAST_GRACE = 1  # seconds: with 0 the API would forget a pod that its node may still run
GONE_WITHIN = 60.0  # seconds in which a node says that a pod which ran is gone
ENDS_WITHIN = 3.0  # seconds in which the rest of a pod ends after its task
DISCARDED_WITHIN = 15.0  # the same for one that never ran, while its task's claim holds
_WINDOW = 5.0  # seconds of one watch for the end of a pod
_QUIET = 600.0  # seconds after which a follower of a log asks anew
_ANSWER = 15.0  # seconds beyond the grace in which a stop is through
_SEEN, _LOOK = 20.0, 0.5  # seconds in which a cluster has seen that a container has ended, and between two looks
_STREAMS = {"stdout": spec.MAIN, "stderr": spec.STDERR}
_GPU_IDS = re.compile(r"[\w.:/-]{1,100}(,[\w.:/-]{1,100}){0,63}")
_NO_IMAGES = "A Kubernetes cluster does not hand out its images."


class KubernetesRuntime(execs.PodTerminals):
    """The cluster at ``endpoint``. ``folder`` has its kubeconfig. Nothing is sent yet."""

    def __init__(
        self, endpoint: str, folder: Path | None = None, *, timeout: float = READ, patience: float = PATIENCE
    ) -> None:
        self.endpoint = endpoint
        self._cluster = ClusterApi(endpoint, folder, timeout=timeout)
        self._watch = PodWatch(self._cluster)
        self._patience = patience

    def info(self) -> EngineInfo:
        """The EngineInfo of all nodes together; each node alone is in the cluster's inventory."""
        version = self._cluster.ask("GET", "/version")
        nodes, _ = self._cluster.listed("/api/v1/nodes")
        sizes = [(node.get("status") or {}).get("capacity") or {} for node in nodes]
        return EngineInfo(
            engine_id=self.endpoint,
            hostname=self._cluster.name,
            version=str(version.get("gitVersion") or "")[:40],
            cpus=int(sum(quantity(size.get("cpu")) for size in sizes)),
            memory_mb=int(sum(quantity(size.get("memory")) for size in sizes)) >> 20,
        )

    def list(self, *, doubted: bool = False) -> builtins.list[ContainerStatus]:
        pods, version = self._cluster.listed(self._cluster.here("pods"), {"labelSelector": LABEL_TASK})
        self._watch.listed(version)
        return [read(pod, self._cluster.name) for pod in pods]

    def ensure(
        self,
        request: ContainerRequest,
        *,
        on_progress: Callable[[Progress], None] = lambda _: None,
        still_wanted: Callable[[], bool] = lambda: True,
    ) -> ContainerStatus:
        try:
            return PodStart(self._cluster, request, on_progress, still_wanted, self._patience).run()
        except RuntimeFault as fault:
            if fault.reason not in (FaultReason.UNREACHABLE, FaultReason.WITHDRAWN):
                self._discard(request)
            raise

    def tell(self, name: str, signal: str, note: str) -> bool:
        if self._running(name) is None:
            return False
        argv = telling(note, scripts.signal(signal) if signal else "")
        try:
            return execs.run(self._cluster, spec.pod_name(name), argv, TELLING)[0] == HAS_SAVED
        except RuntimeFault:
            if self._running(name) is not None:
                raise
            return False

    def stop(self, name: str, grace: int) -> None:
        """Stop the container from inside, since a pod that is deleted takes its exit code and its log along. The shell
        in there is the container's own, which may do anything: a pod that runs on is deleted all the same."""
        if self._running(name) is None:
            return
        try:
            execs.run(self._cluster, spec.pod_name(name), ["/bin/sh", "-c", scripts.stop(grace)], grace + _ANSWER)
        except RuntimeFault:
            if self._running(name) is not None:
                raise
        until = time.monotonic() + _SEEN
        while (pod := self._running(name)) is not None:
            if time.monotonic() > until:
                self._delete(pod, GONE_WITHIN)
                return
            time.sleep(_LOOK)

    def remove(self, name: str, id: str = "") -> None:
        pod = self._own(name)
        if pod is not None:
            self._delete(self._over(pod), GONE_WITHIN)

    def logs(self, name: str, stream: Stream, *, since: str = "", follow: bool = False) -> Iterator[LogChunk]:
        asked: dict[str, str | int] = {"container": _STREAMS[stream], "timestamps": "true"}
        if since:
            asked["sinceTime"] = since_second(since)
        if follow:
            asked["follow"] = "true"
        path = self._cluster.here("pods", spec.pod_name(name), "log")
        try:
            answer = self._cluster.opened(path, asked, _QUIET if follow else READ)
        except Refused as fault:
            if fault.status == NOT_FOUND or (fault.reason is FaultReason.UNREACHABLE and self._own(name) is None):
                raise gone(name) from None
            if fault.status == 400:  # it has not begun
                return _nothing()
            raise
        return pod_log(answer, Lines(since), self._cluster.name, follow=follow)

    def short_logs(self, name: str) -> None:
        """Its two streams are the logs of two containers."""

    def given_gpus(self, name: str) -> tuple[str, ...]:
        """Of NVIDIA's: other plugins tell a container of nothing."""
        asked = ["/bin/sh", "-c", 'echo "$NVIDIA_VISIBLE_DEVICES"']
        code, said = execs.run(self._cluster, spec.pod_name(name), asked, READ)
        ids = said.decode("utf-8", "replace").strip() if code == 0 else ""
        return tuple(sorted(ids.split(","))) if _GPU_IDS.fullmatch(ids) else ()

    def wait_event(self, timeout: float, wake: Callable[[], None], images: Callable[[], None] = lambda: None) -> bool:
        """Which images its nodes have, a cluster tells in its inventory."""
        return self._watch.follow(timeout, wake)

    def dial(self, address: str, port: int, container: str = "") -> socket.socket:
        """Straight: the host's network is the one that the tasks are on."""
        try:
            return socket.create_connection((address, port), DIAL)
        except ConnectionRefusedError:
            raise RuntimeFault(f"Nothing listens on port {port}.", reason=FaultReason.REFUSED) from None
        except OSError as error:
            raise RuntimeFault(
                f"{address} cannot be reached: {error.strerror or 'it did not answer in time'}.",
                reason=FaultReason.UNREACHABLE,
            ) from error

    def image_names(self) -> frozenset[str]:
        return frozenset()

    def import_image(self, image: str, tar: IO[bytes], changes: tuple[str, ...]) -> None:
        raise RuntimeFault(_NO_IMAGES, reason=FaultReason.REFUSED, permanent=True)

    def disk_use(self) -> DiskUse:
        raise RuntimeFault("A Kubernetes cluster does not say how full its disks are.", reason=FaultReason.REFUSED)

    def keep(self, name: str, image: str, most: int) -> int:
        if self._own(name) is None:
            raise gone(name)
        raise RuntimeFault("A Kubernetes cluster makes no images of containers.", reason=FaultReason.REFUSED)

    def drop_image(self, image: str) -> None:
        return

    def _own(self, name: str) -> Json | None:
        pod = self._cluster.find(self._cluster.here("pods", spec.pod_name(name)))
        if pod is not None and LABEL_TASK not in (pod["metadata"].get("labels") or {}):
            raise stranger(name)
        return pod

    def _running(self, name: str) -> Json | None:
        pod = self._own(name)
        return pod if pod is not None and read(pod, self._cluster.name).phase is Phase.RUNNING else None

    def _discard(self, request: ContainerRequest) -> None:
        """Remove what a start has made that was refused, unless it is another task's."""
        try:
            pod = self._own(request.name)
            labels = pod["metadata"].get("labels") or {} if pod else {}
            if pod and labels.get(LABEL_TASK) == spec.label(request.labels.get(LABEL_TASK, "")):
                self._delete(pod, DISCARDED_WITHIN)
        except RuntimeFault:
            return  # what is left is seen by the next list

    def _over(self, pod: Json) -> Json:
        """The pod once it has ended, if its task has: then it goes at once, and its node need not be waited for."""
        if has_ended(pod) or read(pod, self._cluster.name).phase is not Phase.EXITED:
            return pod
        with closing(states(self._cluster, pod, ENDS_WITHIN)) as seen:
            return next(seen, pod)

    def _delete(self, pod: Json, seconds: float) -> None:
        """Delete this very pod, and wait until its node says that it is gone."""
        name, uid = str(pod["metadata"]["name"]), str(pod["metadata"]["uid"])
        body = {
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "gracePeriodSeconds": LEAST_GRACE,
            "preconditions": {"uid": uid},
        }
        left = self._cluster.drop(self._cluster.here("pods", name), body)
        if left is None or is_gone(left):
            return
        until = time.monotonic() + seconds
        with closing(states(self._cluster, left, min(seconds, _WINDOW))) as seen:
            for _ in seen:
                if time.monotonic() > until:
                    said = f"The node of pod {name} has not said yet that it is gone."
                    raise RuntimeFault(said, reason=FaultReason.UNREACHABLE)


def _nothing() -> Iterator[LogChunk]:
    """An empty log: a generator, since who reads a log closes it."""
    yield from ()
