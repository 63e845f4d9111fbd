"""Registers this host's engine as node ``local`` when a portal starts without nodes, and builds the sample image on
it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from base.core.errors import LongshoreError
from base.hosts import shared
from clusters.engines import own_ssh, schemes
from clusters.engines.runtime import RuntimeFault
from clusters.engines.sample_image import ensure_sample_image
from clusters.models import Node
from clusters.nodes import services

Say = Callable[[str], None]


def prepare(say: Say, **_: Any) -> None:
    """Receiver of base.core.signals.first_start. ``say`` gets a line about each thing that was registered or built.
    Without an engine it gets a line that says so, and the start goes on."""
    _share_keys()
    try:
        node = services.register_local_node()
    except LongshoreError as error:
        say(f"No node yet. {error.message} Start Docker and Longshore again, or register a node.")
        return
    if node is not None:
        say(describe(node))
    node = Node.objects.filter(name=services.LOCAL).first()
    if node is not None:
        _sample_image(node, say)


def _share_keys() -> None:
    """For hosts that join later: what was registered here, also before there were several."""
    own_ssh.fetch()
    for tls_dir in Node.objects.exclude(tls_dir="").values_list("tls_dir", flat=True):
        shared.share_tls(tls_dir)


def describe(node: Node) -> str:
    gpus = {0: "no GPU", 1: "1 GPU"}.get(len(node.gpus), f"{len(node.gpus)} GPUs")
    cpus = "1 CPU" if node.cpus == 1 else f"{node.cpus} CPUs"
    engine = schemes.scheme_of(node.endpoint).engine
    size = f"{node.memory_mb / 1024:.1f} GB of memory"
    return f"{engine} {node.docker_version} at {node.endpoint} is node {node.name}: {cpus}, {size}, {gpus}."


def _sample_image(node: Node, say: Say) -> None:
    try:
        line = ensure_sample_image(schemes.runtime_for(node))
    except RuntimeFault as fault:
        line = f"The image of the sample jobs could not be built: {fault.sentence}"
    if line:
        say(line)
