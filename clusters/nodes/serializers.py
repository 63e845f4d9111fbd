"""A node on the wire: what a request may say, and what an answer says. Keys come in and never go out.

``read`` turns any JSON value into a checked body or raises BadRequest with every problem in plain words.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Annotated, Any, Literal, TypeVar
from urllib.parse import urlsplit

from django.utils import timezone
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, model_validator

from clusters.models import Allocation, Node
from clusters.nodes.refusals import marks_now
from portal.core.errors import BadRequest
from portal.web.api.v1 import milliseconds

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,62}")
HOST = re.compile(r"[A-Za-z0-9]([A-Za-z0-9_.:-]{0,253}[A-Za-z0-9])?")  # a name, an IPv4 or an IPv6 address
SOCKET_USER = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}")
SHOWN_PROBLEMS = 8


def _printable(value: str) -> str:
    if not value.isprintable():
        raise ValueError("must not contain control characters")
    return value


def _no_space(value: str) -> str:
    if any(character.isspace() for character in _printable(value)):
        raise ValueError("must not contain white space")
    return value


def _name(value: str) -> str:
    if not NAME.fullmatch(value):
        raise ValueError(
            "must begin with a letter or digit and have only letters, digits, '_', '.' and '-', 63 at most"
        )
    return value


def _host(value: str) -> str:
    if not HOST.fullmatch(value):
        raise ValueError("must be a host name or an IP address")
    return value


def check_endpoint(value: str) -> str:
    """``unix:///path``, ``tcp://host:port`` or ``ssh://[user@]host[:port]``; ValueError says what is wrong."""
    scheme, mark, rest = value.partition("://")
    if not mark or scheme not in {"unix", "tcp", "ssh"}:
        raise ValueError("must begin with unix://, tcp:// or ssh://")
    if len(value) > 255 or any(character.isspace() for character in _printable(value)):
        raise ValueError("must have 255 characters at most and no white space")
    if scheme == "unix":
        if not re.fullmatch(r"(/[^/]+)+", rest):
            raise ValueError("must name a socket by its absolute path, such as unix:///var/run/docker.sock")
        return value
    return _check_remote(value, scheme)


def _check_remote(value: str, scheme: str) -> str:
    try:
        parts = urlsplit(value)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        raise ValueError("must be an address such as tcp://gpu-01:2376 or ssh://user@gpu-01") from None
    if not HOST.fullmatch(host) or parts.path or parts.query or parts.fragment or port == 0:
        raise ValueError("must be an address such as tcp://gpu-01:2376 or ssh://user@gpu-01, with nothing after it")
    if parts.password is not None:
        raise ValueError("must not carry a password; ssh uses the keys of the user that Longshore runs as")
    if scheme == "tcp" and (port is None or parts.username is not None):
        raise ValueError("must name a port and no user, such as tcp://gpu-01:2376")
    if parts.username is not None and not SOCKET_USER.fullmatch(parts.username):
        raise ValueError("must name a user in plain letters and digits")
    return value


def _labels(value: dict[str, str]) -> dict[str, str]:
    if any(not NAME.fullmatch(key.replace("/", "_", 1)) for key in value):
        raise ValueError("must have keys of letters, digits, '_', '.', '-' and one '/', 63 at most")
    return value


def _range(value: list[int]) -> list[int]:
    if value[0] > value[1]:
        raise ValueError("must go up: the first port is above the last")
    return value


Name = Annotated[str, AfterValidator(_name)]
Host = Annotated[str, AfterValidator(_host)]
Endpoint = Annotated[str, AfterValidator(check_endpoint)]
GpuId = Annotated[str, Field(min_length=1, max_length=64), AfterValidator(_no_space)]
GpuType = Annotated[str, Field(max_length=256), AfterValidator(_no_space)]
Pem = Annotated[str, Field(min_length=1, max_length=65_536)]
LabelValue = Annotated[str, Field(max_length=256), AfterValidator(_printable)]
Port = Annotated[int, Field(ge=1024, le=65_535)]
AnyPort = Annotated[int, Field(ge=1, le=65_535)]
FixedPorts = Annotated[list[AnyPort], Field(min_length=2, max_length=2), AfterValidator(_range)]


