"""Reads the forms of nodes and of Kubernetes clusters: what was typed, the body of the API that it stands for, and the
problem of each field."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, ClassVar, Self

from django.http import HttpRequest

from base.core import sealed
from base.core.errors import BadRequest
from base.core.words import whole
from clusters.models import Cluster, Node
from clusters.nodes.kubernetes.body import ENDPOINT, ClusterChange, NewCluster, namespace_of
from clusters.nodes.serializers import NewNode, NodeBody, NodeChange, problems

KINDS = ("ssh", "tcp", "unix")
PEM_FILES = ("ca", "cert", "key")
SOCKET = "/var/run/docker.sock"
KEYS_LIVE = 3600  # seconds that keys sent with a test may be used by the next form
MOST_OF_A_FILE = 65_536  # bytes
NOT_PAIRS = "Write one name=value a line."
# At which field a problem of the body is shown, where their names differ.
_FIELD_OF = {
    **{"gpuNumber": "gpus", "gpuType": "gpu_type", "cpuNumber": "cpus", "memoryMB": "memory", "portRange": "ports"},
    **{"gpuExporter": "exporter", "nodeSelector": "selector", **{f"tls.{name}": name for name in PEM_FILES}},
}


@dataclass(frozen=True, slots=True)
class EngineForm:
    """Texts as they were typed. ``errors`` is {field: message}, "" for the whole."""

    NEW: ClassVar[type[NodeBody]]  # the bodies that it stands for
    CHANGE: ClassVar[type[NodeBody]]
    KEYS: ClassVar[tuple[str, ...]]  # fields that may be files
    EXPIRED: ClassVar[str]
    PAIRS: ClassVar[str]  # the field with a line for each name=value
    TEMPLATE: ClassVar[str]

    name: str = ""
    network: str = "host"
    is_new: bool = True
    kept: str = field(default="", repr=False)  # the keys of the form before, sealed
    errors: Mapping[str, str] = field(default_factory=dict)

    def body(self) -> dict[str, Any]:
        """Return what the API would be sent. A number that is none is sent as the text it is, and refused there."""
        raise NotImplementedError

    def checked(self) -> Self:
        """The same form with ``errors``: those of the API's own checks, each at the field that it is about."""
        found: dict[str, str] = {}
        for path, words in problems(self.NEW if self.is_new else self.CHANGE, self.body()):
            top = path if path in _FIELD_OF else path.partition(".")[0]
            found.setdefault(_FIELD_OF.get(top, top), f"It {words}." if path else f"{words}.")
        if not all("=" in line for line in _lines(getattr(self, self.PAIRS))):
            found.setdefault(self.PAIRS, NOT_PAIRS)
        return replace(self, errors={**self.errors, **found})

    def refused(self, message: str) -> Self:
        return replace(self, errors={**self.errors, "": message})

    def sent(self, request: HttpRequest, username: str, texts: Collection[str]) -> Self:
        """The form with what was sent: the fields ``texts`` and the keys. A browser does not send files a second time,
        so keys that were sent with a test are sealed into the next form."""
        purpose, kept = f"{type(self).__name__}:{username}", request.POST.get("kept", "")
        typed: dict[str, Any] = {name: request.POST.get(name, "").strip() for name in texts if name in request.POST}
        keys: dict[str, Any] = {name: _text_or_file(request, name) for name in self.KEYS}
        errors = {}
        if kept and not all(keys.values()):
            try:
                before = json.loads(sealed.unseal(kept, purpose, KEYS_LIVE))
                keys = {name: text or before.get(name, "") for name, text in keys.items()}
            except BadRequest:
                errors = {self.KEYS[0]: self.EXPIRED}
        kept = sealed.seal(json.dumps(keys), purpose) if any(keys.values()) else ""
        return replace(self, **typed, **keys, kept=kept, errors=errors)


@dataclass(frozen=True, slots=True)
class NodeForm(EngineForm):
    """An empty ``gpus`` means those that the engine hands out."""

    NEW, CHANGE, KEYS, PAIRS, TEMPLATE = NewNode, NodeChange, PEM_FILES, "labels", "nodes/adding/node_form.html"
    EXPIRED = "The keys sent with the test have expired. Give them again."

    kind: str = "ssh"
    ssh_to: str = ""
    ssh_port: str = "22"
    tcp_host: str = ""
    tcp_port: str = "2376"
    socket: str = SOCKET
    ca: str = field(default="", repr=False)
    cert: str = field(default="", repr=False)
    key: str = field(default="", repr=False)
    address: str = ""
    gpus: str = ""
    gpu_type: str = ""
    cpus: str = ""
    memory: str = ""
    port_from: str = "30000"
    port_to: str = "39999"
    exporter: str = ""
    labels: str = ""  # a line each: name=value
    trust: str = ""  # the fingerprint of an SSH host key that somebody has compared

    @property
    def endpoint(self) -> str:
        if self.kind == "unix":
            return f"unix://{self.socket}"
        if self.kind == "tcp":
            return f"tcp://{self.tcp_host}:{self.tcp_port}"
        return f"ssh://{self.ssh_to}" + (f":{self.ssh_port}" if self.ssh_port not in ("", "22") else "")

    @property
    def keys(self) -> dict[str, str]:
        """The texts of the PEM files; nothing where none was given."""
        texts = {name: getattr(self, name) for name in PEM_FILES}
        return texts if any(texts.values()) else {}

    def body(self) -> dict[str, Any]:
        body: dict[str, Any] = {"name": self.name, "endpoint": self.endpoint, "network": self.network}
        body |= {"portRange": [_number(self.port_from), _number(self.port_to)], "labels": _pairs(self.labels)}
        body["gpuExporter"] = self.exporter
        numbers = {"gpuNumber": self.gpus, "cpuNumber": self.cpus, "memoryMB": self.memory}
        body |= {name: _number(text) for name, text in numbers.items() if text}
        body |= {name: text for name, text in (("address", self.address), ("gpuType", self.gpu_type)) if text}
        if self.kind == "tcp" and self.keys:
            body["tls"] = self.keys
        return body


