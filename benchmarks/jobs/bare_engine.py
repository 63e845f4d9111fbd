"""The same containers without Longshore: `docker run` of one, and the bare SDK with many. What an engine can do at
most is the floor of every figure."""

from __future__ import annotations

import subprocess
import threading
import time
from pathlib import Path
from typing import Any

from docker import APIClient

from clusters.engines.docker.connect import API_VERSION, open_client
from clusters.engines.docker.request import create_arguments
from clusters.engines.runtime import ContainerRequest
from clusters.engines.sample_image import SAMPLE_IMAGE

MEMORY_MB = 100


def docker_run(endpoint: str, name: str, command: str) -> float:
    """Seconds of `docker run -d`: it returns once the container runs. Limits, init and network as a task has them."""
    began = time.perf_counter()
    limits = ["--init", "--cpu-period=100000", "--cpu-quota=100000", f"--memory={MEMORY_MB}m"]
    limits += [f"--memory-swap={MEMORY_MB}m", "--shm-size=64m", "--security-opt=no-new-privileges"]
    arguments = ["docker", "-H", endpoint, "run", "-d", "--name", name, "--network=host", *limits, SAMPLE_IMAGE]
    subprocess.run([*arguments, "sh", "-c", command], check=True, capture_output=True, timeout=60)
    return time.perf_counter() - began


def docker_remove(endpoint: str, name: str) -> None:
    subprocess.run(["docker", "-H", endpoint, "rm", "-fv", name], check=True, capture_output=True, timeout=60)


def containers_per_second(endpoint: str, number: int, threads: int) -> float:
    """create, start, wait and remove of `true` by the bare SDK, ``threads`` at once, each with its own connection."""
    left, lock = iter(range(number)), threading.Lock()
    errors: list[BaseException] = []

    def work() -> None:
        client = open_client(endpoint, None, API_VERSION, 60)
        try:
            while True:
                with lock:
                    at = next(left, None)
                if at is None:
                    return
                _one(client, f"bare-{threads}-{at}")
        except BaseException as error:
            errors.append(error)
        finally:
            client.close()

    crew = [threading.Thread(target=work) for _ in range(threads)]
    began = time.perf_counter()
    for thread in crew:
        thread.start()
    for thread in crew:
        thread.join()
    if errors:
        raise errors[0]
    return number / (time.perf_counter() - began)


def with_archive(endpoint: str, name: str, tar: Path) -> None:
    """One container with the tar unpacked at / before it starts."""
    client = open_client(endpoint, None, API_VERSION, 120)
    try:
        made = client.create_container(**{**_arguments(client, name), "command": ["sleep", "600"]})["Id"]
        with tar.open("rb") as file:
            client.put_archive(made, "/", file)
        client.start(made)
    finally:
        client.close()


def _one(client: APIClient, name: str) -> None:
    made = client.create_container(**_arguments(client, name))["Id"]
    client.start(made)
    client.wait(made)
    client.remove_container(made)


def _arguments(client: APIClient, name: str) -> dict[str, Any]:
    request = ContainerRequest(
        name=name,
        image=SAMPLE_IMAGE,
        argv=("true",),
        env={},
        labels={},
        files=(),
        cpus=1.0,
        memory_mb=MEMORY_MB,
        shm_mb=64,
        gpu_ids=(),
        network="host",
        ports=(),
        pull="absent",
    )
    return create_arguments(client, request, fuse=False)
