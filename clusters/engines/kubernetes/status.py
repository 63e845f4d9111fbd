"""Reads what a cluster says of a pod. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from clusters.engines.faults import PULL, START, Row, of_text, short
from clusters.engines.inventory import name_of
from clusters.engines.kubernetes.spec import MAIN, NAME
from clusters.engines.logs.stamps import moment
from clusters.engines.runtime import (
    LABEL_HOLD,
    TERMINATED,
    TOLD_TO_END,
    ContainerStatus,
    FaultReason,
    Phase,
    RuntimeFault,
    read_script,
)

Json = Mapping[str, Any]

# A container that was lost with its node; the start script has a code of its own for a command's own 255. Newer
# kubelets say ContainerStatusUnknown, with 137.
LOST, UNKNOWN = 255, "ContainerStatusUnknown"
_FROM_OUTSIDE = (0, 137, TERMINATED, TOLD_TO_END)  # exit codes of a command that was told to end
# Reasons with which a kubelet refuses a pod before anything of it ran.
_NOT_ADMITTED = re.compile(r"OutOf\w+|UnexpectedAdmissionError|NodeAffinity|NodePorts|\w*Admission\w*|Preempting")
_NEVER_RAN = ("ContainerCannotRun", "StartError", "CreateContainerError", "CreateContainerConfigError")
_PULLING = ("ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull", "RegistryUnavailable")
_BROKEN = ("CreateContainerConfigError", "CreateContainerError", "RunContainerError", "PreCreateHookError")

R = FaultReason
_START: tuple[Row, ...] = (
    *START,
    (r"no such file or directory", R.COMMAND_MISSING, True, "The image has no program to run the command with."),
    (r"nvidia|device plugin", R.GPU_MISSING, False, "The node cannot hand out the task's GPUs."),
)
_PLACE: tuple[Row, ...] = (
    (r"node\.kubernetes\.io/(unreachable|not-ready)", R.UNREACHABLE, False, "The cluster does not hear of the node."),
    (r"free ports", R.PORT_TAKEN, False, "A port of the task is already in use."),
    (r"Insufficient \S*gpu|OutOf\S*gpu|UnexpectedAdmissionError", R.GPU_MISSING, False, "The node has no GPU left."),
)


def read(pod: Json, cluster: str) -> ContainerStatus:
    """The container of a pod of ours. ``cluster`` is the name of the cluster, which its nodes' names begin with."""
    meta, status = pod["metadata"], pod.get("status") or {}
    annotations = {str(key): str(value) for key, value in (meta.get("annotations") or {}).items()}
    host = str(pod["spec"].get("nodeName") or _pinned_to(pod))
    container = ContainerStatus(
        id=str(meta["uid"]),
        name=annotations.get(NAME, str(meta["name"])),
        phase=Phase.CREATED,
        labels={key: value for key, value in annotations.items() if key != NAME and "/" not in key},
        node=name_of(cluster, host) if host else "",
        error=str(status.get("message") or ""),
    )
    main = _main(status)
    state = main.get("state") or {}
    if (ended := state.get("terminated")) and not _never_ran(ended):
        return _evicted(_ended(container, ended, status, deleted="deletionTimestamp" in meta), status)
    if running := state.get("running"):
        held = bool(container.labels.get(LABEL_HOLD)) and bool(main.get("ready"))
        return replace(container, phase=Phase.RUNNING, started_at=moment(running.get("startedAt")), held=held)
    if status.get("phase") == "Failed" and not main and not _NOT_ADMITTED.fullmatch(str(status.get("reason") or "")):
        return _evicted(replace(container, phase=Phase.EXITED, lost=True), status)  # its kubelet forgot its containers
    return container


def has_ended(pod: Json) -> bool:
    """Whether the node has said that nothing of the pod runs: all its containers have ended, or none was begun."""
    return (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")


def is_gone(answer: Json) -> bool:
    """Whether a pod is gone, by what the API answers to its deletion. One that had ended, or had no node, is gone at
    once; another one goes when its node says so."""
    meta = answer.get("metadata") or {}
    return answer.get("kind") == "Status" or (
        meta.get("deletionGracePeriodSeconds") == 0 and not meta.get("finalizers")
    )


def trouble(pod: Json, image: str, unplaced_for: float, patience: float) -> RuntimeFault | None:
    """Why a pod that has not run will not run; None while it may. A node without room may have some in a moment:
    ``unplaced_for`` is how many seconds the scheduler has found none, ``patience`` for how many that is no fault."""
    status = pod.get("status") or {}
    text = str(status.get("message") or "")
    if status.get("phase") == "Failed" and not _main(status).get("state", {}).get("terminated"):
        reason = str(status.get("reason") or "")
        return _unplaced(f"{reason}: {text}") if _NOT_ADMITTED.fullmatch(reason) else _broken(f"{reason} {text}")
    containers = [*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())]
    for container in sorted(containers, key=_says_less):
        if fault := _trouble_of(container, image):
            return fault
    if unplaced_for >= patience and (said := unschedulable(pod)):
        return _unplaced(said)
    return None


