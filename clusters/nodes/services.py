"""Every write to nodes: it checks who may and whether the change makes sense, then writes the row and its audit record
and wakes the scheduler.

An ``ssh://`` endpoint uses the keys, known_hosts and config in ~/.ssh of the user that Longshore runs as: put the
host's key there first. A ``tcp://`` endpoint needs ``tls``. Engines are asked outside any transaction, within a
deadline.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from django.conf import settings
from django.db import IntegrityError, transaction
from django.db.models import ProtectedError, Q
from django.utils import timezone

from base.accounts import audit
from base.accounts.viewer import Viewer, require_admin
from base.core import words
from base.core.bulk import lock_table
from base.core.env import text
from base.core.errors import BadRequest, ConflictNode, NoNode
from base.hosts import this_host
from clusters.engines import schemes
from clusters.engines.runtime import EngineInfo, RuntimeFault
from clusters.models import Cluster, Node
from clusters.nodes import keys, refusals, survey
from clusters.nodes.gpus import find_gpus, found_gpus
from clusters.nodes.probe import LOOPBACK, address_of, probe, within
from clusters.nodes.serializers import NewNode, NodeChange, NodeStatus, read

LOCAL = "local"
SET_OF_HOSTS = {"name", "portRange", "fixedPorts", "network", "gpuExporter"}  # of nodes of a cluster
NO_ENGINE = "none"  # DOCKER_HOST of a host that runs no jobs itself
FIRST_START = "first start"  # actor of what Longshore does by itself then


def register_node(actor: Viewer, data: object) -> Node:
    """POST /nodes. BadRequest for a bad body or an engine that cannot be reached, ConflictNode when the name or the
    engine is a node already."""
    who = require_admin(actor).username
    body = read(NewNode, data)
    if Node.objects.filter(name=body.name).exists() or Cluster.objects.filter(name=body.name).exists():
        raise ConflictNode(f"A node with the name {body.name} exists already.")
    tls_dir = _keys(body.name, body.endpoint, body)
    with keys.changed("", tls_dir):
        node = _probed(body.name, body.endpoint, tls_dir)
        refuse_known_engine(node)  # before anything is done there
        if body.declared_gpus() is None:
            node.gpus = found_gpus(node.endpoint, tls_dir)
        _take_body(node, body)
        _survey(node)
        return _create(node, who)


def change_node(actor: Viewer, name: str, data: object) -> Node:
    """PUT /nodes/:name. Changes what the body names. A total may become less than what is in use: only new placements
    see it. The engine is asked again when ``endpoint`` or ``tls`` is given."""
    who = require_admin(actor).username
    node = find_node(name)
    body = read(NodeChange, data)
    if body.name is not None and body.name != name:
        raise BadRequest("A node keeps its name, since jobs refer to it. Delete it and register it again.")
    if node.cluster_id is not None:
        refuse_told(node, body)
    if body.endpoint is None and body.tls is None:
        return _surveyed(_change(node, body, None, node.tls_dir, who), body)
    endpoint = body.endpoint or node.endpoint
    tls_dir = _keys(name, endpoint, body, node)
    with keys.changed(node.tls_dir, tls_dir):
        changed = _change(node, body, probe(endpoint, tls_dir), tls_dir, who)
    return _surveyed(changed, body)


def set_node_status(actor: Viewer, name: str, data: object) -> Node:
    """PUT /nodes/:name/status. Nothing new is placed on a cordoned or draining node."""
    who = require_admin(actor).username
    find_node(name)
    body = read(NodeStatus, data)
    with transaction.atomic():
        node = find_node(name, lock=True)
        before, node.status = node.status, body.nodeStatus
        node.save(update_fields=["status", "updated_at"])
        audit.changed(who, "node status set", node.name, {"from": before, "to": node.status})
    return node


def remove_node(actor: Viewer, name: str) -> None:
    """DELETE /nodes/:name. ConflictNode while tasks hold something on it."""
    who = require_admin(actor).username
    try:
        with transaction.atomic():
            node = find_node(name, lock=True)
            if node.cluster_id is not None:
                raise ConflictNode(f"{name} goes when it leaves its Kubernetes cluster, or with the whole cluster.")
            if count := node.allocations.count():
                raise ConflictNode(_in_use(node, count))
            audit.changed(who, "node removed", node.name, {"endpoint": node.endpoint})
            node.delete()
    except (ProtectedError, IntegrityError):  # a task was placed on it this very moment
        raise ConflictNode(_in_use(node, node.allocations.count())) from None
    keys.forget(node.tls_dir)


def register_local_node() -> Node | None:
    """Register the engine of DOCKER_HOST as node ``local``. None when there is any node already. BadRequest says in a
    plain sentence why that engine cannot be a node."""
    if settings.DOCKER_HOST == NO_ENGINE or Node.objects.exists() or this_host.others():
        return None
    endpoint, tls_dir = _local_endpoint()
    node = _probed(LOCAL, endpoint, tls_dir)
    node.gpus = find_gpus() if schemes.scheme_of(endpoint).is_here else []
    try:
        return _create(node, FIRST_START)
    except ConflictNode:  # another process of a first start was quicker
        return None


def refuse_told(node: Node, body: NodeChange) -> None:
    """What the cluster of a node says is not changed here."""
    if told := sorted(body.model_fields_set - SET_OF_HOSTS):
        fields = ", ".join(f'"{field}"' for field in told)
        raise BadRequest(f"Its Kubernetes cluster says what {node.name} has; {fields} cannot be changed here.")


def find_node(name: str, *, lock: bool = False) -> Node:
    """Return the node, or NoNode (404)."""
    nodes = Node.objects.select_for_update() if lock else Node.objects.all()
    try:
        return nodes.get(name=name)
    except (Node.DoesNotExist, ValueError):  # ValueError: PostgreSQL takes no NUL
        raise NoNode(f"Node {name} is not found.") from None


def _keys(name: str, endpoint: str, body: NodeChange, old: Node | None = None) -> str:
    """The folder of the keys for the endpoint; "" where none are needed."""
    if schemes.scheme_of(endpoint).is_here and this_host.on_other_machines():
        raise BadRequest(
            f"{endpoint} is another engine on each host, and this portal runs on several. Use tcp:// with keys or ssh://."
        )
    if not schemes.scheme_of(endpoint).takes_tls:
        if body.tls is not None:
            raise BadRequest('"tls" belongs to a tcp:// endpoint.')
        return ""
    if body.tls is not None:
        return keys.store(name, body.tls.files())
    if old is not None and old.tls_dir:
        return old.tls_dir
    if urlsplit(endpoint).hostname in LOOPBACK:
        return ""  # a forwarded port, which only this host reaches
    raise BadRequest(
        '"tls" is required for a tcp:// endpoint: an engine without it gives root on its host to anyone who reaches it.'
    )


def _probed(name: str, endpoint: str, tls_dir: str) -> Node:
    """A node that is not saved yet, with what its engine reports."""
    info = probe(endpoint, tls_dir)
    node = Node(name=name, endpoint=endpoint, tls_dir=tls_dir, address=address_of(endpoint))
    node.cpus, node.memory_mb = info.cpus, info.memory_mb
    _take_engine(node, info)
    return node


def _take_engine(node: Node, info: EngineInfo) -> None:
    node.engine_id, node.docker_version = info.engine_id, info.version
    node.last_seen_at = timezone.now()


def _take_body(node: Node, body: NodeChange) -> list[str]:
    """The names of the columns that it sets."""
    columns = body.columns()
    if body.gpuType is not None and "gpus" not in columns:
        columns["gpus"] = [{"id": gpu["id"], "type": body.gpuType} for gpu in node.gpus]
    for column, value in columns.items():
        setattr(node, column, value)
    return list(columns)


def _survey(node: Node) -> None:
    """Writes down which images the new node has, and whether it keeps its promises."""
    if looked := _look_into(node):
        now = timezone.now()
        node.images, node.images_at, node.surveyed_at = sorted(looked[0]), now, now
        node.marks = refusals.tried({}, looked[1], now)


def _surveyed(node: Node, body: NodeChange) -> Node:
    """The node after a trial of what was changed."""
    tried = {"endpoint", "tls", "gpus", "gpuNumber", "network"}
    if node.cluster_id is not None or not body.model_fields_set & tried:
        return node
    if looked := _look_into(node):
        survey.keep(node, *looked)
    return find_node(node.name)


def _look_into(node: Node) -> tuple[frozenset[str], dict[str, str]] | None:
    """None when it cannot be done now; the scheduler orders it again later."""
    try:
        runtime = schemes.connect(node.endpoint, node.tls_dir or None)
        return within(survey.PATIENCE, lambda: survey.look_into(node, runtime, with_trial=True))
    except (RuntimeFault, TimeoutError):
        return None


def _create(node: Node, who: str) -> Node:
    try:
        with transaction.atomic():
            lock_table(Node)
            refuse_known_engine(node)
            node.save(force_insert=True)
            audit.changed(who, "node registered", node.name, _summary(node))
    except IntegrityError:
        raise ConflictNode(f"A node with the name {node.name} exists already.") from None
    return node


def _change(old: Node, body: NodeChange, info: EngineInfo | None, tls_dir: str, who: str) -> Node:
    fields = ["updated_at"]
    with transaction.atomic():
        lock_table(Node)
        node = find_node(old.name, lock=True)
        if info is not None:
            _move(node, body, info, tls_dir)
            fields += ["address", "endpoint", "tls_dir", "engine_id", "docker_version", "last_seen_at"]
        fields += _take_body(node, body)
        node.save(update_fields=fields)  # never health or held: those are the scheduler's
        audit.changed(who, "node changed", node.name, _summary(node) | {"fields": sorted(body.model_fields_set)})
    return node


def _move(node: Node, body: NodeChange, info: EngineInfo, tls_dir: str) -> None:
    """Reach the node at another endpoint. While tasks run on it, the same engine must be behind that."""
    if info.engine_id != node.engine_id and (count := node.allocations.count()):
        raise ConflictNode(f"{body.endpoint or node.endpoint} is another engine. {_in_use(node, count)}")
    if body.endpoint is not None and body.endpoint != node.endpoint and body.address is None:
        node.address = address_of(body.endpoint)
    node.endpoint, node.tls_dir = body.endpoint or node.endpoint, tls_dir
    _take_engine(node, info)
    refuse_known_engine(node)


def refuse_known_engine(node: Node) -> None:
    same = Q(endpoint=node.endpoint) | (Q(engine_id=node.engine_id) if node.engine_id else Q(pk__in=[]))
    twin = Node.objects.filter(same).exclude(pk=node.pk).first()
    if twin is None:
        return
    hint = ""
    if twin.endpoint != node.endpoint:
        hint = (
            " If they are two hosts, one is a copy of the other: remove its /var/lib/docker/engine-id"
            " or /etc/docker/key.json and restart Docker there."
        )
    raise ConflictNode(f"The engine at {node.endpoint} is node {twin.name} already.{hint}")


def _in_use(node: Node, count: int) -> str:
    tasks = words.count(count, "task runs", "tasks run")
    return f"{tasks} on node {node.name}. Cordon the node, stop their jobs or wait until they end, then try again."


def _summary(node: Node) -> dict[str, Any]:
    return {"endpoint": node.endpoint, "cpus": node.cpus, "memoryMB": node.memory_mb, "gpus": len(node.gpus)}


def _local_endpoint() -> tuple[str, str]:
    """The endpoint that DOCKER_HOST names (a bare path is a unix socket) and, for tcp, the folder of
    DOCKER_CERT_PATH."""
    given = str(settings.DOCKER_HOST)
    endpoint = f"unix://{given}" if given.startswith("/") else given
    try:
        schemes.check_endpoint(endpoint)
    except ValueError as error:
        raise BadRequest(f"DOCKER_HOST is {given!r}; it {error}.") from None
    certificates = text("DOCKER_CERT_PATH", "") if schemes.scheme_of(endpoint).takes_tls else ""
    return endpoint, str(Path(certificates).absolute()) if certificates else ""
