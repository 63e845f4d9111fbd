"""A real Docker engine behind the eight operations of ``clusters.engines.runtime``.

The Protocol says what it promises. Where an engine does what one would not expect, a comment says so. The parts of this
room: connect and ssh (ways to an engine), attach (programs that run in containers), ports (of tasks), request (a
ContainerRequest in Docker's words), images, logs, events, status and own_exit (what an engine reports), meter and
stats (what containers use) and errors (what goes wrong).
"""

from __future__ import annotations

import builtins
import json
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import requests
from docker import APIClient
from docker.errors import APIError, NotFound

from clusters.engines.docker.attach.dial import PipeDialer
from clusters.engines.docker.attach.program import DockerTerminals
from clusters.engines.docker.attach.telling import has_saved
from clusters.engines.docker.connect import SLOW, ask, checked, said_at, url
from clusters.engines.docker.errors import translated
from clusters.engines.docker.events import EventWindows
from clusters.engines.docker.images import DockerImages, provide_image
from clusters.engines.docker.logs import docker_log, short_log, unix_stamp
from clusters.engines.docker.own_exit import with_own_exit
from clusters.engines.docker.ports import PortDialer
from clusters.engines.docker.request import (
    FUSE,
    LABEL_MARK,
    TarUpload,
    archive,
    archived_files,
    create_arguments,
    secrets_sent,
)
from clusters.engines.docker.status import LastSeen, due, engine_info, has_news, inspected, listed_phase, unread
from clusters.engines.docker.ways import CONNECT, MALFORMED, QUICK
from clusters.engines.logs.stamps import moment
from clusters.engines.logs.stream import LogStream
from clusters.engines.runtime import (
    LABEL_TASK,
    ContainerRequest,
    ContainerStatus,
    EngineInfo,
    FaultReason,
    LogChunk,
    Phase,
    Progress,
    RuntimeFault,
    Stream,
    gone,
    guard,
    stranger,
    telling,
)

OURS = json.dumps({"label": [LABEL_TASK]})
CLOSER = 2.0  # seconds one inspection of a running container may take
CREATE = 10.0  # seconds another worker's create of the same container is waited for
_NOT_AGAIN = (FaultReason.UNREACHABLE, FaultReason.WITHDRAWN)  # it may be running, or be somebody else's by now
KUBERNETES = json.dumps({"label": ["io.kubernetes.pod.name"]})


