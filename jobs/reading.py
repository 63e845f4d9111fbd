"""Reads what a user submits, and asks the nodes what its fixed ports are good for."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from clusters.nodes.queries import load_idle_nodes
from clusters.placement.fit import NodeView, PortDemand
from jobs.config.spec import IsGiven, JobSpec, read_config, read_value


def read(config: Any, name_from_url: str | None = None, username: str = "") -> tuple[str, JobSpec]:
    """The text to store, and its spec. Raises InvalidConfig or TooLarge."""
    if isinstance(config, str):
        return config, read_config(config, name_from_url=name_from_url, username=username, is_given=_given_ports())
    spec = read_value(config, name_from_url=name_from_url, username=username, is_given=_given_ports())
    return json.dumps(config, indent=2, ensure_ascii=False), spec


def _given_ports() -> IsGiven:
    """A function that says whether any node gives out these fixed ports. It reads the nodes at its first call, as few
    configs have fixed ports. Without any node every port is accepted."""
    nodes: list[Sequence[NodeView]] = []

    def is_given(first: int, number: int) -> bool:
        if not nodes:
            nodes.append(load_idle_nodes())
        return not nodes[0] or any(node.gives(PortDemand("", first, number)) for node in nodes[0])

    return is_given
