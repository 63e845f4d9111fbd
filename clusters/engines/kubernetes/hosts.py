"""Reads nodes and pods of Kubernetes, as its API answers them, into the hosts of an inventory.

Pure: JSON in, values out (https://kubernetes.io/docs/reference/kubernetes-api/, Node v1 and Pod v1).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from decimal import Decimal, InvalidOperation
from typing import Any

from clusters.engines.image_names import canonical
from clusters.engines.inventory import GPU, GPUS, HostReport, gpu_ids, gpu_type
from clusters.engines.runtime import LABEL_INSTANCE

Json = Mapping[str, Any]
Taken = dict[str, Decimal]  # by resource: cpu in cores, memory in bytes, others as numbers

MB = 2**20
_SUFFIXES = {
    **{"n": Decimal(10) ** -9, "u": Decimal(10) ** -6, "m": Decimal(10) ** -3, "k": Decimal(10) ** 3},
    **{letter: Decimal(10) ** (6 + 3 * nth) for nth, letter in enumerate("MGTPE")},
    **{f"{letter}i": Decimal(2) ** (10 + 10 * nth) for nth, letter in enumerate("KMGTPE")},
}
# Labels that name the kind of GPU: of NVIDIA's and AMD's feature discovery, of clouds, and of people.
_TYPES = (
    "nvidia.com/gpu.product",
    "amd.com/gpu.product-name",
    "cloud.google.com/gke-accelerator",
    "accelerator",
)
# Taints that say what conditions say already, or that Longshore tolerates: it decides itself when a node is lost.
_TOLD_OTHERWISE = ("node.kubernetes.io/unschedulable", "node.kubernetes.io/unreachable", "node.kubernetes.io/not-ready")
_LABELS_KEPT = 64


def quantity(text: object) -> Decimal:
    """Reads ``100m``, ``16Gi``, ``2`` or ``1e3``; 0 for what is no quantity."""
    written = str(text)
    for size in (2, 1):
        if written[-size:] in _SUFFIXES:
            return _decimal(written[:-size]) * _SUFFIXES[written[-size:]]
    return _decimal(written)


def asked_by(pod: Json) -> Taken:
    """What a pod asks of its node: the sum over its containers, or the need of an init container where that is more."""
    spec = pod.get("spec") or {}
    running, beside, most = Taken(), Taken(), Taken()
    for container in spec.get("containers") or ():
        _add(running, _requests(container))
    for container in spec.get("initContainers") or ():
        alone = dict(beside)
        _add(alone, _requests(container))
        if container.get("restartPolicy") == "Always":  # it starts first and stays
            beside = alone
        most = _larger(most, alone)
    _add(running, beside)
    whole = _larger(running, most)
    _add(whole, _amounts(spec.get("overhead")))
    return whole


def taken_by_others(pods: Iterable[Json], namespace: str, instance: str) -> dict[str, Taken]:
    """What other pods take, by node: those that have a node, have not ended and do not belong to the portal
    ``instance``, whose own pods are in ``namespace``."""
    taken: dict[str, Taken] = {}
    for pod in pods:
        node = (pod.get("spec") or {}).get("nodeName")
        meta = pod.get("metadata") or {}
        is_ours = meta.get("namespace") == namespace and (meta.get("labels") or {}).get(LABEL_INSTANCE) == instance
        if not node or is_ours or (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed"):
            continue
        _add(taken.setdefault(node, {}), asked_by(pod))
    return taken


def host_of(node: Json, others: Taken) -> HostReport:
    """Return one node. ``others``: what workloads that are not ours take on it."""
    meta, status = node.get("metadata") or {}, node.get("status") or {}
    has = _amounts(status.get("allocatable"))
    resource = _gpu_resource(has)
    labels = meta.get("labels") or {}
    cpus, memory = int(has.get("cpu", 0)), int(has.get("memory", Decimal()) / MB)
    free_cpus = math.floor(has.get("cpu", Decimal()) - others.get("cpu", Decimal()))
    free_memory = math.floor((has.get("memory", Decimal()) - others.get("memory", Decimal())) / MB)
    ready = _condition(status, "Ready")
    number = int(has.get(resource, 0))
    model = next((str(labels[name]) for name in _TYPES if labels.get(name)), "" if resource == GPU else resource)
    return HostReport(
        name=str(meta.get("name")),
        address=_address(status) or str(meta.get("name")),
        cpus=cpus,
        memory_mb=memory,
        gpus=tuple((id, gpu_type(model)) for id in gpu_ids(resource, number)),
        others_cpus=min(cpus, max(0, cpus - free_cpus)),
        others_memory_mb=min(memory, max(0, memory - free_memory)),
        others_gpus=min(number, int(others.get(resource, 0))),
        labels=dict(sorted(labels.items())[:_LABELS_KEPT]),
        images=_images(status),
        version=str((status.get("nodeInfo") or {}).get("kubeletVersion", "")),
        silent=ready.get("status") not in ("True", "False"),
        closed=_closed(node, ready),
    )


def _closed(node: Json, ready: Json) -> str:
    """Why nothing of ours may start there; empty when it may."""
    spec = node.get("spec") or {}
    if spec.get("unschedulable"):
        return "cordoned in Kubernetes"
    for taint in spec.get("taints") or ():
        key, effect = taint.get("key"), taint.get("effect")
        if key in _TOLD_OTHERWISE or (key in GPUS and effect == "NoSchedule"):
            continue
        if effect in ("NoSchedule", "NoExecute"):
            value = f"={taint['value']}" if taint.get("value") else ""
            return f"tainted in Kubernetes: {key}{value}:{effect}"
    if ready.get("status") == "False":
        return f"not ready: {ready.get('message') or ready.get('reason') or 'its kubelet says so'}"[:300]
    return ""


def _gpu_resource(has: Taken) -> str:
    resources = [name for name in has if name.endswith("/gpu") and has[name] >= 1]
    return next((name for name in (*GPUS, *sorted(resources)) if name in resources), GPU)


def _images(status: Json) -> frozenset[str]:
    """Names by digest alone are left out: no config names them so."""
    names = (name for image in status.get("images") or () for name in image.get("names") or ())
    return frozenset(canonical(name) for name in names if "@" not in name)


def _address(status: Json) -> str:
    by_type = {each.get("type"): str(each.get("address")) for each in status.get("addresses") or ()}
    return next((by_type[kind] for kind in ("InternalIP", "ExternalIP", "Hostname") if by_type.get(kind)), "")


def _condition(status: Json, kind: str) -> Json:
    return next((each for each in status.get("conditions") or () if each.get("type") == kind), {})


def _requests(container: Json) -> Taken:
    return _amounts((container.get("resources") or {}).get("requests"))


def _amounts(given: object) -> Taken:
    return {str(name): quantity(value) for name, value in given.items()} if isinstance(given, Mapping) else {}


def _add(to: Taken, more: Taken) -> None:
    for name, amount in more.items():
        to[name] = to.get(name, Decimal()) + amount


def _larger(one: Taken, other: Taken) -> Taken:
    """Return the larger amount of each resource."""
    return {name: max(one.get(name, Decimal()), other.get(name, Decimal())) for name in {*one, *other}}


def _decimal(text: str) -> Decimal:
    try:
        number = Decimal(text)
    except InvalidOperation:
        return Decimal()
    return number if number.is_finite() else Decimal()
