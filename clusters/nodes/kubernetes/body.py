"""A Kubernetes cluster in the API: what a request may say, and what an answer says. Its keys are taken and never
shown."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Annotated, Literal

from pydantic import AfterValidator, Field
from typing_extensions import TypedDict

from base.core.values import Matches, milliseconds
from clusters.models import Cluster, Node
from clusters.nodes.serializers import NodeBody, NodeObject, Ports, node_objects

ENDPOINT = "kubernetes://"
_LABEL = re.compile(r"([a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?/)?[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?")
_VALUE = re.compile(r"([A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?)?")


def _selector(value: dict[str, str]) -> dict[str, str]:
    if not all(_LABEL.fullmatch(name) and _VALUE.fullmatch(text) for name, text in value.items()):
        raise ValueError("must have labels of Kubernetes, such as pool: gpu")
    return value


_SAYS = "must have only small letters, digits and '-' within, {} at most"
Name = Annotated[str, Matches("[a-z0-9]([a-z0-9-]{0,28}[a-z0-9])?", _SAYS.format(30))]
Namespace = Annotated[str, Matches("[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?", _SAYS.format(63))]
Selector = Annotated[dict[str, str], Field(max_length=16), AfterValidator(_selector)]
Kubeconfig = Annotated[str, Field(min_length=1, max_length=65_536)]


class NewCluster(NodeBody):
    """POST /nodes with the endpoint ``kubernetes://``. Without ``kubeconfig`` it is the cluster that Longshore itself
    runs in."""

    name: Name
    endpoint: Literal["kubernetes://"]
    kubeconfig: Kubeconfig | None = None
    namespace: Namespace = "longshore-jobs"
    nodeSelector: Selector = {}
    portRange: Ports = [20000, 29999]
    network: Literal["host", "bridge"] = "host"


class ClusterChange(NodeBody):
    """PUT /nodes/:name of a cluster. What is absent stays as it is."""

    kubeconfig: Kubeconfig | None = None
    nodeSelector: Selector | None = None


class ClusterObject(TypedDict):
    name: str
    endpoint: str
    namespace: str
    version: str
    health: Annotated[str, Field(description="ready or unreachable")]
    healthReason: str
    lastSeen: Annotated[int | None, Field(description="Milliseconds since 1970.")]
    nodeSelector: dict[str, str]
    hints: Annotated[list[str], Field(description="What is not as good as it could be, as of now or the registration.")]
    nodes: list[NodeObject]


def cluster_object(cluster: Cluster, hints: Iterable[str] = ()) -> ClusterObject:
    silent = bool(cluster.silent_reason)
    return {
        "name": cluster.name,
        "endpoint": cluster.endpoint,
        "namespace": namespace_of(cluster.endpoint),
        "version": cluster.version,
        "health": str(Node.Health.UNREACHABLE if silent else Node.Health.READY),
        "healthReason": cluster.silent_reason,
        "lastSeen": milliseconds(cluster.last_seen_at),
        "nodeSelector": cluster.selector,
        "hints": list(hints),
        "nodes": node_objects(Node.objects.filter(cluster=cluster).order_by("name")),
    }


def endpoint_of(name: str, namespace: str) -> str:
    return f"{ENDPOINT}{name}/{namespace}"


def namespace_of(endpoint: str) -> str:
    return endpoint.rpartition("/")[2]
