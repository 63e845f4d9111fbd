"""Writes a ContainerRequest as the pod and the Secrets that Kubernetes is to make. Pure.

A pod waits for the Secret with its files before it starts. So it is made first and started by the Secret, which then
belongs to the pod: when the pod goes, so do its Secrets, whether or not Longshore is there.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Mapping
from typing import Any

from clusters.engines.image_names import DOCKER_HUB, registry_of
from clusters.engines.inventory import GPUS, resource_of
from clusters.engines.kubernetes import scripts
from clusters.engines.runtime import (
    CAPABILITIES,
    LABEL_INSTANCE,
    LABEL_TASK,
    NOTICE_FOLDER,
    ContainerRequest,
    FaultReason,
    RuntimeFault,
)

Json = dict[str, Any]

MAIN, STDERR, CODE = "main", "stderr", "code"  # the containers of a pod
NAME = "longshore.container"  # an annotation: the container's name, which may be no name for a pod
MOST_SECRET = 1_000_000  # bytes of all files of a Secret; Kubernetes takes 2**20
HELD_EVERY = 5  # seconds between two looks for the hold file
LEAVE = 30  # seconds that a pod has at least to end in when somebody else deletes it
CODE_PATH = "pai/code"  # where tars are unpacked to, in the stage and in the container
_LONGEST_NAME = 63  # letters of a pod's name that is also its host's
_HASH = 8
_NAME = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")
_LABEL = re.compile(r"[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?")
_VARIABLE = re.compile(r"[-._A-Za-z][-._A-Za-z0-9]*")  # what Kubernetes takes as the name of a variable


def pod_name(name: str) -> str:
    """Return the name of the pod of a container. Names that are none for a pod are written in small letters and cut,
    with a hash of the whole."""
    if _NAME.fullmatch(name):
        return name
    digest = hashlib.sha256(name.encode()).hexdigest()[:_HASH]
    readable = re.sub(r"[^a-z0-9-]", "-", name.lower())[: _LONGEST_NAME - _HASH - 1].strip("-")
    return f"{readable or 'longshore'}-{digest}"


def files_name(name: str) -> str:
    """The Secret with the files of a container."""
    return f"{pod_name(name)}.files"


def pull_name(name: str) -> str:
    """The Secret with the password of its registry."""
    return f"{pod_name(name)}.pull"


def label(value: str) -> str:
    """The value as one of a label; what cannot be one becomes its hash."""
    return value if _LABEL.fullmatch(value) else hashlib.sha256(value.encode()).hexdigest()[:40]


def pod(request: ContainerRequest) -> Json:
    """Return the pod of a container."""
    bridge = request.network == "bridge"
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": pod_name(request.name),
            "labels": _labels(request),
            "annotations": {**request.labels, NAME: request.name, **_apparmor(request)},
        },
        "spec": {
            "restartPolicy": "Never",
            "automountServiceAccountToken": False,
            "enableServiceLinks": False,
            "hostNetwork": not bridge,
            "dnsPolicy": "ClusterFirst" if bridge else "Default",
            "terminationGracePeriodSeconds": max(LEAVE, request.grace),
            "tolerations": _tolerations(request),
            **({"affinity": _pinned(request.host)} if request.host else {}),
            **({"imagePullSecrets": [{"name": pull_name(request.name)}]} if request.auth else {}),
            **({"initContainers": [_unpacking(request)]} if request.tars else {}),
            "containers": [_stderr(request), _main(request)],
            "volumes": _volumes(request),
        },
    }


def files_secret(request: ContainerRequest, uid: str) -> Json:
    """The Secret that starts the pod with this uid."""
    data = {scripts.key("file", nth): file.content for nth, file in enumerate(request.files)}
    if request.addresses:
        data |= {scripts.key("address", nth): address.encode() for nth, address in enumerate(request.addresses)}
    else:
        data |= {scripts.key("tar", nth): path.read_bytes() for nth, path in enumerate(request.tars)}
    if (size := sum(map(len, data.values()))) > MOST_SECRET:
        raise RuntimeFault(
            f"The code and the command have {size:,} bytes; on Kubernetes they may have {MOST_SECRET:,}.",
            reason=FaultReason.REFUSED,
            permanent=True,
        )
    encoded = {key: base64.b64encode(content).decode() for key, content in data.items()}
    return _secret(request, files_name(request.name), uid, "Opaque", encoded)


def pull_secret(request: ContainerRequest, uid: str) -> Json:
    """Return the Secret with the user and the password of the image's registry."""
    user, password = request.auth or ("", "")
    registry = registry_of(request.image)
    server = "https://index.docker.io/v1/" if registry == DOCKER_HUB else registry
    auth = base64.b64encode(f"{user}:{password}".encode()).decode()
    config = {"auths": {server: {"username": user, "password": password, "auth": auth}}}
    data = {".dockerconfigjson": base64.b64encode(json.dumps(config).encode()).decode()}
    return _secret(request, pull_name(request.name), uid, "kubernetes.io/dockerconfigjson", data)