@dataclass(frozen=True, slots=True)
class ClusterForm(EngineForm):
    """Without a kubeconfig it is the cluster that Longshore runs in or, of one that is known, the keys that it has."""

    NEW, CHANGE, KEYS, PAIRS = NewCluster, ClusterChange, ("kubeconfig",), "selector"
    TEMPLATE = "nodes/adding/cluster_form.html"
    EXPIRED = "The kubeconfig sent with the test has expired. Give it again."

    namespace: str = "longshore-jobs"
    selector: str = ""  # a line each: name=value
    port_from: str = "20000"
    port_to: str = "29999"
    kubeconfig: str = field(default="", repr=False)

    def body(self) -> dict[str, Any]:
        body: dict[str, Any] = {"nodeSelector": _pairs(self.selector)}
        if self.kubeconfig:
            body["kubeconfig"] = self.kubeconfig
        if self.is_new:
            ports = [_number(self.port_from), _number(self.port_to)]
            body |= {"name": self.name, "endpoint": ENDPOINT, "namespace": self.namespace}
            body |= {"portRange": ports, "network": self.network}
        return body


def read_node(request: HttpRequest, username: str, *, name: str = "") -> NodeForm:
    """The form that was sent. ``name``: of the node that it changes; without it, it is for a new one."""
    texts = {each.name for each in fields(NodeForm)} - {
        *PEM_FILES,
        "is_new",
        "kept",
        "errors",
        *(["name"] if name else []),
    }
    form = NodeForm(name=name, is_new=not name).sent(request, username, texts)
    return form if form.kind in KINDS else replace(form, kind="ssh")


def read_cluster(request: HttpRequest, username: str, cluster: Cluster | None = None) -> ClusterForm:
    """The form that was sent. ``cluster``: the one that it changes, of which only the choice of nodes and the keys are
    read."""
    if cluster:
        return of_cluster(cluster).sent(request, username, ["selector"])
    texts = ("name", "namespace", "selector", "port_from", "port_to", "network")
    return ClusterForm().sent(request, username, texts)


def of_node(node: Node) -> NodeForm:
    """The form that changes it, as it is now. Its keys stay where they are."""
    kind, _, rest = node.endpoint.partition("://")
    host, _, port = rest.rpartition(":") if rest.rpartition(":")[2].isdigit() else (rest, "", "")
    ways: dict[str, dict[str, Any]] = {
        "unix": {"socket": rest},
        "tcp": {"tcp_host": host, "tcp_port": port},
        "ssh": {"ssh_to": host, "ssh_port": port or "22"},
    }
    kinds = {str(gpu.get("type", "")) for gpu in node.gpus}
    are_numbered = [gpu["id"] for gpu in node.gpus] == [str(number) for number in range(len(node.gpus))]
    return NodeForm(
        name=node.name,
        kind=kind,
        **ways[kind],
        address=node.address,
        gpus=str(len(node.gpus)) if are_numbered else "",
        gpu_type=kinds.pop() if len(kinds) == 1 else "",
        cpus=str(node.cpus),
        memory=str(node.memory_mb),
        port_from=str(node.port_from),
        port_to=str(node.port_to),
        network=node.network,
        exporter=node.exporter,
        labels=_as_lines(node.labels),
        is_new=False,
    )


def of_cluster(cluster: Cluster) -> ClusterForm:
    """The form that changes it, as it is now. Its keys stay where they are."""
    return ClusterForm(
        name=cluster.name,
        namespace=namespace_of(cluster.endpoint),
        selector=_as_lines(dict(sorted(cluster.selector.items()))),
        port_from=str(cluster.port_from),
        port_to=str(cluster.port_to),
        network=cluster.network,
        is_new=False,
    )


def changes(form: NodeForm, before: NodeForm) -> dict[str, Any]:
    """The part of the body that differs, so that nothing else is written. A new number of GPUs has its type with it."""
    then, now = before.body(), form.body()
    changed = {name: value for name, value in now.items() if then.get(name) != value}
    return changed | {"gpuType": now["gpuType"]} if "gpuNumber" in changed and "gpuType" in now else changed


def _text_or_file(request: HttpRequest, name: str) -> str:
    """The text in the field; the uploaded file counts where there is none. One byte more than it may have is read, so
    that its check fails."""
    if typed := request.POST.get(name, "").strip():
        return typed + "\n"
    file = request.FILES.get(f"{name}_file")
    return file.read(MOST_OF_A_FILE + 1).decode(errors="replace") if file is not None else ""


def _number(text: str) -> int | str:
    """What is no number stays the text that it is: the API's own checks refuse it."""
    return text if (number := whole(text, 11)) is None else number


def _pairs(text: str) -> dict[str, str]:
    """{name: value} of lines ``name=value``."""
    parts = (line.partition("=") for line in _lines(text))
    return {name.strip(): value.strip() for name, _, value in parts}


def _as_lines(pairs: Mapping[str, str]) -> str:
    return "\n".join(f"{name}={value}" for name, value in pairs.items())


def _lines(text: str) -> list[str]:
    return [line.strip() for line in text.splitlines() if line.strip()]
