"""Tries out what a node promises, by containers of the sample image that end at once: whether the node hands out its
GPUs, and whether its containers reach the portal. Asking an engine is not enough: it creates a container with any GPU,
and refuses to start it."""

from __future__ import annotations

import json
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, Protocol
from urllib.parse import urlsplit

from django.conf import settings

from clusters.engines.runtime import (
    LABEL_INSTANCE,
    LABEL_TASK,
    ContainerRequest,
    ContainerRuntime,
    FaultReason,
    Phase,
    RuntimeFault,
)
from clusters.engines.sample_image import SAMPLE_IMAGE

LOOPBACK = ("localhost", "127.0.0.1", "::1")
# Seconds for a container to reach the portal; where engines are slow, so many times as long as its start took.
PATIENCE, PATIENCE_OF_STARTS = 8.0, 5.0
STARTS = 20.0  # seconds that the web process may take to start
_EVERY = 0.1
# The answer must be this portal's: a node may have something else at the same address.
_REACH = 'wget -q -O - "$0/healthz" | grep -q "$1"'
_CONNECT = 'nc -w 5 "$0" "$1" </dev/null'  # through TLS busybox cannot ask


class Tried(Protocol):
    """What a trial needs of a node."""

    @property
    def name(self) -> str: ...
    @property
    def network(self) -> str: ...
    @property
    def gpus(self) -> Any: ...


@dataclass(frozen=True, slots=True)
class _Plain:
    name: str
    network: str = "host"
    gpus: tuple[()] = ()


def try_out(node: Tried, runtime: ContainerRuntime) -> dict[str, str]:
    """{kind of mark: a sentence about what does not work, or "" where it works}. What could not be tried is left out.
    The sample image must be on the node."""
    found = {}
    for kind, trial in (("gpus", _gpus), ("portal", _portal)):
        with suppress(RuntimeFault):
            said = trial(node, runtime)
            if said is not None:
                found[kind] = said
    if "portal" in found or (node.gpus and found.get("gpus") == ""):
        found["start"] = ""  # a container ran
    return found


def listing(name: str, runtime: ContainerRuntime, gpu_ids: tuple[str, ...], script: str) -> str:
    """What a shell script prints in a container that has these GPUs. Raises RuntimeFault."""
    with _container(_Plain(name), runtime, "list", ("sh", "-c", script), gpu_ids=gpu_ids) as container:
        if _end_of(container, runtime) is None:
            return ""
        return b"".join(chunk.data for chunk in runtime.logs(container.name, "stdout")).decode(errors="replace")


def portal_answers() -> bool:
    """Whether this process reaches the portal at the address that containers get. If not, the portal may still be
    starting."""
    try:
        with urllib.request.urlopen(f"{settings.PUBLIC_URL}/healthz", timeout=3) as answer:  # noqa: S310
            return bool(json.load(answer).get("instance") == settings.INSTANCE)
    except (OSError, ValueError, AttributeError):
        return False


def await_portal() -> None:
    """Wait until the web process answers: when a portal starts, workers may be up first."""
    deadline = time.monotonic() + STARTS
    while not portal_answers() and time.monotonic() < deadline:
        time.sleep(1)


def _gpus(node: Tried, runtime: ContainerRuntime) -> str | None:
    if not node.gpus:
        return ""
    ids = tuple(str(gpu["id"]) for gpu in node.gpus)
    try:
        with _container(node, runtime, "gpus", ("true",), gpu_ids=ids):
            return ""
    except RuntimeFault as fault:
        if fault.reason is not FaultReason.GPU_MISSING:
            raise
        these = "its GPU" if len(ids) == 1 else f"its {len(ids)} GPUs"
        return f"Node {node.name} cannot hand out {these}: {fault.sentence}"


def _portal(node: Tried, runtime: ContainerRuntime) -> str | None:
    if not portal_answers():
        return None
    address = urlsplit(settings.PUBLIC_URL)
    if address.scheme == "https":
        argv = ("sh", "-c", _CONNECT, str(address.hostname), str(address.port or 443))
    else:
        argv = ("sh", "-c", _REACH, settings.PUBLIC_URL, settings.INSTANCE)
    with _container(node, runtime, "portal", argv) as trial:
        code = _end_of(trial, runtime)
        if code == 0:
            return ""
        why = "there is no answer" if code is None else _said(trial.name, runtime) or "something else answers there"
    return f"{_unreached(node)}: {why}. {_advice(address.hostname or '')}"


def _unreached(node: Tried) -> str:
    return f"Containers on node {node.name} cannot reach the portal at {settings.PUBLIC_URL}"


def _advice(host: str) -> str:
    if host in LOOPBACK:
        return (
            "Jobs there get no files. Set LONGSHORE_BIND to an address of this host that the node reaches, or to"
            f" 0.0.0.0:{settings.BIND_PORT} for all of them and LONGSHORE_PUBLIC_URL to one of these, and start"
            " Longshore again."
        )
    return "Jobs there get no files. Set LONGSHORE_PUBLIC_URL to an address that the node reaches, or open the way."


class _Trial(NamedTuple):
    """A container that runs, and the seconds that it may take to end."""

    name: str
    patience: float


@contextmanager
def _container(
    node: Tried, runtime: ContainerRuntime, kind: str, argv: tuple[str, ...], **more: Any
) -> Iterator[_Trial]:
    """A container with a label of its own, so that no scheduler takes it for a stranger. It is removed afterwards."""
    name = f"longshore-{settings.INSTANCE}-trial-{kind}"
    network: Literal["host", "bridge"] = "bridge" if node.network == "bridge" else "host"
    request = ContainerRequest(
        name=name,
        image=SAMPLE_IMAGE,
        argv=argv,
        labels={LABEL_TASK: "trial", LABEL_INSTANCE: f"{settings.INSTANCE}-trial"},
        memory_mb=64,
        network=network,
        **more,
    )
    runtime.remove(name)  # of a trial that was killed
    began = time.monotonic()
    try:
        runtime.ensure(request)
        yield _Trial(name, max(PATIENCE, PATIENCE_OF_STARTS * (time.monotonic() - began)))
    finally:
        with suppress(RuntimeFault):
            runtime.remove(name)


def _end_of(trial: _Trial, runtime: ContainerRuntime) -> int | None:
    """Its exit code; None when it has not ended in time."""
    deadline = time.monotonic() + trial.patience
    while time.monotonic() < deadline:
        for status in runtime.list():
            if status.name == trial.name and status.phase is Phase.EXITED:
                return status.exit_code
        time.sleep(_EVERY)
    return None


def _said(name: str, runtime: ContainerRuntime) -> str:
    """The last line of its errors, without the program's name."""
    lines = b"".join(chunk.data for chunk in runtime.logs(name, "stderr")).decode(errors="replace").split("\n")
    told = [line.partition(": ")[2] or line for line in lines if line.strip()]
    return told[-1].strip()[:200] if told else ""
