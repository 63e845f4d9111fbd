"""What the stand-ins for distributed programs share: lines of JSON over TCP, and a line that is to be fitted."""

from __future__ import annotations

import json
import random
import socket
import time
from typing import Any

SLOPE, SHIFT = 3.0, -1.0


def connect(address: str, port: int) -> socket.socket:
    """The peer may begin later, and where others need the machine, much later."""
    for _ in range(6000):
        try:
            return socket.create_connection((address, port), timeout=600)
        except OSError:
            time.sleep(0.1)
    raise TimeoutError(f"nobody listens at {address}:{port}")


def send(peer: socket.socket, value: Any) -> None:
    peer.sendall(json.dumps(value).encode() + b"\n")


def receive(lines: Any) -> Any:
    """``lines``: what ``makefile()`` of a socket gives. None at its end."""
    line = lines.readline()
    return json.loads(line) if line else None


def gradients(weights: list[float], numbers: random.Random, size: int = 32) -> tuple[list[float], float]:
    """Of the squared error of ``weights`` as slope and shift, over points of the true line; and that error."""
    points = [numbers.uniform(-1, 1) for _ in range(size)]
    errors = [weights[0] * x + weights[1] - (SLOPE * x + SHIFT) for x in points]
    loss = sum(error * error for error in errors) / size
    return [2 * sum(e * x for e, x in zip(errors, points, strict=True)) / size, 2 * sum(errors) / size], loss