class DockerRuntime(DockerImages, DockerTerminals):
    """The engine at ``endpoint``. ``folder`` has its keys: TLS for tcp://, SSH for ssh://. Nothing is sent yet."""

    def __init__(self, endpoint: str, folder: Path | None = None, *, timeout: float = QUICK) -> None:
        super().__init__(endpoint, folder, timeout)
        self._dialer = PipeDialer(endpoint, folder)
        self._ports = PortDialer(endpoint, self._ways, self._dialer)
        self._windows = EventWindows()
        self._seen: dict[str, LastSeen] = {}  # by id
        self._fuse = True  # until the node proves to have none
        self._unbroken_since: datetime | None = None  # by the engine's clock; None after it did not answer or hung up

    def info(self) -> EngineInfo:
        try:
            with self._quick() as api:
                pods = ask(api, "/containers/json", {"limit": 1, "filters": KUBERNETES}).json()
                return engine_info(api.info(), kubelet=bool(pods))
        except MALFORMED as error:
            says = "What answers there is no Docker engine: what it says of itself makes no sense."
            raise RuntimeFault(says, reason=FaultReason.REFUSED, permanent=True) from error

    def list(self, *, doubted: bool = False) -> builtins.list[ContainerStatus]:
        try:
            with self._quick() as api:
                response = ask(api, "/containers/json", {"all": 1, "filters": OURS})
                at = said_at(response)
                self._windows.listed(at)
                seen = self._with_news(api, response.json())
                self._inspect_changed(api, seen, doubted=doubted)
        except RuntimeFault:
            self._unbroken_since = None
            raise
        self._unbroken_since = self._unbroken_since or (at + timedelta(seconds=1) if at else None)
        self._seen = seen
        return [last.status for last in seen.values()]

    def ensure(
        self,
        request: ContainerRequest,
        *,
        on_progress: Callable[[Progress], None] = lambda _: None,
        still_wanted: Callable[[], bool] = lambda: True,
    ) -> ContainerStatus:
        try:
            return self._ensure(request, on_progress, still_wanted)
        except RuntimeFault as fault:
            without_fuse = self._fuse and request.security == "pai" and FUSE in fault.sentence
            if fault.reason in _NOT_AGAIN or not without_fuse:
                raise
        self._fuse = False  # the node has no /dev/fuse
        return self._ensure(request, on_progress, still_wanted)

    def _ensure(
        self, request: ContainerRequest, on_progress: Callable[[Progress], None], still_wanted: Callable[[], bool]
    ) -> ContainerStatus:
        with self._slow() as api:
            status, is_fresh = self._made(api, request, on_progress, still_wanted)
            if status.phase is not Phase.CREATED:
                return status
            try:
                self._put(api, request, on_progress)  # also into an adopted one: its maker may have died before that
                guard(still_wanted)
                return self._start(api, request, status if is_fresh else None)
            except RuntimeFault as fault:
                if fault.reason in _NOT_AGAIN:
                    raise
                if self._find(api, request):
                    self._discard(api, request.name)
                raise

    def tell(self, name: str, signal: str, note: str) -> bool:
        with self._slow() as api:
            status = self._own(api, name)
            if status is None or status.phase is not Phase.RUNNING:
                return False
            with translated(self.endpoint):
                saved = has_saved(api, name, telling(note))
                with suppress(NotFound, APIError if not signal else NotFound):
                    if signal:
                        api.kill(name, signal)
                return saved

    def stop(self, name: str, grace: int) -> None:
        with self._slow() as api:
            status = self._own(api, name)
            if status is None or status.phase is not Phase.RUNNING:
                return
            with translated(self.endpoint), suppress(NotFound):
                api.stop(name, timeout=grace)

    def remove(self, name: str, id: str = "") -> None:
        with self._slow() as api:
            if id or self._own(api, name) is not None:
                self._discard(api, id or name)

    def given_gpus(self, name: str) -> tuple[str, ...]:
        return ()

    def dial(self, address: str, port: int, container: str = "") -> socket.socket:
        return self._ports.dial(address, port, container)

    def logs(self, name: str, stream: Stream, *, since: str = "", follow: bool = False) -> LogStream:
        with ExitStack() as stack:
            api = stack.enter_context(self._slow())
            response = self._log(api, name, {stream: 1, **({"since": unix_stamp(since)} if since else {})}, follow)
            is_beheaded = None if since else lambda at: self._is_beheaded(name, at)
            return docker_log(response, self.endpoint, follow, stack.pop_all().close, is_beheaded)

    def short_logs(self, name: str) -> Mapping[Stream, Sequence[LogChunk]] | None:
        try:
            with self._slow() as api, translated(self.endpoint):
                response = self._log(api, name, {"stdout": 1, "stderr": 1})
                return short_log(response, lambda at: self._is_beheaded(name, at))
        except RuntimeFault as fault:
            if fault.reason is not FaultReason.REFUSED:
                raise
            return None

    def _log(self, api: APIClient, name: str, which: Mapping[str, Any], follow: bool = False) -> requests.Response:
        params, patience = {**which, "timestamps": 1, "follow": int(follow)}, None if follow else SLOW
        with translated(self.endpoint):
            path = url(api, f"/containers/{name}/logs")
            return checked(api.get(path, params=params, stream=True, timeout=(CONNECT, patience)))

    def wait_event(self, timeout: float, wake: Callable[[], None], images: Callable[[], None] = lambda: None) -> bool:
        heard = False
        try:
            with self._slow() as api:
                heard = self._windows.watch(api, self.endpoint, timeout, wake, images)
        finally:
            if not heard:
                self._unbroken_since = None
        return heard

    def _with_news(self, api: APIClient, rows: builtins.list[dict[str, Any]]) -> dict[str, LastSeen]:
        """Those of which the list tells something new are inspected, but for those that never ran, of which it says all
        there is. One that is not there is gone since. A busy engine answers no question about a container that starts
        or ends: then the others are as they were, or as the list says, until the next one."""
        news: dict[str, LastSeen] = {}
        is_busy = False
        for row in rows:
            id, seen = str(row["Id"]), self._seen.get(str(row["Id"]))
            if seen is not None and not has_news(seen, row):
                news[id] = seen
                continue
            if listed_phase(row) is Phase.CREATED and row.get("Names"):
                news[id] = unread(row)
                continue
            try:
                answer = None if is_busy else ask(api, f"/containers/{id}/json", timeout=CLOSER).json()
                news[id] = LastSeen(self._ended(api, answer), time.monotonic()) if answer else seen or unread(row)
            except NotFound:
                continue
            except requests.Timeout:
                news[id], is_busy = seen or unread(row), True
        return news

    def _inspect_changed(self, api: APIClient, seen: dict[str, LastSeen], *, doubted: bool) -> None:
        """What is not answered is asked again when its turn comes: an engine that hangs at one container still lists
        the others."""
        for id in due(seen.values(), time.monotonic(), doubted=doubted):
            try:
                answer = ask(api, f"/containers/{id}/json", timeout=CLOSER).json()
            except NotFound:
                del seen[id]
            except (requests.Timeout, APIError) as silent:
                seen[id] = LastSeen(seen[id].status, time.monotonic())
                if isinstance(silent, requests.Timeout):
                    return
            else:
                seen[id] = LastSeen(self._ended(api, answer), time.monotonic())

    def _ended(self, api: APIClient, answer: dict[str, Any]) -> ContainerStatus:
        return with_own_exit(api, inspected(answer), self._unbroken_since)

    def _is_beheaded(self, name: str, first: str) -> bool:
        """A log that does not begin with its mark; one without it from the start (the image has no shell) begins at
        once."""
        with self._quick() as api:
            status, at = self._inspect(api, name), moment(first)
        if status is None or at is None or status.started_at is None or not status.labels.get(LABEL_MARK):
            return False
        return at - status.started_at > timedelta(seconds=1)

    def _find(self, api: APIClient, request: ContainerRequest) -> ContainerStatus | None:
        status = self._inspect(api, request.name)
        if status and status.labels.get(LABEL_TASK) != request.labels.get(LABEL_TASK):
            raise stranger(request.name)
        return status

    def _own(self, api: APIClient, name: str) -> ContainerStatus | None:
        status = self._inspect(api, name)
        if status and LABEL_TASK not in status.labels:
            raise stranger(name)
        return status

    def _inspect(self, api: APIClient, name: str) -> ContainerStatus | None:
        with translated(self.endpoint):
            try:
                return inspected(api.inspect_container(name))
            except NotFound:
                return None

    def _made(
        self,
        api: APIClient,
        request: ContainerRequest,
        on_progress: Callable[[Progress], None],
        still_wanted: Callable[[], bool],
    ) -> tuple[ContainerStatus, bool]:
        """The container, and whether this call created it.

        Nearly always the image is there and the container is not, so it is created without asking for either; where
        that is refused, each is looked at, and the refusal is the one that a user can act on."""
        if request.pull == "absent":
            guard(still_wanted)
            try:
                return self._create(api, request)
            except RuntimeFault as fault:
                if fault.reason in _NOT_AGAIN:
                    raise
        if status := self._find(api, request):
            return status, False
        provide_image(api, self.endpoint, request, on_progress)
        guard(still_wanted)
        return self._create(api, request)

    def _create(self, api: APIClient, request: ContainerRequest) -> tuple[ContainerStatus, bool]:
        """The container, and whether this call created it.

        The engine reserves a name as soon as a create of it begins, and shows the container only when that create is
        through: a conflict without a container is asked again."""
        deadline = time.monotonic() + CREATE
        while True:
            with translated(self.endpoint, "create"):
                try:
                    answer = api.create_container(**create_arguments(api, request, fuse=self._fuse))
                    return ContainerStatus(answer["Id"], request.name, Phase.CREATED, dict(request.labels)), True
                except APIError as error:
                    if error.status_code != 409 or time.monotonic() > deadline:
                        raise
            if status := self._find(api, request):
                return status, False
            time.sleep(0.05)

    def _put(self, api: APIClient, request: ContainerRequest, on_progress: Callable[[Progress], None]) -> None:
        if files := archived_files(request):
            with translated(self.endpoint, "start"), archive(files) as tar:
                api.put_archive(request.name, "/", tar)
        for path in request.tars:
            with translated(self.endpoint, "start"), TarUpload(path, on_progress) as tar:
                api.put_archive(request.name, "/", tar)

    def _start(self, api: APIClient, request: ContainerRequest, fresh: ContainerStatus | None) -> ContainerStatus:
        """``fresh``: the container, where this call created it. Only the holder of the claim gets here, so nobody else
        has started that one. An adopted one is looked at again: starting one that has ended would run it twice.

        What is started is reported as running without another question. The engine answers none about a container
        while it starts or ends, which is just when a short command does both.
        """
        status = fresh or self._find(api, request)
        if status is None:
            raise gone(request.name)
        if status.phase is not Phase.CREATED:
            return status
        with secrets_sent(api, self.endpoint, request), translated(self.endpoint, "start"):
            api.start(request.name)
        return replace(status, phase=Phase.RUNNING)

    def _discard(self, api: APIClient, name: str) -> None:
        with translated(self.endpoint):
            try:
                api.remove_container(name, v=True, force=True)
            except NotFound:
                pass
            except APIError as error:
                if error.status_code != 409:  # its removal is already in progress
                    raise
