"""A node in the API: what a request may say, and what an answer says. TLS keys are taken and never shown."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Annotated, Any, Literal, TypeVar
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, model_validator
from typing_extensions import TypedDict  # pydantic reads no other before Python 3.12

from base.core import words
from base.core.errors import BadRequest
from base.core.values import milliseconds, one_of
from clusters.engines.schemes import HOST, check_endpoint
from clusters.models import Node
from clusters.nodes.queries import views_of
from clusters.nodes.refusals import KINDS
from clusters.placement.fit import NodeView, gpus_to_give
from clusters.placement.topology import MOST_LEVEL

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,62}")
SHOWN_PROBLEMS = 8
QUARANTINED = "quarantined"  # ready, but containers that should not be there hold GPUs or ports of it


def _printable(value: str) -> str:
    if not value.isprintable():
        sign = words.unseen(value)
        raise ValueError(f"must not contain control characters; it has {sign}" if sign else "must be printable")
    return value


def _no_space(value: str) -> str:
    if any(character.isspace() for character in _printable(value)):
        raise ValueError("must not contain white space")
    return value


def matching(pattern: re.Pattern[str], otherwise: str) -> AfterValidator:
    """Checks that all of a text matches the pattern; ``otherwise`` says what it must."""

    def check(value: str) -> str:
        if not pattern.fullmatch(value):
            raise ValueError(otherwise)
        return value

    return AfterValidator(check)


def _exporter(value: str) -> str:
    """``http://gpu-01:9400/metrics``, or nothing."""
    try:
        parts = urlsplit(value)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        host, port = "", 0
    is_plain = "@" not in value and not parts.query and not parts.fragment if host else False
    if value and not (is_plain and parts.scheme in ("http", "https") and HOST.fullmatch(host) and port != 0):
        raise ValueError("must be an address such as http://gpu-01:9400/metrics")
    return _no_space(value)


def _labels(value: dict[str, str]) -> dict[str, str]:
    if any(not NAME.fullmatch(key.replace("/", "_", 1)) for key in value):
        raise ValueError("must have keys of letters, digits, '_', '.', '-' and one '/', 63 at most")
    parts = value.get("topology", "all").split("/")
    if len(parts) > MOST_LEVEL or not all(part and part == part.strip() for part in parts):
        says = f"a path such as hall1/rack3, of {MOST_LEVEL} parts at most, none of them empty or with spaces around it"
        raise ValueError(f'must have as "topology" {says}')
    return value


def _ranged(value: list[int]) -> list[int]:
    if value[0] > value[1]:
        raise ValueError("must go up: the first port is above the last")
    return value


_NAME = "must begin with a letter or digit and have only letters, digits, '_', '.' and '-', 63 at most"
Name = Annotated[str, matching(NAME, _NAME)]
Host = Annotated[str, matching(HOST, "must be a host name or an IP address")]
Endpoint = Annotated[str, AfterValidator(check_endpoint)]
GpuId = Annotated[str, Field(min_length=1, max_length=64), AfterValidator(_no_space)]
GpuType = Annotated[str, Field(max_length=256), AfterValidator(_no_space)]
Pem = Annotated[str, Field(min_length=1, max_length=65_536)]
Exporter = Annotated[str, Field(max_length=255), AfterValidator(_exporter)]
LabelValue = Annotated[str, Field(max_length=256), AfterValidator(_printable)]
Port = Annotated[int, Field(ge=1024, le=65_535)]
Ports = Annotated[list[Port], Field(min_length=2, max_length=2), AfterValidator(_ranged)]
AnyPort = Annotated[int, Field(ge=1, le=65_535)]
FixedPorts = Annotated[list[AnyPort], Field(min_length=2, max_length=2), AfterValidator(_ranged)]


