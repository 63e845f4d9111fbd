"""What breaks, and what makes it whole again: nodes of the bed, the way to them, and processes of the portal."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from dataclasses import dataclass

from tests.bed.docker_bed import BedNode

_SSHD = "for each in /proc/[0-9]*; do [ $(cat $each/comm) != sshd ] || kill -{} ${{each#/proc/}}; done 2>/dev/null; :"
_DOCKERD = "kill -{} $(cat /run/docker.pid)"


@dataclass(frozen=True)
class OfNode:
    """``way``: how the portal reaches the node that breaks. ``says_goodbye``: its containers are seen to end, so the
    portal need not wait until the node counts as lost."""

    name: str
    way: str
    strike: Callable[[BedNode], None]
    heal: Callable[[BedNode], None]
    says_goodbye: bool = False


@dataclass(frozen=True)
class OfPortal:
    """``who`` is killed, or only stopped while another scheduler stands by, which waits for the lease."""

    name: str
    who: str
    sends: signal.Signals = signal.SIGKILL

    @property
    def is_stop(self) -> bool:
        return self.sends is signal.SIGSTOP


def of_bed(what: str) -> Callable[[BedNode], None]:
    return lambda node: node.fault(what)


def inside(command: str) -> Callable[[BedNode], None]:
    def run(node: BedNode) -> None:
        node.run("sh", "-c", command)

    return run


def _lose_power(node: BedNode) -> None:
    """Nothing says goodbye: the cable first, so that no kernel answers for those that are dead."""
    node.fault("cut")
    node.fault("crash")


NODES = (
    OfNode("node cut off", "tls", of_bed("cut"), of_bed("heal")),
    OfNode("node lost its power, booted", "tls", _lose_power, of_bed("boot")),
    OfNode("node frozen", "tls", of_bed("freeze"), of_bed("thaw")),
    OfNode("endpoint silent, tcp", "tls", inside(_DOCKERD.format("STOP")), inside(_DOCKERD.format("CONT"))),
    OfNode("endpoint silent, ssh", "ssh", inside(_SSHD.format("STOP")), inside(_SSHD.format("CONT"))),
    OfNode("dockerd killed", "tls", of_bed("kill-dockerd"), of_bed("start-dockerd")),
    OfNode("dockerd stopped cleanly", "tls", of_bed("stop-dockerd"), of_bed("start-dockerd"), says_goodbye=True),
)
FULL = OfNode("data root full", "tls", of_bed("fill"), of_bed("drain"))
PORTAL = (
    OfPortal("scheduler killed", "scheduler"),
    OfPortal("scheduler hangs, another is there", "scheduler", signal.SIGSTOP),
    OfPortal("workers killed", "workers"),
    OfPortal("web killed", "web"),
)


def send(deed: OfPortal, pids: list[int]) -> None:
    """Only the first of the workers is killed: the others follow it by themselves."""
    for pid in pids if deed.is_stop else pids[:1]:
        os.kill(pid, deed.sends)


def wake(deed: OfPortal, pids: list[int]) -> None:
    for pid in pids if deed.is_stop else []:
        os.kill(pid, signal.SIGCONT)


def job_of(deed: OfNode | OfPortal) -> str:
    """The name of the job that meets it."""
    return deed.name.replace(",", "").replace(" ", "-")