def _secret(request: ContainerRequest, name: str, uid: str, kind: str, data: Mapping[str, str]) -> Json:
    owner = {"apiVersion": "v1", "kind": "Pod", "name": pod_name(request.name), "uid": uid}
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {
            "name": name,
            "labels": _labels(request),
            "ownerReferences": [owner],
        },
        "type": kind,
        "data": dict(data),
    }


def _labels(request: ContainerRequest) -> Json:
    ours = {name: label(request.labels.get(name, "")) for name in (LABEL_TASK, LABEL_INSTANCE)}
    return {"app.kubernetes.io/managed-by": "longshore", **ours}


def _main(request: ContainerRequest) -> Json:
    size = {"cpu": f"{max(1, round(request.cpus * 1000))}m", "memory": f"{request.memory_mb}Mi"}
    for gpu in request.gpu_ids:
        resource = resource_of(gpu)
        size[resource] = str(int(size.get(resource, "0")) + 1)
    command = ["/bin/sh", "-c", scripts.main(request.files), "start", *request.argv]
    return {
        "name": MAIN,
        "image": request.image,
        "imagePullPolicy": "Always" if request.pull == "always" else "IfNotPresent",
        "command": [_escaped(word) for word in command],
        "env": [
            {"name": name, "value": _escaped(value)}
            for name, value in request.env.items()
            if _VARIABLE.fullmatch(name) and "\0" not in value
        ],
        "resources": _with_disk(request, size),
        "ports": [{"containerPort": port, "hostPort": port, "protocol": "TCP"} for port in request.ports],
        "securityContext": _security(request),
        "lifecycle": {"preStop": {"exec": {"command": ["/bin/sh", "-c", scripts.SIGNAL_ALL]}}},
        **({"readinessProbe": _held_check(request.hold_file)} if request.hold_file else {}),
        "volumeMounts": [
            {"name": "shm", "mountPath": "/dev/shm"},  # noqa: S108 - the container's
            {"name": "run", "mountPath": scripts.PIPES},
            {"name": "files", "mountPath": scripts.FILES, "readOnly": True},
            *({"name": name, "mountPath": path} for name, path in _memory_folders(request)),
            *([{"name": "stage", "mountPath": f"/{CODE_PATH}", "subPath": CODE_PATH}] if request.tars else []),
        ],
    }


def _with_disk(request: ContainerRequest, size: Mapping[str, str]) -> Json:
    """A pod that writes more than its limit is evicted, before the node is full and others are. The limit is of all its
    containers together. It asks for nothing: the portal plans no disks."""
    if not request.disk_mb:
        return {"limits": size, "requests": size}
    disk = "ephemeral-storage"
    return {"limits": {**size, disk: f"{request.disk_mb}Mi"}, "requests": {**size, disk: "0"}}


def _stderr(request: ContainerRequest) -> Json:
    mounts = [{"name": "run", "mountPath": scripts.PIPES}]
    return _helper(request, STDERR, scripts.STDERR, "32Mi", mounts)


def _unpacking(request: ContainerRequest) -> Json:
    script = scripts.unpack(len(request.tars), fetched=bool(request.addresses))
    mounts: list[Json] = [
        {"name": "stage", "mountPath": scripts.STAGE},
        {"name": "files", "mountPath": scripts.FILES, "readOnly": True},
    ]
    return _helper(request, CODE, script, "256Mi", mounts, add=list(CAPABILITIES))


