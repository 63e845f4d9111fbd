"""Changes single values in the text of a config and leaves all else as its user wrote it: comments, order, layout.
Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import ConfigDict, Field, TypeAdapter, with_config
from typing_extensions import TypedDict

from base.core.errors import BadRequest
from jobs.config import jsonc
from jobs.config.extras import MOST_AVOIDED
from jobs.config.spec import JobSpec

_FLAT = {
    "[": re.compile(r'\[(?:"(?:[^"\\]|\\.)*"|[^\[\]{}"])*\]', re.DOTALL),
    "{": re.compile(r'\{(?:"(?:[^"\\]|\\.)*"|[^\[\]{}"])*\}', re.DOTALL),
}
_SCALAR = re.compile(r'"(?:[^"\\]|\\.)*"|[^\s,\[\]{}"]+', re.DOTALL)


@with_config(ConfigDict(extra="forbid", strict=True))
class ChangeAsked(TypedDict, total=False):
    """One change of a config, as jobs.waiting.changes and jobs.diagnosis.remedies offer it."""

    gpuNumber: Annotated[int, Field(ge=0)]
    gpuType: str
    taskNumber: dict[str, Annotated[int, Field(ge=1)]]
    virtualCluster: str
    memoryMB: dict[str, Annotated[int, Field(ge=1)]]
    shmMB: dict[str, Annotated[int, Field(ge=1)]]
    avoidNodes: Annotated[list[str], Field(max_length=MOST_AVOIDED)]
    maxRunSeconds: Annotated[int, Field(ge=1)]
    preemptible: bool
    topology: dict[Literal["prefer"], int | Literal["node"]]


_OF_THE_JOB: tuple[Literal["gpuType", "virtualCluster"], ...] = ("gpuType", "virtualCluster")
_OF_EXTRAS: tuple[Literal["maxRunSeconds", "preemptible", "topology"], ...] = (
    *("maxRunSeconds", "preemptible", "topology"),
)
_OF_A_ROLE: tuple[Literal["taskNumber", "memoryMB", "shmMB"], ...] = ("taskNumber", "memoryMB", "shmMB")
CHANGE = TypeAdapter(ChangeAsked)  # of changes that somebody sends back


class NotEditable(BadRequest):
    """The text is written in such a way that the value cannot be put into it: parts of it are texts with JSON in them,
    or it is no JSON."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"The config cannot be changed here: {reason} Clone and edit it instead.")


Value = str | int | list[str] | dict[Literal["prefer"], int | Literal["node"]]


def with_values(text: str, values: Mapping[str, Value]) -> str:
    """The text with these values by JSON pointer, in place of numbers, texts, lists or flat objects or, where there is
    none, at the beginning of the object around it, which is made where it is missing. Raises NotEditable."""
    for path, value in values.items():
        text = _with_value(text.removeprefix("\ufeff"), path, json.dumps(value, ensure_ascii=False))
    return text


def changes_of(spec: JobSpec, change: ChangeAsked) -> dict[str, Value]:
    """The values of ``with_values`` that make this change: no task has more GPUs, a role has so many tasks or so much
    memory, the config has another type of GPU or virtual cluster, avoids these nodes too, or says how long it runs,
    that it may be stopped, or how close together its tasks run."""
    values: dict[str, Value] = {}
    if "avoidNodes" in change:
        values["/extras/avoidNodes"] = sorted({*spec.asked.avoid_nodes, *change["avoidNodes"]})
    for extra in _OF_EXTRAS:
        if extra in change:
            values[f"/extras/{extra}"] = change[extra]
    for name in _OF_THE_JOB:
        if name in change:
            values[f"/{name}"] = change[name]
    for at, role in enumerate(spec.task_roles):
        if role.gpu_number > (most := change.get("gpuNumber", role.gpu_number)):
            values[f"/taskRoles/{at}/gpuNumber"] = most
        for key in _OF_A_ROLE:
            if number := change.get(key, {}).get(role.name):
                values[f"/taskRoles/{at}/{key}"] = number
    return values


def said_at(text: str, path: str) -> str:
    """What a config has at this JSON pointer, in words: ``64``; ``nothing`` where it has none."""
    value = jsonc.parse(text).value
    for step in path.split("/")[1:]:
        if isinstance(value, list):
            value = value[int(step)] if step.isdecimal() and int(step) < len(value) else None
        else:
            value = value.get(step) if isinstance(value, dict) else None
    return "nothing" if value is None else str(value)


def _with_value(text: str, path: str, value: str) -> str:
    try:
        document = jsonc.parse(text)
    except jsonc.NotJson as error:
        raise NotEditable(error.message) from error
    if path in document.places:
        at = document.places[path].value
        flat = _FLAT.get(value[0])
        old = flat.match(jsonc.blank(text), at) if flat else _SCALAR.match(text, at)
        if old is None:
            raise NotEditable(f"{path} is neither a number nor a text, nor a flat list or object.")
        return f"{text[:at]}{value}{text[old.end() :]}"
    parent, _, key = path.rpartition("/")
    around = document.places.get(parent)
    if around is None and parent.count("/") == 1:
        return _with_value(text, parent, f"{{{json.dumps(key)}: {value}}}")
    if around is None or text[around.value] != "{":
        raise NotEditable(f"There is no {parent} as an object.")
    at = around.value + 1
    indent = re.match(r"\s*", text[at:])
    space = indent[0] if indent and "\n" in indent[0] else " "
    comma = "" if text[at:].lstrip().startswith("}") else ","
    return f"{text[:at]}{space}{json.dumps(key)}: {value}{comma}{text[at:]}"
