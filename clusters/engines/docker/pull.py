"""Puts images onto a node: pulls them, with progress over all layers and no error swallowed, or imports them."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Generator
from typing import IO, Any

from docker import APIClient
from docker.auth import encode_header
from docker.errors import ImageNotFound
from docker.utils import parse_repository_tag

from clusters.engines.docker.connect import CONNECT, ask, checked, url
from clusters.engines.docker.errors import fault_of_text, translated
from clusters.engines.runtime import ContainerRequest, FaultReason, Progress, RuntimeFault

SILENCE = 300.0  # seconds without a word from a pull after which it is given up
EVERY = 1.0  # seconds between two reports of progress


def provide_image(
    api: APIClient, endpoint: str, request: ContainerRequest, on_progress: Callable[[Progress], None]
) -> None:
    """Make sure that the image is on the node. ``always`` pulls it again; if the registry cannot be reached, the copy
    on the node will do."""
    present = has_image(api, endpoint, request.image)
    if present and request.pull == "absent":
        return
    try:
        _pull(api, endpoint, request, on_progress)
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


def image_names(api: APIClient) -> frozenset[str]:
    """Names by tag and by digest. Images without either cannot be asked for."""
    rows = ask(api, "/images/json").json()
    return frozenset(
        name
        for row in rows
        for name in (*(row.get("RepoTags") or ()), *(row.get("RepoDigests") or ()))
        if "<none>" not in name
    )


def import_image(api: APIClient, endpoint: str, image: str, tar: IO[bytes], changes: tuple[str, ...]) -> None:
    repository, tag = parse_repository_tag(image)
    with translated(endpoint, "pull", image):
        # Not the library's import_image_from_stream: it announces chunks and then sends none.
        response = api.post(
            url(api, "/images/create"),
            params={"fromSrc": "-", "repo": repository, "tag": tag, "changes": changes},
            headers={"Content-Type": "application/x-tar"},
            data=tar,
            timeout=(CONNECT, SILENCE),
        )
        lines = checked(response).text.splitlines()
    for line in lines:
        if "error" in (said := json.loads(line)):
            raise fault_of_text(str(said["error"]), endpoint, "pull", image)


def _pull(api: APIClient, endpoint: str, request: ContainerRequest, on_progress: Callable[[Progress], None]) -> None:
    layers = Layers()
    reported = float("-inf")
    lines = _lines(api, endpoint, request)
    try:
        for line in lines:
            if "error" in line:
                text = str((line.get("errorDetail") or {}).get("message") or line["error"])
                raise fault_of_text(text, endpoint, "pull", request.image)
            layers.add(line)
            if time.monotonic() - reported >= EVERY:
                reported = time.monotonic()
                on_progress(layers.progress())
    finally:
        lines.close()
    on_progress(layers.progress())


def _lines(api: APIClient, endpoint: str, request: ContainerRequest) -> Generator[dict[str, Any], None, None]:
    """The engine's lines while it pulls. Not ``APIClient.pull``: without a password that would send those in
    ~/.docker/config.json of the portal's own user."""
    repository, tag = parse_repository_tag(request.image)
    user, password = request.auth or ("", "")
    credentials = {"username": user, "password": password} if request.auth else {}
    with translated(endpoint, "pull", request.image):
        response = api.post(
            url(api, "/images/create"),
            params={"fromImage": repository, "tag": tag or "latest"},
            headers={"X-Registry-Auth": encode_header(credentials)},
            stream=True,
            timeout=(CONNECT, SILENCE),
        )
        with response:
            for line in checked(response).iter_lines():
                yield json.loads(line)


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