class Body(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid")


class Gpu(Body):
    id: GpuId
    type: GpuType = ""


class Tls(Body):
    """PEM texts: the authority that signed the engine's certificate, and our own certificate and its key."""

    ca: Pem
    cert: Pem
    key: Pem


class NodeChange(Body):
    """PUT /nodes/:name. What is absent stays as it is."""

    name: Name | None = None
    endpoint: Endpoint | None = None
    address: Host | None = None
    gpuNumber: int | None = Field(None, ge=0, le=1024)
    gpus: list[Gpu] | None = Field(None, max_length=1024)
    gpuType: GpuType | None = None
    cpuNumber: int | None = Field(None, ge=1, le=65_536)
    memoryMB: int | None = Field(None, ge=64, le=2**31 - 1)
    portRange: Annotated[list[Port], Field(min_length=2, max_length=2), AfterValidator(_range)] | None = None
    fixedPorts: Annotated[list[FixedPorts], Field(max_length=64)] | None = None
    network: Literal["host", "bridge"] | None = None
    labels: Annotated[dict[str, LabelValue], Field(max_length=64), AfterValidator(_labels)] | None = None
    tls: Tls | None = None

    @model_validator(mode="before")
    @classmethod
    def _null_is_no_value(cls, value: Any) -> Any:
        if isinstance(value, dict) and None in value.values():
            key = next(key for key, held in value.items() if held is None)
            raise ValueError(f'"{key}" must not be null; leave it out instead')
        return value

    @model_validator(mode="after")
    def _gpus_once(self) -> NodeChange:
        if self.gpus is not None and self.gpuNumber is not None:
            raise ValueError('give "gpuNumber" or "gpus", not both')
        ids = [gpu.id for gpu in self.gpus or ()]
        if len(set(ids)) < len(ids):
            raise ValueError('"gpus" names an id twice')
        return self

    def declared_gpus(self) -> list[dict[str, str]] | None:
        """``[{"id", "type"}]``; None when the body does not say which GPUs there are."""
        kind = self.gpuType or ""
        if self.gpus is not None:
            return [{"id": gpu.id, "type": gpu.type or kind} for gpu in self.gpus]
        if self.gpuNumber is not None:
            return [{"id": str(number), "type": kind} for number in range(self.gpuNumber)]
        return None


class NewNode(NodeChange):
    """POST /nodes. Totals that are absent are what the engine reports."""

    name: Name = Field()
    endpoint: Endpoint = Field()


class NodeStatus(Body):
    """PUT /nodes/:name/status."""

    nodeStatus: Literal["active", "cordoned", "draining"]


B = TypeVar("B", bound=Body)


def read(kind: type[B], data: object) -> B:
    if not isinstance(data, dict):
        raise BadRequest("The body must be a JSON object.")
    try:
        return kind.model_validate(data)
    except ValidationError as error:
        problems = error.errors(include_url=False, include_input=False, include_context=True)
        raise BadRequest("; ".join(_sentence(problem) for problem in problems[:SHOWN_PROBLEMS]) + ".") from None


def node_objects(nodes: Iterable[Node]) -> list[dict[str, Any]]:
    """Nodes as API objects, with what their allocations take; one query however many nodes."""
    nodes = list(nodes)
    taken: dict[int, list[tuple[int, int, list[str]]]] = {}
    rows = Allocation.objects.filter(node=nodes[0]) if len(nodes) == 1 else Allocation.objects.all()
    for node_id, cpus, memory_mb, gpu_ids in rows.values_list("node_id", "cpus", "memory_mb", "gpu_ids"):
        taken.setdefault(node_id, []).append((cpus, memory_mb, gpu_ids))
    return [_object(node, taken.get(node.pk, [])) for node in nodes]


def _object(node: Node, taken: list[tuple[int, int, list[str]]]) -> dict[str, Any]:
    used = {gpu for _, _, gpu_ids in taken for gpu in gpu_ids}
    held = set(node.held.get("gpus", ()))
    quarantined = node.health == Node.Health.READY and any(node.held.values())
    return {
        "name": node.name,
        "endpoint": node.endpoint,
        "address": node.address,
        "status": node.status,
        "health": "quarantined" if quarantined else node.health,
        "healthReason": _held_reason(node.held) if quarantined and not node.health_reason else node.health_reason,
        "lastSeen": milliseconds(node.last_seen_at),
        "resourcesTotal": {"vCores": node.cpus, "memory": node.memory_mb, "GPUs": len(node.gpus)},
        "resourcesUsed": {
            "vCores": sum(cpus for cpus, _, _ in taken),
            "memory": sum(memory_mb for _, memory_mb, _ in taken),
            "GPUs": len(used),
        },
        "gpus": [{**gpu, "inUse": gpu["id"] in used, "held": gpu["id"] in held} for gpu in node.gpus],
        "portRange": [node.port_from, node.port_to],
        "fixedPorts": node.fixed_ports,
        "network": node.network,
        "labels": node.labels,
        "dockerVersion": node.docker_version,
        "marks": [
            {"kind": mark.kind, "sentence": mark.sentence, "until": milliseconds(mark.until)}
            for mark in marks_now(node.marks, timezone.now())
        ],
    }


def _held_reason(held: dict[str, list[Any]]) -> str:
    named = ((what, held.get(key)) for key, what in (("gpus", "GPU"), ("ports", "port")))
    parts = [f"{what} {', '.join(map(str, ids))}" for what, ids in named if ids]
    return f"A container that should not be there still has {' and '.join(parts)}."


_PLAIN = {
    "missing": "is required",
    "extra_forbidden": "is not a known field",
    "string_type": "must be a string",
    "string_unicode": "must be a string of Unicode characters",
    "int_type": "must be a whole number",
    "list_type": "must be a list",
    "dict_type": "must be an object",
    "model_type": "must be an object",
    "model_attributes_type": "must be an object",
    "greater_than_equal": "must be {ge} or more",
    "less_than_equal": "must be {le} or less",
    "string_too_short": "must not be empty",
    "string_too_long": "must have {max_length} characters at most",
    "too_short": "must have {min_length} entries",
    "too_long": "must have {max_length} entries at most",
    "literal_error": "must be {expected}",
    "value_error": "{error}",
}


def _sentence(problem: Any) -> str:
    path = ".".join(str(part) for part in problem["loc"] if part != "[key]")[:80]
    plain = _PLAIN.get(problem["type"])
    words = plain.format(**problem.get("ctx", {})) if plain else problem["msg"]
    return f'"{path}" {words}' if path else words
