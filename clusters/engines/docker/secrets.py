"""Sends secret files to a container over its standard input. No engine stores what passes there, so neither ``docker
inspect``, nor an environment, nor the node's disk has them afterwards.

The shell that stands before the container's own command (module request) reads them and leaves the command an empty
standard input. They are sent right before the start, and the engine holds them back until then, so no container waits
for them.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from docker import APIClient

from clusters.engines.docker.connect import CONNECT, SLOW, checked, url
from clusters.engines.docker.errors import translated
from clusters.engines.docker.request import secret_lines, secrets_of
from clusters.engines.runtime import ContainerRequest

UPGRADE = {"Connection": "Upgrade", "Upgrade": "tcp"}


@contextmanager
def sent(api: APIClient, endpoint: str, request: ContainerRequest) -> Iterator[None]:
    """The start in the block gets its secrets. When a created container is adopted they are sent again: its shell reads
    them once."""
    if not (secrets := secrets_of(request)):
        yield
        return
    with translated(endpoint, "start"):
        response = checked(
            api.post(
                url(api, f"/containers/{request.name}/attach"),
                params={"stdin": 1, "stream": 1},
                headers=UPGRADE,
                stream=True,
                timeout=(CONNECT, SLOW),
            )
        )
    with response:
        with translated(endpoint, "start"):
            _socket(api, response).sendall(secret_lines(secrets))
        yield


def _socket(api: APIClient, response: Any) -> Any:
    """The socket of a connection that the engine has turned into a stream of bytes."""
    stream = api._get_raw_response_socket(response)  # knows where each transport has it
    return getattr(stream, "_sock", stream)