def _helper(
    request: ContainerRequest, name: str, script: str, memory: str, mounts: list[Json], **capabilities: list[str]
) -> Json:
    """Return a container of the same image beside the task's. It has limits and no requests: it needs next to nothing,
    and a task that gets a whole node leaves nothing for a request."""
    return {
        "name": name,
        "image": request.image,
        "imagePullPolicy": "IfNotPresent",
        "command": ["/bin/sh", "-c", _escaped(script)],
        "resources": {"limits": {"cpu": "1", "memory": memory}, "requests": {"cpu": "0", "memory": "0"}},
        "securityContext": {**_least(), "capabilities": {"drop": ["ALL"], **capabilities}},
        "volumeMounts": mounts,
    }


def _volumes(request: ContainerRequest) -> list[Json]:
    memory = {"medium": "Memory"}
    return [
        {"name": "shm", "emptyDir": {**memory, "sizeLimit": f"{request.shm_mb}Mi"}},
        {"name": "run", "emptyDir": {**memory, "sizeLimit": "1Mi"}},
        {"name": "files", "secret": {"secretName": files_name(request.name), "defaultMode": 0o444}},
        *({"name": name, "emptyDir": {**memory, "sizeLimit": "1Mi"}} for name, _ in _memory_folders(request)),
        *([{"name": "stage", "emptyDir": {}}] if request.tars else []),
    ]


def _memory_folders(request: ContainerRequest) -> list[tuple[str, str]]:
    """The folders of files that are handed over or secret: in memory, and any user may write there."""
    folders = dict.fromkeys(file.path.rpartition("/")[0] for file in request.files if file.handed or file.secret)
    folders |= {NOTICE_FOLDER: None}
    return [(f"memory-{nth}", folder) for nth, folder in enumerate(folders)]


def _tolerations(request: ContainerRequest) -> list[Json]:
    """Longshore decides what becomes of a task whose node is silent, so nobody else may delete its pod; and who gets
    nodes with GPUs, which often keep pods away that ask for none."""
    silent = [
        {"key": f"node.kubernetes.io/{key}", "operator": "Exists", "effect": "NoExecute"}
        for key in ("unreachable", "not-ready")
    ]
    gpus = dict.fromkeys((*GPUS, *map(resource_of, request.gpu_ids)))
    return [*silent, *({"key": key, "operator": "Exists", "effect": "NoSchedule"} for key in gpus)]


def _pinned(host: str) -> Json:
    """Binds the pod to the node of the plan, by an affinity to its name. ``nodeName`` would pass by the cluster's
    scheduler: a node that is full or cordoned would fail the pod, or take it all the same."""
    field = {"key": "metadata.name", "operator": "In", "values": [host]}
    terms = {"nodeSelectorTerms": [{"matchFields": [field]}]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}


def _security(request: ContainerRequest) -> Json:
    """The same as under Docker, but for devices, which a cluster gives by plugins only."""
    context = {**_least(), "capabilities": {"drop": ["ALL"], "add": request.capabilities}}
    if request.security == "pai":
        del context["allowPrivilegeEscalation"]  # Kubernetes refuses it beside SYS_ADMIN
        if request.hold_file:
            context["seccompProfile"] = {"type": "Unconfined"}
    return context


def _least() -> Json:
    return {"allowPrivilegeEscalation": False, "seccompProfile": {"type": "RuntimeDefault"}}


def _apparmor(request: ContainerRequest) -> dict[str, str]:
    key = f"container.apparmor.security.beta.kubernetes.io/{MAIN}"
    return {key: "unconfined"} if request.security == "pai" else {}


def _held_check(path: str) -> Json:
    """A container is ready while it is held, so that the cluster tells of it as an event."""
    return {
        "exec": {"command": ["/bin/sh", "-c", f"[ -e '{path}' ]"]},
        "periodSeconds": HELD_EVERY,
        "timeoutSeconds": 30,
        "failureThreshold": 1,
    }


def _escaped(text: str) -> str:
    """Kubernetes replaces ``$(NAME)`` in commands and variables, and writes ``$$`` as ``$``."""
    return text.replace("$", "$$")
