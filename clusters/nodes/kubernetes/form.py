"""Reads the form of a Kubernetes cluster: what was typed, the body of the API that it stands for, and the problem of
each field."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from django.http import HttpRequest

from clusters.models import Cluster
from clusters.nodes.adding.typed import KEYS_LIVE, NOT_PAIRS, are_pairs, file_text, number, pairs
from clusters.nodes.kubernetes.body import ENDPOINT, ClusterChange, NewCluster, namespace_of
from clusters.nodes.serializers import problems
from portal.core import sealed
from portal.core.errors import BadRequest

_FIELD_OF = {"nodeSelector": "selector", "portRange": "ports"}


@dataclass(frozen=True, slots=True)
class ClusterForm:
    """Texts as they were typed. ``errors`` is {field: message}. Without a kubeconfig it is the cluster that Longshore
    runs in or, of one that is known, the keys that it has."""

    name: str = ""
    namespace: str = "longshore-jobs"
    selector: str = ""  # a line each: name=value
    port_from: str = "20000"
    port_to: str = "29999"
    network: str = "host"
    kubeconfig: str = field(default="", repr=False)
    is_new: bool = True
    kept: str = field(default="", repr=False)  # the kubeconfig of the form before, sealed
    errors: Mapping[str, str] = field(default_factory=dict)

    def body(self) -> dict[str, Any]:
        """What the API would be sent."""
        body: dict[str, Any] = {"nodeSelector": pairs(self.selector)}
        if self.kubeconfig:
            body["kubeconfig"] = self.kubeconfig
        if self.is_new:
            ports = [number(self.port_from), number(self.port_to)]
            body |= {"name": self.name, "endpoint": ENDPOINT, "namespace": self.namespace}
            body |= {"portRange": ports, "network": self.network}
        return body

    def checked(self) -> ClusterForm:
        """The same form with ``errors``: those of the API's own checks, each at the field that it is about."""
        found: dict[str, str] = {}
        for path, words in problems(NewCluster if self.is_new else ClusterChange, self.body()):
            top = path.partition(".")[0]
            found.setdefault(_FIELD_OF.get(top, top), f"It {words}.")
        if not are_pairs(self.selector):
            found.setdefault("selector", NOT_PAIRS)
        return replace(self, errors={**self.errors, **found})

    def refused(self, message: str) -> ClusterForm:
        return replace(self, errors={**self.errors, "": message})


def read(request: HttpRequest, username: str, cluster: Cluster | None = None) -> ClusterForm:
    """The form that was sent. ``cluster``: the one that it changes."""
    form = of_cluster(cluster) if cluster else ClusterForm()
    names = ("selector",) if cluster else ("name", "namespace", "selector", "port_from", "port_to", "network")
    texts: dict[str, Any] = {name: request.POST.get(name, "").strip() for name in names if name in request.POST}
    form = replace(form, **texts)
    given = request.POST.get("kubeconfig", "").strip() or file_text(request, "kubeconfig_file")
    kept = request.POST.get("kept", "")
    if not given and kept:
        try:
            given = sealed.unseal(kept, _purpose(username), KEYS_LIVE)
        except BadRequest:
            expired = "The kubeconfig sent with the test has expired. Give it again."
            form = replace(form, errors={"kubeconfig": expired})
    return replace(form, kubeconfig=given, kept=sealed.seal(given, _purpose(username)) if given else "")


def of_cluster(cluster: Cluster) -> ClusterForm:
    """The form that changes it, as it is now. Its keys stay where they are."""
    return ClusterForm(
        name=cluster.name,
        namespace=namespace_of(cluster.endpoint),
        selector="\n".join(f"{name}={value}" for name, value in sorted(cluster.selector.items())),
        port_from=str(cluster.port_from),
        port_to=str(cluster.port_to),
        network=cluster.network,
        is_new=False,
    )


def _purpose(username: str) -> str:
    return f"cluster-keys:{username}"
