"""Reads the form of a node: what was typed, the body of the API that it stands for, and the problem of each field."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from django.http import HttpRequest

from clusters.models import Node
from clusters.nodes.adding.typed import KEYS_LIVE, NOT_PAIRS, are_pairs, file_text, number, pairs
from clusters.nodes.serializers import NewNode, NodeChange, problems
from portal.core import sealed
from portal.core.errors import BadRequest

KINDS = ("ssh", "tcp", "unix")
PEM_FILES = ("ca", "cert", "key")
SOCKET = "/var/run/docker.sock"
# Which field a problem of the body is shown at.
_FIELD_OF = {
    **{"name": "name", "endpoint": "endpoint", "address": "address", "gpuNumber": "gpus", "gpuType": "gpu_type"},
    **{"cpuNumber": "cpus", "memoryMB": "memory", "portRange": "ports", "network": "network", "labels": "labels"},
    "gpuExporter": "exporter",
    **{f"tls.{name}": name for name in PEM_FILES},
}


@dataclass(frozen=True, slots=True)
class NodeForm:
    """Texts as they were typed. ``errors`` is {field: message}; an empty ``gpus`` means those that the engine hands
    out."""

    name: str = ""
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
    network: str = "host"
    exporter: str = ""
    labels: str = ""  # a line each: name=value
    trust: str = ""  # the fingerprint of an SSH host key that somebody has compared
    is_new: bool = True
    kept: str = field(default="", repr=False)  # the keys of the form before, sealed
    errors: Mapping[str, str] = field(default_factory=dict)

    @property
    def endpoint(self) -> str:
        if self.kind == "unix":
            return f"unix://{self.socket}"
        if self.kind == "tcp":
            return f"tcp://{self.tcp_host}:{self.tcp_port}"
        return f"ssh://{self.ssh_to}" + (f":{self.ssh_port}" if self.ssh_port not in ("", "22") else "")

    @property
    def has_keys(self) -> bool:
        return bool(self.ca or self.cert or self.key)

    def body(self) -> dict[str, Any]:
        """What the API would be sent. A number that is none is sent as the text it is, and refused there."""
        body: dict[str, Any] = {"name": self.name, "endpoint": self.endpoint, "network": self.network}
        body |= {"portRange": [number(self.port_from), number(self.port_to)], "labels": pairs(self.labels)}
        body["gpuExporter"] = self.exporter
        numbers = {"gpuNumber": self.gpus, "cpuNumber": self.cpus, "memoryMB": self.memory}
        body |= {name: number(text) for name, text in numbers.items() if text}
        body |= {name: text for name, text in (("address", self.address), ("gpuType", self.gpu_type)) if text}
        if self.kind == "tcp" and self.has_keys:
            body["tls"] = {name: getattr(self, name) for name in PEM_FILES}
        return body

    def checked(self) -> NodeForm:
        """The same form with ``errors``: those of the API's own checks, each at the field that it is about."""
        found: dict[str, str] = {}
        for path, words in problems(NewNode if self.is_new else NodeChange, self.body()):
            top = path if path in _FIELD_OF else path.partition(".")[0]
            found.setdefault(_FIELD_OF.get(top, ""), f"It {words}." if words[:4] in ("must", "is r") else f"{words}.")
        if not are_pairs(self.labels):
            found.setdefault("labels", NOT_PAIRS)
        return replace(self, errors={**self.errors, **found})

    def refused(self, message: str, where: str = "") -> NodeForm:
        return replace(self, errors={**self.errors, where: message})

    def sealed_keys(self, username: str) -> str:
        """For the next form: a browser does not send files a second time."""
        keys = {name: getattr(self, name) for name in PEM_FILES}
        return sealed.seal(json.dumps(keys), _purpose(username)) if self.has_keys else ""


def read(request: HttpRequest, username: str, *, name: str = "") -> NodeForm:
    """The form that was sent. ``name``: of the node that it changes; without it, it is for a new one."""
    texts: dict[str, Any] = {each: request.POST.get(each, "").strip() for each in _TEXTS if each in request.POST}
    form = NodeForm(**texts, is_new=not name)
    if name:
        form = replace(form, name=name)
    if form.kind not in KINDS:
        form = replace(form, kind="ssh")
    form = _with_keys(form, request, username)
    return replace(form, kept=form.sealed_keys(username))


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
    return NodeForm(
        name=node.name,
        kind=kind,
        **ways[kind],
        address=node.address,
        gpus=str(len(node.gpus)) if _are_numbered(node) else "",
        gpu_type=kinds.pop() if len(kinds) == 1 else "",
        cpus=str(node.cpus),
        memory=str(node.memory_mb),
        port_from=str(node.port_from),
        port_to=str(node.port_to),
        network=node.network,
        exporter=node.exporter,
        labels="\n".join(f"{name}={value}" for name, value in node.labels.items()),
        is_new=False,
    )


def changes(form: NodeForm, before: NodeForm) -> dict[str, Any]:
    """The part of the body that differs, so that nothing else is written. A new number of GPUs has its type with it."""
    then, now = before.body(), form.body()
    found = {name: value for name, value in now.items() if then.get(name) != value}
    return found | {"gpuType": now["gpuType"]} if "gpuNumber" in found and "gpuType" in now else found


_TEXTS = (
    *("name", "kind", "ssh_to", "ssh_port", "tcp_host", "tcp_port", "socket", "address", "gpus", "gpu_type"),
    *("cpus", "memory", "port_from", "port_to", "network", "exporter", "labels", "trust"),
)


def _with_keys(form: NodeForm, request: HttpRequest, username: str) -> NodeForm:
    given: dict[str, Any] = {name: _pem(request, name) for name in PEM_FILES}
    kept = request.POST.get("kept", "")
    if kept:
        try:
            before = json.loads(sealed.unseal(kept, _purpose(username), KEYS_LIVE))
        except BadRequest:
            return replace(form, errors={"ca": "The keys sent with the test have expired. Give them again."}, **given)
        given = {name: text or before.get(name, "") for name, text in given.items()}
    return replace(form, **given)


def _pem(request: HttpRequest, name: str) -> str:
    """The text in the field; the file counts where there is none."""
    typed = request.POST.get(name, "").strip()
    return typed + "\n" if typed else file_text(request, f"{name}_file")


def _purpose(username: str) -> str:
    return f"node-keys:{username}"


def _are_numbered(node: Node) -> bool:
    return [gpu["id"] for gpu in node.gpus] == [str(number) for number in range(len(node.gpus))]
