"""Every write that an admin makes to Kubernetes clusters: each checks what they ask for, asks the cluster outside any
transaction, then writes rows and audit records and wakes the scheduler."""

from __future__ import annotations

from django.conf import settings
from django.db import IntegrityError, transaction
from django.db.models import ProtectedError
from django.utils import timezone

from base.accounts import audit
from base.accounts.viewer import Viewer, require_admin
from base.core import words
from base.core.bulk import lock_table
from base.core.errors import BadRequest, ConflictNode, NoNode
from clusters.engines import schemes
from clusters.engines.inventory import Fitness, Inventory
from clusters.engines.kubernetes import kubeconfig
from clusters.engines.runtime import RuntimeFault
from clusters.models import Allocation, Cluster, Node
from clusters.nodes import keys
from clusters.nodes.kubernetes.body import ClusterChange, NewCluster, endpoint_of
from clusters.nodes.kubernetes.rows import take_over
from clusters.nodes.probe import within
from clusters.nodes.serializers import read

PATIENCE = 30.0  # seconds for all questions to a cluster while somebody adds it
Hints = tuple[str, ...]


def register_cluster(actor: Viewer, data: object) -> tuple[Cluster, Hints]:
    """POST /nodes with the endpoint ``kubernetes://``: adds the cluster and all its nodes. Returns the cluster, and
    hints about what could be better there. BadRequest with everything that it lacks, ConflictNode when the name or the
    cluster is known already."""
    who = require_admin(actor).username
    body = read(NewCluster, data)
    endpoint = endpoint_of(body.name, body.namespace)
    refuse_known_name(body.name)
    tls_dir = keys.store(body.name, files_of(body.kubeconfig))
    with keys.changed("", tls_dir):
        hints, inventory = _asked(endpoint, tls_dir, body.nodeSelector, body.network)
        cluster = Cluster(
            name=body.name,
            endpoint=endpoint,
            tls_dir=tls_dir,
            selector=body.nodeSelector,
            port_from=body.portRange[0],
            port_to=body.portRange[1],
            network=body.network,
        )
        _create(cluster, inventory, who)
    return Cluster.objects.get(pk=cluster.pk), hints


def change_cluster(actor: Viewer, name: str, data: object) -> tuple[Cluster, Hints]:
    """PUT /nodes/:name of a cluster: other keys, or another choice of its nodes. The cluster is asked first."""
    who = require_admin(actor).username
    cluster = find_cluster(name)
    body = read(ClusterChange, data)
    selector = cluster.selector if body.nodeSelector is None else body.nodeSelector
    before = tls_dir = cluster.tls_dir
    if body.kubeconfig is not None:
        tls_dir = keys.store(name, files_of(body.kubeconfig))
    with keys.changed(before, tls_dir):
        hints, inventory = _asked(cluster.endpoint, tls_dir, selector, cluster.network)
        with transaction.atomic():
            lock_table(Node)
            cluster = find_cluster(name)
            cluster.tls_dir, cluster.selector = tls_dir, selector
            cluster.save(update_fields=["tls_dir", "selector"])
            Node.objects.filter(cluster=cluster).update(tls_dir=tls_dir)
            take_over(cluster, inventory, timezone.now())
            audit.changed(who, "cluster changed", cluster.name, {"fields": sorted(body.model_fields_set)})
    return find_cluster(name), hints


def remove_cluster(actor: Viewer, name: str) -> None:
    """DELETE /nodes/:name of a cluster, with all its nodes. ConflictNode while tasks hold something on one of them.
    Nothing is removed from the cluster itself."""
    who = require_admin(actor).username
    try:
        with transaction.atomic():
            cluster = find_cluster(name)
            if held := holding(cluster):
                raise ConflictNode(_in_use(name, held))
            audit.changed(who, "cluster removed", cluster.name, {"endpoint": cluster.endpoint})
            cluster.delete()
    except (ProtectedError, IntegrityError):  # a task was placed on it this very moment
        raise ConflictNode(_in_use(name, 1)) from None
    keys.forget(cluster.tls_dir)


def find_cluster(name: str) -> Cluster:
    """Return the cluster, or NoNode (404)."""
    try:
        return Cluster.objects.get(name=name)
    except (Cluster.DoesNotExist, ValueError):  # ValueError: PostgreSQL takes no NUL
        raise NoNode(f"Node {name} is not found.") from None


def holding(cluster: Cluster) -> int:
    """How many tasks hold something on its nodes."""
    return Allocation.objects.filter(node__cluster=cluster).count()


def refuse_known_name(name: str) -> None:
    if Cluster.objects.filter(name=name).exists() or Node.objects.filter(name=name).exists():
        raise ConflictNode(f"A node or a cluster with the name {name} exists already.")


def files_of(text: str | None) -> dict[str, str]:
    """{file: content} of a cluster's folder of keys: of a kubeconfig the way into the cluster, and nothing else of it.
    BadRequest when it has none, or more than that."""
    if text is None:
        return {}
    try:
        return {kubeconfig.NAME: kubeconfig.kept(text)}
    except ValueError as error:
        raise BadRequest(f"The kubeconfig {error}.") from None


def ask(endpoint: str, tls_dir: str, selector: dict[str, str], network: str) -> tuple[Fitness, Inventory | None]:
    """What the cluster says of itself and, if it lacks nothing, of its nodes. BadRequest why it cannot be asked."""

    def answers() -> tuple[Fitness, Inventory | None]:
        engine = schemes.inventory_at(endpoint, tls_dir)
        fitness = engine.fitness(network)
        return fitness, None if fitness.lacks else engine.inventory(selector, str(settings.INSTANCE))

    try:
        return within(PATIENCE, answers)
    except TimeoutError:
        raise BadRequest(f"The cluster does not answer within {PATIENCE:g} s.") from None
    except RuntimeFault as fault:
        raise BadRequest(fault.sentence) from None


def _asked(endpoint: str, tls_dir: str, selector: dict[str, str], network: str) -> tuple[Hints, Inventory]:
    """What could be better there, and its nodes. BadRequest with everything that it lacks, or why it cannot be
    asked."""
    fitness, inventory = ask(endpoint, tls_dir, selector, network)
    if inventory is None:
        raise BadRequest(" ".join(fitness.lacks))
    if not inventory.hosts:
        which = " with these labels" if selector else ""
        raise BadRequest(f"The cluster has no node{which}.")
    return fitness.hints, inventory


def _create(cluster: Cluster, inventory: Inventory, who: str) -> None:
    try:
        with transaction.atomic():
            lock_table(Node)
            refuse_known_name(cluster.name)
            cluster.save(force_insert=True)
            joined = take_over(cluster, inventory, timezone.now()).joined
            data = {"endpoint": cluster.endpoint, "version": inventory.version, "nodes": len(joined)}
            audit.changed(who, "cluster registered", cluster.name, data)
    except IntegrityError:
        raise ConflictNode(f"A node or a cluster with the name {cluster.name} exists already.") from None


def _in_use(name: str, count: int) -> str:
    tasks = words.count(count, "task runs", "tasks run")
    return f"{tasks} on nodes of {name}. Stop their jobs or wait until they end, then try again."
