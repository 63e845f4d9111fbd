"""Ports of tasks on a real engine of which nothing but the engine itself can be reached."""

from __future__ import annotations

import os
import random
import threading
from typing import Any

import pytest

from clusters.engines.runtime import FaultReason, RuntimeFault
from tests.acceptance.docker_lab import DockerLab, runtime_at
from tests.bed.docker_bed import BedNode
from tests.bed.ssh_image import ensure_python_image
from tests.contract_runtime import exactly, request
from tests.helpers import LIMIT, until

pytestmark = [pytest.mark.docker, pytest.mark.usefixtures("unhurried")]
NOWHERE = "255.255.255.255"  # no connection of TCP leads there


def listener(lab: DockerLab, **more: Any) -> tuple[int, str]:
    """The port and the name of a container that sends back what it gets."""
    port = random.randrange(20_000, 29_000)
    asked = request(lab, argv=("nc", "-ll", "-p", str(port), "-e", "cat"), ports=(port,), **more)
    lab.runtime.ensure(asked)
    until(lambda: lab._listens(port), what="nc listens")
    return port, asked.name


def test_it_is_reached_through_the_engine_and_leaves_nothing_behind(docker_engine: BedNode, sample_image: str) -> None:
    lab = DockerLab(runtime_at(docker_engine, "tls"), docker_engine)
    try:
        port, name = listener(lab, image=ensure_python_image(docker_engine))
        sent = os.urandom(3_000_000)
        for _ in range(2):
            with lab.runtime.dial(NOWHERE, port, name) as way:
                threading.Thread(target=way.sendall, args=(sent,), daemon=True).start()
                way.settimeout(LIMIT)
                assert exactly(way, len(sent)) == sent
        with pytest.raises(RuntimeFault, match="Nothing listens on port 29999"):
            lab.runtime.dial(NOWHERE, 29_999, name)
        until(lambda: "python3" not in str(lab.sdk.api.top(name)["Processes"]), what="the programs between end")
    finally:
        lab.clear()


def test_it_says_what_the_image_lacks(docker_engine: BedNode, sample_image: str) -> None:
    lab = DockerLab(runtime_at(docker_engine, "tls"), docker_engine)
    try:
        port, name = listener(lab)
        with pytest.raises(RuntimeFault, match="no python3") as caught:
            lab.runtime.dial(NOWHERE, port, name)
        assert caught.value.reason is FaultReason.UNREACHABLE
    finally:
        lab.clear()
