"""Tells a container of a Docker engine that it will be ended, by a program in it.

It is detached and its output goes nowhere, since it is a container's own shell, which may write without end. Its exit
code is asked for until it has ended, or too long.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

from docker import APIClient
from docker.errors import APIError

from clusters.engines.runtime import HAS_SAVED, TELLING

_PAUSE = 0.03  # seconds; the program takes about as long


def has_saved(api: APIClient, name: str, argv: Sequence[str]) -> bool:
    """Whether the program says so. False where it cannot run: the container is paused, or ends just now. Raises what
    requests raises."""
    until = time.monotonic() + TELLING
    try:
        exec_id = api.exec_create(name, list(argv), stdout=False, stderr=False)["Id"]
        api.exec_start(exec_id, detach=True)
        while (state := api.exec_inspect(exec_id))["Running"] and time.monotonic() < until:
            time.sleep(_PAUSE)
    except APIError:
        return False
    return bool(state["ExitCode"] == HAS_SAVED)
