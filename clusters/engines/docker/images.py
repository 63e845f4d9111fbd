"""What an engine can do with images, and the room they take: they are pulled onto a node, with progress over all layers
and no error swallowed; made of containers, listed and dropped (clusters.engines.runtime.Engine)."""

from __future__ import annotations

import json
import os
import queue
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from typing import IO, Any

import requests
from docker import APIClient
from docker.auth import encode_header
from docker.errors import APIError, ImageNotFound, NotFound
from docker.utils import parse_repository_tag

from base.core.errors import encodable_json
from clusters.engines.docker.connect import DockerClients, ask
from clusters.engines.docker.errors import fault_of_text, translated
from clusters.engines.docker.status import disk_in, disk_of
from clusters.engines.runtime import ContainerRequest, DiskUse, FaultReason, Progress, RuntimeFault, gone

SILENCE = 300.0  # seconds without a word from a pull after which it is given up
EVERY = 1.0  # seconds between two reports of progress
BEAT = 10.0  # the same while the engine says nothing: whoever waits for a pull has to show that they live
_ADDING_UP = 60.0  # seconds in which an engine adds up what images and containers have on its disk, or one has written
_COPYING = 900.0
_NO_CHECK = "HEALTHCHECK NONE"  # the container may have had one, and an image would hand it on


class DockerImages(DockerClients):
    """The images of one engine."""

    def image_names(self) -> frozenset[str]:
        """Names by tag and by digest. Images without either cannot be asked for."""
        with self._quick() as api:
            rows = ask(api, "/images/json").json()
        names = (name for row in rows for key in ("RepoTags", "RepoDigests") for name in row.get(key) or ())
        return frozenset(name for name in names if "<none>" not in name)

    def import_image(self, image: str, tar: IO[bytes], changes: tuple[str, ...]) -> None:
        """Make an image of one layer from a root file system; ``changes`` are Dockerfile lines."""
        repository, tag = parse_repository_tag(image)
        with self._slow() as api, translated(self.endpoint, "pull", image):
            # Not the library's import_image_from_stream: it announces chunks and then sends none.
            asked = {"fromSrc": "-", "repo": repository, "tag": tag, "changes": changes}
            headers = {"Content-Type": "application/x-tar"}
            path = "/images/create"
            answer = ask(api, path, asked, method="post", headers=headers, data=tar, timeout=SILENCE)
        for line in answer.text.splitlines():
            if "error" in (said := json.loads(line)):
                raise fault_of_text(str(said["error"]), self.endpoint, "pull", image)

    def keep(self, name: str, image: str, most: int) -> int:
        repository, tag = parse_repository_tag(image)
        path, params = f"/containers/{name}/json", {"size": 1}
        with self._slow() as api, translated(self.endpoint):
            try:
                size = int(ask(api, path, params, timeout=_ADDING_UP).json().get("SizeRw") or 0)
                if size > most:
                    says = f"{name} has written {size >> 20:,} MB; no more than {most >> 20:,} MB are kept."
                    raise RuntimeFault(says, reason=FaultReason.REFUSED)
                commit = {"container": name, "repo": repository, "tag": tag, "pause": "0", "changes": _NO_CHECK}
                ask(api, "/commit", commit, method="post", json={}, timeout=_COPYING)
            except NotFound:
                raise gone(name) from None
        return size

    def drop_image(self, image: str) -> None:
        with self._quick() as api:
            try:
                api.remove_image(image, force=True)
            except ImageNotFound:
                return
            except APIError as error:
                if error.status_code != 409:  # a container uses it
                    raise

    def disk_use(self) -> DiskUse:
        with self._quick() as api:
            info = ask(api, "/info").json()
            disk = disk_in(info) or self._own_disk(info)
            return disk or disk_of(ask(api, "/system/df", timeout=_ADDING_UP).json())

    def _own_disk(self, info: Mapping[str, Any]) -> DiskUse | None:
        """The disk that holds the engine's data, where that is a disk of this host."""
        if not self.endpoint.startswith("unix://") or info.get("Name") != socket.gethostname():
            return None
        try:
            disk = os.statvfs(str(info["DockerRootDir"]))
        except (OSError, KeyError):
            return None
        return DiskUse((disk.f_blocks - disk.f_bfree) * disk.f_frsize, disk.f_blocks * disk.f_frsize)


def provide_image(
    api: APIClient, endpoint: str, request: ContainerRequest, on_progress: Callable[[Progress], None]
) -> None:
    """Make sure that the image is on the node. ``always`` pulls it again; if the registry cannot be reached, the copy
    on the node will do."""
    present = has_image(api, endpoint, request.image)
    if present and request.pull == "absent":
        return
    try:
        _Pull(api, endpoint, request).run(on_progress)
    except RuntimeFault as fault:
        if not (present and fault.reason is FaultReason.REGISTRY_UNREACHABLE):
            raise
        on_progress(Progress(0, 0, "The registry cannot be reached: the copy on the node is used."))


