"""What Longshore asks of an engine that stands for many hosts: which there are, what each has, what others take there.

Pure: no Kubernetes, no Django. ``kubernetes.inventory`` asks a real cluster, ``fake.inventory`` a dictionary; both pass
the same contract tests (tests/contract_inventory.py).
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

LONGEST_NAME = 63
GPU = "nvidia.com/gpu"  # what an id without a resource is one of
# A node offers the first of these that it has, else another resource that ends with /gpu. Clusters often taint nodes
# with them; every task tolerates that, as Longshore itself decides who gets these nodes.
GPUS = (GPU, "amd.com/gpu")
# Words that follow a node's name in the addresses of pages and routes: no host is shown under one of them alone, and
# what is not here is taken for the name of a host (portal/nodes/paths.py).
RESERVED = ("drain", "edit", "gone", "metrics", "remove", "status")
_LABEL = r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?"
_ENDPOINT = re.compile(rf"kubernetes://(?P<cluster>{_LABEL}(\.{_LABEL})*)/(?P<namespace>{_LABEL})")
_HOST = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")


@dataclass(frozen=True, slots=True)
class HostReport:
    """One host as its cluster reports it. ``others_*``: what workloads that are not ours ask for there."""

    name: str
    address: str
    cpus: int  # whole cores that containers may have
    memory_mb: int
    gpus: tuple[tuple[str, str], ...] = ()  # (id, type); what ``resource_of`` makes of an id is what it is one of
    others_cpus: int = 0
    others_memory_mb: int = 0
    others_gpus: int = 0
    labels: Mapping[str, str] = field(default_factory=dict)
    images: frozenset[str] = frozenset()
    version: str = ""
    silent: bool = False  # the cluster does not hear of it: its containers may run all the same
    closed: str = ""  # why nothing of ours may start there, for people: "cordoned in Kubernetes"


@dataclass(frozen=True, slots=True)
class Inventory:
    """All hosts of a cluster that are meant for us. ``sees_others``: False where we may not see what others take."""

    version: str
    hosts: tuple[HostReport, ...]
    sees_others: bool = True


@dataclass(frozen=True, slots=True)
class Fitness:
    """Whether a cluster may be used: ``lacks`` are sentences about what must be mended first, ``hints`` about what may
    stay as it is."""

    version: str
    lacks: tuple[str, ...] = ()
    hints: tuple[str, ...] = ()


class Inventoried(Protocol):
    """One cluster. Only one thread may use it at a time. It raises only ``RuntimeFault``."""

    def fitness(self, network: str) -> Fitness:
        """Asks for its version, for every right that the engine needs, and whether it takes containers on the
        ``network`` of their host ("host") or with addresses of their own ("bridge")."""

    def inventory(self, selector: Mapping[str, str], instance: str) -> Inventory:
        """The hosts that have these labels. Containers of the portal ``instance`` are not counted as others'."""

    def forget(self, container: str) -> None:
        """Delete what the cluster knows of this container by force, without the word of its host. Only for a host of
        which an admin says that it is gone: a container that runs on goes unseen. Succeeds also when it knows none."""

    def wait_change(self, timeout: float) -> None:
        """Watch the hosts of the last ``inventory``. Returns as soon as one of them changes, comes or goes, when the
        cluster ends the stream, and after ``timeout`` seconds."""


def parts_of(endpoint: str) -> tuple[str, str]:
    """The cluster's name and the namespace of ``kubernetes://cluster/namespace``. Raises ValueError."""
    parts = _ENDPOINT.fullmatch(endpoint)
    if parts is None:
        raise ValueError("must name a cluster and a namespace, such as kubernetes://lab/longshore")
    return parts["cluster"], parts["namespace"]


def name_of(cluster: str, host: str) -> str:
    """The name of the node that this host is: ``cluster/host``, cut with a hash where it would be too long for a node's
    name, or where pages have another meaning for it."""
    name = f"{cluster}/{host}"
    if len(name) <= LONGEST_NAME and host not in RESERVED and _HOST.fullmatch(host):
        return name
    mark = "-" + hashlib.sha256(host.encode()).hexdigest()[:6]
    clean = re.sub(r"[^A-Za-z0-9_.-]", "-", name.partition("/")[2]).lstrip("_.-") or "node"
    return f"{cluster}/{clean}"[: LONGEST_NAME - len(mark)] + mark


def gpu_ids(resource: str, number: int) -> tuple[str, ...]:
    """The ids of a host's GPUs of one resource: 0, 1 ... of nvidia.com/gpu, amd.com/gpu:0 ... of another."""
    return tuple(str(nth) if resource == GPU else f"{resource}:{nth}" for nth in range(number))


def gpu_type(model: str) -> str:
    """A type has no white space (v1 contract, 1.1 gpuType)."""
    return "-".join(model.split()).removeprefix("NVIDIA-")[:256]


def resource_of(gpu_id: str) -> str:
    """The resource that a container asks for to get this GPU."""
    return gpu_id.rpartition(":")[0] or GPU
