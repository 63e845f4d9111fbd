"""What the node routes answer, for the API's document. ``clusters.nodes.serializers`` makes it; the tests compare the
two."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, Field, RootModel


class Resources(BaseModel):
    vCores: int
    memory: int = Field(description="MB")
    GPUs: int


class NodeGpu(BaseModel):
    id: str
    type: str
    inUse: bool
    held: bool = Field(description="By a container that should not be there.")


class NodeMark(BaseModel):
    kind: Literal["gpus", "pull", "start", "portal"]
    sentence: str = Field(description="What the node was seen not to do. Tasks that need it are not placed there.")
    until: int | None = Field(description="When it is tried again, in milliseconds since 1970.")


class NodeObject(BaseModel):
    name: str
    endpoint: str
    address: str
    status: Literal["active", "cordoned", "draining"]
    health: Literal["ready", "unreachable", "quarantined"]
    healthReason: str
    lastSeen: int | None = Field(description="Milliseconds since 1970.")
    resourcesTotal: Resources
    resourcesUsed: Resources
    gpus: list[NodeGpu]
    portRange: list[int]
    fixedPorts: list[list[int]] = Field(description="Beside that range: ports that a config may ask for by number.")
    network: Literal["host", "bridge"]
    labels: dict[str, str]
    dockerVersion: str
    marks: list[NodeMark]


class NodeObjects(RootModel[list[NodeObject]]):
    """By name."""
