"""A real Docker engine behind the seven operations of ``clusters.engines.runtime``.

The Protocol says what it promises. Where an engine does what one would not expect, a comment says so. The parts of this
room: connect (ways to an engine), attach (terminals), request (a ContainerRequest in Docker's words), secrets, put,
pull, logs, events, status and seen (what an engine reports) and errors (what goes wrong).
"""

from __future__ import annotations

import builtins
import json
import os
import socket
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import IO, Any

import requests
from docker import APIClient
from docker.errors import APIError, NotFound

from clusters.engines.docker import secrets as docker_secrets
from clusters.engines.docker.attach.program import DockerAttached, Terminals
from clusters.engines.docker.attach.relay import Relay
from clusters.engines.docker.connect import CONNECT, QUICK, SLOW, Ways, ask, checked, url
from clusters.engines.docker.dial import dial
from clusters.engines.docker.errors import translated
from clusters.engines.docker.events import EventWindows
from clusters.engines.docker.keep import drop_image, keep
from clusters.engines.docker.logs import DockerLog, unix_stamp
from clusters.engines.docker.own_exit import just_after, with_own_exit
from clusters.engines.docker.pull import has_image, image_names, import_image, provide_image
from clusters.engines.docker.put import Sent
from clusters.engines.docker.request import FUSE, LABEL_MARK, archive, archived_files, create_arguments
from clusters.engines.docker.seen import Seen, due, has_news
from clusters.engines.docker.status import created, disk_in, disk_of, engine_info, inspected, listed_phase, moment
from clusters.engines.runtime import (
    LABEL_TASK,
    ContainerRequest,
    ContainerStatus,
    DiskUse,
    EngineInfo,
    FaultReason,
    Phase,
    Progress,
    RuntimeFault,
    Stream,
    gone,
    guard,
    stranger,
)

OURS = json.dumps({"label": [LABEL_TASK]})
CLOSER = 2.0  # seconds one inspection of a running container may take
ADDING_UP = 60.0  # seconds an engine may take to add up what its images and containers have on its disk
CREATE = 10.0  # seconds another worker's create of the same container is waited for
_NOT_AGAIN = (FaultReason.UNREACHABLE, FaultReason.WITHDRAWN)  # it may be running, or be somebody else's by now
# What an answer raises that is no engine's: of another shape, nested without end, with numbers beyond all bounds.
MALFORMED = (TypeError, ValueError, LookupError, AttributeError, OverflowError, RecursionError)
KUBERNETES = json.dumps({"label": ["io.kubernetes.pod.name"]})


def connect(endpoint: str, folder: Path | None = None) -> DockerRuntime:
    """The engine at ``endpoint``. ``folder`` has its keys: TLS for tcp://, SSH for ssh://. Nothing is sent yet."""
    ssh = endpoint.startswith("ssh://")
    return DockerRuntime(endpoint, tls_dir=None if ssh else folder, ssh_dir=folder if ssh else None)


