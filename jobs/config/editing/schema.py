"""The schema of a config as the editor knows it: that of the spec, with a sentence of help for each field. Pure."""

from __future__ import annotations

from functools import cache
from typing import Any

from jobs.config.extras import Extras
from jobs.config.spec import JobSpec

HELP = {
    "jobName": "The name of the job; each of your jobs has another. Letters, digits, dash, dot and underscore.",
    "image": "The Docker image in which every task runs, as for docker pull.",
    "authFile": "A file of the store with the registry, user and password for a private image, a line each.",
    "dataDir": "The folder of the data. Tasks see it as PAI_DATA_DIR; nothing is copied.",
    "outputDir": "The folder for results. Tasks see it as PAI_OUTPUT_DIR; without it there is one for the job.",
    "codeDir": "A folder of the store that is copied into each container before its command runs.",
    "taskRoles": "The kinds of tasks: a name, a command, and what each task of it needs.",
    "gpuType": "Only nodes with GPUs of this type run the job; empty for any.",
    "killAllOnCompletedTaskNumber": "When so many tasks have succeeded the job has, and the others are stopped.",
    "virtualCluster": "The virtual cluster whose share of the nodes the job uses.",
    "retryCount": "How often the job is tried again when it fails. -1: until it succeeds; -2: for ever.",
    "jobEnvs": 'Settings for the platform: "isDebug": true keeps the container of a failed command for a while.',
    "extras": "What Longshore knows beyond the fields of v1, and room for notes of your own.",
    "taskRoles.name": "The name of the role: letters, digits, dot and underscore.",
    "taskRoles.taskNumber": "How many tasks of this role the job has.",
    "taskRoles.cpuNumber": "CPU cores of each task.",
    "taskRoles.memoryMB": "Memory of each task in MB. A task that takes more is ended.",
    "taskRoles.shmMB": "Shared memory (/dev/shm) of each task in MB, at most its memoryMB.",
    "taskRoles.gpuNumber": "GPUs of each task, all on one node.",
    "taskRoles.portList": "Ports of each task. Each task has one labelled http and one labelled ssh anyway.",
    "taskRoles.command": "The shell command that each task runs.",
    "taskRoles.minFailedTaskCount": "When so many tasks of the role have failed the job has failed; null: never.",
    "taskRoles.minSucceededTaskCount": "When so many tasks of the role have succeeded the job has; null: all.",
    "taskRoles.portList.label": "Tasks see the port as PAI_CONTAINER_HOST_<label>_PORT_LIST.",
    "taskRoles.portList.beginAt": "The first port; 0 for any free ones.",
    "taskRoles.portList.portNumber": "How many ports.",
    "extras.priority": "Within the virtual cluster higher ones start first: from -100 up to what an admin allows.",
    "extras.nodeLabels": "Only nodes with all of these labels run the job.",
    "extras.avoidNodes": "Other nodes run the job, while they have room.",
    "extras.maxRunSeconds": "The job is ended after so long. Jobs with a limit often start sooner.",
    "extras.profile": "pai: more rights in the container, where the virtual cluster has been given them.",
    "extras.topology": "How close together the tasks run, by the nodes' label topology, such as hall1/rack3.",
    "extras.topology.prefer": 'They share so many parts of the path if that has room: 1 a hall, 2 a rack; or "node".',
    "extras.topology.require": "They share so many parts of the path, or the job waits.",
    "extras.preemptible": "It may start on room that is kept for another job, and gives it back when asked.",
    "extras.graceSeconds": "So long it has to end once it is told to, as far as the virtual cluster allows.",
    "extras.notice": "It is told that it ends by this signal, and some seconds later by SIGTERM.",
    "extras.notice.signal": "Every process of the container gets it.",
    "extras.notice.seconds": "So long after that signal SIGTERM comes.",
    "extras.notify": "Kinds of notices and names of your channels, in place of your rules; []: only the bell.",
    "extras.dependsOn": "Jobs of yours that must have succeeded, or ended, before this one starts.",
    "extras.dependsOn.job": "The name of a job that is there already.",
    "extras.dependsOn.after": "success: it must have succeeded; end: it must have ended in any way.",
    "extras.secrets": "Variables of the commands whose values no page, file or clone shows.",
    "extras.sweep": "Makes one job of each combination of parameters; $$name$$ in a text stands for the value.",
    "extras.sweep.grid": 'Each parameter with its values: [1, 2], "1..8" or "log(1e-5, 1e-2, 4)"; all combinations.',
    "extras.sweep.list": "The jobs one by one: each an object of the same parameters.",
    "extras.sweep.atOnce": "At most so many jobs of the sweep run at the same time.",
    "extras.sweep.stopAfterFailed": "When so many jobs of the sweep have failed, the rest of them is stopped.",
}
_VALUES: dict[str, Any] = {"anyOf": [{"type": "array"}, {"type": "string"}]}
_BY_HAND: dict[str, dict[str, Any]] = {
    "secrets": {"type": "object", "additionalProperties": {"type": "string"}},
    "sweep": {
        "type": "object",
        "properties": {
            "grid": {"type": "object", "additionalProperties": _VALUES},
            "list": {"type": "array", "items": {"type": "object"}},
            "atOnce": {"type": "integer", "minimum": 1},
            "stopAfterFailed": {"type": "integer", "minimum": 1},
        },
    },
}
_TAKEN = frozenset(
    {"type", "properties", "items", "enum", "default", "minimum", "maximum", "required", "additionalProperties"}
)


@cache
def config_schema() -> dict[str, Any]:
    """A JSON Schema without references. ``description`` is the help of a field."""
    spec = JobSpec.model_json_schema(by_alias=True)
    whole = _plain(spec, spec["$defs"], "")
    asked = Extras.model_json_schema(by_alias=True)
    known = {**_plain(asked, asked["$defs"], "extras.")["properties"]}
    known |= {name: _plain(each, {}, f"extras.{name}.") | _help(f"extras.{name}") for name, each in _BY_HAND.items()}
    whole["properties"]["extras"]["properties"] = known
    whole["properties"]["jobEnvs"]["properties"] = {"isDebug": {"type": "boolean"}, "paiAzRDMA": {"type": "boolean"}}
    return whole


def _plain(part: dict[str, Any], defs: dict[str, Any], place: str) -> dict[str, Any]:
    """``part`` with what it refers to, and with help; ``place`` is where it is, such as ``taskRoles.``."""
    part = _resolved(part, defs)
    choices = [_resolved(each, defs) for each in part.get("anyOf", ()) if each.get("type") != "null"]
    whole = {**part, **choices[0]} if len(choices) == 1 else part
    taken = {name: value for name, value in whole.items() if name in _TAKEN}
    if "items" in taken:
        taken["items"] = _plain(taken["items"], defs, place)
    if "properties" in taken:
        taken["properties"] = {
            name: _plain(each, defs, f"{place}{name}.") | _help(place + name)
            for name, each in taken["properties"].items()
        }
    if isinstance(taken.get("additionalProperties"), dict):
        taken["additionalProperties"] = _plain(taken["additionalProperties"], defs, place)
    return taken


def _resolved(part: dict[str, Any], defs: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = defs[part["$ref"].rpartition("/")[2]] if "$ref" in part else part
    return found


def _help(name: str) -> dict[str, str]:
    return {"description": HELP[name]} if name in HELP else {}