def has_image(api: APIClient, endpoint: str, image: str) -> bool:
    with translated(endpoint, "pull", image):
        try:
            api.inspect_image(image)
        except ImageNotFound:
            return False
    return True


class _Pull:
    """One pull. The engine's lines are read by a thread, since an engine may not even begin to answer while a registry
    hangs."""

    def __init__(self, api: APIClient, endpoint: str, request: ContainerRequest) -> None:
        self._api, self._endpoint, self._request, self._image = api, endpoint, request, request.image
        self._said: queue.SimpleQueue[dict[str, Any] | BaseException | None] = queue.SimpleQueue()
        self._is_left = False

    def run(self, on_progress: Callable[[Progress], None]) -> None:
        layers, reported = Layers(), float("-inf")
        threading.Thread(target=self._read, name="pull", daemon=True).start()
        try:
            while (line := self._next()) is not None:
                if "error" in line:
                    text = str((line.get("errorDetail") or {}).get("message") or line["error"])
                    raise fault_of_text(text, self._endpoint, "pull", self._image)
                layers.add(line)
                if time.monotonic() - reported >= EVERY:
                    reported = time.monotonic()
                    on_progress(layers.progress())
        finally:
            self._is_left = True
        on_progress(layers.progress())

    def _next(self) -> dict[str, Any] | None:
        """The next line of the engine, an empty one when it said nothing for BEAT seconds, None at the end."""
        try:
            line = self._said.get(timeout=BEAT)
        except queue.Empty:
            return {}
        if isinstance(line, BaseException):
            raise line
        return line

    def _read(self) -> None:
        """Say each line, then None or what was raised, until nobody listens."""
        try:
            for line in self._asked():
                if self._is_left:
                    return
                self._said.put(line)
            self._said.put(None)
        except RuntimeFault as fault:
            self._said.put(self._of_registry(fault))
        except BaseException as error:
            self._said.put(error)

    def _of_registry(self, fault: RuntimeFault) -> RuntimeFault:
        """The fault of a registry that hangs, if the engine said nothing of the pull and answers other questions."""
        cause = fault.__cause__
        if not isinstance(cause, requests.Timeout) and "Read timed out" not in str(cause):
            return fault
        try:
            has_image(self._api, self._endpoint, self._image)
        except RuntimeFault as own:
            return own
        return fault_of_text(f"timeout: no answer for {SILENCE:.0f} s", self._endpoint, "pull", self._image)

    def _asked(self) -> Iterator[dict[str, Any]]:
        """The lines as they come. Not ``APIClient.pull``: without a password that would send those in
        ~/.docker/config.json of the portal's own user."""
        repository, tag = parse_repository_tag(self._image)
        user, password = self._request.auth or ("", "")
        credentials = {"username": user, "password": password} if self._request.auth else {}
        asked = {"fromImage": repository, "tag": tag or "latest"}
        headers = {"X-Registry-Auth": encode_header(credentials)}
        path = "/images/create"
        with (
            translated(self._endpoint, "pull", self._image),
            ask(self._api, path, asked, method="post", headers=headers, stream=True, timeout=SILENCE) as response,
        ):
            for line in response.iter_lines():
                yield json.loads(encodable_json(line))


class Layers:
    """Bytes of all layers, summed from the engine's lines about single ones."""

    def __init__(self) -> None:
        self._layers: dict[str, tuple[int, int]] = {}
        self._unpacking = False

    def add(self, line: dict[str, Any]) -> None:
        layer, status = str(line.get("id", "")), str(line.get("status", ""))
        detail = line.get("progressDetail") or {}
        if status == "Downloading" and "total" in detail:
            self._layers[layer] = (int(detail["current"]), int(detail["total"]))
        elif status in ("Verifying Checksum", "Download complete", "Extracting", "Pull complete"):
            _, total = self._layers.get(layer, (0, 0))
            self._layers[layer] = (total, total)
            self._unpacking = status in ("Extracting", "Pull complete")

    def progress(self) -> Progress:
        done = sum(done for done, _ in self._layers.values())
        total = sum(total for _, total in self._layers.values())
        if done == total:
            return Progress(done, total, "unpacking" if self._unpacking else "pulling")
        return Progress(done, total, f"pulling {_size(done)} of {_size(total)}")


def _size(count: int) -> str:
    return f"{count / 1e9:.1f} GB" if count >= 1e9 else f"{count / 1e6:.1f} MB"