class DockerRuntime:
    def __init__(
        self,
        endpoint: str,
        *,
        tls_dir: Path | None = None,
        ssh_dir: Path | None = None,
        timeout: float = QUICK,
    ) -> None:
        self.endpoint = endpoint
        self._ways = Ways(endpoint, tls_dir or ssh_dir, timeout=timeout)
        self._terminals = Terminals(endpoint, tls_dir or ssh_dir, self._quick)
        self._relay = Relay(endpoint, tls_dir or ssh_dir, self._terminals)
        self._windows = EventWindows()
        self._seen: dict[str, Seen] = {}  # by id
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
                self._windows.listed(response)
                seen = self._with_news(api, response.json())
                self._look_closer(api, seen, doubted=doubted)
        except RuntimeFault:
            self._unbroken_since = None
            raise
        self._unbroken_since = self._unbroken_since or just_after(response)
        self._seen = seen
        return [one.status for one in seen.values()]

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
            found, is_fresh = self._made(api, request, on_progress, still_wanted)
            if found.phase is not Phase.CREATED:
                return found
            try:
                self._put(api, request, on_progress)  # also into an adopted one: its maker may have died before that
                guard(still_wanted)
                return self._start(api, request, found if is_fresh else None)
            except RuntimeFault as fault:
                if fault.reason in _NOT_AGAIN:
                    raise
                if self._find(api, request):
                    self._discard(api, request.name)
                raise

    def stop(self, name: str, grace: int) -> None:
        with self._slow() as api:
            found = self._own(api, name)
            if found is None or found.phase is not Phase.RUNNING:
                return
            with translated(self.endpoint):
                try:
                    api.stop(name, timeout=grace)
                except NotFound:
                    pass

    def remove(self, name: str) -> None:
        with self._slow() as api:
            if self._own(api, name) is not None:
                self._discard(api, name)

    def given_gpus(self, name: str) -> tuple[str, ...]:
        return ()

    def dial(self, address: str, port: int, container: str = "") -> socket.socket:
        return dial(self._ways, self._relay, self.endpoint, address, port, container)

    def logs(self, name: str, stream: Stream, *, since: str = "", follow: bool = False) -> DockerLog:
        params: dict[str, Any] = {stream: 1, "timestamps": 1, "follow": int(follow)}
        if since:
            params["since"] = unix_stamp(since)
        with ExitStack() as stack:
            api = stack.enter_context(self._slow())
            with translated(self.endpoint):
                response = checked(
                    api.get(
                        url(api, f"/containers/{name}/logs"),
                        params=params,
                        stream=True,
                        timeout=(CONNECT, None if follow else SLOW),
                    )
                )
            is_beheaded = None if since else lambda at: self._is_beheaded(name, at)
            return DockerLog(response, self.endpoint, follow, stack.pop_all().close, is_beheaded)

    def wait_event(self, timeout: float, wake: Callable[[], None]) -> bool:
        heard = False
        try:
            with self._slow() as api:
                heard = self._windows.watch(api, self.endpoint, timeout, wake)
        finally:
            if not heard:
                self._unbroken_since = None
        return heard

    def has_image(self, image: str) -> bool:
        with self._quick() as api:
            return has_image(api, self.endpoint, image)

    def image_names(self) -> frozenset[str]:
        with self._quick() as api:
            return image_names(api)

    def disk_use(self) -> DiskUse:
        with self._quick() as api:
            info = ask(api, "/info").json()
            found = disk_in(info) or self._own_disk(info)
            return found or disk_of(ask(api, "/system/df", timeout=ADDING_UP).json())

    def _own_disk(self, info: Mapping[str, Any]) -> DiskUse | None:
        """The disk that holds the engine's data, where that is a disk of this host."""
        if not self.endpoint.startswith("unix://") or info.get("Name") != socket.gethostname():
            return None
        try:
            disk = os.statvfs(str(info["DockerRootDir"]))
        except (OSError, KeyError):
            return None
        return DiskUse((disk.f_blocks - disk.f_bfree) * disk.f_frsize, disk.f_blocks * disk.f_frsize)

    def import_image(self, image: str, tar: IO[bytes], changes: tuple[str, ...]) -> None:
        """Make an image of one layer from a root file system; ``changes`` are Dockerfile lines."""
        with self._slow() as api:
            import_image(api, self.endpoint, image, tar, changes)

    def keep(self, name: str, image: str, most: int) -> int:
        with self._slow() as api:
            return keep(api, self.endpoint, name, image, most)

    def drop_image(self, image: str) -> None:
        with self._quick() as api:
            drop_image(api, image)

    async def attach(
        self, name: str, argv: tuple[str, ...], *, env: Mapping[str, str], columns: int, rows: int
    ) -> DockerAttached:
        return await self._terminals.attach(name, argv, env, columns, rows)

    async def hang_up(self, name: str, pid: int, mark: str) -> None:
        await self._terminals.hang_up(name, pid, mark)

    @contextmanager
    def _quick(self) -> Iterator[APIClient]:
        with translated(self.endpoint), self._ways.quick() as api:
            yield api

    @contextmanager
    def _slow(self) -> Iterator[APIClient]:
        """Only getting the client is translated: callbacks of others run in the block."""
        with ExitStack() as stack:
            with translated(self.endpoint):
                api = stack.enter_context(self._ways.slow())
            yield api

    def _with_news(self, api: APIClient, rows: builtins.list[dict[str, Any]]) -> dict[str, Seen]:
        """Those of which the list tells something new are inspected, but for those that never ran, of which it says all
        there is. One that is not there is gone since."""
        found: dict[str, Seen] = {}
        for row in rows:
            id, seen = str(row["Id"]), self._seen.get(str(row["Id"]))
            if seen is not None and not has_news(seen, row):
                found[id] = seen
                continue
            if listed_phase(row) is Phase.CREATED and row.get("Names"):
                found[id] = Seen(created(row), time.monotonic())
                continue
            with suppress(NotFound):
                found[id] = Seen(self._ended(api, api.inspect_container(id)), time.monotonic())
        return found

    def _look_closer(self, api: APIClient, seen: dict[str, Seen], *, doubted: bool) -> None:
        """What is not answered is asked again when its turn comes: an engine that hangs at one container still lists
        the others."""
        for id in due(seen.values(), time.monotonic(), doubted=doubted):
            try:
                answer = ask(api, f"/containers/{id}/json", timeout=CLOSER).json()
            except NotFound:
                del seen[id]
            except (requests.Timeout, APIError) as silent:
                seen[id] = Seen(seen[id].status, time.monotonic())
                if isinstance(silent, requests.Timeout):
                    return
            else:
                seen[id] = Seen(self._ended(api, answer), time.monotonic())

    def _ended(self, api: APIClient, answer: dict[str, Any]) -> ContainerStatus:
        return with_own_exit(api, inspected(answer), self._unbroken_since)

    def _is_beheaded(self, name: str, first: str) -> bool:
        """A log that does not begin with its mark; one without it from the start (the image has no shell) begins at
        once."""
        with self._quick() as api:
            found, at = self._inspect(api, name), moment(first)
        if found is None or at is None or found.started_at is None or not found.labels.get(LABEL_MARK):
            return False
        return at - found.started_at > timedelta(seconds=1)

    def _find(self, api: APIClient, request: ContainerRequest) -> ContainerStatus | None:
        found = self._inspect(api, request.name)
        if found and found.labels.get(LABEL_TASK) != request.labels.get(LABEL_TASK):
            raise stranger(request.name)
        return found

    def _own(self, api: APIClient, name: str) -> ContainerStatus | None:
        found = self._inspect(api, name)
        if found and LABEL_TASK not in found.labels:
            raise stranger(name)
        return found

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
        if found := self._find(api, request):
            return found, False
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
                    made = api.create_container(**create_arguments(api, request, fuse=self._fuse))
                    return ContainerStatus(made["Id"], request.name, Phase.CREATED, dict(request.labels)), True
                except APIError as error:
                    if error.status_code != 409 or time.monotonic() > deadline:
                        raise
            if found := self._find(api, request):
                return found, False
            time.sleep(0.05)

    def _put(self, api: APIClient, request: ContainerRequest, on_progress: Callable[[Progress], None]) -> None:
        if files := archived_files(request):
            with translated(self.endpoint, "start"), archive(files) as tar:
                api.put_archive(request.name, "/", tar)
        for path in request.tars:
            with translated(self.endpoint, "start"), Sent(path, on_progress) as tar:
                api.put_archive(request.name, "/", tar)

    def _start(self, api: APIClient, request: ContainerRequest, fresh: ContainerStatus | None) -> ContainerStatus:
        """``fresh``: the container, where this call created it. Only the holder of the claim gets here, so nobody else
        has started that one. An adopted one is looked at again: starting one that has ended would run it twice.

        What is started is reported as running without another question. The engine answers none about a container
        while it starts or ends, which is just when a short command does both.
        """
        found = fresh or self._find(api, request)
        if found is None:
            raise gone(request.name)
        if found.phase is not Phase.CREATED:
            return found
        with docker_secrets.sent(api, self.endpoint, request), translated(self.endpoint, "start"):
            api.start(request.name)
        return replace(found, phase=Phase.RUNNING)

    def _discard(self, api: APIClient, name: str) -> None:
        with translated(self.endpoint):
            try:
                api.remove_container(name, v=True, force=True)
            except NotFound:
                pass
            except APIError as error:
                if error.status_code != 409:  # its removal is already in progress
                    raise