def unschedulable(pod: Json) -> str:
    """What the scheduler says of a pod for which it has no place; empty for one that it has placed."""
    for condition in (pod.get("status") or {}).get("conditions") or ():
        if condition.get("type") == "PodScheduled" and condition.get("status") == "False":
            return str(condition.get("message") or condition.get("reason") or "no place")
    return ""


def waits_for(pod: Json) -> str:
    """What a pod that has not run waits for, in a few words for the user."""
    if said := unschedulable(pod):
        return f"waits for its place: {said}"
    waiting = (_main(pod.get("status") or {}).get("state") or {}).get("waiting") or {}
    if waiting.get("reason") not in (None, "ContainerCreating", "PodInitializing"):
        return str(waiting["reason"])
    return "pulling the image or preparing the pod"


def _main(status: Json) -> Json:
    main: Json = next(
        (container for container in status.get("containerStatuses") or () if container.get("name") == MAIN), {}
    )
    return main


def _never_ran(ended: Json) -> bool:
    return str(ended.get("reason") or "") in _NEVER_RAN


def _ended(container: ContainerStatus, ended: Json, pod: Json, *, deleted: bool) -> ContainerStatus:
    """``deleted``: somebody has deleted the pod while it ran. A command that ends after that has ended because of it,
    even with code 0. ``pod`` is its status."""
    code, reason = int(ended.get("exitCode") or 0), str(ended.get("reason") or "")
    written = str(ended.get("message") or "").strip() or None
    lost = reason == UNKNOWN or code == LOST
    status = replace(
        container,
        phase=Phase.EXITED,
        exit_code=None if lost else code,
        lost=lost,
        oom_killed=reason == "OOMKilled",
        started_at=moment(ended.get("startedAt")),
        finished_at=moment(ended.get("finishedAt")),
    )
    if deleted and code in _FROM_OUTSIDE:
        return replace(status, exit_code=TERMINATED)
    return read_script(status, written, told_inside=not _was_told(pod))


def _was_told(pod: Json) -> bool:
    """Whether its kubelet has ended it: it makes room, or its host is shut down."""
    targets = (each for each in pod.get("conditions") or () if each.get("type") == "DisruptionTarget")
    return bool(pod.get("reason")) or any(each.get("status") == "True" for each in targets)


def _evicted(container: ContainerStatus, status: Json) -> ContainerStatus:
    """Whatever its command ended with, if it was given the time."""
    if status.get("reason") != "Evicted":
        return container
    return replace(container, evicted=short(str(status.get("message") or "no reason given")))


def _pinned_to(pod: Json) -> str:
    """The host that a pod is to run on which has no place yet."""
    try:
        node = pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
        return str(node["nodeSelectorTerms"][0]["matchFields"][0]["values"][0])
    except (LookupError, TypeError):
        return ""


def _says_less(container: Json) -> bool:
    """All containers wait for one image, but only the one that was pulled last says why it is not there."""
    return ((container.get("state") or {}).get("waiting") or {}).get("reason") == "ImagePullBackOff"


def _trouble_of(container: Json, image: str) -> RuntimeFault | None:
    state = container.get("state") or {}
    waiting, ended = state.get("waiting") or {}, state.get("terminated") or {}
    text = str(waiting.get("message") or ended.get("message") or "")
    if waiting.get("reason") in _PULLING:
        return _pull(str(waiting["reason"]), text, image)
    if waiting.get("reason") in _BROKEN:
        return _broken(text)
    if ended and _never_ran(ended):
        return _broken(text)
    if ended.get("exitCode") and container.get("name") not in (MAIN, "stderr"):
        return _broken(f"The code could not be unpacked (exit code {ended['exitCode']}). {text}")
    return None


def _pull(reason: str, text: str, image: str) -> RuntimeFault | None:
    if reason == "ImagePullBackOff" and "Back-off" in text:
        return RuntimeFault(f"Image {image} could not be pulled.", reason=R.PULL_FAILED)
    if reason == "InvalidImageName":
        return RuntimeFault(f"{image} is not an image name.", reason=R.IMAGE_NAME, permanent=True)
    return of_text(PULL, text, f"Image {image} ") or RuntimeFault(
        f"Image {image} could not be pulled: {short(text)}", reason=R.PULL_FAILED
    )


def _broken(text: str) -> RuntimeFault:
    return of_text(_START, text) or RuntimeFault(
        f"The cluster could not start the pod: {short(text)}", reason=R.REFUSED
    )


def _unplaced(text: str) -> RuntimeFault:
    return of_text(_PLACE, text) or RuntimeFault(
        f"The cluster has no place for the pod on its node: {short(text)}", reason=R.REFUSED
    )