class NodeBody(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid")


class Gpu(NodeBody):
    id: GpuId
    type: GpuType = ""


class Tls(NodeBody):
    """PEM texts: the authority that signed the engine's certificate, and our own certificate and its key."""

    ca: Pem
    cert: Pem
    key: Pem

    def files(self) -> dict[str, str]:
        """{file in the folder of the node's keys: text}."""
        return {"ca.pem": self.ca, "cert.pem": self.cert, "key.pem": self.key}


class NodeChange(NodeBody):
    """PUT /nodes/:name. What is absent stays as it is."""

    name: Name | None = None
    endpoint: Endpoint | None = None
    address: Host | None = None
    gpuNumber: int | None = Field(None, ge=0, le=1024)
    gpus: list[Gpu] | None = Field(None, max_length=1024)
    gpuType: GpuType | None = None
    cpuNumber: int | None = Field(None, ge=1, le=65_536)
    memoryMB: int | None = Field(None, ge=64, le=2**31 - 1)
    portRange: Ports | None = None
    fixedPorts: Annotated[list[FixedPorts], Field(max_length=64)] | None = None
    network: Literal["host", "bridge"] | None = None
    gpuExporter: Exporter | None = None
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

    def columns(self) -> dict[str, Any]:
        """{column of the row: value} of what the body gives, but for name, endpoint and keys."""
        values = {
            "address": self.address,
            "cpus": self.cpuNumber,
            "memory_mb": self.memoryMB,
            "port_from": self.portRange and self.portRange[0],
            "port_to": self.portRange and self.portRange[1],
            "fixed_ports": self.fixedPorts,
            "network": self.network,
            "exporter": self.gpuExporter,
            "labels": self.labels,
            "gpus": self.declared_gpus(),
        }
        return {column: value for column, value in values.items() if value is not None}


class NewNode(NodeChange):
    """POST /nodes. Totals that are absent are what the engine reports."""

    name: Name = Field()
    endpoint: Endpoint = Field()


class NodeStatus(NodeBody):
    """PUT /nodes/:name/status."""

    nodeStatus: Literal["active", "cordoned", "draining"]


B = TypeVar("B", bound=NodeBody)


def read(kind: type[B], data: object) -> B:
    """The checked body, or BadRequest with every problem in plain words."""
    if not isinstance(data, dict):
        raise BadRequest("The body must be a JSON object.")
    try:
        return kind.model_validate(data)
    except ValidationError as error:
        sentences = [f'"{path}" {words}' if path else words for path, words in _problems(error)]
        raise BadRequest("; ".join(sentences[:SHOWN_PROBLEMS]) + ".") from None


def problems(kind: type[NodeBody], data: dict[str, Any]) -> list[tuple[str, str]]:
    """What is wrong with the body: (path, words to put after its name)."""
    try:
        kind.model_validate(data)
    except ValidationError as error:
        return _problems(error)
    return []


class Resources(TypedDict):
    vCores: int
    memory: Annotated[int, Field(description="MB")]
    GPUs: int


class NodeGpu(TypedDict):
    id: str
    type: str
    inUse: bool
    held: Annotated[bool, Field(description="By a container that should not be there.")]
    free: Annotated[bool, Field(description="Whether a task could get it now.")]


class NodeMark(TypedDict):
    kind: Annotated[str, one_of(*KINDS)]
    sentence: Annotated[str, Field(description="What the node failed to do. Tasks that need it are not placed there.")]
    until: Annotated[int | None, Field(description="When it is tried again, in milliseconds since 1970.")]


class NodeObject(TypedDict):
    name: str
    endpoint: str
    address: str
    status: Annotated[str, one_of(*Node.Status.values)]
    health: Annotated[str, one_of(*Node.Health.values, QUARANTINED)]
    healthReason: str
    lastSeen: Annotated[int | None, Field(description="Milliseconds since 1970.")]
    resourcesTotal: Resources
    resourcesUsed: Resources
    gpus: list[NodeGpu]
    portRange: list[int]
    fixedPorts: Annotated[
        list[list[int]], Field(description="Beside that range: ports that a config may ask for by number.")
    ]
    network: Annotated[str, one_of("host", "bridge")]
    gpuExporter: Annotated[str, Field(description="Where the use of its GPUs is read; empty: in the containers.")]
    labels: dict[str, str]
    dockerVersion: str
    marks: list[NodeMark]


def node_objects(nodes: Iterable[Node]) -> list[NodeObject]:
    """Nodes as API objects, with what their allocations take; two queries however many nodes and tasks."""
    nodes = list(nodes)
    return [_object(node, view) for node, view in zip(nodes, views_of(nodes), strict=True)]


def _object(node: Node, view: NodeView) -> NodeObject:
    held, free = view.quarantined[0], gpus_to_give(view)
    used = view.used_gpus - held
    quarantined = node.health == Node.Health.READY and any(node.held.values())
    return {
        "name": node.name,
        "endpoint": node.endpoint,
        "address": node.address,
        "status": node.status,
        "health": QUARANTINED if quarantined else node.health,
        "healthReason": node.health_reason or (_held_reason(node.held) if quarantined else node.closed),
        "lastSeen": milliseconds(node.last_seen_at),
        "resourcesTotal": {"vCores": node.cpus, "memory": node.memory_mb, "GPUs": len(node.gpus)},
        "resourcesUsed": {
            "vCores": view.used_cpus,
            "memory": view.used_memory_mb,
            "GPUs": len(used),
        },
        "gpus": [
            {"id": id, "type": kind, "inUse": id in used, "held": id in held, "free": id in free}
            for id, kind in view.gpus
        ],
        "portRange": [node.port_from, node.port_to],
        "fixedPorts": node.fixed_ports,
        "network": node.network,
        "gpuExporter": node.exporter,
        "labels": node.labels,
        "dockerVersion": node.docker_version,
        "marks": [
            {"kind": mark.kind, "sentence": mark.sentence, "until": milliseconds(mark.until)} for mark in view.marks
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


def _problems(error: ValidationError) -> list[tuple[str, str]]:
    pairs = []
    for problem in error.errors(include_url=False, include_input=False):
        path = ".".join(str(part) for part in problem["loc"] if part != "[key]")[:80]
        plain = _PLAIN.get(problem["type"])
        pairs.append((path, plain.format(**problem.get("ctx", {})) if plain else problem["msg"]))
    return pairs
