"""What Longshore asks of an engine to measure its containers: a Protocol beside ContainerRuntime, and its values.

Pure: no Docker, no Django. ``docker.meter`` speaks to a real engine, ``fake.meter`` to a dictionary; both pass the same
contract tests (tests/contract_meter.py). It has connections of its own, so whoever samples delays nobody who starts or
stops containers, and needs none of the libraries that they need.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class ContainerUsage:
    """What one running container uses now and has used since its start. What its engine does not count is None: on the
    host's network nobody counts the bytes of one container."""

    at: float  # seconds since 1970 by the engine's clock: only differences mean anything here
    cpu: float  # seconds of CPU since its start
    memory: int  # bytes, without the cached files that the kernel gives back first
    pids: int | None = None  # processes and threads
    shared: int | None = None  # bytes of shared memory, which are a part of ``memory``
    network: tuple[int, int] | None = None  # bytes received and sent since its start
    disk: tuple[int, int] | None = None  # bytes read and written since its start


class Measurable(Protocol):
    """One engine. Only one thread may use it at a time. It raises only ``RuntimeFault``."""

    def usage(self, names: Sequence[str], seconds: float) -> dict[str, ContainerUsage]:
        """The usage of these containers by name, within ``seconds``. Those are missing that do not run, and those for
        which the time was too short. Raises UNREACHABLE when the engine answers nothing at all."""

    def output(self, name: str, argv: Sequence[str], seconds: float) -> str:
        """What a program writes to its standard output when it is run in the container: 64 KiB at most. Empty when
        there is no such container or program, or when it fails. Raises UNREACHABLE when it takes longer."""


class Unmeasured:
    """Stands for the meter of an engine that does not say what its containers use."""

    def usage(self, names: Sequence[str], seconds: float) -> dict[str, ContainerUsage]:
        return {}

    def output(self, name: str, argv: Sequence[str], seconds: float) -> str:
        return ""
