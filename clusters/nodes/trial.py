"""Tries out what a node promises, by containers of the sample image that end at once: whether the node hands out its
GPUs, and whether its containers reach the portal. Asking an engine is not enough: it creates a container with any GPU,
and refuses to start it."""

from __future__ import annotations

import json
import ssl
import time
import urllib.request
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from typing import NamedTuple
from urllib.parse import urlsplit

import structlog
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
from clusters.models import Node
from clusters.nodes.probe import LOOPBACK

log = structlog.get_logger()
# Seconds for a container to reach the portal; where engines are slow, so many times as long as its start took.
PATIENCE, PATIENCE_OF_STARTS = 8.0, 5.0
_INSTANCE = f"{settings.INSTANCE}-trial"  # no scheduler takes its containers for strangers
STARTS = 20.0  # seconds that the web process may take to start
_EVERY = 0.1
# The answer must be this portal's: a node may have something else at the same address.
_REACH = 'wget -q -O - "$0/healthz" | grep -q "$1"'
_CONNECT = 'nc -w 5 "$0" "$1" </dev/null'  # through TLS busybox cannot ask


def left_behind(runtime: ContainerRuntime, before: Collection[str]) -> frozenset[str]:
    """The ids of this portal's trials that are on a node. Those that were there ``before``, when the last survey
    looked, are of one that was killed, and are removed."""
    trials = {status.id: status for status in runtime.list() if status.labels.get(LABEL_INSTANCE) == _INSTANCE}
    for id in trials.keys() & set(before):
        runtime.remove(trials[id].name)
    return frozenset(trials) - frozenset(before)


def try_out(node: Node, runtime: ContainerRuntime) -> dict[str, str]:
    """{kind of mark: a sentence about what does not work, or "" where it works}. What could not be tried is left out.
    The sample image must be on the node."""
    marks = {}
    for kind, trial in (("gpus", _gpus), ("portal", _portal)):
        with suppress(RuntimeFault):
            said = trial(node, runtime)
            if said is not None:
                marks[kind] = said
    if "portal" in marks or (node.gpus and marks.get("gpus") == ""):
        marks["start"] = ""  # a container ran
    return marks


def listing(runtime: ContainerRuntime, gpu_ids: tuple[str, ...], script: str) -> str:
    """What a shell script prints in a container that has these GPUs. Raises RuntimeFault."""
    with _container(runtime, "list", ("sh", "-c", script), gpu_ids=gpu_ids) as container:
        if _end_of(container, runtime) is None:
            return ""
        return b"".join(chunk.data for chunk in runtime.logs(container.name, "stdout")).decode(errors="replace")


def portal_answers() -> bool:
    """Whether this process reaches the portal at the address that containers get. If not, the portal may still be
    starting."""
    whoever = ssl.create_default_context()  # a certificate of its own need not be one that this machine trusts
    whoever.check_hostname, whoever.verify_mode = False, ssl.CERT_NONE
    try:
        with urllib.request.urlopen(f"{settings.PUBLIC_URL}/healthz", timeout=3, context=whoever) as answer:  # noqa: S310
            return bool(json.load(answer).get("instance") == settings.INSTANCE)
    except (OSError, ValueError, AttributeError):
        return False


def await_portal() -> None:
    """Wait until the web process answers: when a portal starts, workers may be up first."""
    deadline = time.monotonic() + STARTS
    while not portal_answers() and time.monotonic() < deadline:
        time.sleep(1)


def _gpus(node: Node, runtime: ContainerRuntime) -> str | None:
    if not node.gpus:
        return ""
    ids = tuple(str(gpu["id"]) for gpu in node.gpus)
    try:
        with _container(runtime, "gpus", ("true",), node.network, ids):
            return ""
    except RuntimeFault as fault:
        if fault.reason is not FaultReason.GPU_MISSING:
            raise
        these = "its GPU" if len(ids) == 1 else f"its {len(ids)} GPUs"
        return f"Node {node.name} cannot hand out {these}: {fault.sentence}"


def _portal(node: Node, runtime: ContainerRuntime) -> str | None:
    if not portal_answers():
        log.warning("whether containers reach the portal was not tried: it does not answer itself", node=node.name)
        return None
    address = urlsplit(settings.PUBLIC_URL)
    if address.scheme == "https":
        argv = ("sh", "-c", _CONNECT, str(address.hostname), str(address.port or 443))
    else:
        argv = ("sh", "-c", _REACH, settings.PUBLIC_URL, settings.INSTANCE)
    with _container(runtime, "portal", argv, node.network) as trial:
        code = _end_of(trial, runtime)
        if code == 0:
            return ""
        why = "there is no answer" if code is None else _said(trial.name, runtime) or "something else answers there"
    unreached = f"Containers on node {node.name} cannot reach the portal at {settings.PUBLIC_URL}"
    return f"{unreached}: {why}. {_advice(address.hostname or '')}"


def _advice(host: str) -> str:
    if host in LOOPBACK:
        return (
            "Jobs there get no files. Set LONGSHORE_BIND to an address of this host that the node reaches, or to"
            f" 0.0.0.0:{settings.BIND_PORT} for all of them and LONGSHORE_PUBLIC_URL to one of these, and start"
            " Longshore again."
        )
    return "Jobs there get no files. Set LONGSHORE_PUBLIC_URL to an address that the node reaches, or open the way."


class _OpenTrial(NamedTuple):
    """A container that runs, and the seconds that it may take to end."""

    name: str
    patience: float


@contextmanager
def _container(
    runtime: ContainerRuntime, kind: str, argv: tuple[str, ...], network: str = "host", gpu_ids: tuple[str, ...] = ()
) -> Iterator[_OpenTrial]:
    """A container with a label of its own, so that no scheduler takes it for a stranger. It is removed afterwards."""
    name = f"longshore-{settings.INSTANCE}-trial-{kind}"
    request = ContainerRequest(
        name=name,
        image=SAMPLE_IMAGE,
        argv=argv,
        labels={LABEL_TASK: "trial", LABEL_INSTANCE: _INSTANCE},
        memory_mb=64,
        network="bridge" if network == "bridge" else "host",
        gpu_ids=gpu_ids,
    )
    runtime.remove(name)  # of a trial that was killed
    began = time.monotonic()
    try:
        runtime.ensure(request)
        yield _OpenTrial(name, max(PATIENCE, PATIENCE_OF_STARTS * (time.monotonic() - began)))
    finally:
        with suppress(RuntimeFault):
            runtime.remove(name)


def _end_of(trial: _OpenTrial, runtime: ContainerRuntime) -> int | None:
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
